#!/usr/bin/env python3
"""Measures torch's reconfiguration by the backend "ringway" beside Gloo's, on loopback: of four ranks that sum again and again
one is killed (SIGKILL; of Ringway its daemon, too), and the time is taken until the next all-reduce of the others has succeeded
on each: when the first and when the last failed, when the last was reconfigured, when the last had its sum.

By hand only, with a release build, in an environment with torch and the wheel (RINGWAY_TEST_TORCH=1 tests/run.sh --preset python
makes build/python). The survivors exchange handles by a TCPStore of a process that lives, for both; who is left they know.
"""

import argparse
import datetime
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import ringway.torch  # registers the backend
import torch
import torch.distributed as dist

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORLD, VICTIM = 4, 3
PATIENCE = datetime.timedelta(seconds=120)
STAGES = ("first failure", "last failure", "reconfigured", "summed")


def forked(call, *words):
    """Runs it in a child; its process id."""
    if pid := os.fork():
        return pid
    try:
        torch.set_num_threads(1)
        call(*words)
    except BaseException as error:
        print(f"process {os.getpid()}: {error!r}", file=sys.stderr, flush=True)
        os._exit(1)
    os._exit(0)


def serve(path):
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    path.with_suffix(".new").write_text(str(store.port), encoding="ascii")
    path.with_suffix(".new").rename(path)
    time.sleep(3600)


def configure(store, number, rank, ranks):
    """What is left of torch.distributed is these ranks, in this order."""
    store.set(f"{number}/{rank}", dist._get_reconfigure_handle())
    handles = [store.get(f"{number}/{i}").decode() for i in ranks]
    dist._reconfigure(number, handles, timeout=PATIENCE).wait()


def train(system, port, turn, rank, count, timeout):
    store = dist.PrefixStore(str(turn), dist.TCPStore("127.0.0.1", port, timeout=PATIENCE))
    dist.init_process_group(
        system, store=dist.PrefixStore("group", store), rank=rank, world_size=WORLD, timeout=timeout, enable_reconfigure=True
    )
    configure(store, 1, rank, range(WORLD))
    x = torch.ones(count)
    for _ in range(10):
        dist.all_reduce(x)
        x.fill_(1)
    store.set(f"ready{rank}", "")
    try:
        while True:
            dist.all_reduce(x)
            x.fill_(1)
    except RuntimeError:
        failed = time.monotonic()
    left = [i for i in range(WORLD) if i != VICTIM]
    configure(store, 2, rank, left)
    configured = time.monotonic()
    x.fill_(1)
    dist.all_reduce(x)
    summed = time.monotonic()
    assert (x == len(left)).all()
    store.set(f"times{rank}", f"{failed} {configured} {summed}")
    for i in left:
        store.get(f"times{i}")


class Programs:
    """A master and four daemons."""

    def __init__(self, folder, directory):
        self.folder, self.directory = folder, directory
        self.master = self.start("master", "ringway-master", "--listen", "127.0.0.1:0", "--journal", directory / "master.db")
        self.address = self.word("master", " listening ", "address=")
        self.daemons = [None] * WORLD

    def start(self, name, program, *words):
        with (self.directory / f"{name}.log").open("wb") as log:
            return subprocess.Popen([self.folder / program, *map(str, words)], stdout=log, stderr=log)

    def word(self, name, event, field):
        until = time.monotonic() + PATIENCE.total_seconds()
        while time.monotonic() < until:
            for line in (self.directory / f"{name}.log").read_text().splitlines():
                if event in line:
                    return next(x.partition("=")[2] for x in line.split() if x.startswith(field))
            time.sleep(0.01)
        raise TimeoutError(f"{name} does not log {event}")

    def socket(self, i):
        """Of a daemon that runs."""
        if self.daemons[i] is None or self.daemons[i].poll() is not None:
            self.daemons[i] = self.start(f"d{i}", "ringwayd", "--master", self.address, "--listen", "127.0.0.1:0", "--socket",
                                         self.directory / f"d{i}.sock", "--name", f"d{i}")
            self.word(f"d{i}", " ready ", "socket=")
        return str(self.directory / f"d{i}.sock")

    def end(self):
        for process in [*self.daemons, self.master]:
            if process is not None:
                process.kill()
                process.wait()


def measure(system, programs, port, turn, count, timeout):
    """Seconds from the kill to each stage."""
    ranks = []
    for rank in range(WORLD):
        os.environ["RINGWAY_SOCKET"] = programs.socket(rank) if system == "ringway" else ""
        ranks.append(forked(train, system, port, turn, rank, count, timeout))
    store = dist.PrefixStore(str(turn), dist.TCPStore("127.0.0.1", port, timeout=PATIENCE))
    for rank in range(WORLD):
        store.get(f"ready{rank}")
    time.sleep(0.5 + 0.1 * (turn % 7))
    killed = time.monotonic()
    os.kill(ranks[VICTIM], signal.SIGKILL)
    if system == "ringway":
        programs.daemons[VICTIM].kill()
        programs.daemons[VICTIM].wait()
    times = [[float(x) - killed for x in store.get(f"times{rank}").split()] for rank in range(WORLD) if rank != VICTIM]
    for pid in ranks:
        os.waitpid(pid, 0)
    failed, configured, summed = zip(*times)
    return min(failed), max(failed), max(configured), max(summed)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=pathlib.Path, default=ROOT / "build/release/bin")
    parser.add_argument("--systems", nargs="+", default=["ringway", "gloo"])
    parser.add_argument("--counts", nargs="+", type=int, default=[1024, 16 << 20], help="elements of float32")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--timeout", type=float, default=10, help="of the process groups, in seconds")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        server = forked(serve, directory / "port")
        programs = Programs(arguments.programs, directory)
        try:
            while not (directory / "port").exists():
                time.sleep(0.01)
            port, turn = int((directory / "port").read_text()), 0
            for count in arguments.counts:
                for system in arguments.systems:
                    rows = []
                    for _ in range(arguments.rounds):
                        turn += 1
                        rows.append(measure(system, programs, port, turn, count, datetime.timedelta(seconds=arguments.timeout)))
                    for stage, times in zip(STAGES, zip(*rows)):
                        low, middle, high = (1000 * f(times) for f in (min, statistics.median, max))
                        print(f"{system} {4 * count} bytes {stage}: {middle:.0f} ms ({low:.0f} to {high:.0f})", flush=True)
        finally:
            programs.end()
            os.kill(server, signal.SIGKILL)
            os.waitpid(server, 0)


main()
