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
from ringway import Error
from ringway._diloco import REFUSED
from ringway._diloco import DiLoCo as DiLoCo

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ringway import Options, Result, Session


class DdpHook:
    """Averages a model's gradients in each backward pass; made by `ddp_hook`.

    The gradients travel in chunks, each an operation of one dtype, cut from the last of model.parameters() to the first: DDP's
    own buckets are as it has seen them, in which a newcomer differs. What an operation fails with, loss.backward() raises, and
    the gradients are unspecified: leave out that step; after Rejoined, take the others' state first. Where this rank alone could
    not submit all, the next pass raises RuntimeError, as the others are in the middle of this one. Threads: one model's.
    """

    def __init__(
        self,
        model: torch.nn.parallel.DistributedDataParallel,
        session: Session,
        options: Options,
        overlap_mb: float | None,
    ) -> None:
        self._session = session
        self._options = options
        parameters = list(model.parameters())
        self._places = {id(parameter): place for place, parameter in enumerate(parameters)}
        self._chunks = _chunks_of(parameters, overlap_mb)
        self._gradients: dict[int, torch.Tensor] = {}
        self._works: list[_ChunkAverage] = []
        self._begun = 0  # chunks of this pass
        self._error: Error | None = None
        self._is_behind = False
        self._buckets: list[tuple[torch.futures.Future[torch.Tensor], torch.Tensor]] = []
        self._update_waits = False
        self.results: list[Result] = []
        """Of the last pass: who took part, chunk by chunk. A death in the middle makes them differ, on all ranks alike."""

    @property
    def result(self) -> Result | None:
        """The last one of `results`; None: there is none."""
        return self.results[-1] if self.results else None

    def take_update(self) -> bool:
        """Whether newcomers, or a better plan, wait since the last call: then call `Session.update_view` on every rank."""
        waits, self._update_waits = self._update_waits, False
        return waits

    def _average(self, _state, bucket):  # type: ignore[no-untyped-def]  # DDP compares annotations, if there are any
        if bucket.index() == 0:
            self._begin_pass()
        buffer = bucket.buffer()
        future: torch.futures.Future[torch.Tensor]
        future = torch.futures.Future(devices=[buffer.device] if buffer.is_cuda else None)
        self._buckets.append((future, buffer))
        for parameter, gradient in zip(bucket.parameters(), bucket.gradients()):
            self._gradients[self._places[id(parameter)]] = gradient
        self._begin_chunks(bucket.is_last())
        if bucket.is_last():
            self._end_pass()
        return future

    def _begin_pass(self) -> None:
        if self._works or self._is_behind:
            raise RuntimeError(
                "a backward pass has ended in its middle, and the other ranks are in it: leave the session, join again, "
                "make the DistributedDataParallel anew, and take the others' state"
            )
        self._gradients, self._buckets, self._begun, self._error = {}, [], 0, None

    def _begin_chunks(self, is_last: bool) -> None:
        """In their order, which is the same on all ranks."""
        while self._begun < len(self._chunks) and self._error is None:
            chunk = self._chunks[self._begun]
            if not is_last and any(place not in self._gradients for place in chunk):
                return
            self._begun += 1
            if gradients := [self._gradients[place] for place in chunk if place in self._gradients]:
                options = dict(self._options)
                if name := options.get("error_feedback"):
                    options["error_feedback"] = f"{name}.{self._begun}"
                try:
                    self._works.append(_ChunkAverage(self._session, gradients, options))
                except Error as error:
                    self._failed(error, self._begun - 1)

    def _failed(self, error: Error, chunk: int) -> None:
        """For a chunk that was refused here alone the others wait, and they have those before it."""
        self._error = self._error or error
        self._is_behind = self._is_behind or (isinstance(error, REFUSED) and chunk > 0)

    def _end_pass(self) -> None:
        self.results = []
        for chunk, work in enumerate(self._works):  # which stay there if this is interrupted
            try:
                self.results.append(work.finish())
            except Error as error:
                self._failed(error, chunk)
        self._works = []
        if self._error is None:
            self._update_waits = self._update_waits or any(result.update_waits for result in self.results)
        else:
            _raise_after_the_pass(self._error)
        for done, buffer in self._buckets:
            done.set_result(buffer)
        self._gradients, self._buckets = {}, []


def _raise_after_the_pass(error: Error) -> None:
    """From backward(), when DDP has ended its part: what a hook itself raises leaves DDP in the middle of the pass for good, and a
    future's error is none of its type."""

    def fail() -> None:
        raise error

    queue = torch.autograd.Variable._execution_engine.queue_callback  # type: ignore[attr-defined]
    queue(lambda: queue(fail))  # DDP's own is queued after this hook


def _chunks_of(parameters: list[torch.nn.Parameter], overlap_mb: float | None) -> list[list[int]]:
    """Places of parameters, of one dtype a chunk; without an overlap as few as there are dtypes."""
    most = float("inf") if overlap_mb is None else overlap_mb * 1e6
    chunks: list[list[int]] = []
    open_chunks: dict[torch.dtype, tuple[list[int], float]] = {}
    for place, parameter in reversed(list(enumerate(parameters))):
        if not parameter.requires_grad:
            continue
        size = parameter.numel() * parameter.element_size()
        chunk, filled = open_chunks.get(parameter.dtype, ([], most))
        if filled + size > most or not chunk:
            chunk, filled = [], 0
            chunks.append(chunk)
        chunk.append(place)
        open_chunks[parameter.dtype] = (chunk, filled + size)
    return chunks


class _ChunkAverage:
    """One operation under way. Of a GPU's gradients, which are many and small, one tensor is made, where that is fast."""

    def __init__(self, session: Session, gradients: list[torch.Tensor], options: Options) -> None:
        self._gradients = gradients
        self._flat = torch.cat([each.reshape(-1) for each in gradients]) if gradients[0].is_cuda else None
        if self._flat is not None:
            self._work = session.all_reduce_async(self._flat, "avg", **options)
        else:
            self._work = session.all_reduce_many_async(gradients, "avg", **options)

    def finish(self) -> Result:
        result = self._work.wait()
        if self._flat is not None:
            for gradient, average in zip(self._gradients, self._flat.split([each.numel() for each in self._gradients])):
                gradient.copy_(average.view_as(gradient))
        return result


def ddp_hook(
    model: torch.nn.parallel.DistributedDataParallel,
    session: Session,
    *,
    overlap_mb: float | None = None,
    **options: Unpack[Options],
) -> DdpHook:
    """Registers the communication hook of a model whose gradients `session` averages from now on.

    overlap_mb: chunks of so many megabytes (25 is DDP's own size) travel while the backward pass goes on. A peer that dies in
        the middle then has a part in some chunks and not in others. None: the gradients of a dtype are one operation at the end
        of the pass, all averages over the same contributors.
    options: of each operation, as codec="int8"; of `error_feedback` each chunk adds its number to the name.
    """
    hook = DdpHook(model, session, options, overlap_mb)
    model.register_comm_hook(None, hook._average)
    return hook
