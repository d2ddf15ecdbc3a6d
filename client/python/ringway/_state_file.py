"""A state on disk: replaced as a whole, and read only if it is whole.

    8 bytes    "RINGWAY1"
    8          revision, little-endian
    8          bytes of content
    16         blake2b of the three above and the content
    the content
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import pathlib
import shutil
import struct
from collections.abc import Sequence
from typing import Any

from ringway._ringway import InvalidArgument, ResourceExhausted

_MAGIC = b"RINGWAY1"
_HEAD = struct.Struct("<8sQQ")
_DIGEST_BYTES = 16
_REVISION_MAX = 2**62  # far beyond what counts steps


class StateFile:
    """every: so many revisions, of which others are not saved."""

    def __init__(self, path: str | os.PathLike[str], every: int) -> None:
        if every < 1:
            raise InvalidArgument(f"every is {every}; it is 1 or more revisions")
        self.every = every
        self._path = pathlib.Path(path)
        self._new = self._path.with_name(self._path.name + ".new")

    def save(self, revision: int, parts: Sequence[Any]) -> None:
        """parts: flat arrays of bytes. Raises OSError; the file of before stays then."""
        head = _HEAD.pack(_MAGIC, revision, sum(part.nbytes for part in parts))
        digest = hashlib.blake2b(head, digest_size=_DIGEST_BYTES)
        for part in parts:
            digest.update(part)
        with self._new.open("ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # two processes of one path fail, instead of mixing theirs
            if not self._new.exists() or not self._new.samefile(f"/proc/self/fd/{file.fileno()}"):
                raise BlockingIOError(f"another process has just written {self._path}")
            try:
                file.truncate(0)
                file.write(head + digest.digest())
                for part in parts:
                    file.write(part)
                file.flush()
                os.fsync(file.fileno())
                self._new.replace(self._path)
            except BaseException:
                self._new.unlink()
                raise
        directory = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def load(self, parts: Sequence[Any]) -> int | None:
        """Fills the parts, but only with what is whole; the revision, or None if there is no file. There is room to save."""
        size = sum(part.nbytes for part in parts)
        self._check_room(size)
        try:
            file = self._path.open("rb")
        except FileNotFoundError:
            return None
        with file:
            head, wanted = file.read(_HEAD.size), file.read(_DIGEST_BYTES)
            if len(head) != _HEAD.size or head[:8] != _MAGIC:
                raise InvalidArgument(f"{self._path} is not a state file: name another, or move it away")
            _, revision, there = _HEAD.unpack(head)
            if there != size:
                raise InvalidArgument(
                    f"{self._path} has a state of {there} bytes, and the arrays have {size}: it is another model's"
                )
            digest = hashlib.blake2b(head, digest_size=_DIGEST_BYTES)
            read = [bytearray(part.nbytes) for part in parts]
            is_whole = all(file.readinto(content) == len(content) for content in read) and not file.read(1)
            for content in read:
                digest.update(content)
            if not is_whole or digest.digest() != wanted or revision > _REVISION_MAX:
                raise InvalidArgument(
                    f"{self._path} is damaged: move it away, and this rank takes the others' state, or begins anew"
                )
        for part, content in zip(parts, read):
            part[:] = memoryview(content)
        return int(revision)

    def _check_room(self, size: int) -> None:
        """Before the first save: there is a directory, with room for two states, as one is written while the other is there."""
        if not self._path.parent.is_dir():
            raise InvalidArgument(f"there is no directory {self._path.parent} for the state file: create it")
        there = sum(path.stat().st_size for path in (self._path, self._new) if path.exists())
        needed, free = 2 * (size + _HEAD.size + _DIGEST_BYTES) - there, shutil.disk_usage(self._path.parent).free
        if needed > free:
            raise ResourceExhausted(
                f"{self._path.parent} has {free} bytes left, and the state file needs {needed}: make room"
            )
