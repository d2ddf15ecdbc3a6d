#!/usr/bin/env python3
"""A training with a shared state, as one host of it: a join with a large state, or deaths again and again. See --help."""
import argparse
import json
import pathlib
import signal
import statistics
import subprocess
import sys
import time

import numpy
import ringway

GRADIENT = 10_500_000  # elements of float32: of a model of ten million parameters
PERIOD = 10  # seconds from a death to the next


def arguments():
    parser = argparse.ArgumentParser(
        description="join: all hosts but the last train with a state of --state-mib and small steps; then the last joins. deaths: all"
        " train with gradients of 42 MB; after --seconds without, every 10 s of as many one trainer is killed and started again."
        " Host 0 prints what it took.")
    parser.add_argument("--mode", choices=("join", "deaths"), required=True)
    parser.add_argument("--state-mib", type=int, default=1024)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--settle", type=float, default=25, help="seconds of training before what is measured")
    parser.add_argument("--host", type=int, required=True)
    parser.add_argument("--world", type=int, required=True)
    parser.add_argument("--socket", required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True, help="a directory that all hosts share")
    parser.add_argument("--trainer", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def train(options, arrays, count, world):
    """Until the file `over` is there, for all: writes the time, revision and world of each step to a file of this host."""
    begin = time.monotonic()
    state = ringway.SharedState.join(arrays, "state", socket=options.socket, wait_world=world)
    joined = time.monotonic() - begin
    gradient = state.session.empty(count + 1)
    with (options.work / f"steps.{options.host}").open("a", encoding="utf-8") as steps:
        print(json.dumps({"joined": joined, "at": time.monotonic()}), file=steps, flush=True)
        while True:
            gradient[:-1] = 1.0
            gradient[-1] = float((options.work / "over").exists())
            try:
                result = state.session.all_reduce(gradient, "avg")
            except ringway.Rejoined:
                state.sync()
                continue
            if gradient[-1] > 0:
                return
            state.advance(result.update_waits)
            print(json.dumps({"at": time.monotonic(), "revision": state.revision, "world": result.world_size}),
                  file=steps, flush=True)


def steps_of(options, host):
    path = options.work / f"steps.{host}"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def await_steps(options, condition):
    """Until the steps of host 0 meet the condition."""
    while not condition(steps_of(options, 0)):
        time.sleep(0.2)


def measure_join(options):
    state = numpy.zeros(options.state_mib << 20, "uint8")
    is_newcomer = options.host == options.world - 1
    if not is_newcomer:
        state[:] = numpy.random.default_rng(1).integers(0, 256, state.size, "uint8")
        train(options, [state], 1000, options.world - 1)
    else:
        await_steps(options, lambda steps: steps and steps[-1]["at"] > steps[0]["at"] + options.settle)
        (options.work / "begins").write_text(str(time.monotonic()), encoding="utf-8")
        child = subprocess.Popen([sys.executable, "-B", *sys.argv, "--trainer"])
        await_steps(options, lambda steps: len(steps_of(options, options.host)) > 20)
        (options.work / "over").touch()
        child.wait()
    if options.host != 0:
        return
    begins = float((options.work / "begins").read_text(encoding="utf-8"))
    newcomer = steps_of(options, options.world - 1)[0]
    times = [step["at"] for step in steps_of(options, 0)]
    lengths = [(b - a, b) for a, b in zip(times, times[1:])]
    longest = max(length for length, at in lengths if begins < at < newcomer["at"] + 1)
    median = statistics.median(length for length, at in lengths if at < begins)
    rate = options.state_mib * 1.048576 * 8 / newcomer["joined"]
    print(f"a join with {options.state_mib} MiB from {options.world - 1}: {newcomer['joined']:.2f} s, {rate:.0f} Mbit/s;"
          f" the others' steps take {median * 1e3:.0f} ms, the longest then {longest:.2f} s")


def measure_deaths(options):
    """Each host starts its trainer again when it is killed, which they are in turn."""
    trainer = subprocess.Popen([sys.executable, "-B", *sys.argv, "--trainer"])
    await_steps(options, lambda steps: len(steps) > 1)
    calm = steps_of(options, 0)[0]["at"] + options.settle
    first, over = calm + options.seconds, calm + 2 * options.seconds
    deaths = [first + 5 + PERIOD * i for i in range(int(options.seconds / PERIOD)) if (i + 1) % options.world == options.host]
    while time.monotonic() < over:
        time.sleep(0.05)
        if deaths and time.monotonic() > deaths[0]:
            deaths.pop(0)
            trainer.kill()
        if trainer.poll() is not None:
            trainer = subprocess.Popen([sys.executable, "-B", *sys.argv, "--trainer"])
    (options.work / "over").touch()
    if trainer.wait(120) != 0 or options.host != 0:
        return
    revisions = {}  # when the first host had each
    for host in range(options.world):
        for step in steps_of(options, host):
            if "revision" in step:
                revisions[step["revision"]] = min(step["at"], revisions.get(step["revision"], step["at"]))
    counts = [sum(a <= at < b for at in revisions.values()) for a, b in ((calm, first), (first, over))]
    worlds = [step["world"] for step in steps_of(options, 0) if step.get("world") and first <= step["at"] < over]
    print(f"steps of 42 MB in {options.seconds:.0f} s: {counts[0]}; with a trainer killed every {PERIOD} s: {counts[1]},"
          f" which is {counts[1] / counts[0]:.2f}, of worlds of {min(worlds)} to {max(worlds)}")


def main():
    options = arguments()
    if options.trainer:
        if options.mode == "join":
            train(options, [numpy.zeros(options.state_mib << 20, "uint8")], 1000, 1)
        else:
            train(options, [numpy.zeros(GRADIENT, "float32")], GRADIENT, options.world)
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    {"join": measure_join, "deaths": measure_deaths}[options.mode](options)


if __name__ == "__main__":
    main()
