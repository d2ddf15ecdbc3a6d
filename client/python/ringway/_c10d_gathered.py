"""Reductions that Ringway has not: all ranks gather all inputs, and each combines them in the order of the ranks."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Callable, Sequence

import torch
import torch.distributed as dist

import ringway
from ringway._c10d_tensors import bits_of, numbers_of

if TYPE_CHECKING:
    from ringway._c10d import RingwayProcessGroup

    Tensors = Sequence[torch.Tensor]

BITWISE: dict[Any, Callable[..., torch.Tensor]] = {
    dist.ReduceOp.BAND: torch.bitwise_and,
    dist.ReduceOp.BOR: torch.bitwise_or,
    dist.ReduceOp.BXOR: torch.bitwise_xor,
}


def bitwise(group: RingwayProcessGroup, tensors: Tensors, op: Any, patience: float | None, root: int | None = None) -> dist.Work:
    """root: the only rank that has the result; None: all have."""
    inputs = [bits_of(tensor).contiguous() for tensor in tensors]
    all_inputs = [x.new_empty((group.size(), *x.shape)) for x in inputs]
    submissions = [functools.partial(group._session.all_gather_async, x, out=out) for x, out in zip(inputs, all_inputs)]

    def after() -> None:
        for tensor, parts in zip(tensors, all_inputs):
            bits_of(tensor).copy_(functools.reduce(BITWISE[op], parts))

    return group._start(submissions, list(tensors), after if root in (None, group.rank()) else None, patience)


def sparse_sum(group: RingwayProcessGroup, tensors: Tensors, op: Any, patience: float | None) -> dist.Work:
    """Of as many entries a rank as the longest has, which one operation more finds out."""
    if op != dist.ReduceOp.SUM or not all(tensor.is_sparse for tensor in tensors):
        raise ringway.NotSupported("sparse tensors are only added up, and not together with dense ones")
    mine = [tensor.detach().coalesce() for tensor in tensors]
    counts = torch.zeros((group.size(), len(mine)), dtype=torch.int64)
    gather, own = group._session.all_gather_async, torch.tensor([x._nnz() for x in mine])
    group._start([functools.partial(gather, own, out=counts)], [], None, patience).wait()
    submissions, gathered = [], []
    for x, longest in zip(mine, counts.amax(0).tolist()):
        for entries in (x.indices().t(), numbers_of(x.values())):
            padded = entries.new_zeros((longest, *entries.shape[1:]))
            padded[: x._nnz()] = entries
            gathered.append(padded.new_empty((group.size(), *padded.shape)))
            submissions.append(functools.partial(gather, padded, out=gathered[-1]))

    def after() -> None:
        for place, tensor in enumerate(tensors):
            total = torch.zeros_like(tensor)
            for count, indices, elements in zip(counts[:, place].tolist(), *gathered[2 * place : 2 * place + 2]):
                values = torch.view_as_complex(elements) if tensor.is_complex() else elements
                total = total + torch.sparse_coo_tensor(indices[:count].t(), values[:count], tensor.shape)
            with torch.no_grad():  # what `detach` returns of a sparse tensor would change alone
                tensor.copy_(total.coalesce())

    return group._start(submissions, list(tensors), after, patience)
