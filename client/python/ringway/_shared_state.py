"""What all ranks must have alike, as parameters and moments: compared by hash, and sent only where it differs.

The leaves of a state (_state_leaves.py) reach the library as their bytes, flat; all else is there (ringway/shared_state.hpp).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ringway import _ringway
from ringway._ringway import InvalidArgument
from ringway._session import join
from ringway._state_leaves import Leaf, is_tensor, leaves

if TYPE_CHECKING:
    from typing_extensions import Self

    from ringway._ringway import Result
    from ringway._session import Session

_STRATEGIES = ("popular", "send", "receive")

State = Any
"""Arrays of NumPy and torch and numbers, in mappings, sequences, modules and optimizers, or a function that returns such."""


def _flat(found: list[Leaf]) -> tuple[list[str], list[str], list[Any]]:
    """Names, descriptions and bytes, as _ringway takes them."""
    return [leaf.name for leaf in found], [leaf.describe() for leaf in found], [leaf.expose() for leaf in found]


def _kept(arrays: State) -> State:
    """What can be looked at again: a generator, as of model.parameters(), is a list from now on."""
    return list(arrays) if isinstance(arrays, Iterator) else arrays


def sync_shared_state(
    session: Session,
    arrays: State,
    *,
    revision: int = 0,
    strategy: str = "popular",
    on_progress: Callable[[int, int], object] | None = None,
) -> int:
    """Makes `arrays` the same on all ranks, and returns the revision that all then have. A collective on channel 0.

    Ranks compare hashes of 128 bits; where all agree nothing else is sent. Otherwise all take the state of the newest revision,
    of several with that the one which most ranks have, and of as many that of the lowest rank. Who differs gets the pieces of
    16 MiB that differ, from all ranks that have them at once.

    arrays: of NumPy or torch (CUDA's, too) without gaps, and numbers, in mappings and sequences of any depth; a module, an
    optimizer, or what contains such. Names (paths), dtypes, shapes and the order of axes in memory are the same on all ranks,
    as is each str, bytes and None: else Mismatch on all, which names two ranks and the first difference, and the session goes
    on. Numbers are replaced in the dict, list or optimizer that they are in; of optimizer.state_dict(), which is a copy, give
    the result to load_state_dict. Nothing may be written to meanwhile (Mismatch).
    revision: counts what has been done to them, as steps.
    strategy: "popular"; "send": this rank's is taken, which is Mismatch on all if others that send have another; "receive":
    this rank's is never taken, which is Mismatch if all ranks say so.
    on_progress: called before each piece with the bytes exchanged so far, and those that any rank lacks. What it raises ends
    the call.

    What cannot be part of a state is refused before anything is sent, by TypeError or InvalidArgument with its path: the others
    wait for this rank, which may call again. A failure of this rank alone later, as KeyboardInterrupt or a lack of memory,
    leaves the group.

    If ranks are lost, those who are left choose again, and what has arrived is not sent again. Arrays change only when all of
    the state is there, for which there must be memory.
    """
    if strategy not in _STRATEGIES:
        raise InvalidArgument(f"the strategy is {strategy!r}; there are {', '.join(_STRATEGIES)}")
    found = leaves(_kept(arrays))
    newest = _ringway._sync_state(session, *_flat(found), revision, _STRATEGIES.index(strategy), on_progress)
    for leaf in found:
        leaf.put_back()
    return newest


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
        arrays: State,
        *,
        revision: int = 0,
        path: str | os.PathLike[str] | None = None,
        every: int = 1,
        replay: bool = False,
    ) -> None:
        """Newcomers take the state of those who train. Ranks that all begin take that of the newest revision.

        All ranks make theirs at the same point, or join later. Mismatch, for arrays of other names or sizes, is a newcomer's
        alone: it has to leave then.
        arrays: as of `sync_shared_state`, or a function that returns them. Modules, optimizers, containers and the function are
        looked at anew by every call, and must have the same tensors as now: InvalidArgument after `module.to(..)`, say, which
        gives a module other ones, or if an optimizer has got its state in its first step since. So pass `module`, not
        `module.state_dict()`, whose tensors only share its memory; that the module has left them is found by PyTorch's
        internal count of references, where it has one.
        revision: of the arrays.
        path: a file of this rank's own, and of this training alone, from which the arrays are read first if it is there, and to
        which they are written. So a training of which nobody is left goes on from the newest file. It is replaced as a whole:
        there must be room for two. InvalidArgument for one that is damaged, or another model's.
        every: so many revisions.
        replay: on all ranks: newcomers are admitted at once, take the state while the others train, and then repeat their
        steps with the same calls, each done at once with their result. For states of 1 MiB or more that steps change by
        nothing but results, with no collectives but sums and averages, which have neither a quorum nor weights.
        """
        self._make(arrays, revision, path, every, replay)
        self.session = session
        self.sync()

    @classmethod
    def join(
        cls,
        arrays: State,
        group: str,
        *,
        revision: int = 0,
        path: str | os.PathLike[str] | None = None,
        every: int = 1,
        replay: bool = False,
        **options: Any,
    ) -> Self:
        """Joins a group, as `ringway.join` with its options, and takes its state.

        A state of 64 MiB or more is taken before the admission, while the others train: from copies that they make at the end
        of their steps. At the admission only what differs by then is sent, for which they wait. Where each step changes the
        state that is all of it, unless all ranks `replay`.
        """
        state = cls.__new__(cls)
        state._make(arrays, revision, path, every, replay)  # before: a file that is refused costs the others nothing
        state._settle()
        try:
            state.session = join(group, _state=state._state, **options)
        finally:
            state._put_back()
        return state

    def _make(self, arrays: State, revision: int, path: str | os.PathLike[str] | None, every: int, replay: bool) -> None:
        self.arrays = _kept(arrays)
        self._leaves = leaves(self.arrays)
        self._identity = [leaf.identity for leaf in self._leaves]
        owners = _Owners(self._leaves)
        flat = _flat(self._leaves)
        self._every = every if path is not None else 0  # 0: never saved
        where = b"" if path is None else os.fsencode(path)
        if b"\0" in where:
            raise InvalidArgument("a path has no zero byte")
        self._state = _ringway._SharedState(*flat, revision, where, every, replay)
        owners.are_exposed()
        self._owners = owners
        self._put_back()  # what a file had

    def _check(self) -> None:
        """That the arrays are where they were, and still their owners'. Looks at every leaf, but at no element."""
        found = leaves(self.arrays)
        for leaf, before in zip(found, self._identity):
            if leaf.identity != before:
                raise InvalidArgument(_other_than_before(leaf, before[0]))
        if len(found) != len(self._identity):
            raise InvalidArgument(f"the shared state has {len(found)} entries, and had {len(self._identity)} when it was "
                                  "made: make another SharedState")
        self._owners.check()
        for leaf, old in zip(found, self._leaves):
            leaf.replace(old)
        self._leaves = found

    def _settle(self) -> None:
        """Before the library reads the arrays: what GPUs' streams do to them has ended."""
        self._check()
        for device in {leaf.value.device for leaf in self._leaves if is_tensor(leaf.value) and leaf.value.is_cuda}:
            sys.modules["torch"].cuda.current_stream(device).synchronize()

    def _put_back(self) -> None:
        for leaf in self._leaves:
            leaf.put_back()

    @property
    def revision(self) -> int:
        """How often the arrays have been advanced, by this rank or by those whose state it took."""
        return self._state.revision

    @property
    def is_replaying(self) -> bool:
        """Whether this rank replays: its inputs are in no sum or average yet, so it need not compute them."""
        return self._state.is_replaying

    def replay(self, out: Any, op: str = "avg") -> Iterator[Result]:
        """Repeats the steps of the others until this rank's inputs are in: one for each result, which is in `out`, for the
        caller to do to the arrays what a step does. For steps of one `all_reduce` of `out`; others do what they always do, but
        need not compute while `is_replaying`.
        """
        while self.is_replaying:
            result = self.session.all_reduce(out, op)
            yield result
            self.advance(result.update_waits)

    def sync(self) -> None:
        """Makes the arrays the same on all ranks, whose others are in `sync` or `advance`: after Rejoined."""
        self._settle()
        try:
            self._state.sync(self.session)
        finally:
            self._put_back()

    def advance(self, update_waits: bool) -> bool:
        """The arrays are one revision further, on every rank; the end of a step. Saves them if it is time.

        update_waits: of the step's result, and so the same on all ranks. Then newcomers are admitted, and take the state.
        Returns whether that was so: the world may be another. If this rank was lost meanwhile, it has rejoined and taken the
        others' state: `session.peer_id` is another.
        Raises Io, an OSError, if the file cannot be written: then it is as before, all else is done, and the training may go on.
        """
        is_saved = self._every > 0 and (self.revision + 1) % self._every == 0
        is_read = update_waits or is_saved or self._state.is_asked(self.session)
        (self._settle if is_read else self._check)()
        try:
            return self._state.advance(self.session, update_waits)
        finally:
            self._put_back()


def _other_than_before(leaf: Leaf, name: str) -> str:
    if leaf.name != name:
        return f'the shared state has "{leaf.name}" where it had "{name}" when it was made: make another SharedState'
    return (f'"{name}" of the shared state is not what it was: it has other memory, another dtype or another shape. Change '
            "it in place (as load_state_dict does), or make another SharedState")


class _Owners:
    """Who else has the memory of tensors from a module's state_dict(), which lose it when the module gets other memory."""

    def __init__(self, found: list[Leaf]) -> None:
        """REQUIRES: no leaf is exposed."""
        self._watched = [leaf for leaf in found if leaf.watched and is_tensor(leaf.value) and _can_count()]
        ours: dict[int, int] = {}  # tensors of the state by their storages
        for leaf in self._watched:
            ours[_storage(leaf)] = ours.get(_storage(leaf), 0) + 1
        self._others = {x: _references(x) - count for x, count in ours.items()}
        self._without_others: dict[int, int] = {}

    def are_exposed(self) -> None:
        """After all leaves are exposed, and so referenced once more."""
        self._without_others = {x: _references(x) - others for x, others in self._others.items() if others > 0}

    def check(self) -> None:
        for leaf in self._watched:
            least = self._without_others.get(_storage(leaf))
            if least is not None and _references(_storage(leaf)) <= least:
                raise InvalidArgument(f'"{leaf.name}" of the shared state is no longer the module\'s, which has other memory '
                                      "by now: pass the module itself, or make another SharedState after module.to()")


def _can_count() -> bool:
    return hasattr(sys.modules["torch"]._C, "_storage_Use_Count")


def _storage(leaf: Leaf) -> int:
    return int(leaf.value.untyped_storage()._cdata)


def _references(storage: int) -> int:
    """Number of tensors that have this storage. REQUIRES: one of them is alive, and has a Python object of its storage."""
    return int(sys.modules["torch"]._C._storage_Use_Count(storage)) - 1  # the object's own
