#!/usr/bin/env python3
"""What a call from Python costs: small all-reduces of trainers on one host, by ringway-bench and by the Python module in turn.

By hand only, with a release build, by a Python that has the module, as build/python/venv/bin/python of tests/run.sh. With torch
installed it measures the backend of torch.distributed, too.
"""

import argparse
import importlib.util
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
SYSTEMS = {
    "ringway-bench": "C++, buffers of Session::Allocate",
    "empty": "session.all_reduce(x, out=out), arrays of session.empty",
    "in place": "session.all_reduce(x), an array of session.empty",
    "numpy": "session.all_reduce(x), a NumPy array",
    "tensor": "session.all_reduce(x), a tensor of torch",
    "c10d": 'torch.distributed.all_reduce(x), backend "ringway"',
}


def measured(call, iterations):
    """The median of each, and processor time of each, in microseconds."""
    for _ in range(iterations // 5):
        call()
    times, before = [], time.process_time()
    for _ in range(iterations):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e6, (time.process_time() - before) / iterations * 1e6


def trainer(system, socket, group, rank, options):
    """Prints what was measured."""
    import numpy
    import ringway

    count = options.bytes // 4
    if system == "c10d":
        import ringway.torch
        import torch
        import torch.distributed as dist

        os.environ["RINGWAY_SOCKET"] = socket
        torch.set_num_threads(1)
        store = pathlib.Path(socket).parent / f"{group}.store"
        dist.init_process_group("ringway", init_method=f"file://{store}", rank=rank, world_size=options.world)
        x = torch.ones(count)
        result = measured(lambda: dist.all_reduce(x, dist.ReduceOp.MAX), options.iters)
        dist.destroy_process_group()
    else:
        with ringway.join(group, socket=socket, wait_world=options.world) as session:
            if system == "tensor":
                import torch

                x = torch.ones(count)
            else:
                x = numpy.ones(count, "float32") if system == "numpy" else session.empty(count)
            out = session.empty(count) if system == "empty" else None
            result = measured(lambda: session.all_reduce(x, "max", out=out), options.iters)
    print(*result)


def start(directory, log, argv):
    return subprocess.Popen([str(x) for x in argv], stdout=(directory / log).open("w"), stderr=subprocess.STDOUT)


def waited(directory, log, word):
    """The first line with the word, once it is there."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        for line in (directory / log).read_text(encoding="utf-8").splitlines():
            if word in line:
                return line
        time.sleep(0.01)
    raise SystemExit(f"{log} does not say {word}: {(directory / log).read_text(encoding='utf-8')}")


def one_round(system, turn, directory, options):
    """The ranks' median, of both."""
    group, socket = f"{system.replace(' ', '-')}-{turn}", directory / "d.sock"
    if system == "ringway-bench":
        kept = [directory / f"{turn}.{rank}.json" for rank in range(options.world)]
        argv = [options.bin / "ringway-bench", "--socket", socket, "--group", group, "--world", options.world, "--bytes",
                options.bytes, "--iters", options.iters, "--warmup", options.iters // 5, "--op", "max"]
        ranks = [subprocess.Popen([str(x) for x in [*argv, "--json", path]], stdout=subprocess.DEVNULL) for path in kept]
    else:
        argv = [sys.executable, __file__, "--trainer", system, "--world", options.world, "--bytes", options.bytes, "--iters",
                options.iters, "--socket", socket, "--group", group, "--rank"]
        ranks = [subprocess.Popen([str(x) for x in [*argv, rank]], stdout=subprocess.PIPE, text=True)
                 for rank in range(options.world)]
    said = [rank.communicate(timeout=300)[0] for rank in ranks]
    if any(rank.returncode != 0 for rank in ranks):
        raise SystemExit(f"a trainer of {system} failed")
    if system == "ringway-bench":
        results = [json.loads(path.read_text(encoding="utf-8"))["results"][0] for path in kept]
        ranks = [(1e3 * x["time_ms_median"], 1e6 * x["trainer_cpu_seconds"] / options.iters) for x in results]
    else:
        ranks = [[float(word) for word in text.split()] for text in said]
    return [statistics.median(values) for values in zip(*ranks)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/test-release/bin", help="the programs")
    parser.add_argument("--bytes", type=int, default=4096)
    parser.add_argument("--world", type=int, default=4)
    parser.add_argument("--iters", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--systems", nargs="*", choices=SYSTEMS, help="only these")
    for name in ("trainer", "socket", "group"):
        parser.add_argument(f"--{name}", help=argparse.SUPPRESS)
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.trainer:
        trainer(options.trainer, options.socket, options.group, options.rank, options)
        return
    systems = options.systems or [x for x in SYSTEMS if x not in ("tensor", "c10d") or importlib.util.find_spec("torch")]
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        programs = [start(directory, "master.log", [options.bin / "ringway-master", "--listen", "127.0.0.1:0", "--journal",
                                                    directory / "master.db"])]
        try:
            address = waited(directory, "master.log", " listening ").partition("address=")[2].split()[0]
            programs.append(start(directory, "d.log", [options.bin / "ringwayd", "--master", address, "--listen",
                                                       "127.0.0.1:0", "--socket", directory / "d.sock"]))
            waited(directory, "d.log", " ready ")
            rounds = [{system: one_round(system, turn, directory, options) for system in systems}
                      for turn in range(options.rounds)]
        finally:
            for program in reversed(programs):
                program.terminate()
                program.wait()
    print(f"{options.bytes} bytes, world {options.world} on one daemon; medians in us of {options.rounds} rounds in turn")
    print(f"{'':14} {'time':>6} {'(least to most)':>17} {'above':>6} {'processor':>10} {'above':>6}")
    for system in systems:
        times, processor = zip(*[each[system] for each in rounds])
        above = [statistics.median(each[system][i] - each[systems[0]][i] for each in rounds) for i in range(2)]
        spread = f"({min(times):.0f} to {max(times):.0f})"
        print(f"{system:14} {statistics.median(times):6.0f} {spread:>17} {above[0]:+6.0f} {statistics.median(processor):10.0f}"
              f" {above[1]:+6.0f}   {SYSTEMS[system]}")


if __name__ == "__main__":
    main()
