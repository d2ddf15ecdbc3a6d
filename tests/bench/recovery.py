#!/usr/bin/env python3
"""Measures what a death costs: a master, daemons and trainers on loopback, a large all-reduce in flight, one daemon
killed (SIGKILL) or stopped (SIGSTOP) at a random point of it; and the work that is kept under a death now and then.

All times are of one clock, the host's: kills and results are taken here, aborts and views from the daemons' logs (ms).
By hand only, with a release build; ctest does not run it. Needs Debian's python3. A trainer is a thread here that uses
the C API; its calls do not hold the GIL.
"""

import argparse
import ctypes
import datetime
import os
import pathlib
import random
import re
import signal
import statistics
import subprocess
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
PATIENCE_S = 120
FLOAT32, SUM = 10, 0
EVENT = re.compile(r"^(\S+)Z \S+ (peer_lost|abort|view_installed) (.*)$", re.MULTILINE)


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


class Cluster:
    """A master and daemons in a directory of their own; SIGKILL for all that is left at the end."""

    def __init__(self, options):
        self.options, self.processes = options, {}
        self.holder = tempfile.TemporaryDirectory(prefix="ringway_recovery_")
        self.directory = pathlib.Path(self.holder.name)

    def __enter__(self):
        self.start("master", "ringway-master", "--listen", "127.0.0.1:0", "--journal", self.directory / "journal",
                   "--heartbeat-ms", self.options.heartbeat_ms, "--detect-ms", self.options.detect_ms,
                   "--detect-far-ms", 0)
        self.await_log("master", "listening address=")
        self.master = re.search(r"address=(\S+)", self.log("master")).group(1)
        for index in range(self.options.world):
            self.start_daemon(index)
        return self

    def __exit__(self, *_):
        for process in self.processes.values():
            process.kill()
            process.wait()
        self.holder.cleanup()

    def start(self, label, program, *arguments):
        with open(self.directory / f"{label}.log", "ab") as log:
            self.processes[label] = subprocess.Popen(
                [self.options.build_dir / "bin" / program, *map(str, arguments)], stdout=log, stderr=log)

    def start_daemon(self, index):
        label = f"daemon{index}"
        ready = self.log(label).count(" ready ")
        self.start(label, "ringwayd", "--master", self.master, "--listen", "127.0.0.1:0", "--socket",
                   self.socket(index), "--name", label)
        self.await_log(label, " ready ", ready + 1)

    def socket(self, index):
        return str(self.directory / f"daemon{index}.sock")

    def log(self, label):
        path = self.directory / f"{label}.log"
        return path.read_text(encoding="utf-8") if path.exists() else ""

    def await_log(self, label, text, times=1):
        deadline = time.monotonic() + PATIENCE_S
        while self.log(label).count(text) < times:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{label} does not say {text!r}: {self.log(label)[-2000:]}")
            time.sleep(0.01)

    def signal(self, index, number):
        """When it was sent, in seconds of the host's clock."""
        now = time.time()
        os.kill(self.processes[f"daemon{index}"].pid, number)
        return now

    def events(self, index, since):
        """(milliseconds after `since`, event, fields) of what a daemon has logged from then on."""
        for stamp, event, fields in EVENT.findall(self.log(f"daemon{index}")):
            at = datetime.datetime.fromisoformat(stamp).replace(tzinfo=datetime.timezone.utc).timestamp()
            if at >= since - 0.001:  # the log cuts to milliseconds
                yield max((at - since) * 1e3, 0.0), event, fields


class Trainer(threading.Thread):
    """Runs `operations` of them (None: until its daemon is lost for good); remembers when each began and ended."""

    def __init__(self, cluster, library, index, operations=None, returns=False):
        super().__init__(daemon=True)
        self.cluster, self.library, self.index = cluster, library, index
        self.operations, self.returns = operations, returns
        self.began, self.ended = [], []  # seconds; (seconds, world)
        self.restarted = threading.Event()  # its daemon is back

    def durations(self):
        """Seconds, of the operations that have ended."""
        return [end - begin for begin, (end, _) in zip(self.began, self.ended)]

    def run(self):
        world = self.cluster.options.world
        while True:
            try:
                self.work(world)
                return
            except Lost:
                if not self.returns:
                    return
            self.restarted.wait()
            self.restarted.clear()
            world = 1

    def work(self, world):
        comm = Comm(self.library, self.cluster.socket(self.index), world, self.cluster.options.mib << 20)
        try:
            while self.operations is None or len(self.ended) < self.operations:
                self.began.append(time.time())
                info = comm.reduce()
                self.ended.append((time.time(), info.world))
                if info.update_waits:
                    comm.update_view()
        finally:
            comm.close()


BEFORE, AFTER = 3, 3  # healthy operations before and after the struck one


def strike(options, library, number):
    """One death in mid-operation. Milliseconds by name. Raises Disturbed or Late if it was none."""
    with Cluster(options) as cluster:
        trainers = [Trainer(cluster, library, i, BEFORE + 1 + AFTER) for i in range(options.world)]
        for trainer in trainers:
            trainer.start()
        wait_for(lambda: all(len(trainer.began) > BEFORE or not trainer.is_alive() for trainer in trainers))
        if any(len(trainer.ended) < BEFORE or trainer.ended[-1][1] < options.world for trainer in trainers):
            raise Disturbed
        time.sleep(random.uniform(0, statistics.median(trainers[0].durations()[1:BEFORE])))
        victim = random.randrange(options.world)
        since = cluster.signal(victim, number)
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
    logs = [list(cluster.events(trainer.index, since)) for trainer in survivors]
    smaller = f"world={len(survivors)} "
    notices = min(log[0][0] for log in logs)  # a loss of its own, an abort, or at once the master's view
    view = max(next(at for at, event, fields in log if event == "view_installed" and smaller in fields) for log in logs)
    result = max((trainer.ended[BEFORE][0] - since) * 1e3 for trainer in survivors)
    return {"first survivor notices": notices,
            "new view on all survivors": view,
            "result on all survivors": result,
            "result, after the new view": result - view,
            "healthy operation, smaller world": statistics.median(
                duration * 1e3 for trainer in survivors for duration in trainer.durations()[BEFORE + 1:])}


def goodput(options, library, period):
    """Steps that trainer 0 completes in the time, and the inputs in them; a death every `period` seconds, 0: none."""
    with Cluster(options) as cluster:
        trainers = [Trainer(cluster, library, i, returns=True) for i in range(options.world)]
        for trainer in trainers:
            trainer.start()
        wait_for(lambda: len(trainers[0].ended) > 1)
        start = time.time()
        end, deaths = start + options.seconds, 0
        while period and start + (deaths + 1) * period < end:
            deaths += 1
            time.sleep(max(start + deaths * period - time.time(), 0))
            victim = random.randrange(1, options.world)
            cluster.signal(victim, signal.SIGKILL)
            cluster.processes[f"daemon{victim}"].wait()
            cluster.start_daemon(victim)
            trainers[victim].restarted.set()
        time.sleep(max(end - time.time(), 0))
        worlds = [world for at, world in trainers[0].ended if start < at <= end]
        for trainer in trainers:
            trainer.returns = False
        return len(worlds), sum(worlds), deaths


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
    parser.add_argument("--seconds", type=float, default=65, help="of goodput, each way (default %(default)s; 0: none)")
    parser.add_argument("--period", type=float, default=10, help="seconds from death to death (default %(default)s)")
    parser.add_argument("--build-dir", type=pathlib.Path, default=ROOT / "build/release", help="(default %(default)s)")
    options = parser.parse_args()
    library = ctypes.CDLL(options.build_dir / "client/src/libringway.so")
    library.ringwayGetLastError.restype = ctypes.c_void_p
    print(f"world {options.world}, {options.mib} MiB f32 sum, heartbeat {options.heartbeat_ms} ms, "
          f"detection {options.detect_ms} ms")
    if options.rounds:
        print_strikes(options, library, "SIGKILL of one daemon", signal.SIGKILL)
        print_strikes(options, library, "SIGSTOP of one daemon", signal.SIGSTOP)
    if options.seconds:
        steps, inputs, _ = goodput(options, library, 0)
        kept_steps, kept_inputs, deaths = goodput(options, library, options.period)
        print(f"\n{options.seconds:.0f} s each: {steps} steps with {inputs} inputs without deaths; {kept_steps} with "
              f"{kept_inputs} under {deaths} deaths\nkept: {100 * kept_steps / steps:.0f}% of the steps, "
              f"{100 * kept_inputs / inputs:.0f}% of the inputs")


if __name__ == "__main__":
    main()
