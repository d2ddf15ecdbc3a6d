"""What all ranks must have alike, as parameters and moments: compared by hash, and sent only where it differs."""

from __future__ import annotations

import collections
import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ringway._ringway import InvalidArgument, Mismatch, PeerLost

if TYPE_CHECKING:
    from ringway._session import Session

_STRATEGIES = ("popular", "send", "receive")


def _bytes_of(array: Any) -> Any:
    """The same memory as a flat NumPy array of bytes."""
    if type(array).__module__.partition(".")[0] == "torch":
        import torch  # type: ignore[import-not-found,unused-ignore]

        if not array.is_contiguous():
            raise InvalidArgument("a tensor of the shared state has gaps")
        return array.detach().reshape(-1).view(torch.uint8).numpy()
    import numpy

    if not array.flags.c_contiguous:
        raise InvalidArgument("an array of the shared state has gaps")
    return array.reshape(-1).view(numpy.uint8)


def _digest(parts: Sequence[Any]) -> int:
    whole = hashlib.blake2b(digest_size=8)
    for part in parts:
        whole.update(part)
    return int.from_bytes(whole.digest(), "little")


def _giver(offers: Sequence[tuple[int, int, int]]) -> int:
    """The rank whose state all take, of each rank's digest, revision and strategy; the same on all ranks."""
    send, receive = _STRATEGIES.index("send"), _STRATEGIES.index("receive")
    senders = {offer[:2] for offer in offers if offer[2] == send}
    if len(senders) > 1:
        raise Mismatch(f"ranks that send have {len(senders)} different shared states")
    given = senders or {offer[:2] for offer in offers if offer[2] != receive}
    if not given:
        raise Mismatch("all ranks receive the shared state, and none has it")
    newest = max(revision for _, revision in given)
    have = collections.Counter(offer[0] for offer in offers if offer[:2] in given and offer[1] == newest)
    most = max(have.values())
    return next(
        rank
        for rank, (digest, revision, strategy) in enumerate(offers)
        if strategy != receive and revision == newest and have[digest] == most and (digest, revision) in given
    )


def sync_shared_state(session: Session, arrays: Sequence[Any], *, revision: int = 0, strategy: str = "popular") -> int:
    """Makes `arrays` the same on all ranks, and returns the revision that all then have. A collective on channel 0.

    Ranks compare hashes of 64 bits; where all agree nothing else is sent. Otherwise all take the state of the newest revision,
    of several with that the one which most ranks have, and of as many that of the lowest rank.

    arrays: of NumPy or torch, contiguous, in host memory; as many of the same sizes on all ranks.
    revision: counts what has been done to them, as steps.
    strategy: "popular"; "send": this rank's is taken, which is Mismatch on all if others that send have another; "receive":
    this rank's is never taken, which is Mismatch if all ranks say so.

    If the rank that gives its state is lost, those who are left choose again. Arrays change only when all of the state is there.
    """
    import numpy

    if strategy not in _STRATEGIES:
        raise InvalidArgument(f"the strategy is {strategy!r}; there are {', '.join(_STRATEGIES)}")
    parts = [_bytes_of(array) for array in arrays]
    mine = numpy.array([_digest(parts), revision, _STRATEGIES.index(strategy)], "uint64")
    while True:
        gathered = numpy.empty((session.world_size, 3), "uint64")
        result = session.all_gather(mine, out=gathered)
        offers = [(int(a), int(b), int(c)) for a, b, c in gathered[: result.world_size]]
        root = _giver(offers)
        if len({offer[:2] for offer in offers}) == 1:
            return revision
        taken = parts if result.rank == root else [numpy.empty_like(part) for part in parts]
        works = [session.broadcast_async(part, root) for part in taken if part.size > 0]
        lost = False
        for work in works:
            try:
                work.wait()
            except PeerLost:  # the same on all
                lost = True
        if lost:
            continue
        for part, new in zip(parts, taken):
            if new is not part:
                part[:] = new
        return offers[root][1]
