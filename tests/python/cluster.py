"""A real master and daemons on loopback, and trainers as threads or as processes. Every wait is bounded."""
import atexit
import concurrent.futures
import contextlib
import ctypes
import logging
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
import unittest

import ringway
from ringway._local import LocalCluster

PROGRAMS = pathlib.Path(os.environ["RINGWAY_PROGRAMS"])
PATIENCE = 60  # seconds: far beyond what anything here takes


def eventually(condition):
    """What `condition` returns, once that is true."""
    deadline = time.monotonic() + PATIENCE
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"{condition} does not come true")
        time.sleep(0.005)
    return found


class Process:
    """A program whose output is in a file; killed when this process ends."""

    def __init__(self, path, argv, **options):
        self.log = pathlib.Path(path)
        with self.log.open("wb") as log:
            self.process = subprocess.Popen([str(x) for x in argv], stdout=log, stderr=subprocess.STDOUT, **options)
        atexit.register(self.kill)

    def text(self):
        return self.log.read_text(errors="replace")

    def said(self, part, times=1):
        """The last of so many whole lines with this part, once they are there; an error if the process ends without."""

        def find():
            ended = self.process.poll() is not None
            lines = [x.strip() for x in self.text().splitlines(keepends=True) if part in x and x.endswith("\n")]
            assert len(lines) >= times or not ended, f"it ended with {self.process.returncode}: {self.text()}"
            return lines[times - 1] if len(lines) >= times else None

        return eventually(find)

    def logged(self, event, field):
        words = self.said(f" {event} ").split()
        return next(x.partition("=")[2] for x in words if x.startswith(field + "="))

    def sleeps(self):
        """Once its main thread waits for something."""
        stat = pathlib.Path(f"/proc/{self.process.pid}/stat")
        eventually(lambda: stat.read_text().rpartition(")")[2].split()[0] == "S")

    def signal(self, number):
        self.process.send_signal(number)

    def end(self, seconds=PATIENCE):
        """The exit code, once it has ended."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it does not end: {self.text()}") from None

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        atexit.unregister(self.kill)


class Cluster(LocalCluster):
    """`ringway.local` with a master that notices losses soon; its log is kept, and a daemon that ends badly is an error."""

    def __init__(self, daemons):
        self.lines = []  # of all: "ringwayd d0: ready socket=.."
        self.log = logging.Handler(logging.DEBUG)
        self.log.emit = lambda record: self.lines.append(record.getMessage())
        logger = logging.getLogger("ringway.local")
        logger.setLevel(logging.DEBUG)
        logger.addHandler(self.log)
        super().__init__(daemons, on_end=lambda _: None,
                         master_options=["--heartbeat-ms=50", "--detect-ms=2000", "--detect-far-ms=0"])

    def text(self, index):
        """What a daemon has logged."""
        return "\n".join(line for line in self.lines if line.startswith(f"ringwayd d{index}: "))

    @property
    def daemons(self):
        return self._daemons

    def kill_master(self):
        self._masters[0].kill()

    def close(self):
        killed = {daemon for daemon in self._daemons if not daemon.is_alive and daemon.returncode == -signal.SIGKILL}
        super().close()
        logging.getLogger("ringway.local").removeHandler(self.log)
        ended = [daemon.how() for daemon in self._daemons if daemon not in killed and daemon.returncode != 0]
        assert not ended, f"daemons {ended}: {self.lines}"


def of_trainers(logs):
    """What was logged, but for the lines of the cluster's programs, which log beneath the trainers' logger."""
    return [record.getMessage() for record in logs.records if record.name == "ringway"]


def together(*calls):
    """Runs each call in a thread of its own; their results, or the first exception."""
    pool = concurrent.futures.ThreadPoolExecutor(len(calls))
    futures = [pool.submit(call) for call in calls]
    pool.shutdown(wait=False)
    done, _ = concurrent.futures.wait(futures, PATIENCE, concurrent.futures.FIRST_EXCEPTION)
    for future in done:
        future.result()
    return [future.result(0) for future in futures]


class Trainer(Process):
    """A Python process that runs `script`; what it prints is `said`. sys.argv: socket, group, world."""

    # Shells make jobs in the background ignore SIGINT, and Python keeps to that.
    PRELUDE = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
import sys
import numpy
import ringway
SOCKET, GROUP, WORLD = sys.argv[1], sys.argv[2], int(sys.argv[3])
def say(*words): print(*words, flush=True)
def join(**options): return ringway.join(GROUP, socket=SOCKET, wait_world=WORLD, timeout=60, **options)
"""

    def __init__(self, path, script, socket, group, world):
        super().__init__(path, [sys.executable, "-B", "-X", "faulthandler", "-c", self.PRELUDE + script, socket, group,
                                world], stdin=subprocess.DEVNULL)


class Exporter:
    """A NumPy array that DLPack says to be on another device, at another address, or of another type: {code, bits}."""

    def __init__(self, array, device=None, dtype=None, data=None):
        self.array, self.device, self.dtype, self.data = array, device, dtype, data

    def __dlpack__(self, **_):
        capsule = self.array.__dlpack__()
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        # DLTensor: void* data; int32_t device_type, device_id, ndim; uint8_t code, bits; ...
        tensor = pointer(capsule, b"dltensor")
        if self.data is not None:
            ctypes.c_void_p.from_address(tensor).value = self.data
        if self.device is not None:
            ctypes.c_int32.from_address(tensor + 8).value = self.device
        if self.dtype is not None:
            (ctypes.c_uint8 * 2).from_address(tensor + 20)[:] = self.dtype
        return capsule


class ClusterTest(unittest.TestCase):
    """Each test has a group of its own on daemons that all tests of the class share, or on its own if there are none."""

    DAEMONS = 3
    SECONDS_MAX = 4 * PATIENCE  # of a test

    @classmethod
    def setUpClass(cls):
        if cls.DAEMONS:
            cls.cluster = Cluster(cls.DAEMONS)
            cls.addClassCleanup(cls.cluster.close)

    def start(self, daemons):
        """A cluster of this test's own, for one that loses daemons."""
        self.cluster = Cluster(daemons)
        self.addCleanup(self.cluster.close)

    def setUp(self):
        self.group = self._testMethodName
        # A hang is reported with the stacks of all threads.
        watchdog = threading.Timer(self.SECONDS_MAX, self.hang)
        watchdog.daemon = True
        watchdog.start()
        self.addCleanup(watchdog.cancel)

    def hang(self):
        import faulthandler
        print(f"{self.id()} hangs", file=sys.stderr, flush=True)
        faulthandler.dump_traceback(all_threads=True)
        os._exit(3)

    def options(self, index, world, **options):
        return {"group": self.group, "socket": self.cluster.sockets[index], "wait_world": world, "timeout": PATIENCE,
                **options}

    def join(self, world, **options):
        """Sessions of one group, in rank order."""
        sessions = together(*[lambda i=i: ringway.join(**self.options(i, world, **options)) for i in range(world)])
        for session in sessions:
            self.addCleanup(session.abort)
        return sorted(sessions, key=lambda session: session.rank)

    def trainer(self, index, world, script):
        path = self.cluster.directory / f"{self.group}.{index}.out"
        trainer = Trainer(path, script, self.cluster.sockets[index], self.group, world)
        self.addCleanup(trainer.kill)
        return trainer

    @contextlib.contextmanager
    def refused(self, kind, *words):
        """The block raises exactly this class of ringway's, with these words in its text."""
        with self.assertRaises(ringway.Error) as raised:
            yield raised
        self.assertIs(type(raised.exception), kind, raised.exception)
        for word in words:
            self.assertIn(word, raised.exception.message)
