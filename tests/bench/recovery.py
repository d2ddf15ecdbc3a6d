#!/usr/bin/env python3
"""Measures what a death costs: a master, daemons and trainers on loopback, a large all-reduce in flight, one daemon
killed (SIGKILL) or stopped (SIGSTOP) at a random point of it. What deaths cost a training is goodput.py's.

All times are of one clock, the host's: kills and results are taken here, aborts and views from the daemons' logs (ms).
By hand only, with a release build; ctest does not run it. Needs Debian's python3. A trainer is a thread here that uses
the C API; its calls do not hold the GIL.
"""

import argparse
import ctypes
import pathlib
import random
import signal
import statistics
import tempfile
import threading
import time

from cluster import PATIENCE_S, Cluster, Host

ROOT = pathlib.Path(__file__).resolve().parents[2]
FLOAT32, SUM = 10, 0


class Config(ctypes.Structure):
    """ringwayConfig_t"""
    _fields_ = [("size", ctypes.c_size_t), ("socket", ctypes.c_char_p), ("group", ctypes.c_char_p),
                ("name", ctypes.c_char_p), ("wait_world", ctypes.c_uint32), ("min_world", ctypes.c_uint32),
                ("fail_on_peer_loss", ctypes.c_int32), ("op_deadline_ms", ctypes.c_int32),
                ("timeout_ms", ctypes.c_int64), ("reconnect_ms", ctypes.c_int64)]


class OpInfo(ctypes.Structure):
    """ringwayOpInfo_t"""
    _fields_ = [("size", ctypes.c_size_t), ("epoch", ctypes.c_uint64), ("wire_bytes", ctypes.c_uint64),
                ("rank", ctypes.c_uint32), ("world", ctypes.c_uint32), ("retries", ctypes.c_uint32), ("update_waits", ctypes.c_uint32),
                ("algorithm", ctypes.c_uint32), ("reserved", ctypes.c_uint32),
                ("contributors", ctypes.c_uint64 * 64)]


class Lost(Exception):
    """The trainer's own daemon is gone."""


class Disturbed(Exception):
    """The machine was too busy for the detection time: somebody was evicted without our doing."""


class Late(Exception):
    """The operation was over when the signal came."""


class Comm:
    """A membership with a buffer for input and one for output."""

    def __init__(self, library, socket, world, size):
        self.library, self.handle, self.count = library, ctypes.c_void_p(), size // 4
        config = Config(ctypes.sizeof(Config), socket.encode(), b"recovery", None, world, 1, 0, 0, PATIENCE_S * 1000)
        self.must(library.ringwayCommInit(ctypes.byref(self.handle), ctypes.byref(config)))
        self.buffers = [ctypes.c_void_p(), ctypes.c_void_p()]
        for buffer in self.buffers:
            self.must(library.ringwayAlloc(self.handle, ctypes.c_size_t(size), ctypes.byref(buffer)))

    def must(self, code):
        if code != 0:
            raise Lost(ctypes.string_at(self.library.ringwayGetLastError(None)).decode())

    def reduce(self):
        """One operation, and UpdateView if newcomers wait. Its OpInfo."""
        work, info = ctypes.c_void_p(), OpInfo(size=ctypes.sizeof(OpInfo))
        self.must(self.library.ringwayAllReduceAsync(*self.buffers, ctypes.c_size_t(self.count), FLOAT32, SUM,
                                                     self.handle, ctypes.byref(work)))
        code = self.library.ringwayWorkWait(work, ctypes.c_int64(-1), ctypes.byref(info))
        self.library.ringwayWorkFree(work)
        self.must(code)
        return info

    def update_view(self):
        self.must(self.library.ringwayCommUpdateView(self.handle, ctypes.c_int64(-1), None))

    def close(self):
        self.library.ringwayCommDestroy(self.handle)


class Trainer(threading.Thread):
    """Runs `operations` of them, or until its daemon is lost; remembers when each began and ended."""

    def __init__(self, socket, library, index, options, operations):
        super().__init__(daemon=True)
        self.socket, self.library, self.index, self.options, self.operations = socket, library, index, options, operations
        self.began, self.ended = [], []  # seconds; (seconds, world)

    def durations(self):
        """Seconds, of the operations that have ended."""
        return [end - begin for begin, (end, _) in zip(self.began, self.ended)]

    def run(self):
        comm = None
        try:
            comm = Comm(self.library, self.socket, self.options.world, self.options.mib << 20)
            while len(self.ended) < self.operations:
                self.began.append(time.time())
                info = comm.reduce()
                self.ended.append((time.time(), info.world))
                if info.update_waits:
                    comm.update_view()
        except Lost:
            pass
        finally:
            if comm is not None:
                comm.close()


BEFORE, AFTER = 3, 3  # healthy operations before and after the struck one


def strike(options, library, number):
    """One death in mid-operation. Milliseconds by name. Raises Disturbed or Late if it was none."""
    timing = ["--heartbeat-ms", options.heartbeat_ms, "--detect-ms", options.detect_ms, "--detect-far-ms", 0]
    with tempfile.TemporaryDirectory(prefix="ringway_recovery_") as folder, \
            Cluster(options.build_dir / "bin", folder, [Host()] * options.world, timing) as cluster:
        trainers = [Trainer(cluster.socket(i), library, i, options, BEFORE + 1 + AFTER) for i in range(options.world)]
        for trainer in trainers:
            trainer.start()
        wait_for(lambda: all(len(trainer.began) > BEFORE or not trainer.is_alive() for trainer in trainers))
        if any(len(trainer.ended) < BEFORE or trainer.ended[-1][1] < options.world for trainer in trainers):
            raise Disturbed
        time.sleep(random.uniform(0, statistics.median(trainers[0].durations()[1:BEFORE])))
        victim = random.randrange(options.world)
        since = cluster.signal(f"daemon{victim}", number)
        survivors = [trainer for trainer in trainers if trainer.index != victim]
        for trainer in survivors:
            trainer.join(PATIENCE_S)
            if trainer.is_alive():
                raise TimeoutError(f"trainer {trainer.index} hangs")
        if any(len(trainer.ended) < BEFORE + 1 + AFTER for trainer in survivors):
            raise Disturbed
        if survivors[0].ended[BEFORE][1] == options.world:
            raise Late
        return times_of(cluster, survivors, since)


def times_of(cluster, survivors, since):
    """What a death that was sent at `since` has cost the survivors, in milliseconds."""
    logs = [[event for event in cluster.events(trainer.index, since) if event.name in ("peer_lost", "abort", "view_installed")]
            for trainer in survivors]
    notices = min(log[0].at for log in logs)  # a loss of its own, an abort, or at once the master's view
    view = max(next(event.at for event in log if event.name == "view_installed" and event.number("world") == len(survivors))
               for log in logs)
    notices, view = (max((at - since) * 1e3, 0.0) for at in (notices, view))
    result = max((trainer.ended[BEFORE][0] - since) * 1e3 for trainer in survivors)
    return {"first survivor notices": notices,
            "new view on all survivors": view,
            "result on all survivors": result,
            "result, after the new view": result - view,
            "healthy operation, smaller world": statistics.median(
                duration * 1e3 for trainer in survivors for duration in trainer.durations()[BEFORE + 1:])}


def wait_for(condition):
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("the trainers make no progress")
        time.sleep(0.001)


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


def print_strikes(options, library, what, number):
    runs, late, disturbed = [], 0, 0
    while len(runs) < options.rounds:
        try:
            runs.append(strike(options, library, number))
        except Late:
            late += 1
        except Disturbed:
            disturbed += 1
    print(f"\n{what}, {options.rounds} times; ms after the signal (not counted: {late} after the operation's end, "
          f"{disturbed} with false evictions)")
    print(f"{'':34} {'p50':>8} {'p99':>8}")
    for name in runs[0]:
        values = [run[name] for run in runs]
        print(f"{name:34} {percentile(values, 0.5):>8.0f} {percentile(values, 0.99):>8.0f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--world", type=int, default=4, help="daemons, and trainers (default %(default)s)")
    parser.add_argument("--mib", type=int, default=256, help="MiB of float32 an operation (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=20, help="deaths of each kind (default %(default)s)")
    parser.add_argument("--heartbeat-ms", type=int, default=50, help="(default %(default)s)")
    parser.add_argument("--detect-ms", type=int, default=300, help="silence that means death (default %(default)s)")
    parser.add_argument("--build-dir", type=pathlib.Path, default=ROOT / "build/release", help="(default %(default)s)")
    options = parser.parse_args()
    library = ctypes.CDLL(options.build_dir / "client/src/libringway.so")
    library.ringwayGetLastError.restype = ctypes.c_void_p
    print(f"world {options.world}, {options.mib} MiB f32 sum, heartbeat {options.heartbeat_ms} ms, "
          f"detection {options.detect_ms} ms")
    if options.rounds:
        print_strikes(options, library, "SIGKILL of one daemon", signal.SIGKILL)
        print_strikes(options, library, "SIGSTOP of one daemon", signal.SIGSTOP)


if __name__ == "__main__":
    main()
