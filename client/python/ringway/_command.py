"""The command `ringway`: a master and daemons for a try (`up`), and a script's ranks (`run`), on this machine."""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import logging
import os
import pathlib
import queue
import shlex
import shutil
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, Union

from ringway import _children
from ringway._children import Child
from ringway._local import DAEMONS_MAX, LocalCluster
from ringway._sockets import DEFAULT_SOCKET, found_socket, is_own_directory, up_directory

RANKS_MAX = 1024

_Event = Union[int, Child, OSError]
"""A signal's number, a child that has ended, or what printing its output failed with."""


def main(words: Sequence[str] | None = None) -> int:
    """The exit code."""
    options = _parser().parse_args(words)
    logging.basicConfig(format="%(message)s", level=logging.INFO if options.verbose else logging.WARNING)
    events: queue.SimpleQueue[_Event] = queue.SimpleQueue()  # whose put a signal's handler may call
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _frame: events.put(number))
    try:
        return options.command(options, events)
    except (OSError, ValueError) as error:
        print(f"ringway: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="ringway", description="Ringway on this machine, for a try.")
    parser.add_argument("--verbose", action="store_true", help="log what is in order, too")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    up = commands.add_parser("up", help="start a master and daemons, until Ctrl-C", description=_up.__doc__)
    up.add_argument("--daemons", type=_number(DAEMONS_MAX), default=1, metavar="N", help="how many (default 1)")
    up.add_argument(
        "--directory",
        type=pathlib.Path,
        metavar="DIR",
        help="for sockets and the journal; trainers find the default by themselves",
    )
    up.set_defaults(command=_up)

    run = commands.add_parser("run", help="run a script's ranks", description=_run.__doc__)
    run.add_argument("--nproc", type=_number(RANKS_MAX), required=True, metavar="N", help="how many ranks")
    run.add_argument(
        "--daemons",
        type=_number(DAEMONS_MAX),
        metavar="N",
        help="start a master and so many daemons for this run alone (default: those that run, else one)",
    )
    run.add_argument("--grace", type=_seconds, default=30.0, metavar="S", help="seconds to end in (default 30)")
    run.add_argument("--keep-going", action="store_true", help="leave the other ranks alone when one fails")
    run.add_argument("script", help="a Python script")
    run.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments", metavar="...")
    run.set_defaults(command=_run)
    return parser


def _number(most: int):
    def number(text: str) -> int:
        if not text.isdecimal() or not 1 <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{text} is not a number from 1 to {most}")
        return int(text)

    return number


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1
    if not 0 <= seconds <= 86400:
        raise argparse.ArgumentTypeError(f"{text} is not a number of seconds from 0 to 86400")
    return seconds


# ------------------------------------------------------------------------------------------------ up


def _up(options: argparse.Namespace, events: queue.SimpleQueue[_Event]) -> int:
    """Starts a master and daemons on loopback, prints their sockets and runs until Ctrl-C. Nothing is kept. Trainers of this user
    find them: by ringway run, torchrun, or ringway.join without a socket."""
    with _locked(options.directory or up_directory()) as directory:
        place = directory / "up"
        shutil.rmtree(place, ignore_errors=True)  # of one that was killed
        with LocalCluster(options.daemons, directory=place, on_end=events.put) as cluster:
            print(f"master  {cluster.master}")
            for path in cluster.sockets:
                print(f"socket  {path}")
            print(_next_line(cluster.sockets, options.directory is None), flush=True)
            event = events.get()
            if isinstance(event, Child):
                print(event.obituary(), file=sys.stderr)
                return 1
    return 0


def _next_line(sockets: Sequence[str], is_default: bool) -> str:
    rest = f"ringway run --nproc {max(2, len(sockets))} SCRIPT  # in another terminal; Ctrl-C here ends the daemons"
    if is_default and not os.path.exists(DEFAULT_SOCKET):
        return f"next    {rest}"
    return f"next    RINGWAY_SOCKET={shlex.quote(sockets[0])} {rest}"


@contextlib.contextmanager
def _locked(directory: pathlib.Path) -> Iterator[pathlib.Path]:
    """For one `ringway up` at a time."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not is_own_directory(directory):
        raise PermissionError(f"{directory} is not yours alone to write to: remove it, or name another by --directory")
    with open(directory / "lock", "a+", encoding="ascii") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            raise FileExistsError(
                f"ringway up runs already in {directory}, as process {lock.read(20).strip()}: end it, or give --directory another"
            ) from None
        lock.truncate(0)
        print(os.getpid(), file=lock, flush=True)
        yield directory


# ------------------------------------------------------------------------------------------------ run


def _run(options: argparse.Namespace, events: queue.SimpleQueue[_Event]) -> int:
    """Runs the ranks of a Python script on this machine, with RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT
    and RINGWAY_SOCKET in the environment, and prints their output, each line after its rank. When a rank fails the others are ended
    (SIGTERM, then SIGKILL), and its exit code is that of the run; SIGTERM, SIGINT and SIGHUP go to all ranks."""
    if not os.path.isfile(options.script):
        raise FileNotFoundError(f"there is no script {options.script}")
    with contextlib.ExitStack() as stack:
        sockets = _sockets_of_run(options, stack, events)
        output = _Output(events)
        port = _free_port()
        ranks: list[Child] = []
        stack.callback(lambda: _children.end(ranks, 0))
        for rank in range(options.nproc):
            argv = [sys.executable, options.script, *options.arguments]
            env = _environment(rank, options.nproc, port, sockets[rank % len(sockets)])
            ranks.append(Child(f"rank {rank}", argv, output.of(rank), events.put, env=env))
        return _wait_for(ranks, events, options.grace, options.keep_going)


def _sockets_of_run(
    options: argparse.Namespace, stack: contextlib.ExitStack, events: queue.SimpleQueue[_Event]
) -> list[str]:
    if options.daemons is None:
        if named := os.environ.get("RINGWAY_SOCKET"):
            return [named]
        found = [found_socket(rank) for rank in range(options.nproc)]
        if found[0] is not None:
            return [path for path in found if path is not None]
    return stack.enter_context(LocalCluster(options.daemons or 1, on_end=events.put)).sockets


def _environment(rank: int, world: int, port: int, path: str) -> dict[str, str]:
    given = {"PYTHONUNBUFFERED": "1", **({"OMP_NUM_THREADS": "1"} if world > 1 else {}), **os.environ}
    ours = {
        "RANK": rank,
        "WORLD_SIZE": world,
        "LOCAL_RANK": rank,
        "LOCAL_WORLD_SIZE": world,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port,
        "RINGWAY_SOCKET": path,
    }
    return {**given, **{name: str(value) for name, value in ours.items()}}


def _free_port() -> int:
    """On loopback, for rank 0 to listen on: free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class _Output:
    """Prints whole lines, each after its rank."""

    def __init__(self, events: queue.SimpleQueue[_Event]) -> None:
        self._events = events
        self._lock = threading.Lock()
        self._is_broken = False

    def of(self, rank: int):
        def on_line(line: str, is_error: bool) -> None:
            self._print(f"[{rank}] {line}\n", sys.stderr if is_error else sys.stdout)

        return on_line

    def _print(self, text: str, stream: IO[str]) -> None:
        with self._lock:
            if self._is_broken:  # a rank must not wait for who reads no more
                return
            try:
                stream.write(text)
                stream.flush()
            except OSError as error:
                self._is_broken = True
                self._events.put(error)


def _wait_for(ranks: Sequence[Child], events: queue.SimpleQueue[_Event], grace: float, keep_going: bool) -> int:
    """Until all have ended; the exit code of the first that failed. From the first reason to end on that is bounded by `grace`."""
    code = 0
    deadline: float | None = None
    running = set(ranks)
    while running:
        try:
            event = events.get(timeout=None if deadline is None else max(deadline - time.monotonic(), 0))
        except queue.Empty:
            _kill(running)
            deadline = None
            continue
        if isinstance(event, Child) and event in running:
            running.remove(event)
            if event.returncode == 0:
                continue
            print(f"ringway: {event.title} {event.how()}", file=sys.stderr)
        ends_others, number, its_code = _consequence(event, ranks, keep_going)
        code = code or its_code
        if not ends_others:
            continue
        if isinstance(event, int) and deadline is not None:  # somebody is in a hurry
            deadline = time.monotonic()
            continue
        for rank in running:
            rank.signal(number)
        deadline = deadline or time.monotonic() + grace
    return code


def _consequence(event: _Event, ranks: Sequence[Child], keep_going: bool) -> tuple[bool, int, int]:
    """Whether the ranks are to end, by which signal, and the exit code."""
    if isinstance(event, int):
        return True, event, 0  # theirs
    if isinstance(event, OSError):
        with contextlib.suppress(OSError):
            print(f"ringway: what the ranks print cannot be written: {event}", file=sys.stderr)
        return True, signal.SIGTERM, 1
    if event in ranks:
        assert event.returncode is not None
        return not keep_going, signal.SIGTERM, event.returncode if event.returncode > 0 else 128 - event.returncode
    print(f"ringway: {event.obituary()}", file=sys.stderr)
    return True, signal.SIGTERM, 1


def _kill(ranks: Iterable[Child]) -> None:
    for rank in ranks:
        rank.kill()
