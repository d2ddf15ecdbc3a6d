#!/usr/bin/env python3
"""Measures torch's reconfiguration by the backend "ringway" beside Gloo's: of four ranks that sum again and again the last is
killed (SIGKILL), and the time is taken until the next all-reduce of the others has succeeded on each: when the first and when the
last failed, when the last was reconfigured, when the last had its sum.

By hand only, in an environment with torch and the wheel (RINGWAY_TEST_TORCH=1 tests/run.sh --preset python makes build/python).
On loopback, with a release build, Ringway's daemon is killed with its rank. Over an emulated WAN, as root, the rank alone:

  tests/wan/run us -- build/python/venv/bin/python -B tests/bench/reconfigure.py --host {host} --socket {socket} --store {master}

The survivors exchange handles by a TCPStore of the first host, for both; who is left they know.
"""

import argparse
import datetime
import os
import pathlib
import signal
import socket
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


def configure(store, number, rank, ranks):
    """What is left of torch.distributed is these ranks, in this order."""
    store.set(f"{number}/{rank}", dist._get_reconfigure_handle())
    handles = [handle.decode() for handle in store.multi_get([f"{number}/{i}" for i in ranks])]  # two round trips
    dist._reconfigure(number, handles, timeout=PATIENCE).wait()


class Host:
    """One of the four: its trainers, one a turn, and on loopback its daemon."""

    def __init__(self, arguments, rank, store, daemon):
        self.arguments, self.rank, self.store, self.daemon = arguments, rank, store, daemon
        self.turn = 0

    def meeting(self):
        """A store of this turn, with a connection of its own."""
        address, _, port = self.store.rpartition(":")
        return dist.PrefixStore(str(self.turn), dist.TCPStore(address, int(port), timeout=PATIENCE))

    def train(self, system, count):
        store, rank = self.meeting(), self.rank
        timeout = datetime.timedelta(seconds=self.arguments.timeout)
        dist.init_process_group(
            system, store=dist.PrefixStore("group", store), rank=rank, world_size=WORLD, timeout=timeout, enable_reconfigure=True
        )
        configure(store, 1, rank, range(WORLD))
        x = torch.ones(count)
        for _ in range(self.arguments.warmup):
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

    def kill(self, trainer, system):
        store = self.meeting()
        for rank in range(WORLD):
            store.get(f"ready{rank}")
        time.sleep(0.5 + 0.1 * (self.turn % 7))  # at some point of an operation
        killed = time.monotonic()
        os.kill(trainer, signal.SIGKILL)
        if system == "ringway" and self.daemon is not None:
            self.daemon.kill()
        store.set("killed", f"{killed}")

    def measure(self, system, count):
        """A turn. Seconds from the kill to each stage, at the first host."""
        self.turn += 1
        if self.daemon is not None and system == "ringway":
            self.daemon.start()
        trainer = forked(self.train, system, count)
        if self.rank == VICTIM:
            self.kill(trainer, system)
        _, status = os.waitpid(trainer, 0)
        if self.rank != VICTIM and status != 0:
            raise SystemExit(f"{system}, {4 * count} bytes: rank {self.rank} failed")
        store = self.meeting()
        store.set(f"over{self.rank}", "")
        store.wait([f"over{rank}" for rank in range(WORLD)])
        killed = float(store.get("killed"))
        times = [[float(x) - killed for x in store.get(f"times{rank}").split()] for rank in range(WORLD) if rank != VICTIM]
        failed, configured, summed = zip(*times)
        return min(failed), max(failed), max(configured), max(summed)

    def run(self):
        for count in self.arguments.counts:
            for system in self.arguments.systems:
                rows = [self.measure(system, count) for _ in range(self.arguments.rounds)]
                for stage, times in zip(STAGES, zip(*rows)) if self.rank == 0 else ():
                    low, middle, high = (1000 * f(times) for f in (min, statistics.median, max))
                    print(f"{system} {4 * count} bytes {stage}: {middle:.0f} ms ({low:.0f} to {high:.0f})", flush=True)
        store = self.meeting()
        store.set(f"end{self.rank}", "")
        if self.rank == 0:  # whose process has the store over a network: the others have read all of it
            store.wait([f"end{rank}" for rank in range(WORLD)])


def started(log, event, field, *words):
    """A program, and the value of the field that it logs with the event."""
    with log.open("wb") as sink:
        process = subprocess.Popen([*map(str, words)], stdout=sink, stderr=sink)
    until = time.monotonic() + PATIENCE.total_seconds()
    while time.monotonic() < until:
        for line in log.read_text().splitlines():
            if event in line:
                return process, next(x.partition("=")[2] for x in line.split() if x.startswith(field))
        time.sleep(0.01)
    process.kill()
    raise TimeoutError(f"{words[0]} does not log {event}; {log} has what it says")


class Daemon:
    """Of a host on loopback."""

    def __init__(self, program, directory, master, rank):
        self.words = (program, "--master", master, "--listen", "127.0.0.1:0", "--socket", directory / f"d{rank}.sock", "--name",
                      f"d{rank}")
        self.log, self.process = directory / f"d{rank}.log", None

    def start(self):
        if self.process is None:
            self.process, os.environ["RINGWAY_SOCKET"] = started(self.log, " ready ", "socket=", *self.words)

    def kill(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


def run_local(arguments, rank, store, directory, master):
    daemon = Daemon(arguments.programs / "ringwayd", directory, master, rank)
    try:
        Host(arguments, rank, store, daemon).run()
    finally:
        daemon.kill()


def loopback(arguments):
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        master, address = started(directory / "master.log", " listening ", "address=", arguments.programs / "ringway-master",
                                  "--listen", "127.0.0.1:0", "--journal", directory / "master.db")
        try:
            hosts = [forked(run_local, arguments, rank, f"127.0.0.1:{store.port}", directory, address) for rank in range(WORLD)]
            return max(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in hosts)
        finally:
            master.kill()
            master.wait()


def emulated(arguments):
    os.environ["RINGWAY_SOCKET"] = arguments.socket
    os.environ["GLOO_SOCKET_IFNAME"] = next(name for _, name in socket.if_nameindex() if name != "lo")
    address, port = arguments.store.rpartition(":")[0], 29612
    server = dist.TCPStore(address, port, is_master=True, wait_for_workers=False) if arguments.host == 0 else None
    time.sleep(arguments.settle)
    Host(arguments, arguments.host, f"{address}:{port}", None).run()
    del server


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=pathlib.Path, default=ROOT / "build/release/bin", help="on loopback (%(default)s)")
    parser.add_argument("--systems", nargs="+", default=["ringway", "gloo"])
    parser.add_argument("--counts", nargs="+", type=int, default=[1024, 16 << 20], help="elements of float32")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--warmup", type=int, default=10, help="all-reduces before it")
    parser.add_argument("--timeout", type=float, default=10, help="of the process groups, in seconds")
    parser.add_argument("--host", type=int, help="its number in an emulated WAN")
    parser.add_argument("--socket", help="of its daemon there")
    parser.add_argument("--store", help="there: any address and port of the first host")
    parser.add_argument("--settle", type=float, default=25, help="seconds there before the first measurement (%(default)s)")
    arguments = parser.parse_args()
    if arguments.host is None:
        sys.exit(loopback(arguments))
    emulated(arguments)


main()
