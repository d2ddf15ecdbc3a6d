"""Which daemon a trainer takes that names none."""

from __future__ import annotations

import os
import pathlib
import socket
import stat
import tempfile
from typing import Any

DEFAULT_SOCKET = "/run/ringway/ringwayd.sock"


def up_directory() -> pathlib.Path:
    """Where `ringway up` of this user keeps its files, unless it names another place."""
    return pathlib.Path(tempfile.gettempdir(), f"ringway-{os.getuid()}")


def is_own_directory(path: pathlib.Path) -> bool:
    """It is there, it is this user's, and nobody else may write to it: others may make files of any name beside it."""
    try:
        found = path.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022


def up_sockets(directory: pathlib.Path) -> list[str]:
    """Of a running `ringway up`, in the order of its daemons."""
    if not is_own_directory(directory):
        return []
    numbers = {path.stem[1:] for path in (directory / "up").glob("d*.sock")}
    paths = [str(directory / "up" / f"d{i}.sock") for i in sorted(int(x) for x in numbers if x.isdecimal())]
    return [path for path in paths if _is_listening(path)]


def _is_listening(path: str) -> bool:
    """False of what a daemon that was killed left behind."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as probe:
        probe.setblocking(False)
        try:
            probe.connect(path)
        except BlockingIOError:  # its backlog is full
            return True
        except OSError:
            return False
    return True


def found_socket(local_rank: int = 0) -> str | None:
    """That of this host's daemon, else one of a running `ringway up`: ranks of a host take its daemons in turn."""
    if os.path.exists(DEFAULT_SOCKET):
        return DEFAULT_SOCKET
    sockets = up_sockets(up_directory())
    return sockets[local_rank % len(sockets)] if sockets else None


def socket_of(given: str | os.PathLike[str] | None) -> tuple[Any, str]:
    """The socket's path, and how to name another."""
    if given is not None:
        return (os.fspath(given) if isinstance(given, os.PathLike) else given), "by socket="
    if named := os.environ.get("RINGWAY_SOCKET"):
        return named, "by RINGWAY_SOCKET, which names this one, or socket="
    local_rank = os.environ.get("LOCAL_RANK", "")
    found = found_socket(int(local_rank) if local_rank.isdecimal() else 0)
    advice = "by RINGWAY_SOCKET or socket=" + (
        "" if found else "; for a try on this machine run `ringway up`, which does not run"
    )
    return found or DEFAULT_SOCKET, advice
