"""torch.distributed's collectives by Ringway: the backend "ringway", registered by `import ringway.torch`.

A process group is a group of Ringway, which each of its ranks joins with a session of its own. c10d's ranks are fixed by the
program, Ringway's by the master: what is laid out by rank is rearranged where the two orders differ.

c10d knows no change of a world: when a rank is lost, what runs fails with PeerLost on all others, and what comes after with
WorldTooSmall.

Tensors are in host memory or a GPU's, which is staged through the host. A collective of GPU tensors begins after what the current
stream holds; waiting for it blocks the caller until it is over, and makes the current stream wait for what is left to copy.

Threads: operations are submitted by the caller, in its order, and finished one after the other by a thread of the group.
"""

from __future__ import annotations

import concurrent.futures
import os
import threading
import uuid
from typing import TYPE_CHECKING, Any, Callable, Sequence

import torch
import torch.distributed as dist

import ringway

if TYPE_CHECKING:
    from datetime import timedelta

    Tensors = Sequence[torch.Tensor]

# Their objects compare, but do not hash alike.
_OPS = [
    (dist.ReduceOp.SUM, "sum"),
    (dist.ReduceOp.AVG, "avg"),
    (dist.ReduceOp.PRODUCT, "prod"),
    (dist.ReduceOp.MIN, "min"),
    (dist.ReduceOp.MAX, "max"),
]
_BITWISE = [
    (dist.ReduceOp.BAND, torch.bitwise_and),
    (dist.ReduceOp.BOR, torch.bitwise_or),
    (dist.ReduceOp.BXOR, torch.bitwise_xor),
]


def _find(op: Any, known: Sequence[tuple[Any, Any]]) -> Any:
    return next((value for each, value in known if op == each), None)


def _elements(tensor: torch.Tensor) -> torch.Tensor:
    """The same memory as numbers that Ringway adds, if it is dense."""
    if tensor.device.type not in ("cpu", "cuda"):
        raise ringway.NotSupported(f"a tensor is on {tensor.device}: the backend takes those of the host and of CUDA")
    if tensor.is_sparse:
        raise ringway.NotSupported("a tensor is sparse: the backend takes dense ones")
    tensor = tensor.detach()
    if tensor.dtype == torch.bool:
        return tensor.view(torch.uint8)
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


def _name(op: Any, dtype: torch.dtype) -> str:
    """What the session calls it."""
    name = _find(op, _OPS)
    if name is None:
        raise ringway.NotSupported(f"the backend has no reduction {op}")
    if dtype == torch.bool:  # as any and all
        name = {"sum": "max", "prod": "min"}.get(name, name)
        if name == "avg":
            raise ringway.NotSupported("avg of bool is not defined")
    if dtype.is_complex and name not in ("sum", "avg"):
        raise ringway.NotSupported(f"{name} of complex numbers is not defined")
    return name


def _stream_of(tensors: Any) -> torch.cuda.Stream | None:
    """The current stream of the first tensor's GPU; None: it is in host memory, or there is none."""
    while isinstance(tensors, (list, tuple)):
        if not tensors:
            return None
        tensors = tensors[0]
    return torch.cuda.current_stream(tensors.device) if tensors.is_cuda else None


class _Work(dist.Work):
    """Waiting for it raises what the operation failed with."""

    def __init__(self, future: torch.futures.Future[Any]) -> None:
        super().__init__()
        self._future = future
        self._over = threading.Event()
        future.add_done_callback(lambda _: self._over.set())

    def wait(self, timeout: timedelta | None = None) -> bool:
        if timeout is not None and timeout.total_seconds() > 0 and not self._over.wait(timeout.total_seconds()):
            raise ringway.Timeout(f"the collective is not over after {timeout}; it goes on")
        self._future.wait()
        return True

    def is_completed(self) -> bool:
        return self._future.done()

    def is_success(self) -> bool:
        return self._future.done() and self.exception() is None

    def exception(self) -> BaseException | None:
        try:
            self._future.value()
        except BaseException as error:
            return error
        return None

    def result(self) -> Any:
        return self._future.value()

    def get_future(self) -> torch.futures.Future[Any]:
        return self._future


class RingwayProcessGroup(dist.ProcessGroup):
    def __init__(self, store: dist.Store, rank: int, size: int, timeout: timedelta) -> None:
        super().__init__(rank, size)
        self._rank, self._size = rank, size
        self._timeout = timeout.total_seconds()
        if rank == 0:
            store.set("group", f"{os.environ.get('RINGWAY_GROUP', 'torch')}-{uuid.uuid4().hex}")
        where = {"socket": os.environ["RINGWAY_SOCKET"]} if "RINGWAY_SOCKET" in os.environ else {}
        self._session = ringway.join(
            store.get("group").decode(),
            wait_world=size,
            min_world=size,
            fail_on_peer_loss=True,
            reconnect=0,
            timeout=self._timeout,
            **where,
        )
        store.set(f"peer{rank}", str(self._session.peer_id))
        peers = [int(store.get(f"peer{i}")) for i in range(size)]
        members = [member.peer_id for member in self._session.members()]
        self._order = [peers.index(peer) for peer in members]  # c10d's rank of each of Ringway's
        self._places = [members.index(peer) for peer in peers]  # and the other way around
        self._finisher = concurrent.futures.ThreadPoolExecutor(1, "ringway-c10d")

    # ------------------------------------------------------------------------------------------ operations

    def _finish(self, works: list[ringway.Work], output: Any, after: Callable[[], None] | None = None) -> dist.Work:
        """The work of one or more that are submitted: `after` copies their results to where they go."""
        stream = _stream_of(output)  # that of the temporaries, too, so that none is reused before it was copied
        future: torch.futures.Future[Any] = torch.futures.Future(devices=None if stream is None else [stream.device])

        def wait() -> None:
            try:
                for work in works:
                    work.wait(self._timeout)
                with torch.cuda.stream(stream):
                    if after is not None:
                        after()
                    future.set_result(output)
            except BaseException as error:  # its waiter raises it
                future.set_exception(error)

        self._finisher.submit(wait)
        return _Work(future)

    def _in_place(self, tensor: torch.Tensor) -> tuple[torch.Tensor, Callable[[], None] | None]:
        elements = _elements(tensor)
        if elements.is_contiguous():
            return elements, None
        dense = elements.contiguous()
        return dense, lambda: elements.copy_(dense)

    def _stacked(self, parts: Tensors, order: Sequence[int]) -> torch.Tensor:
        """One buffer with each rank's part, in the order of Ringway's ranks."""
        shapes = {part.shape for part in parts}
        if len(parts) != self._size or len(shapes) > 1:
            raise ringway.InvalidArgument(f"{len(parts)} parts of shapes {shapes}: {self._size} of one shape are needed")
        return torch.stack([_elements(parts[i]) for i in order])

    def allreduce(self, tensors: Tensors, opts: Any = None) -> dist.Work:
        return self.allreduce_coalesced(tensors, opts)

    def allreduce_coalesced(self, tensors: Tensors, opts: Any = None) -> dist.Work:
        op = dist.ReduceOp.SUM if opts is None else opts.reduceOp
        if (combine := _find(op, _BITWISE)) is not None:
            return self._bitwise(tensors, combine)
        places = [self._in_place(tensor) for tensor in tensors]
        if len(places) == 1 or len({tensor.dtype for tensor in tensors}) > 1 or tensors[0].is_cuda:
            works = [self._session.all_reduce_async(x, _name(op, t.dtype)) for (x, _), t in zip(places, tensors)]
        else:
            works = [self._session.all_reduce_many_async([x for x, _ in places], _name(op, tensors[0].dtype))]

        def after() -> None:
            for _, copy in places:
                if copy is not None:
                    copy()

        return self._finish(works, list(tensors), after)

    def _bitwise(self, tensors: Tensors, combine: Callable[..., torch.Tensor]) -> dist.Work:
        inputs = [_elements(tensor).contiguous() for tensor in tensors]
        all_inputs = [x.new_empty((self._size, *x.shape)) for x in inputs]
        works = [self._session.all_gather_async(x, out=out) for x, out in zip(inputs, all_inputs)]

        def after() -> None:
            for tensor, parts in zip(tensors, all_inputs):
                total = parts[0].clone()
                for part in parts[1:]:
                    total = combine(total, part)
                _elements(tensor).copy_(total)

        return self._finish(works, list(tensors), after)

    def broadcast(self, tensors: Tensors, opts: Any = None) -> dist.Work:
        root = 0 if opts is None else opts.rootRank
        dense, after = self._in_place(tensors[0])
        return self._finish([self._session.broadcast_async(dense, self._places[root])], list(tensors), after)

    def reduce(self, tensors: Tensors, opts: Any) -> dist.Work:
        dense, after = self._in_place(tensors[0])
        op = _name(opts.reduceOp, tensors[0].dtype)
        work = self._session.reduce_async(dense, op, root=self._places[opts.rootRank])
        return self._finish([work], list(tensors), after if self._rank == opts.rootRank else None)

    def allgather(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any = None) -> dist.Work:
        return self._gather_into(list(zip(outputs, inputs)), outputs)

    def allgather_coalesced(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any = None) -> dist.Work:
        by_input = [[outputs[rank][i] for rank in range(self._size)] for i in range(len(inputs))]
        return self._gather_into(list(zip(by_input, inputs)), outputs)

    def _allgather_base(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> dist.Work:
        return self.allgather_into_tensor_coalesced([output], [input])

    all_gather_single = _allgather_base

    def allgather_into_tensor_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> dist.Work:
        pairs = [(output.view(self._size, *input.shape).unbind(), input) for output, input in zip(outputs, inputs)]
        return self._gather_into(pairs, list(outputs))

    all_gather_single_coalesced = allgather_into_tensor_coalesced

    def _gather_into(self, pairs: Sequence[tuple[Tensors, torch.Tensor]], output: Any) -> dist.Work:
        works, gathered = [], []
        for parts, mine in pairs:
            x = _elements(mine).contiguous()
            gathered.append(x.new_empty((self._size, *x.shape)))
            works.append(self._session.all_gather_async(x, out=gathered[-1]))

        def after() -> None:
            for (parts, _), everything in zip(pairs, gathered):
                for rank, part in zip(self._order, everything):
                    _elements(parts[rank]).copy_(part)

        return self._finish(works, output, after)

    def gather(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any) -> dist.Work:
        x = _elements(inputs[0]).contiguous()
        is_root = self._rank == opts.rootRank
        everything = x.new_empty((self._size, *x.shape)) if is_root else None
        work = self._session.gather_async(x, root=self._places[opts.rootRank], out=everything)

        def after() -> None:
            for rank, part in zip(self._order, everything if everything is not None else ()):
                _elements(outputs[0][rank]).copy_(part)

        return self._finish([work], outputs, after)

    def scatter(self, outputs: Tensors, inputs: Sequence[Tensors], opts: Any) -> dist.Work:
        is_root = self._rank == opts.rootRank
        x = self._stacked(inputs[0], self._order) if is_root else None
        dense, after = self._in_place(outputs[0])
        work = self._session.scatter_async(x, root=self._places[opts.rootRank], out=dense)
        return self._finish([work], list(outputs), after)

    def reduce_scatter(self, outputs: Tensors, inputs: Sequence[Tensors], opts: Any = None) -> dist.Work:
        return self._reduce_into(outputs, inputs, opts)

    def _reduce_scatter_base(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> dist.Work:
        return self.reduce_scatter_tensor_coalesced([output], [input], opts)

    reduce_scatter_single = _reduce_scatter_base

    def reduce_scatter_tensor_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> dist.Work:
        parts = [input.view(self._size, *output.shape).unbind() for output, input in zip(outputs, inputs)]
        return self._reduce_into(outputs, parts, opts)

    reduce_scatter_single_coalesced = reduce_scatter_tensor_coalesced

    def _reduce_into(self, outputs: Tensors, inputs: Sequence[Tensors], opts: Any) -> dist.Work:
        op = _name(dist.ReduceOp.SUM if opts is None else opts.reduceOp, outputs[0].dtype)
        sums = [self._stacked(parts, self._order) for parts in inputs]
        works = [self._session.reduce_scatter_async(x, op) for x in sums]

        def after() -> None:
            for output, total in zip(outputs, sums):
                _elements(output).copy_(total[self._places[self._rank]])

        return self._finish(works, list(outputs), after)

    def alltoall(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> dist.Work:
        """Parts may differ in length: they travel as the longest of all, which one operation more finds out."""
        for tensors in (outputs, inputs):
            if len(tensors) != self._size:
                raise ringway.InvalidArgument(f"there are {len(tensors)} parts and {self._size} ranks")
        longest = torch.tensor([max(tensor.numel() for tensor in [*outputs, *inputs])])
        self._session.all_reduce(longest, "max")
        x = _elements(inputs[0]).new_zeros((self._size, int(longest) * (2 if inputs[0].is_complex() else 1)))
        out = torch.empty_like(x)
        for rank, place in zip(self._order, x):
            part = _elements(inputs[rank]).reshape(-1)
            place[: part.numel()] = part
        work = self._session.all_to_all_async(x, out=out)

        def after() -> None:
            for rank, part in zip(self._order, out):
                here = _elements(outputs[rank])
                here.copy_(part[: here.numel()].view(here.shape))

        return self._finish([work], list(outputs), after)

    def alltoall_base(
        self, output: torch.Tensor, input: torch.Tensor, output_sizes: list[int], input_sizes: list[int], opts: Any = None
    ) -> dist.Work:
        def cut(tensor: torch.Tensor, sizes: list[int]) -> Tensors:
            return tensor.split(sizes) if sizes else tensor.chunk(self._size)

        return self.alltoall(cut(output, output_sizes), cut(input, input_sizes))

    all_to_all_single = alltoall_base

    def barrier(self, opts: Any = None) -> dist.Work:
        return self._finish([self._session.barrier_async()], [])

    def monitored_barrier(self, timeout: timedelta | None = None, wait_all_ranks: bool = False) -> None:
        self._session.barrier_async().wait(self._timeout if timeout is None else timeout.total_seconds())

    def send(self, tensors: Tensors, dst: int, tag: int = 0) -> dist.Work:
        raise ringway.NotSupported("the backend has no send and receive between two ranks")

    recv = send

    def recv_anysource(self, tensors: Tensors, tag: int = 0) -> dist.Work:
        return self.send(tensors, 0, tag)

    # ------------------------------------------------------------------------------------------ the group

    def size(self) -> int:
        return self._size

    def rank(self) -> int:
        return self._rank

    @property
    def group_name(self) -> str:  # torch does not set that of a group in Python
        return dist.distributed_c10d._world.pg_names[self]

    def getBackendName(self) -> str:
        return "ringway"

    def name(self) -> str:
        return "ringway"

    def shutdown(self) -> None:
        self._finisher.shutdown(wait=True)
        self._session.leave()

    def abort(self) -> None:
        self._session.abort()
        self._finisher.shutdown(wait=True)


def _create(store: dist.Store, rank: int, size: int, timeout: timedelta) -> RingwayProcessGroup:
    return RingwayProcessGroup(store, rank, size, timeout)


dist.Backend.register_backend("ringway", _create, devices=["cpu", "cuda"])
