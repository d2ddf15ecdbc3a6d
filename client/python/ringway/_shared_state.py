"""What all ranks must have alike, as parameters and moments: compared by hash, and sent only where it differs.

    offers     all_gather of (hash of all, revision, strategy): all ranks choose the same state
    hashes     all_gather of a hash for each piece of 16 MiB: who lacks what
    pieces     all_to_all_v for each that anybody lacks: every holder sends its stripe of it to all who lack it
    agreement  all_reduce: everybody has what it lacked, unchanged; only now it is written to the arrays

A loss, which ends an all_to_all_v alike on all ranks, begins anew with those who are left; pieces that have arrived stay.

`SharedState` does it whenever ranks come, and keeps the state in a file.
"""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import hashlib
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ringway import _state_file
from ringway._ringway import InvalidArgument, Mismatch, PeerLost, Rejoined
from ringway._session import join

if TYPE_CHECKING:
    from typing_extensions import Self

    from ringway._ringway import Work
    from ringway._session import Session

_STRATEGIES = ("popular", "send", "receive")
_PIECE_BYTES = 16 << 20
_IN_FLIGHT = 8

_Offer = tuple[int, ...]  # bytes in all, two halves of their hash, revision, strategy, whether it is in use already


def _bytes_of(array: Any) -> tuple[Any, Any]:
    """A flat NumPy array of the bytes, and the tensor that it is a copy of; None: it is the same memory."""
    if type(array).__module__.partition(".")[0] == "torch":
        import torch  # type: ignore[import-not-found,unused-ignore]

        if not array.is_contiguous():
            raise InvalidArgument("a tensor of the shared state has gaps")
        flat = array.detach().reshape(-1).view(torch.uint8)
        return (flat.numpy(), None) if flat.is_cpu else (flat.cpu().numpy(), flat)
    import numpy

    if not array.flags.c_contiguous:
        raise InvalidArgument("an array of the shared state has gaps")
    return array.reshape(-1).view(numpy.uint8), None


class _State:
    """The bytes of all arrays, one after the other, in pieces. Those of a GPU are copied, and copied back by `write`."""

    def __init__(self, arrays: Sequence[Any]) -> None:
        self._parts, self._origins = [], []
        for array in arrays:
            part, origin = _bytes_of(array)
            self._parts.append(part)
            self._origins.append(origin)
        self.size = sum(part.size for part in self._parts)
        self._pieces: list[list[tuple[int, int, int]]] = []  # spans of parts: number, begin, end
        room = 0
        for number, part in enumerate(self._parts):
            begin = 0
            while begin < part.size:
                if room == 0:
                    self._pieces.append([])
                    room = _PIECE_BYTES
                end = min(part.size, begin + room)
                self._pieces[-1].append((number, begin, end))
                room -= end - begin
                begin = end

    def __len__(self) -> int:
        return len(self._pieces)

    def read(self, piece: int) -> Any:
        import numpy

        spans = [self._parts[number][begin:end] for number, begin, end in self._pieces[piece]]
        return spans[0] if len(spans) == 1 else numpy.concatenate(spans)

    def bytes_of(self, piece: int) -> int:
        return sum(end - begin for _, begin, end in self._pieces[piece])

    def write(self, new: dict[int, Any]) -> None:
        touched = set()
        for piece, content in new.items():
            at = 0
            for number, begin, end in self._pieces[piece]:
                self._parts[number][begin:end] = content[at : at + end - begin]
                at += end - begin
                touched.add(number)
        for number in touched:
            self._push(number)

    def _push(self, number: int) -> None:
        if (origin := self._origins[number]) is not None:
            import torch  # type: ignore[import-not-found,unused-ignore]

            origin.copy_(torch.from_numpy(self._parts[number]))

    def save(self, file: _state_file.StateFile, revision: int) -> None:
        file.save(revision, self._parts)

    def load(self, file: _state_file.StateFile, revision: int) -> int:
        """The revision of the file, or the given one if there is none."""
        kept = file.load(self._parts)
        for number in range(len(self._parts) if kept is not None else 0):
            self._push(number)
        return revision if kept is None else kept

    def hashes(self) -> Any:
        """Of each piece, 128 bits: an array of two words a piece."""
        import numpy

        with concurrent.futures.ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:  # hashlib needs no GIL
            rows = list(pool.map(lambda piece: _hash(self.read(piece)), range(len(self))))
        return numpy.array(rows, "uint64").reshape(len(self), 2)


def _hash(content: Any) -> list[int]:
    whole = hashlib.blake2b(content, digest_size=16).digest()
    return [int.from_bytes(whole[:8], "little"), int.from_bytes(whole[8:], "little")]


def _giver(offers: Sequence[_Offer], rank: int) -> int:
    """The lowest rank with the state that all take; the same on all ranks. `rank`: this one."""
    send, receive = _STRATEGIES.index("send"), _STRATEGIES.index("receive")
    in_use = {offer[0] for offer in offers if offer[5]}
    if len({offer[0] for offer in offers}) > 1 and (len(in_use) != 1 or offers[rank][0] not in in_use):
        raise Mismatch(f"ranks have shared states of {sorted({offer[0] for offer in offers})} bytes")
    senders = {offer[:4] for offer in offers if offer[4] == send}
    if len(senders) > 1:
        raise Mismatch(f"ranks that send have {len(senders)} different shared states")
    given = senders or {offer[:4] for offer in offers if offer[4] != receive and (offer[5] or not in_use)}
    if not given:
        raise Mismatch("all ranks receive the shared state, and none has it")
    newest = max(offer[3] for offer in given)
    have = collections.Counter(offer[:4] for offer in offers if offer[:4] in given and offer[3] == newest)
    most = max(have.values())
    return next(rank for rank, offer in enumerate(offers) if offer[4] != receive and have[offer[:4]] == most)


class _Exchange:
    """What each rank lacks of the state that all take, and the pieces on their way. The same plan on all ranks."""

    def __init__(self, state: _State, offers: Sequence[_Offer], root: int, rank: int, hashes: Any) -> None:
        receive = _STRATEGIES.index("receive")
        self._state, self._rank, self._world = state, rank, len(offers)
        self._holders = [r for r, o in enumerate(offers) if o[:4] == offers[root][:4] and o[4] != receive]
        self._wanted = hashes[root]
        lacks = (hashes != hashes[root]).any(axis=2)
        self._lacking = {piece: lacks[:, piece].nonzero()[0].tolist() for piece in range(len(state)) if lacks[:, piece].any()}
        self.new: dict[int, Any] = {}
        self.is_whole = True

    def run(self, session: Session) -> bool:
        """False: a rank was lost, on all alike."""
        on_way: collections.deque[tuple[int, Any, Work]] = collections.deque()
        lost = False
        for piece in self._lacking:
            if len(on_way) == _IN_FLIGHT:
                lost = not self._take(*on_way.popleft()) or lost
            if lost:
                break
            on_way.append((piece, *self._start(session, piece)))
        while on_way:
            lost = not self._take(*on_way.popleft()) or lost
        return not lost

    def _start(self, session: Session, piece: int) -> tuple[Any, Work]:
        import numpy

        size, lacking, holders = self._state.bytes_of(piece), self._lacking[piece], self._holders
        cuts = [size * i // len(holders) for i in range(len(holders) + 1)]
        sends, begins, receives = [0] * self._world, [0] * self._world, [0] * self._world
        x = out = numpy.empty(0, "uint8")
        if self._rank in holders:
            x, mine = self._state.read(piece), holders.index(self._rank)
            for rank in lacking:
                begins[rank], sends[rank] = cuts[mine], cuts[mine + 1] - cuts[mine]
        if self._rank in lacking:
            out = numpy.empty(size, "uint8")
            for i, holder in enumerate(holders):
                receives[holder] = cuts[i + 1] - cuts[i]
        return out, session.all_to_all_v_async(
            x, out=out, send_counts=sends, receive_counts=receives, send_begins=begins
        )

    def _take(self, piece: int, out: Any, work: Work) -> bool:
        try:
            work.wait()
        except PeerLost:
            return False
        if out.size > 0:
            if _hash(out) == self._wanted[piece].tolist():
                self.new[piece] = out
            else:
                self.is_whole = False
        return True


def sync_shared_state(
    session: Session, arrays: Sequence[Any], *, revision: int = 0, strategy: str = "popular", _in_use: bool = False
) -> int:
    """Makes `arrays` the same on all ranks, and returns the revision that all then have. A collective on channel 0.

    Ranks compare hashes of 128 bits; where all agree nothing else is sent. Otherwise all take the state of the newest revision,
    of several with that the one which most ranks have, and of as many that of the lowest rank. Who differs gets the pieces of
    16 MiB that differ, from all ranks that have them at once.

    arrays: of NumPy or torch (CUDA's, too, by a copy in host memory), contiguous; as many of the same sizes on all ranks. Not
    to be written to meanwhile (Mismatch).
    revision: counts what has been done to them, as steps.
    strategy: "popular"; "send": this rank's is taken, which is Mismatch on all if others that send have another; "receive":
    this rank's is never taken, which is Mismatch if all ranks say so.

    If ranks are lost, those who are left choose again, and what has arrived is not sent again. Arrays change only when all of
    the state is there, for which there must be memory.
    """
    import numpy

    if strategy not in _STRATEGIES:
        raise InvalidArgument(f"the strategy is {strategy!r}; there are {', '.join(_STRATEGIES)}")
    state = _State(arrays)
    own = state.hashes()
    mine = numpy.array([state.size, *_hash(own), revision, _STRATEGIES.index(strategy), _in_use], "uint64")
    new: dict[int, Any] = {}  # what has arrived, also of a state that was chosen before
    hashes = own.copy()  # with that
    while True:
        result, gathered = _gather(session, mine)
        offers = [tuple(int(x) for x in row) for row in gathered]
        root = _giver(offers, result.rank)
        if len({offer[:4] for offer in offers}) == 1:
            return revision
        if len(state) == 0:
            return offers[root][3]
        if offers[result.rank][:4] == offers[root][:4]:
            new, hashes = {}, own.copy()
        again, all_hashes = _gather(session, hashes)
        if again.contributors != result.contributors:
            continue
        exchange = _Exchange(state, offers, root, result.rank, all_hashes)
        is_over = exchange.run(session)
        for piece, content in exchange.new.items():  # which has been compared with these
            new[piece], hashes[piece] = content, all_hashes[root, piece]
        if not is_over:
            continue
        whole = numpy.array([exchange.is_whole], "uint8")
        session.all_reduce(whole, "min")
        if not whole[0]:
            raise Mismatch("the shared state was written to while it was sent")
        state.write(new)
        return offers[root][3]


def _gather(session: Session, mine: Any) -> tuple[Any, Any]:
    """Each contributor's, in rank order."""
    import numpy

    everything = numpy.empty((session.world_size, *mine.shape), mine.dtype)
    result = session.all_gather(mine, out=everything)
    return result, everything[: result.world_size]


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
        arrays: Sequence[Any],
        *,
        revision: int = 0,
        path: str | os.PathLike[str] | None = None,
        every: int = 1,
    ) -> None:
        """Newcomers take the state of those who train. Ranks that all begin take that of the newest revision.

        All ranks make theirs at the same point, or join later. Mismatch, for arrays of another size, is a newcomer's alone: it
        has to leave then.
        revision: of the arrays.
        path: a file of this rank's own, and of this training alone, from which the arrays are read first if it is there, and to
        which they are written. So a training of which nobody is left goes on from the newest file. It is replaced as a whole:
        there must be room for two. InvalidArgument for one that is damaged, or another model's.
        every: so many revisions.
        """
        self._read(arrays, revision, path, every)
        self.session = session
        self.sync()

    @classmethod
    def join(
        cls,
        arrays: Sequence[Any],
        group: str,
        *,
        revision: int = 0,
        path: str | os.PathLike[str] | None = None,
        every: int = 1,
        **options: Any,
    ) -> Self:
        """Joins a group, as `ringway.join` with its options, and takes its state; those who train lose the end of one step."""
        state = cls.__new__(cls)
        state._read(arrays, revision, path, every)  # before: a file that is refused costs the others nothing
        state.session = join(group, **options)
        try:
            state.sync()
        except BaseException:
            state.session.abort()
            raise
        return state

    def _read(
        self, arrays: Sequence[Any], revision: int, path: str | os.PathLike[str] | None, every: int
    ) -> None:
        self.arrays, self.revision = list(arrays), revision
        self._file = _state_file.StateFile(path, every) if path is not None else None
        if self._file is not None:
            self.revision = _State(self.arrays).load(self._file, revision)
        self._in_use = False

    def sync(self) -> None:
        """Makes the arrays the same on all ranks, whose others are in `sync` or `advance`: after Rejoined."""
        while True:
            try:
                self.revision = sync_shared_state(
                    self.session, self.arrays, revision=self.revision, _in_use=self._in_use
                )
                self._in_use = True
                return
            except Rejoined:
                pass

    def advance(self, update_waits: bool) -> bool:
        """The arrays are one revision further, on every rank; the end of a step. Saves them if it is time.

        update_waits: of the step's result, and so the same on all ranks. Then newcomers are admitted, and take the state.
        Returns whether that was so: the world may be another.
        Raises OSError if the file cannot be written: then it is as before, all else is done, and the training may go on.
        """
        self.revision += 1
        if update_waits:
            with contextlib.suppress(Rejoined):  # as a newcomer, whose next call is the same
                self.session.update_view()
            self.sync()
        if self._file is not None and self.revision % self._file.every == 0:
            _State(self.arrays).save(self._file, self.revision)
        return update_waits
