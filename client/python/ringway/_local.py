"""A master and daemons on this machine: for a try, in notebooks and in tests."""

from __future__ import annotations

import atexit
import logging
import os
import pathlib
import queue
import re
import shutil
import tempfile
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ringway import _children
from ringway._children import Child
from ringway._programs import program

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

DAEMONS_MAX = 64
"""A group has no more peers."""
_READY_SECONDS = 60.0
_GRACE_SECONDS = 10.0
_GRACE_OF_DAEMON_MS = 1000

_log = logging.getLogger("ringway.local")
_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


def local(world: int = 2, *, master_options: Sequence[str] = (), daemon_options: Sequence[str] = ()) -> LocalCluster:
    """Starts a master and `world` daemons on this machine, for notebooks and tests.

        with ringway.local(world=4) as cluster:
            sessions = [ringway.join("demo", socket=socket, ...) for socket in cluster.sockets]   # each in a thread or process

    They listen on loopback only, keep nothing, and end with the block, or with this process. Their logs go to the logger
    `ringway.local`. master_options, daemon_options: of their command lines, as "--detect-ms=500".
    Raises FileNotFoundError if the programs are not on this machine, and ChildProcessError if one of them ends at once.
    """
    return LocalCluster(world, master_options=master_options, daemon_options=daemon_options)


class LocalCluster:
    """What `local` starts; its end is that of a `with` statement, or `close`."""

    def __init__(
        self,
        world: int,
        *,
        directory: pathlib.Path | None = None,
        on_end: Callable[[Child], object] | None = None,
        master_options: Sequence[str] = (),
        daemon_options: Sequence[str] = (),
    ) -> None:
        """directory: to be made for sockets and the journal, and removed; None: a temporary one.
        on_end: called from another thread when one ends that was not asked to; None: that is logged."""
        if isinstance(world, bool) or not isinstance(world, int) or not 1 <= world <= DAEMONS_MAX:
            raise ValueError(f"there may be 1 to {DAEMONS_MAX} daemons on this machine, not {world!r}")
        programs = {name: program(name) for name in ("ringway-master", "ringwayd")}
        self._is_watched = False
        self._on_end = on_end
        self._owner = os.getpid()
        if directory is not None:
            directory.mkdir(mode=0o700)
        self.directory = directory or pathlib.Path(tempfile.mkdtemp(prefix="ringway-"))
        self.sockets = [str(self.directory / f"d{i}.sock") for i in range(world)]
        """One for each rank."""
        self.master = ""
        """Its address, HOST:PORT."""
        self._children: list[Child] = []
        atexit.register(self.close)
        try:
            journal = self.directory / "master.db"
            argv = [programs["ringway-master"], "--listen", "127.0.0.1:0", "--journal", str(journal), *master_options]
            self.master = self._start("ringway-master", argv, "listening", "address")()
            ready = []
            for i, socket in enumerate(self.sockets):
                argv = [programs["ringwayd"], "--master", self.master, "--listen", "127.0.0.1:0", "--socket", socket]
                argv += ["--name", f"d{i}", "--grace-ms", str(_GRACE_OF_DAEMON_MS), *daemon_options]
                ready.append(self._start(f"ringwayd d{i}", argv, "ready", "socket"))
            for wait in ready:
                wait()
            self._is_watched = True
            for child in self._children:
                if not child.is_alive:
                    raise ChildProcessError(child.obituary())
        except BaseException:
            self.close()
            raise

    def _start(self, title: str, argv: Sequence[str], event: str, field: str) -> Callable[[], str]:
        """Returns a function that waits for an event of its log, and returns a field of it."""
        found: queue.SimpleQueue[str | None] = queue.SimpleQueue()  # None: it has ended
        pattern = re.compile(rf" {event} (?:.* )?{field}=(\S+)")

        def on_line(line: str, is_error: bool) -> None:
            if match := pattern.search(line):
                found.put(match[1])
            _time, _, rest = line.partition(" ")
            level, _, text = rest.partition(" ")
            known = _LEVELS.get(level)
            _log.log(known or logging.WARNING, "%s: %s", title, text if known else line)

        def on_end(child: Child) -> None:
            found.put(None)
            if not self._is_watched:
                return
            if self._on_end is not None:
                self._on_end(child)
            else:
                _log.error("%s", child.obituary())

        child = Child(title, argv, on_line, on_end)
        self._children.append(child)

        def wait() -> str:
            try:
                value = found.get(timeout=_READY_SECONDS)
            except queue.Empty:
                raise TimeoutError(f"{title} is not ready after {_READY_SECONDS:.0f} s") from None
            if value is None:
                raise ChildProcessError(child.obituary())
            return value

        return wait

    def close(self) -> None:
        """Ends the daemons, then the master, and removes their files. May be called again."""
        if os.getpid() != self._owner:  # a forked child
            return
        self._is_watched = False
        atexit.unregister(self.close)
        master, daemons = self._children[:1], self._children[1:]
        _children.end(daemons, _GRACE_SECONDS)
        _children.end(master, _GRACE_SECONDS)
        shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
