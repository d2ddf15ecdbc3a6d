"""Processes whose output is read line by line, and that the kernel ends where this one is killed.

Threads: each child has one that starts it, waits for it and reads its standard output, and one that reads its standard error. The
first lives as long as the child: the kernel's signal on a parent's death is on that of the thread that forked. Callbacks are called
from these threads.
"""

from __future__ import annotations

import collections
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import IO

LINE_MAX = 65536
"""Characters: a longer line is passed on in parts."""
_LINES_KEPT = 10
_DRAIN_SECONDS = 1.0
"""Of output whose pipe a process that the child left behind holds open."""
_KILL_SECONDS = 10.0
"""How long the kernel may take to end a process that was killed."""


class Child:
    """A process in a session of its own, so that a terminal's Ctrl-C reaches it by `signal` only.

    on_line(line, is_error): a line of its output, without its end; a carriage return ends one, too.
    on_end(child): once, when it has ended and its output was read.
    """

    def __init__(
        self,
        title: str,
        argv: Sequence[str | os.PathLike[str]],
        on_line: Callable[[str, bool], object],
        on_end: Callable[[Child], object],
        env: dict[str, str] | None = None,
    ) -> None:
        self.title = title
        self.returncode: int | None = None
        """As subprocess has it: negative for a signal."""
        self._on_line, self._on_end = on_line, on_end
        self._last: collections.deque[str] = collections.deque(maxlen=_LINES_KEPT)
        self._lock = threading.Lock()  # of the process id: it is the child's until it is reaped
        self._process: subprocess.Popen[str] | None = None
        self._failure: Exception | None = None
        self._started, self._ended = threading.Event(), threading.Event()
        self._owner = os.getpid()
        threading.Thread(target=self._run, args=(_tied(argv), env), name=f"ringway-{title}", daemon=True).start()
        self._started.wait()
        if self._failure is not None:
            raise self._failure

    def _run(self, argv: Sequence[str | os.PathLike[str]], env: dict[str, str] | None) -> None:
        try:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                encoding="utf-8",
                errors="replace",
                env=env,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            self._failure = error
            self._started.set()
            return
        self._process = process
        self._started.set()
        assert process.stdout is not None and process.stderr is not None
        readers = [
            threading.Thread(
                target=self._read, args=(stream, is_error), name=f"ringway-{self.title}-output", daemon=True
            )
            for stream, is_error in ((process.stdout, False), (process.stderr, True))
        ]
        for reader in readers:
            reader.start()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        with self._lock:  # what it left behind goes with it
            self._kill_group()
            self.returncode = process.wait()
        deadline = time.monotonic() + _DRAIN_SECONDS
        for reader in readers:
            reader.join(max(deadline - time.monotonic(), 0))
        self._ended.set()
        self._on_end(self)

    def _read(self, stream: IO[str], is_error: bool) -> None:
        with stream:
            while line := stream.readline(LINE_MAX):
                line = line.rstrip("\n")
                self._last.append(line)
                self._on_line(line, is_error)

    def _kill_group(self) -> None:
        assert self._process is not None
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):  # it is alone, and ended
            pass

    @property
    def is_alive(self) -> bool:
        return not self._ended.is_set()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def signal(self, number: int) -> None:
        """Nothing, if it has ended."""
        if os.getpid() != self._owner:  # a forked child's
            return
        with self._lock:
            if self.returncode is None:
                os.kill(self.pid, number)

    def kill(self) -> None:
        """With all that it started, unless that went to a session of its own; returns when it has ended."""
        if os.getpid() != self._owner:  # a forked child's exit
            return
        with self._lock:
            if self.returncode is None:
                self._kill_group()
        if not self.wait(_KILL_SECONDS):
            raise TimeoutError(f"{self.title} (process {self.pid}) was killed and does not end")

    def wait(self, seconds: float) -> bool:
        """Until it has ended, so long at most; whether it has."""
        return self._ended.wait(max(seconds, 0))

    def how(self) -> str:
        """It ended."""
        code = self.returncode
        if code is None:
            return "runs"
        return f"ended with exit code {code}" if code >= 0 else f"was ended by {_name_of(-code)}"

    def obituary(self) -> str:
        """How it ended, and its last lines."""
        lines = [f"    {line}" for line in self._last]
        return f"{self.title} {self.how()}" + ("; its last lines:\n" + "\n".join(lines) if lines else " without a word")


def end(children: Iterable[Child], grace: float, number: int = signal.SIGTERM) -> None:
    """Asks all to end, and kills those that have not after `grace` seconds."""
    children = list(children)
    for child in children:
        child.signal(number)
    deadline = time.monotonic() + grace
    for child in children:
        if not child.wait(deadline - time.monotonic()):
            child.kill()


def _tied(argv: Sequence[str | os.PathLike[str]]) -> Sequence[str | os.PathLike[str]]:
    """The kernel ends it if this process is killed, where util-linux is."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "TERM", "--", *argv] if setpriv else argv


def _name_of(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
