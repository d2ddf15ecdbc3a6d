#!/usr/bin/env python3
"""What the flight recorder costs: all-reduces over loopback with it and with `--flight-file none`, in turn. By hand only.

    tests/bench/flight.py --bin build/release/bin --world 4 --rounds 12 --bytes 4K 64M

Both clusters, a master and a daemon for each rank, stand all the time; in each round each runs ringway-bench once, first the one,
then the other, in the next round the other way around. The table has the medians of the runs' medians, and what the recorder
adds: the median over the rounds.
"""

import argparse
import contextlib
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

START_MAX = 20  # seconds
ITERS = {"4K": 2000, "64M": 8}


class Cluster:
    """A master and so many daemons with these options: a function of the path of each one's flight file."""

    def __init__(self, stack, programs, folder, world, options, master_options=()):
        self.programs, self.folder, self.world, self.stack = programs, folder, world, stack
        self.pids = {}
        folder.mkdir()
        self.master = self.start("master", "ringway-master", "--listen", "127.0.0.1:0", "--journal", folder / "journal.db",
                                 *master_options)
        address = self.logged(self.master, r"listening address=(\S+)")
        self.sockets = [folder / f"{rank}.sock" for rank in range(world)]
        for rank, socket in enumerate(self.sockets):
            log = self.start(f"daemon{rank}", "ringwayd", "--master", address, "--listen", "127.0.0.1:0", "--socket", socket,
                             *(options(folder / f"{rank}.flight")))
            self.logged(log, r"(ready) ")

    def start(self, name, program, *options):
        log = self.folder / f"{name}.log"
        with log.open("wb") as out:
            process = subprocess.Popen([str(x) for x in (self.programs / program, *options)], stdout=out, stderr=out)
        self.stack.callback(process.wait, 60)
        self.stack.callback(process.terminate)
        self.pids[name] = process.pid
        return log

    @staticmethod
    def logged(log, pattern):
        end = time.monotonic() + START_MAX
        while not (found := re.search(pattern, log.read_text())):
            if time.monotonic() > end:
                sys.exit(f"{log} does not say {pattern}: {log.read_text()}")
            time.sleep(0.01)
        return found[1]

    def bench(self, size, turn):
        """The median of an operation, in ms."""
        out = [self.folder / f"{turn}.{rank}.json" for rank in range(self.world)]
        ranks = [subprocess.Popen([str(x) for x in (
            self.programs / "ringway-bench", "--socket", socket, "--group", f"g{turn}", "--world", self.world, "--bytes", size,
            "--iters", ITERS.get(size, 20), "--warmup", 3, "--json", path)], stdout=subprocess.DEVNULL)
            for socket, path in zip(self.sockets, out)]
        if any(rank.wait(100) for rank in ranks):
            sys.exit("ringway-bench failed")
        return json.loads(out[0].read_text())["results"][0]["time_ms_median"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--world", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--bytes", nargs="+", default=["4K", "64M"])
    given = parser.parse_args()
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(dir="/dev/shm")))
        clusters = {"on": Cluster(stack, given.bin, folder / "on", given.world, lambda path: ("--flight-file", path)),
                    "off": Cluster(stack, given.bin, folder / "off", given.world, lambda _: ("--flight-file", "none"))}
        print("| size | off | on | recorder adds, median of the rounds |\n|---|---|---|---|")
        for size in given.bytes:
            times = {name: [] for name in clusters}
            for turn in range(given.rounds):
                for name in sorted(clusters, reverse=turn % 2 == 0):
                    times[name].append(clusters[name].bench(size, f"{size}.{turn}"))
            ratios = [on / off - 1 for on, off in zip(times["on"], times["off"])]
            off, on = (statistics.median(times[name]) for name in ("off", "on"))
            print(f"| {size} | {off:.3f} | {on:.3f} | {100 * statistics.median(ratios):+.1f}% "
                  f"({100 * min(ratios):+.1f} to {100 * max(ratios):+.1f}%) |", flush=True)


if __name__ == "__main__":
    main()
