"""What ranks agree on in a backward pass beside the gradients: which parameters were used, rank 0's buffers, equal weights.

DDP does this by its own process group, which has one rank here.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import torch

from ringway import Mismatch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ringway import Options, Result, Session

class UsedParameters:
    """Which parameters have got a gradient since DDP's last synchronization: DDP sets .grad of those alone."""

    def __init__(self, parameters: Sequence[torch.nn.Parameter]) -> None:
        self.places: set[int] = set()
        for place, p in enumerate(parameters):
            p.register_post_accumulate_grad_hook(lambda _, place=place: self.places.add(place))


class PassAgreement:
    """One small exact operation of a backward pass, as a sum of int32.

    Its elements: how many ranks sent their buffers, which is 1; by parameter, how many ranks have a gradient; the buffers' bytes,
    zero but for one rank, so that the sum is that rank's bits. That rank is the lowest known to the session. If it dies in the
    middle, nobody has sent them, which all see: then the lowest of those who took part sends them in one more operation.
    """

    def __init__(self, session: Session, options: Options, defined: Sequence[bool], buffers: Sequence[torch.Tensor]) -> None:
        self._session, self._options = session, options
        self._defined, self._buffers = defined, buffers
        self._vector = self._contribution(session.rank == 0)
        self._work = session.all_reduce_async(self._vector, "sum", **options)
        self._result: Result | None = None

    def _contribution(self, sends_buffers: bool) -> torch.Tensor:
        size = sum(x.numel() * x.element_size() for x in self._buffers)
        vector = torch.zeros(1 + len(self._defined) + -(-size // 4), dtype=torch.int32)
        vector[1 : 1 + len(self._defined)] = torch.tensor(self._defined, dtype=torch.int32)
        if sends_buffers and self._buffers:
            vector[0] = 1
            flat = torch.cat([_bytes_of(x).to(self._buffers[0].device) for x in self._buffers])
            vector[1 + len(self._defined) :].view(torch.uint8)[:size] = flat.cpu()
        return vector

    def finish(self) -> Result:
        self._result = self._work.wait()
        return self._result

    def settle(self) -> None:
        """When all operations of the pass have succeeded. Each repetition needs a death, or a newcomer that is the lowest rank."""
        assert self._result is not None
        while self._buffers and self._vector[0] != 1:
            self._vector = self._contribution(self._result.rank == 0)
            self._result = self._session.all_reduce(self._vector, "sum", **self._options)

    def used(self) -> list[int]:
        """Places of the parameters that have a gradient on any rank."""
        return self._vector[1 : 1 + len(self._defined)].nonzero().flatten().tolist()

    @torch.no_grad()
    def adopt_buffers(self) -> None:
        at, flat = 0, self._vector[1 + len(self._defined) :].view(torch.uint8)
        with torch.autograd._unsafe_preserve_version_counter(tuple(self._buffers)):  # as DDP does: a graph may have saved them
            for x in self._buffers:
                mine = _bytes_of(x)
                reals = torch.view_as_real(x) if x.is_complex() else x
                reals.copy_(flat[at : at + mine.numel()].clone().view(reals.dtype).view(reals.shape))
                at += mine.numel()


def _bytes_of(x: torch.Tensor) -> torch.Tensor:
    x = x.detach()
    return (torch.view_as_real(x.resolve_conj()) if x.is_complex() else x).reshape(-1).view(torch.uint8)


def _digest(name: str, p: torch.Tensor) -> int:
    digest = hashlib.blake2b(f"{name} {p.dtype} {tuple(p.shape)} {p.stride()}".encode(), digest_size=8)
    digest.update(memoryview(_bytes_of(p).cpu().numpy()))
    return int.from_bytes(digest.digest(), "little", signed=True)


def verify_equal(
    session: Session, options: Options, named: Sequence[tuple[str, torch.Tensor]], is_new: bool, world: int
) -> None:
    """Raises Mismatch on all ranks alike unless each new rank has the tensors of one that is not. Those of the others are not
    compared: they may differ in the last bits, as where processors do. If all are new, of rank 0."""
    mine = torch.tensor([is_new, *(_digest(name, p) for name, p in named)], dtype=torch.int64)
    rows = torch.empty(world * mine.numel(), dtype=torch.int64)
    result = session.all_gather(mine, out=rows, **options)
    records = rows[: result.world_size * mine.numel()].view(result.world_size, -1)
    references = records[records[:, 0] == 0, 1:]
    if len(references) == 0:
        references = records[:1, 1:]
    for peer, (peer_is_new, *digests) in zip(result.contributors, records.tolist()):
        if peer_is_new and digests not in references.tolist():
            name = next(name for (name, _), a, b in zip(named, digests, references[0].tolist()) if a != b)
            raise Mismatch(
                f"peer {peer} begins with another {name} than the others: give all ranks the same state first, as by "
                "ringway.sync_shared_state or torch.manual_seed"
            )
