"""What all ranks must have alike, as parameters and moments: compared by hash, and sent only where it differs.

Arrays reach the library as their bytes, flat; all else is there (ringway/shared_state.hpp).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Union

from ringway import _ringway
from ringway._ringway import InvalidArgument
from ringway._session import join

if TYPE_CHECKING:
    from typing_extensions import Self

    from ringway._session import Session

_STRATEGIES = ("popular", "send", "receive")

Arrays = Union[Sequence[Any], Mapping[str, Any]]


def _bytes_of(array: Any) -> Any:
    """A flat array of its bytes, in the same memory. What a GPU's current stream does to it has ended."""
    if type(array).__module__.partition(".")[0] == "torch":
        import torch  # type: ignore[import-not-found,unused-ignore]

        if not array.is_contiguous():
            raise InvalidArgument("a tensor of the shared state has gaps")
        flat = array.detach().reshape(-1).view(torch.uint8)
        if flat.is_cuda:
            torch.cuda.current_stream(flat.device).synchronize()
        return flat.numpy() if flat.is_cpu else flat
    import numpy

    if not array.flags.c_contiguous:
        raise InvalidArgument("an array of the shared state has gaps")
    return array.reshape(-1).view(numpy.uint8)


def _address(flat: Any) -> int:
    return int(flat.data_ptr() if hasattr(flat, "data_ptr") else flat.ctypes.data)


def _named(arrays: Arrays) -> tuple[list[str], list[Any]]:
    """Names of a sequence are its indices; a mapping's order is that of its names, whatever each rank put in first."""
    items = sorted(arrays.items()) if isinstance(arrays, Mapping) else [(str(i), x) for i, x in enumerate(arrays)]
    return [name for name, _ in items], [array for _, array in items]


def sync_shared_state(
    session: Session,
    arrays: Arrays,
    *,
    revision: int = 0,
    strategy: str = "popular",
    on_progress: Callable[[int, int], object] | None = None,
) -> int:
    """Makes `arrays` the same on all ranks, and returns the revision that all then have. A collective on channel 0.

    Ranks compare hashes of 128 bits; where all agree nothing else is sent. Otherwise all take the state of the newest revision,
    of several with that the one which most ranks have, and of as many that of the lowest rank. Who differs gets the pieces of
    16 MiB that differ, from all ranks that have them at once.

    arrays: of NumPy or torch (CUDA's, too), contiguous: a mapping of names, or a sequence; of the same names and sizes on all
    ranks. Not to be written to meanwhile (Mismatch).
    revision: counts what has been done to them, as steps.
    strategy: "popular"; "send": this rank's is taken, which is Mismatch on all if others that send have another; "receive":
    this rank's is never taken, which is Mismatch if all ranks say so.
    on_progress: called before each piece with the bytes exchanged so far, and those that any rank lacks. What it raises ends
    the call.

    A failure of this rank alone in the middle of it, as KeyboardInterrupt or a lack of memory, leaves the group.

    If ranks are lost, those who are left choose again, and what has arrived is not sent again. Arrays change only when all of
    the state is there, for which there must be memory.
    """
    if strategy not in _STRATEGIES:
        raise InvalidArgument(f"the strategy is {strategy!r}; there are {', '.join(_STRATEGIES)}")
    names, values = _named(arrays)
    return _ringway._sync_state(
        session, names, [_bytes_of(x) for x in values], revision, _STRATEGIES.index(strategy), on_progress
    )


class SharedState:
    """Arrays that all ranks have alike, and that ranks which come take from those who are there.

        state = ringway.SharedState.join([weights], "job", wait_world=4)
        while state.revision < 1000:
            try:
                result = state.session.all_reduce(gradient, "avg")
            except ringway.Rejoined:
                state.sync()
                continue
            weights -= 0.1 * gradient
            state.advance(result.update_waits)

    What it calls are collectives on channel 0. Threads: one.
    """

    def __init__(
        self,
        session: Session,
        arrays: Arrays,
        *,
        revision: int = 0,
        path: str | os.PathLike[str] | None = None,
        every: int = 1,
    ) -> None:
        """Newcomers take the state of those who train. Ranks that all begin take that of the newest revision.

        All ranks make theirs at the same point, or join later. Mismatch, for arrays of other names or sizes, is a newcomer's
        alone: it has to leave then.
        arrays: as of `sync_shared_state`; they stay in the same memory.
        revision: of the arrays.
        path: a file of this rank's own, and of this training alone, from which the arrays are read first if it is there, and to
        which they are written. So a training of which nobody is left goes on from the newest file. It is replaced as a whole:
        there must be room for two. InvalidArgument for one that is damaged, or another model's.
        every: so many revisions.
        """
        self._make(arrays, revision, path, every)
        self.session = session
        self.sync()

    @classmethod
    def join(
        cls,
        arrays: Arrays,
        group: str,
        *,
        revision: int = 0,
        path: str | os.PathLike[str] | None = None,
        every: int = 1,
        **options: Any,
    ) -> Self:
        """Joins a group, as `ringway.join` with its options, and takes its state; those who train lose the end of one step."""
        state = cls.__new__(cls)
        state._make(arrays, revision, path, every)  # before: a file that is refused costs the others nothing
        state.session = join(group, **options)
        try:
            state.sync()
        except BaseException:
            state.session.abort()
            raise
        return state

    def _make(self, arrays: Arrays, revision: int, path: str | os.PathLike[str] | None, every: int) -> None:
        self.arrays = arrays
        names, values = _named(arrays)
        flat = [_bytes_of(x) for x in values]
        self._addresses = [_address(x) for x in flat]
        self._every = every if path is not None else 0  # 0: never saved
        where = b"" if path is None else os.fsencode(path)
        if b"\0" in where:
            raise InvalidArgument("a path has no zero byte")
        self._state = _ringway._SharedState(names, flat, revision, where, every)

    def _settle(self) -> None:
        """Waits for a GPU's stream, and checks that the arrays are where they were."""
        if [_address(_bytes_of(array)) for array in _named(self.arrays)[1]] != self._addresses:
            raise InvalidArgument("arrays of the shared state have other memory than before: change them in place")

    @property
    def revision(self) -> int:
        """How often the arrays have been advanced, by this rank or by those whose state it took."""
        return self._state.revision

    def sync(self) -> None:
        """Makes the arrays the same on all ranks, whose others are in `sync` or `advance`: after Rejoined."""
        self._settle()
        self._state.sync(self.session)

    def advance(self, update_waits: bool) -> bool:
        """The arrays are one revision further, on every rank; the end of a step. Saves them if it is time.

        update_waits: of the step's result, and so the same on all ranks. Then newcomers are admitted, and take the state.
        Returns whether that was so: the world may be another. If this rank was lost meanwhile, it has rejoined and taken the
        others' state: `session.peer_id` is another.
        Raises Io, an OSError, if the file cannot be written: then it is as before, all else is done, and the training may go on.
        """
        if update_waits or (self._every > 0 and (self.revision + 1) % self._every == 0):  # else nobody reads them
            self._settle()
        return self._state.advance(self.session, update_waits)
