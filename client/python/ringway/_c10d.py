"""torch.distributed's collectives by Ringway: the backend "ringway", registered by `import ringway.torch`.

A process group is a group of Ringway, which each of its ranks joins with a session of its own. c10d's ranks are fixed by the
program, Ringway's by the master: what is laid out by rank is rearranged where the two orders differ.

When a rank is lost, what runs fails with PeerLost on all others, and what comes after with WorldTooSmall. A group made with
`enable_reconfigure` goes on when it is configured anew (_c10d_elastic.py), any other has ended. A timeout, of the group or of one
call, is the operation's deadline: it fails with Deadline on all ranks, or on none.

Tensors are in host memory or a GPU's, which is staged through the host. A collective of GPU tensors begins after what the current
stream holds; waiting for it blocks the caller until it is over, and makes the current stream wait for what is left to copy.

Threads: operations are submitted by the caller, in its order, and finished by who waits for them. Those that have a future, or
that nobody waits for, threads of the group finish: one each, so that no message to a rank that never receives it delays another.
"""

from __future__ import annotations

import functools
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Callable, Sequence

import torch
import torch.distributed as dist

import ringway
from ringway._c10d_gathered import BITWISE, bitwise, sparse_sum
from ringway._c10d_group import Group, options_of
from ringway._c10d_join import bounded
from ringway._c10d_tensors import (
    OF_NUMPY,
    OPS,
    Place,
    check_alike,
    divide,
    divisor_of,
    elements_of,
    is_dense,
    listed,
    name_of,
    numbers_of,
    reduction_of,
    settling,
)
from ringway._c10d_work import Operation, Work, seconds_of

if TYPE_CHECKING:
    Tensors = Sequence[torch.Tensor]
    Submission = Callable[[], ringway.Work]


class RingwayProcessGroup(Group):
    # ------------------------------------------------------------------------------------------ operations

    def _start(
        self,
        submissions: Sequence[Submission],
        output: Any,
        after: Callable[[], object] | None = None,
        patience: float | None = None,
    ) -> dist.Work:
        """Submits one or more: `after` copies their results to where they go.

        patience: seconds, of this call; None: the group's timeout.
        """
        membership = self._membership
        operation = Operation(submissions, output, after, bounded(patience or self._timeout), membership, self._submissions)
        try:
            if membership.watch is not None and not operation.was_whole:
                raise membership.lost(operation)
            self._submissions.submit(operation)
        except ringway.Error as error:
            raise membership.translate(error) from None
        return Work(operation, self._submissions.finisher)

    @staticmethod
    def _patience(opts: Any, timeout: timedelta | None = None) -> float | None:
        return seconds_of(timeout) or seconds_of(getattr(opts, "timeout", None))

    def _stacked(self, parts: Tensors, one: torch.Tensor) -> torch.Tensor:
        """One buffer with each rank's part, in the order of Ringway's ranks. one: where one of them goes."""
        self._check_parts(parts, one)
        return torch.stack([elements_of(parts[i]) for i in self._order])

    def _check_count(self, parts: Tensors) -> None:
        if len(parts) != self._size:
            raise ringway.InvalidArgument(f"there are {len(parts)} parts and {self._size} ranks")

    def _check_parts(self, parts: Tensors, one: torch.Tensor) -> None:
        self._check_count(parts)
        check_alike(parts, one)

    def _cut_like(self, whole: torch.Tensor, part: torch.Tensor) -> Tensors:
        """One part a rank, one after the other or stacked."""
        if whole.numel() != self._size * part.numel():
            raise ringway.InvalidArgument(
                f"a tensor has {whole.numel()} elements: {self._size} ranks have {part.numel()} each"
            )
        return whole.view(self._size, *part.shape).unbind()

    def _place_of(self, rank: int) -> int:
        """Ringway's rank of c10d's."""
        if not 0 <= rank < self._size:
            raise ringway.InvalidArgument(f"there is no rank {rank} in a group of {self._size}")
        return self._places[rank]

    def allreduce(self, tensors: Tensors, opts: Any = None, timeout: timedelta | None = None) -> dist.Work:
        tensors = listed(tensors)
        tensor, op = tensors[0], reduction_of(opts)
        name = OPS.get(op)
        is_divided = name == "avg" and not tensor.dtype.is_floating_point
        if len(tensors) > 1 or name is None or is_divided or tensor.dtype not in OF_NUMPY or not is_dense(tensor):
            return self.allreduce_coalesced(tensors, opts, timeout)
        x = tensor.detach().numpy()  # most operations are of this kind, and small ones take little longer than this
        patience = self._patience(opts, timeout)
        return self._start([functools.partial(self._session.all_reduce_async, x, name)], list(tensors), None, patience)

    def allreduce_coalesced(self, tensors: Tensors, opts: Any = None, timeout: timedelta | None = None) -> dist.Work:
        op, patience = reduction_of(opts), self._patience(opts, timeout)
        if op in BITWISE:
            return bitwise(self, tensors, op, patience)
        if any(tensor.is_sparse for tensor in tensors):
            return sparse_sum(self, tensors, op, patience)
        places = [Place(numbers_of(tensor), divisor_of(op, tensor.dtype, self._size)) for tensor in tensors]
        names = [name_of(op, tensor.dtype) for tensor in tensors]
        if self._goes_on and any(divisor_of(op, tensor.dtype, self._size) > 1 for tensor in tensors):
            raise ringway.NotSupported("with a quorum there is no average of integers, which divides by the number of all ranks")
        reduce, reduce_many = self._session.all_reduce_async, self._session.all_reduce_many_async
        if len(places) == 1 or len({tensor.dtype for tensor in tensors}) > 1 or tensors[0].is_cuda:
            submissions = [functools.partial(reduce, place.lent, name) for place, name in zip(places, names)]
        else:
            submissions = [functools.partial(reduce_many, [place.lent for place in places], names[0])]
        return self._start(submissions, list(tensors), settling(places), patience)

    def _in_place(
        self, call: Callable[..., ringway.Work], tensor: torch.Tensor, patience: float | None, *words: Any, **options: Any
    ) -> dist.Work:
        """An operation that only moves, and writes to this one tensor."""
        place = Place(elements_of(tensor))
        return self._start([functools.partial(call, place.lent, *words, **options)], [tensor], settling([place]), patience)

    def broadcast(self, tensors: Tensors, opts: Any = None, timeout: timedelta | None = None) -> dist.Work:
        root = 0 if opts is None else getattr(opts, "rootRank", opts)
        patience = self._patience(opts, timeout)
        return self._in_place(self._session.broadcast_async, listed(tensors)[0], patience, self._place_of(root))

    def reduce(self, tensors: Tensors, opts: Any, op: Any = None, timeout: timedelta | None = None) -> dist.Work:
        tensors, root = listed(tensors), getattr(opts, "rootRank", opts)
        reduction, patience = reduction_of(getattr(opts, "reduceOp", op)), self._patience(opts, timeout)
        dtype, to = tensors[0].dtype, self._place_of(root)
        if reduction in BITWISE:
            return bitwise(self, tensors[:1], reduction, patience, root)
        place = Place(numbers_of(tensors[0]), divisor_of(reduction, dtype, self._size))
        name = name_of(reduction, dtype)
        submission = functools.partial(self._session.reduce_async, place.lent, name, root=to)
        return self._start([submission], list(tensors), settling([place]) if self._rank == root else None, patience)

    def allgather(
        self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any = None, timeout: timedelta | None = None
    ) -> dist.Work:
        if isinstance(inputs, torch.Tensor):
            outputs, inputs = [outputs], [inputs]  # type: ignore[list-item]
        return self._gather_into(list(zip(outputs, inputs)), outputs, self._patience(opts, timeout))

    def allgather_coalesced(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any = None) -> dist.Work:
        by_input = [[tensors[i] for tensors in outputs] for i in range(len(inputs))]
        return self._gather_into(list(zip(by_input, inputs)), outputs, self._patience(opts))

    def _allgather_base(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> dist.Work:
        return self.allgather_into_tensor_coalesced([output], [input], opts)

    all_gather_single = _allgather_base

    def allgather_into_tensor_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> dist.Work:
        pairs = [(self._cut_like(output, input), input) for output, input in zip(outputs, inputs)]
        return self._gather_into(pairs, list(outputs), self._patience(opts))

    all_gather_single_coalesced = allgather_into_tensor_coalesced

    def _gather_into(
        self, pairs: Sequence[tuple[Tensors, torch.Tensor]], output: Any, patience: float | None
    ) -> dist.Work:
        submissions, gathered = [], []
        for parts, mine in pairs:
            self._check_parts(parts, mine)
            x = elements_of(mine).contiguous()
            gathered.append(x.new_empty((self._size, *x.shape)))
            submissions.append(functools.partial(self._session.all_gather_async, x, out=gathered[-1]))

        def after() -> None:
            for (parts, _), everything in zip(pairs, gathered):
                for rank, part in zip(self._order, everything):
                    elements_of(parts[rank]).copy_(part)

        return self._start(submissions, output, after, patience)

    def gather(
        self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any, timeout: timedelta | None = None
    ) -> dist.Work:
        root = getattr(opts, "rootRank", opts)
        if isinstance(inputs, torch.Tensor):
            outputs, inputs = [outputs], [inputs]  # type: ignore[list-item]
        is_root, patience = self._rank == root, self._patience(opts, timeout)
        if is_root:
            self._check_parts(outputs[0], inputs[0])
        x = elements_of(inputs[0]).contiguous()
        everything = x.new_empty((self._size, *x.shape)) if is_root else None
        submission = functools.partial(self._session.gather_async, x, root=self._place_of(root), out=everything)

        def after() -> None:
            for rank, part in zip(self._order, everything if everything is not None else ()):
                elements_of(outputs[0][rank]).copy_(part)

        return self._start([submission], outputs, after, patience)

    def gather_single(self, output: torch.Tensor, input: torch.Tensor, opts: Any) -> dist.Work:
        parts = self._cut_like(output, input) if self._rank == opts.rootRank else ()
        return self.gather([parts], [input], opts)

    gather_into_tensor = gather_single

    def scatter(
        self, outputs: Tensors, inputs: Sequence[Tensors], opts: Any, timeout: timedelta | None = None
    ) -> dist.Work:
        root, outputs = getattr(opts, "rootRank", opts), listed(outputs)
        x = None
        if self._rank == root:
            parts = inputs if isinstance(inputs[0], torch.Tensor) else inputs[0]
            x = self._stacked(parts, outputs[0])  # type: ignore[arg-type]
        place, patience = Place(elements_of(outputs[0])), self._patience(opts, timeout)
        submission = functools.partial(self._session.scatter_async, x, root=self._place_of(root), out=place.lent)
        return self._start([submission], list(outputs), settling([place]), patience)

    def reduce_scatter(
        self, outputs: Tensors, inputs: Sequence[Tensors], opts: Any = None, timeout: timedelta | None = None
    ) -> dist.Work:
        if isinstance(outputs, torch.Tensor):
            outputs, inputs = [outputs], [inputs]  # type: ignore[list-item]
        return self._reduce_into(outputs, inputs, opts, timeout)

    def _reduce_scatter_base(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> dist.Work:
        return self.reduce_scatter_tensor_coalesced([output], [input], opts)

    reduce_scatter_single = _reduce_scatter_base

    def reduce_scatter_tensor_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> dist.Work:
        parts = [self._cut_like(input, output) for output, input in zip(outputs, inputs)]
        return self._reduce_into(outputs, parts, opts)

    reduce_scatter_single_coalesced = reduce_scatter_tensor_coalesced

    def _reduce_into(
        self, outputs: Tensors, inputs: Sequence[Tensors], opts: Any, timeout: timedelta | None = None
    ) -> dist.Work:
        op, patience = reduction_of(opts), self._patience(opts, timeout)
        places = [numbers_of(output) for output in outputs]
        names = [name_of(op, output.dtype) for output in outputs]
        sums = [self._stacked(parts, output) for parts, output in zip(inputs, outputs)]
        submissions = [functools.partial(self._session.reduce_scatter_async, x, name) for x, name in zip(sums, names)]

        def after() -> None:
            for place, total in zip(places, sums):
                mine = total[self._places[self._rank]]
                divide(mine, divisor_of(op, place.dtype, self._size))
                place.copy_(mine)

        return self._start(submissions, list(outputs), after, patience)

    def alltoall(
        self, outputs: Tensors, inputs: Tensors, opts: Any = None, timeout: timedelta | None = None
    ) -> dist.Work:
        """Parts may differ in length."""
        for tensors in (outputs, inputs):
            self._check_count(tensors)
        if len({tensor.dtype for tensor in (*outputs, *inputs)}) > 1:
            raise ringway.InvalidArgument("the parts are of several dtypes")
        patience = self._patience(opts, timeout)
        mine = [elements_of(inputs[rank]).reshape(-1) for rank in self._order]
        x = torch.cat(mine)
        lengths = [elements_of(outputs[rank]).numel() for rank in self._order]
        out = x.new_empty(sum(lengths))
        counts = [part.numel() for part in mine]
        submission = functools.partial(
            self._session.all_to_all_v_async, x, out=out, send_counts=counts, receive_counts=lengths
        )

        def after() -> None:
            for rank, part in zip(self._order, out.split(lengths)):
                here = elements_of(outputs[rank])
                here.copy_(part.view(here.shape))

        return self._start([submission], list(outputs), after, patience)

    def alltoall_base(
        self,
        output: torch.Tensor,
        input: torch.Tensor,
        output_sizes: list[int],
        input_sizes: list[int],
        opts: Any = None,
        timeout: timedelta | None = None,
    ) -> dist.Work:
        def cut(tensor: torch.Tensor, sizes: list[int]) -> Tensors:
            rows = tensor.size(0)
            if rows != sum(sizes) if sizes else rows % self._size:
                raise ringway.InvalidArgument(f"{rows} rows of a tensor are cut for {self._size} ranks by {sizes or 'even parts'}")
            return tensor.split(sizes or [rows // self._size] * self._size)

        return self.alltoall(cut(output, output_sizes), cut(input, input_sizes), opts, timeout)

    all_to_all_single = alltoall_base

    def barrier(self, opts: Any = None, timeout: timedelta | None = None) -> dist.Work:
        patience = self._patience(opts, timeout if timeout is not None else opts if isinstance(opts, timedelta) else None)
        return self._start([functools.partial(self._session.barrier_async)], [], None, patience)

    def monitored_barrier(self, timeout: timedelta | None = None, wait_all_ranks: bool = False) -> None:
        self._store_barrier.wait(self._timeout if timeout is None else timeout.total_seconds(), wait_all_ranks)

    def send(self, tensors: Tensors, dst: int, tag: int = 0) -> dist.Work:
        x = elements_of(tensors[0]).contiguous()
        submission = functools.partial(self._session.send_async, x, self._peer(dst), tag=tag, channel=self._membership.channel)
        return self._start([submission], list(tensors))

    def recv(self, tensors: Tensors, src: int, tag: int = 0) -> dist.Work:
        channel = self._membership.channel
        return self._in_place(self._session.recv_async, tensors[0], None, self._peer(src), tag=tag, channel=channel)

    def _peer(self, rank: int) -> int:
        """Of one other rank: the two could go on after a loss, the group does not."""
        if not self._membership.is_whole:
            raise self._membership.lost(None)
        return self._place_of(rank)

    def recv_anysource(self, tensors: Tensors, tag: int = 0) -> dist.Work:
        raise ringway.NotSupported("a receive names its sender: the backend has none from any rank")


def _create(options: Any, backend_options: Any = None) -> RingwayProcessGroup:
    group_options = options_of(backend_options)
    ranks, world = options.global_ranks_in_group, dist.GroupMember.WORLD
    if ranks and isinstance(world, RingwayProcessGroup) and world.supports_reconfigure:
        return world.part(options.store, ranks, options.timeout, options.group_id, group_options)
    is_elastic = getattr(options, "enable_reconfigure", False)  # of torch 2.14
    if is_elastic and group_options.goes_on:
        raise ringway.NotSupported("a group that can be reconfigured has no quorum: its configurations have all their ranks")
    return RingwayProcessGroup(
        options.store,
        options.group_rank,
        options.group_size,
        options.timeout,
        ranks,
        options.group_id,
        is_elastic,
        options=group_options,
    )


def register() -> None:
    """Makes "ringway" known to torch; also what torch calls where nothing has imported this."""
    if "RINGWAY" not in dist.Backend._plugins:
        dist.Backend.register_backend("ringway", _create, extended_api=True, devices=["cpu", "cuda"])


register()
