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
    `ringway.local`. To see what a loss does: `cluster.kill(rank)`, then `cluster.start(rank)`. master_options, daemon_options: of
    their command lines, as "--detect-ms=500".
    Raises FileNotFoundError if the programs are not on this machine, and ChildProcessError if one of them ends at once.
    """
    return LocalCluster(world, master_options=master_options, daemon_options=daemon_options)


class _Server(Child):
    """A program whose log goes to the logger, and that works from an event in it on.

    event, field: which, and what of it `ready` returns.
    """

    def __init__(
        self, title: str, argv: Sequence[str], event: str, field: str, on_end: Callable[[Child], object]
    ) -> None:
        self._found: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        """The field, or None when it has ended."""
        self._pattern = re.compile(rf" {event} (?:.* )?{field}=(\S+)")
        self._report_end = on_end
        super().__init__(title, argv, self._log_line, self._end_is_known)

    def _log_line(self, line: str, is_error: bool) -> None:
        if match := self._pattern.search(line):
            self._found.put(match[1])
        _time, _, rest = line.partition(" ")
        level, _, text = rest.partition(" ")
        known = _LEVELS.get(level)
        _log.log(known or logging.WARNING, "%s: %s", self.title, text if known else line)

    def _end_is_known(self, child: Child) -> None:
        self._found.put(None)
        self._report_end(child)

    def ready(self) -> str:
        try:
            value = self._found.get(timeout=_READY_SECONDS)
        except queue.Empty:
            raise TimeoutError(f"{self.title} is not ready after {_READY_SECONDS:.0f} s") from None
        if value is None:
            raise ChildProcessError(self.obituary())
        return value


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
        self._programs = {name: program(name) for name in ("ringway-master", "ringwayd")}
        self._daemon_options = daemon_options
        self._watched: set[Child] = set()
        """Those whose end is news."""
        self._on_end = on_end
        self._owner = os.getpid()
        if directory is not None:
            directory.mkdir(mode=0o700)
        self.directory = directory or pathlib.Path(tempfile.mkdtemp(prefix="ringway-"))
        self.sockets = [str(self.directory / f"d{i}.sock") for i in range(world)]
        """One for each rank."""
        self.master = ""
        """Its address, HOST:PORT."""
        self._masters: list[_Server] = []
        self._daemons: list[_Server] = []
        atexit.register(self.close)
        try:
            words = ["--journal", str(self.directory / "master.db"), *master_options]
            self._masters.append(self._server("ringway-master", "ringway-master", words, "listening", "address"))
            self.master = self._masters[0].ready()
            for i in range(world):
                self._daemons.append(self._daemon(i))
            for daemon in self._daemons:
                daemon.ready()
            self._watch(*self._masters, *self._daemons)
        except BaseException:
            self.close()
            raise

    def kill(self, rank: int) -> None:
        """Ends a rank's daemon as the loss of its host does, at once and without a word; returns when it has ended."""
        self._watched.discard(self._daemons[rank])
        self._daemons[rank].kill()

    def start(self, rank: int) -> None:
        """Starts a rank's daemon again, which has ended; returns when it is ready, at the same socket."""
        if self._daemons[rank].is_alive:
            raise RuntimeError(f"the daemon of rank {rank} runs: kill({rank}) ends it")
        self._daemons[rank] = self._daemon(rank)
        self._daemons[rank].ready()
        self._watch(self._daemons[rank])

    def _watch(self, *servers: _Server) -> None:
        self._watched.update(servers)
        for server in servers:
            if not server.is_alive:
                raise ChildProcessError(server.obituary())

    def _daemon(self, rank: int) -> _Server:
        words = ["--master", self.master, "--socket", self.sockets[rank], "--name", f"d{rank}"]
        words += ["--grace-ms", str(_GRACE_OF_DAEMON_MS), *self._daemon_options]
        return self._server(f"ringwayd d{rank}", "ringwayd", words, "ready", "socket")

    def _server(self, title: str, name: str, words: Sequence[str], event: str, field: str) -> _Server:
        return _Server(title, [self._programs[name], "--listen", "127.0.0.1:0", *words], event, field, self._report_end)

    def _report_end(self, child: Child) -> None:
        if child not in self._watched:
            return
        if self._on_end is not None:
            self._on_end(child)
        else:
            _log.error("%s", child.obituary())

    def close(self) -> None:
        """Ends the daemons, then the master, and removes their files. May be called again."""
        if os.getpid() != self._owner:  # a forked child
            return
        self._watched.clear()
        atexit.unregister(self.close)
        _children.end(self._daemons, _GRACE_SECONDS)
        _children.end(self._masters, _GRACE_SECONDS)
        shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
