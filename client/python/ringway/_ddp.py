"""The communication hook of DistributedDataParallel."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from ringway import Error, InvalidArgument, NotSupported
from ringway import _ddp_model as ddp
from ringway._ddp_agreement import PassAgreement, UsedParameters, verify_equal
from ringway._diloco import REFUSED
from ringway._finite import FiniteReduction, check_all_ranks, exact_options, goes_on
from ringway._profile import ranged

if TYPE_CHECKING:
    from ringway import Options, Result, Session, Work

_log = logging.getLogger("ringway")


class DdpHook:
    """Averages a model's gradients in each backward pass; made by `ddp_hook`.

    The gradients travel in chunks, each an operation of one dtype, cut from the last of model.parameters() to the first: DDP's
    own buckets are as it has seen them, in which a newcomer differs. What an operation fails with, loss.backward() raises, and
    the gradients are unspecified: leave out that step; after Rejoined, take the others' state first. Where this rank alone could
    not submit all, the next pass raises RuntimeError, as the others are in the middle of this one. Threads: one model's.

    What DDP does by its own group is done with the gradients, as that group has one rank: a parameter that any rank used has
    its average on all, one that nobody used is left alone on all; buffers become those of the lowest rank; and a pass with a
    rank that is new compares the parameters.

    With a quorum a chunk goes on without ranks that are late. Each chunk is the average over its own contributors (`results`), the
    same bytes on all; a late rank gets it when its backward pass comes there, and takes the same step. Who is `behind` by whole
    passes makes up for them without computing: `take_missed`.
    """

    def __init__(
        self,
        model: torch.nn.parallel.DistributedDataParallel,
        session: Session,
        options: Options,
        overlap_mb: float | None,
        skip_nonfinite: bool = False,
    ) -> None:
        if skip_nonfinite:
            check_all_ranks(options)
        ddp.check(model)
        if goes_on(options):
            _check_passes_wait_for_nobody(model)
        ddp.refuse_join(model)
        self._model = model
        self._session = session
        self.weight = options.get("weight")
        """Of this rank's gradients in the averages of the next pass, such as its tokens or examples; on all ranks or on none."""
        self._options: Options = {**options, "quorum": options.get("quorum") or "all"}
        if options.get("late") == "next":
            self._options["error_feedback"] = options.get("error_feedback", "ddp")
        self._skip_nonfinite = skip_nonfinite
        self._parameters = ddp.reduced_parameters(model)
        self._places = {id(parameter): place for place, parameter in enumerate(self._parameters)}
        self._chunks = _chunks_of(self._parameters, overlap_mb)
        may_be_unused = model.find_unused_parameters or model.static_graph
        self._used = UsedParameters(self._parameters) if may_be_unused else None
        self._gradients: dict[int, torch.Tensor] = {}
        self._works: list[_ChunkAverage | PassAgreement] = []
        self._begun = 0  # chunks of this pass
        self._error: Error | None = None
        self._is_behind = False
        self._buckets: list[tuple[torch.futures.Future[torch.Tensor], torch.Tensor]] = []
        self._peers: frozenset[int] = frozenset()  # of the last pass: their parameters are alike
        self._update_waits = False
        self.results: list[Result] = []
        """Of the last pass: who took part, chunk by chunk. A death in the middle makes them differ, on all ranks alike. With
        skip_nonfinite `contributors` are those whose gradients are in it."""
        self.left_out = 0
        """In how many passes gradients of this rank were left out, as they were not finite."""

    @property
    def result(self) -> Result | None:
        """The last one of `results`; None: there is none."""
        return self.results[-1] if self.results else None

    def take_update(self) -> bool:
        """Whether newcomers, or a better plan, wait since the last call: then call `Session.update_view` on every rank."""
        waits, self._update_waits = self._update_waits, False
        return waits

    @property
    def behind(self) -> int:
        """Passes after the last one that went on without this rank, and are over."""
        return self.results[-1].behind // len(self._chunks) if self.results else 0

    def take_missed(self) -> None:
        """One of the passes that this rank is `behind`, without a forward and a backward pass: sets the gradients to its averages.
        The optimizer's step follows, as after any other. Raises as backward() does."""
        if self.behind == 0:
            raise InvalidArgument("take_missed is for a rank that is behind: the others wait for its gradients")
        self._begin_pass()
        for place, p in enumerate(self._parameters):
            reals = 2 * p.numel() if p.is_complex() else p.numel()
            self._gradients[place] = torch.zeros(reals, dtype=p.dtype.to_real(), device=p.device)
        averages = self._gradients
        self._begin_chunks(is_last=True)
        self._finish_pass()
        if self._error is not None:
            raise self._error
        for place, p in enumerate(self._parameters):
            if p.grad is None:
                p.grad = torch.empty_like(p)
            p.grad.copy_(ddp.in_layout_of(p, averages[place]))

    def _average(self, _state, bucket):  # type: ignore[no-untyped-def]  # DDP compares annotations, if there are any
        places = [self._places[id(parameter)] for parameter in bucket.parameters()]
        if not self._gradients or places[0] in self._gradients:  # in the first pass of a static graph all buckets have index 0
            self._begin_pass()
        buffer = bucket.buffer()
        future: torch.futures.Future[torch.Tensor]
        future = torch.futures.Future(devices=[buffer.device] if buffer.is_cuda else None)
        self._buckets.append((future, buffer))
        try:
            self._gradients.update(zip(places, ddp.gradients_of(bucket)))
        except Error as error:
            self._gradients.update((place, buffer) for place in places)
            self._failed(error, len(self._works))
        is_last = len(self._gradients) == len(self._parameters)
        self._begin_chunks(is_last)
        if is_last:
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
        """In their order, which is the same on all ranks: what is agreed on goes before the last one, with which it travels."""
        while self._begun < len(self._chunks) and self._error is None:
            chunk = self._chunks[self._begun]
            if any(place not in self._gradients for place in chunk):
                return
            if self._begun == len(self._chunks) - 1:
                if not is_last:
                    return
                self._submit_agreement()
            self._begun += 1
            options: dict[str, Any] = {**self._options, "weight": self.weight}
            if name := options.get("error_feedback"):
                options["error_feedback"] = f"{name}.{self._begun}"
            self._submit(_ChunkAverage, [self._gradients[place] for place in chunk], options, self._skip_nonfinite)

    def _submit_agreement(self) -> None:
        buffers = ddp.synced_buffers(self._model)
        if self._used is None and not buffers:
            return
        defined = [] if self._used is None else [p.grad is not None for p in self._parameters]
        self._submit(PassAgreement, exact_options(self._options), defined, buffers)

    @ranged("ddp_submit")
    def _submit(self, operation: Callable[..., _ChunkAverage | PassAgreement], *arguments: Any) -> None:
        if self._error is None:
            try:
                self._works.append(operation(self._session, *arguments))
            except Error as error:
                self._failed(error, len(self._works))

    def _failed(self, error: Error, before: int) -> None:
        """For an operation that was refused here alone the others wait, and they have those before it."""
        self._error = self._error or error
        others_wait = before > 0 or self._skip_nonfinite  # of the two operations of a chunk one may be on its way
        self._is_behind = self._is_behind or (isinstance(error, REFUSED) and others_wait)

    def _end_pass(self) -> None:
        self._finish_pass()
        if self._error is not None:
            _raise_after_the_pass(self._error)

    @ranged("ddp_end_pass")
    def _finish_pass(self) -> None:
        finished: list[Result] = []
        self.results = []
        for place, work in enumerate(self._works):  # which stay there if this is interrupted
            try:
                finished.append(work.finish())
                if isinstance(work, _ChunkAverage):
                    self.results.append(work.counted(finished[-1]))
            except Error as error:
                self._failed(error, place)
        if self._error is None:
            try:
                self._agree(finished[0])
            except Error as error:
                self._failed(error, len(finished))
        self._note_if_left_out()
        self._works = []
        if self._error is None:
            self._update_waits = self._update_waits or any(result.update_waits for result in self.results)
        if self._used is not None:
            self._used.places.clear()
        for done, buffer in self._buckets:
            done.set_result(buffer)
        self._gradients, self._buckets = {}, []

    def _note_if_left_out(self) -> None:
        if any(isinstance(work, _ChunkAverage) and not work.is_finite for work in self._works):
            self.left_out += 1
            _log.warning("ddp_hook: this rank's gradients are not finite: they are left out (%d times by now)", self.left_out)

    def _agree(self, first: Result) -> None:
        """When all operations have succeeded, which they do on all ranks. Who took part in the first one is known to all alike."""
        agreements = [work for work in self._works if isinstance(work, PassAgreement)]
        for agreement in agreements:
            agreement.settle()
        members = frozenset((*first.contributors, *first.absent))
        if first.world_size > 1 and not self._peers.issuperset(members):
            verify_equal(
                self._session,
                exact_options(self._options),
                ddp.named_parameters(self._model),
                self._session.peer_id not in self._peers,
                first.world_size,
            )
        self._peers = members
        for agreement in agreements:
            agreement.adopt_buffers()
            self._set_gradients_unused_here(agreement.used())

    def _set_gradients_unused_here(self, used: list[int]) -> None:
        """DDP sets those of the parameters that this rank used, and takes the others for parameters that nobody used."""
        if self._used is None:
            return
        for place in used:
            if place not in self._used.places:
                p = self._parameters[place]
                average = ddp.in_layout_of(p, self._gradients[place])
                if p.grad is None:
                    p.grad = torch.empty_like(p)
                p.grad.copy_(average)


def _check_passes_wait_for_nobody(model: torch.nn.parallel.DistributedDataParallel) -> None:
    """Raises for a model of which each pass asks all ranks."""
    if model.find_unused_parameters or model.static_graph:
        raise NotSupported("ddp_hook: with a quorum no pass asks all ranks which parameters they use: make the model without "
                           "find_unused_parameters and static_graph")
    if ddp.synced_buffers(model):
        raise NotSupported("ddp_hook: with a quorum no pass waits for rank 0's buffers: make the model with broadcast_buffers=False")


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
        dtype = parameter.dtype.to_real()
        size = parameter.numel() * parameter.element_size()
        chunk, filled = open_chunks.get(dtype, ([], most))
        if filled + size > most or not chunk:
            chunk, filled = [], 0
            chunks.append(chunk)
        chunk.append(place)
        open_chunks[dtype] = (chunk, filled + size)
    return chunks


class _ChunkAverage:
    """One operation under way. Of a GPU's gradients, which are many and small, one tensor is made, where that is fast."""

    def __init__(self, session: Session, gradients: list[torch.Tensor], options: Options, skip_nonfinite: bool = False) -> None:
        self._gradients = gradients
        self._flat = torch.cat(gradients) if gradients[0].is_cuda else None
        self._work: Work | FiniteReduction
        if skip_nonfinite:
            xs = gradients if self._flat is None else [self._flat]
            self._work = FiniteReduction(session, xs, xs, "avg", options)
        elif self._flat is not None:
            self._work = session.all_reduce_async(self._flat, "avg", **options)
        else:
            self._work = session.all_reduce_many_async(gradients, "avg", **options)

    @property
    def is_finite(self) -> bool:
        """False: this rank is left out."""
        return not isinstance(self._work, FiniteReduction) or self._work.is_finite

    def counted(self, result: Result) -> Result:
        """What `finish` returned, with those as contributors who are not left out."""
        return result if not isinstance(self._work, FiniteReduction) else self._work.counted or result

    @ranged("ddp_wait")
    def finish(self) -> Result:
        result = self._work.wait()
        if self._flat is not None:
            for gradient, average in zip(self._gradients, self._flat.split([each.numel() for each in self._gradients])):
                gradient.copy_(average)
        return result
