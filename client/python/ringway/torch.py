"""PyTorch: DistributedDataParallel whose gradients Ringway averages, over deaths and newcomers.

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)  # DDP asks for one; nothing goes over it
    model = DistributedDataParallel(model)
    hook = ringway.torch.ddp_hook(model, session)
    for batch in batches:
        optimizer.zero_grad()
        loss(model(batch)).backward()   # the gradients are now the averages over those who took part
        optimizer.step()
        if hook.take_update():          # the same on all ranks
            session.update_view()       # lets newcomers in: share the state with them

DDP's own process group has one rank, so it neither compares nor broadcasts the model: start all ranks with the same weights,
or share them first. Tensors are in host memory or a GPU's, which is staged through the host.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

import ringway._c10d  # registers the backend
from ringway._diloco import DiLoCo as DiLoCo

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ringway import Options, Result, Session


class DdpHook:
    """Averages a model's gradients at the end of each backward pass; made by `ddp_hook`.

    All of one dtype travel as one operation, in the order of model.parameters(): DDP orders them by what it has seen, in which a
    newcomer differs. What an operation fails with, loss.backward() raises, and the gradients are unspecified: leave out that
    step; after Rejoined, take the others' state first. Threads: one model's.
    """

    def __init__(
        self, model: torch.nn.parallel.DistributedDataParallel, session: Session, options: Options
    ) -> None:
        self._session = session
        self._options = options
        self._places = {id(parameter): place for place, parameter in enumerate(model.parameters())}
        self._gradients: dict[int, torch.Tensor] = {}
        self._buckets: list[tuple[torch.futures.Future[torch.Tensor], torch.Tensor]] = []
        self._update_waits = False
        self.result: Result | None = None
        """Of the last operation: who took part. None: there was none."""

    def take_update(self) -> bool:
        """Whether newcomers, or a better plan, wait since the last call: then call `Session.update_view` on every rank."""
        waits, self._update_waits = self._update_waits, False
        return waits

    def _average(self, _state, bucket):  # type: ignore[no-untyped-def]  # DDP compares annotations, if there are any
        if bucket.index() == 0:  # what a failed pass has left
            self._gradients, self._buckets = {}, []
        buffer = bucket.buffer()
        future: torch.futures.Future[torch.Tensor]
        future = torch.futures.Future(devices=[buffer.device] if buffer.is_cuda else None)
        self._buckets.append((future, buffer))
        for parameter, gradient in zip(bucket.parameters(), bucket.gradients()):
            self._gradients[self._places[id(parameter)]] = gradient
        if bucket.is_last():
            self._reduce([self._gradients[place] for place in sorted(self._gradients)])
            for done, buffer in self._buckets:
                done.set_result(buffer)
            self._gradients, self._buckets = {}, []
        return future

    def _reduce(self, gradients: list[torch.Tensor]) -> None:
        for dtype in sorted({gradient.dtype for gradient in gradients}, key=str):
            those = [gradient for gradient in gradients if gradient.dtype == dtype]
            self.result = self._average_of(those)
            self._update_waits = self._update_waits or self.result.update_waits


    def _average_of(self, gradients: list[torch.Tensor]) -> Result:
        if not gradients[0].is_cuda:
            return self._session.all_reduce_many(gradients, "avg", **self._options)
        flat = torch.cat([gradient.reshape(-1) for gradient in gradients])  # where a GPU is fast
        result = self._session.all_reduce(flat, "avg", **self._options)
        for gradient, average in zip(gradients, flat.split([gradient.numel() for gradient in gradients])):
            gradient.copy_(average.view_as(gradient))
        return result


def ddp_hook(
    model: torch.nn.parallel.DistributedDataParallel, session: Session, **options: Unpack[Options]
) -> DdpHook:
    """Registers the communication hook of a model whose gradients `session` averages from now on.

    options: of each operation, as codec="int8".
    """
    hook = DdpHook(model, session, options)
    model.register_comm_hook(None, hook._average)
    return hook
