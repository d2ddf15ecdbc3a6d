#!/usr/bin/env python3
"""Trains with codecs and without, and draws the losses: what a codec costs a training, and what error feedback recovers.

    tests/bench/codec_loss.py --build-dir build/test-release --out tests/bench/codec_loss.svg

Master, daemons and trainers (train_text, which averages gradients at each step) run on this host; every case has the same seeds and
steps. Prints the loss over the last tenth of the steps, the mean of all seeds, and how far it is from that without a codec. By hand
only, with a release build. Python's standard library only.
"""

import argparse
import importlib.machinery
import importlib.util
import json
import pathlib
import statistics
import subprocess
import sys

import recovery

CASES = {
    "f32": [],
    "int8": ["--codec", "int8"],
    "int8, error feedback": ["--codec", "int8", "--error-feedback", "on"],
    "int4": ["--codec", "int4"],
    "int4, error feedback": ["--codec", "int4", "--error-feedback", "on"],
}
PATIENCE_S = 1200
POINTS = 60  # of a curve


def load_plot():
    path = str(pathlib.Path(__file__).resolve().parent / "plot")
    loader = importlib.machinery.SourceFileLoader("plot", path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("plot", loader))
    loader.exec_module(module)
    return module


class Linear:
    """Values from `low` to `high` onto pixels from `start` to `end`."""

    def __init__(self, low, high, start, end):
        self.low, self.scale, self.start = low, (end - start) / (high - low), start

    def at(self, value):
        return self.start + (value - self.low) * self.scale


def train(cluster, options, name, seed):
    """(step, loss) of rank 0, a pair a step."""
    log = cluster.directory / f"{name.replace(' ', '_').replace(',', '')}.{seed}.jsonl"
    trainers = []
    for rank in range(options.world):
        command = [options.build_dir / "bin" / "train_text", "--socket", cluster.socket(rank), "--group", f"{name}.{seed}",
                   "--world", options.world, "--steps", options.steps, "--batch", options.batch, "--seed", seed, *CASES[name]]
        if rank == 0:
            command += ["--log", log]
        trainers.append(subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL))
    for trainer in trainers:
        if trainer.wait(PATIENCE_S) != 0:
            sys.exit(f"codec_loss.py: {name}: a trainer ended with {trainer.returncode}")
    records = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    return [(record["step"], record["loss"]) for record in records]


def mean_curve(runs):
    """The mean loss of runs with the same steps, over equal parts of them."""
    steps = [step for step, _ in runs[0]]
    losses = [statistics.mean(values) for values in zip(*([loss for _, loss in run] for run in runs))]
    part = max(1, len(steps) // POINTS)
    return {steps[min(i + part, len(steps)) - 1]: statistics.mean(losses[i:i + part]) for i in range(0, len(steps), part)}


def last_loss(run):
    return statistics.mean(loss for _, loss in run[-max(1, len(run) // 10):])


def draw(plot, curves, title):
    xs = sorted({x for curve in curves.values() for x in curve})
    values = [y for curve in curves.values() for y in curve.values()]
    low, high = min(values), statistics.quantiles(values, n=10)[-1]
    ticks = [low + (high - low) * i / 5 for i in range(6)]
    x_axis = Linear(0, xs[-1], plot.LEFT, plot.WIDTH - plot.RIGHT)
    y_axis = Linear(low, high, plot.HEIGHT - plot.BOTTOM, plot.TOP)
    middle = (plot.LEFT + plot.WIDTH - plot.RIGHT) / 2
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {plot.WIDTH} {plot.HEIGHT}" font-family="sans-serif" '
           'font-size="12">', '<rect width="100%" height="100%" fill="white"/>',
           plot.text(middle, 28, title, extra='font-size="16"')]
    out += plot.grid(x_axis, y_axis, xs, [round(tick, 3) for tick in ticks], str)
    out += [plot.text(middle, plot.HEIGHT - 16, "steps"), plot.text(plot.LEFT, plot.TOP - 8, "loss", "start")]
    for number, (name, curve) in enumerate(curves.items()):
        colour, y = plot.COLOURS[number], plot.TOP + 10 + 20 * number
        path = " ".join(f"{x_axis.at(step):.1f},{y_axis.at(min(loss, high)):.1f}" for step, loss in curve.items())
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        left = plot.WIDTH - plot.RIGHT + 16
        out.append(f'<line x1="{left}" y1="{y}" x2="{left + 24}" y2="{y}" stroke="{colour}" stroke-width="2"/>')
        out.append(plot.text(left + 30, y + 4, name, "start"))
    return "\n".join([*out, "</svg>"]) + "\n"


def main():
    parser = argparse.ArgumentParser(prog="codec_loss.py", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--build-dir", type=pathlib.Path, default=recovery.ROOT / "build" / "test-release", metavar="DIR")
    parser.add_argument("--out", required=True, metavar="FILE", help="the SVG")
    parser.add_argument("--world", type=int, default=3, help="ranks (3)")
    parser.add_argument("--steps", type=int, default=2000, help="of each rank (2000)")
    parser.add_argument("--batch", type=int, default=16, help="examples a rank and step (16)")
    parser.add_argument("--seeds", type=int, default=2, help="(2)")
    options = parser.parse_args()
    options.heartbeat_ms, options.detect_ms = 500, 30000  # trainers keep all cores busy
    curves, last = {}, {}
    with recovery.Cluster(options) as cluster:
        for name in CASES:
            runs = [train(cluster, options, name, seed) for seed in range(1, options.seeds + 1)]
            curves[name], last[name] = mean_curve(runs), statistics.mean(map(last_loss, runs))
            print(f"{name:22} {last[name]:.4f}  {100 * (last[name] / last['f32'] - 1):+.2f}%", flush=True)
    title = f"{options.world} ranks that average their gradients"
    pathlib.Path(options.out).write_text(draw(load_plot(), curves, title), encoding="utf-8")


if __name__ == "__main__":
    main()
