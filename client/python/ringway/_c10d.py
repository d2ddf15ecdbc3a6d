"""torch.distributed's collectives by Ringway: the backend "ringway", registered by `import ringway.torch`.

A process group is a group of Ringway, which each of its ranks joins with a session of its own. c10d's ranks are fixed by the
program, Ringway's by the master: what is laid out by rank is rearranged where the two orders differ.

c10d knows no change of a world: when a rank is lost, what runs fails with PeerLost on all others, and what comes after with
WorldTooSmall.

Tensors are in host memory or a GPU's, which is staged through the host. A collective of GPU tensors begins after what the current
stream holds; waiting for it blocks the caller until it is over, and makes the current stream wait for what is left to copy.

Threads: operations are submitted by the caller, in its order, and finished by who waits for them. Those that have a future, or
that nobody waits for, threads of the group finish: one each, so that no message to a rank that never receives it delays another.
"""

from __future__ import annotations

import contextlib
import os
import time
import uuid
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Callable, Sequence

import torch
import torch.distributed as dist

import ringway
from ringway._c10d_work import Finisher, Operation, Work

if TYPE_CHECKING:
    Tensors = Sequence[torch.Tensor]

_OPS = {
    dist.ReduceOp.SUM: "sum",
    dist.ReduceOp.AVG: "avg",
    dist.ReduceOp.PRODUCT: "prod",
    dist.ReduceOp.MIN: "min",
    dist.ReduceOp.MAX: "max",
}
_BITWISE = {
    dist.ReduceOp.BAND: torch.bitwise_and,
    dist.ReduceOp.BOR: torch.bitwise_or,
    dist.ReduceOp.BXOR: torch.bitwise_xor,
}
# NumPy arrays are borrowed in half the time of tensors, which counts in small operations.
_OF_NUMPY = {torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.float32, torch.float64}


def _elements(tensor: torch.Tensor) -> torch.Tensor:
    """The same memory as numbers that Ringway adds, if it is dense."""
    if not tensor.is_cpu and not tensor.is_cuda:
        raise ringway.NotSupported(f"a tensor is on {tensor.device}: the backend takes those of the host and of CUDA")
    if tensor.is_sparse:
        raise ringway.NotSupported("a tensor is sparse: the backend takes dense ones")
    tensor = tensor.detach()
    if tensor.dtype == torch.bool:
        return tensor.view(torch.uint8)
    return torch.view_as_real(tensor) if tensor.dtype.is_complex else tensor


def _is_dense(tensor: torch.Tensor) -> bool:
    """And in host memory."""
    return tensor.is_cpu and not tensor.is_sparse and tensor.is_contiguous()


def _listed(tensors: Any) -> Tensors:
    """Of calls of a group's own methods that name one tensor."""
    return [tensors] if isinstance(tensors, torch.Tensor) else tensors


def _reduction(opts: Any) -> Any:
    """Of a collective's options, which may be the reduction itself, or None."""
    given = getattr(opts, "reduceOp", opts)
    return dist.ReduceOp.SUM if given is None else getattr(given, "op", given)


def _name(op: Any, dtype: torch.dtype) -> str:
    """What the session calls it."""
    name = _OPS.get(op)
    if name is None:
        raise ringway.NotSupported(f"the backend has no reduction {op}")
    if dtype == torch.bool:  # as any and all
        name = {"sum": "max", "prod": "min"}.get(name, name)
        if name == "avg":
            raise ringway.NotSupported("avg of bool is not defined")
    if dtype.is_complex and name not in ("sum", "avg"):
        raise ringway.NotSupported(f"{name} of complex numbers is not defined")
    return name


def _check_alike(tensors: Tensors, one: torch.Tensor) -> None:
    """Else copying would repeat or convert them silently."""
    if any(tensor.shape != one.shape or tensor.dtype != one.dtype for tensor in tensors):
        those = {(tuple(tensor.shape), tensor.dtype) for tensor in tensors}
        raise ringway.InvalidArgument(f"parts of {those} and a tensor of {(tuple(one.shape), one.dtype)}: they have to be alike")


class RingwayProcessGroup(dist.ProcessGroup):
    def __init__(self, store: dist.Store, rank: int, size: int, timeout: timedelta) -> None:
        super().__init__(rank, size)
        self._rank, self._size = rank, size
        self._group_name = ""
        self._timeout = timeout.total_seconds()
        self._store, self._barriers = store, 0
        turn = store.add(f"turn{rank}", 1)  # a store may have served groups before, which were as many for all
        if rank == 0:
            store.set(f"group/{turn}", f"{os.environ.get('RINGWAY_GROUP', 'torch')}-{uuid.uuid4().hex}")
        where = {"socket": os.environ["RINGWAY_SOCKET"]} if "RINGWAY_SOCKET" in os.environ else {}
        self._session = ringway.join(
            store.get(f"group/{turn}").decode(),
            wait_world=size,
            min_world=size,
            fail_on_peer_loss=True,
            evict_hung_after=None,  # a rank that is busy for long: others give up waiting after the timeout
            reconnect=0,
            timeout=self._timeout,
            **where,
        )
        store.set(f"peer{rank}/{turn}", str(self._session.peer_id))
        peers = [int(store.get(f"peer{i}/{turn}")) for i in range(size)]
        members = [member.peer_id for member in self._session.members()]
        self._order = [peers.index(peer) for peer in members]  # c10d's rank of each of Ringway's
        self._places = [members.index(peer) for peer in peers]  # and the other way around
        self.error: Exception | None = None
        """What an operation failed with first."""
        self._finisher = Finisher()

    # ------------------------------------------------------------------------------------------ operations

    def _finish(
        self,
        works: list[ringway.Work],
        output: Any,
        after: Callable[[], object] | None = None,
        timeout: timedelta | None = None,
    ) -> dist.Work:
        """The work of one or more that are submitted: `after` copies their results to where they go.

        timeout: of waiting for it; the group's if there is none above zero.
        """
        patience = timeout.total_seconds() if timeout is not None and timeout > timedelta() else self._timeout
        return Work(Operation(works, output, after, patience, self._report), self._finisher)

    def _report(self, error: Exception) -> None:
        self.error = self.error or error

    def _in_place(self, tensor: torch.Tensor) -> tuple[Any, Callable[[], object] | None]:
        """What an operation may read and write, and how that comes to the tensor if it is a copy."""
        elements = _elements(tensor)
        if elements.is_contiguous():
            return (elements.numpy() if elements.is_cpu and elements.dtype in _OF_NUMPY else elements), None
        dense = elements.contiguous()
        return dense, lambda: elements.copy_(dense)

    def _stacked(self, parts: Tensors, one: torch.Tensor) -> torch.Tensor:
        """One buffer with each rank's part, in the order of Ringway's ranks. one: where one of them goes."""
        if len(parts) != self._size:
            raise ringway.InvalidArgument(f"there are {len(parts)} parts and {self._size} ranks")
        _check_alike(parts, one)
        return torch.stack([_elements(parts[i]) for i in self._order])

    def allreduce(self, tensors: Tensors, opts: Any = None) -> dist.Work:
        tensors = _listed(tensors)
        tensor = tensors[0]
        name = _OPS.get(_reduction(opts))
        if len(tensors) > 1 or name is None or tensor.dtype not in _OF_NUMPY or not _is_dense(tensor):
            return self.allreduce_coalesced(tensors, opts)
        x = tensor.detach().numpy()  # most operations are of this kind, and small ones take little longer than this
        return self._finish([self._session.all_reduce_async(x, name)], list(tensors))

    def allreduce_coalesced(self, tensors: Tensors, opts: Any = None) -> dist.Work:
        op = _reduction(opts)
        if op in _BITWISE:
            return self._bitwise(tensors, _BITWISE[op])
        if any([tensor.is_sparse for tensor in tensors]):
            return self._sparse_sum(tensors, op)
        places = [self._in_place(tensor) for tensor in tensors]
        copies = [copy for _, copy in places if copy is not None]
        if len(places) == 1 or len({tensor.dtype for tensor in tensors}) > 1 or tensors[0].is_cuda:
            works = [self._session.all_reduce_async(x, _name(op, t.dtype)) for (x, _), t in zip(places, tensors)]
        else:
            works = [self._session.all_reduce_many_async([x for x, _ in places], _name(op, tensors[0].dtype))]
        return self._finish(works, list(tensors), (lambda: [copy() for copy in copies]) if copies else None)

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

    def _sparse_sum(self, tensors: Tensors, op: Any) -> dist.Work:
        """All gather all, as many entries as the longest has, which one operation more finds out."""
        if op != dist.ReduceOp.SUM or not all(tensor.is_sparse for tensor in tensors):
            raise ringway.NotSupported("sparse tensors are only added up, and not together with dense ones")
        mine = [tensor.detach().coalesce() for tensor in tensors]
        counts = torch.zeros((self._size, len(mine)), dtype=torch.int64)
        self._session.all_gather_async(torch.tensor([x._nnz() for x in mine]), out=counts).wait(self._timeout)
        works, gathered = [], []
        for x, longest in zip(mine, counts.amax(0).tolist()):
            for entries in (x.indices().t(), _elements(x.values())):
                padded = entries.new_zeros((longest, *entries.shape[1:]))
                padded[: x._nnz()] = entries
                gathered.append(padded.new_empty((self._size, *padded.shape)))
                works.append(self._session.all_gather_async(padded, out=gathered[-1]))

        def after() -> None:
            for place, tensor in enumerate(tensors):
                total = torch.zeros_like(tensor)
                for count, indices, elements in zip(counts[:, place].tolist(), *gathered[2 * place : 2 * place + 2]):
                    values = torch.view_as_complex(elements) if tensor.is_complex() else elements
                    total = total + torch.sparse_coo_tensor(indices[:count].t(), values[:count], tensor.shape)
                with torch.no_grad():  # what `detach` returns of a sparse tensor would change alone
                    tensor.copy_(total.coalesce())

        return self._finish(works, list(tensors), after)

    def broadcast(self, tensors: Tensors, opts: Any = None) -> dist.Work:
        tensors, root = _listed(tensors), 0 if opts is None else getattr(opts, "rootRank", opts)
        dense, after = self._in_place(tensors[0])
        return self._finish([self._session.broadcast_async(dense, self._places[root])], list(tensors), after)

    def reduce(self, tensors: Tensors, opts: Any, op: Any = None) -> dist.Work:
        tensors, root = _listed(tensors), getattr(opts, "rootRank", opts)
        dense, after = self._in_place(tensors[0])
        name = _name(_reduction(getattr(opts, "reduceOp", op)), tensors[0].dtype)
        work = self._session.reduce_async(dense, name, root=self._places[root])
        return self._finish([work], list(tensors), after if self._rank == root else None)

    def allgather(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any = None) -> dist.Work:
        if isinstance(inputs, torch.Tensor):
            outputs, inputs = [outputs], [inputs]  # type: ignore[list-item]
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
            _check_alike(parts, mine)
            x = _elements(mine).contiguous()
            gathered.append(x.new_empty((self._size, *x.shape)))
            works.append(self._session.all_gather_async(x, out=gathered[-1]))

        def after() -> None:
            for (parts, _), everything in zip(pairs, gathered):
                for rank, part in zip(self._order, everything):
                    _elements(parts[rank]).copy_(part)

        return self._finish(works, output, after)

    def gather(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any) -> dist.Work:
        is_root = self._rank == opts.rootRank
        if is_root:
            _check_alike(outputs[0], inputs[0])
        x = _elements(inputs[0]).contiguous()
        everything = x.new_empty((self._size, *x.shape)) if is_root else None
        work = self._session.gather_async(x, root=self._places[opts.rootRank], out=everything)

        def after() -> None:
            for rank, part in zip(self._order, everything if everything is not None else ()):
                _elements(outputs[0][rank]).copy_(part)

        return self._finish([work], outputs, after)

    def scatter(self, outputs: Tensors, inputs: Sequence[Tensors], opts: Any) -> dist.Work:
        is_root = self._rank == opts.rootRank
        x = self._stacked(inputs[0], outputs[0]) if is_root else None
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
        op = _name(_reduction(opts), outputs[0].dtype)
        sums = [self._stacked(parts, output) for parts, output in zip(inputs, outputs)]
        works = [self._session.reduce_scatter_async(x, op) for x in sums]

        def after() -> None:
            for output, total in zip(outputs, sums):
                _elements(output).copy_(total[self._places[self._rank]])

        return self._finish(works, list(outputs), after)

    def alltoall(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> dist.Work:
        """Parts may differ in length."""
        for tensors in (outputs, inputs):
            if len(tensors) != self._size:
                raise ringway.InvalidArgument(f"there are {len(tensors)} parts and {self._size} ranks")
        if len({tensor.dtype for tensor in (*outputs, *inputs)}) > 1:
            raise ringway.InvalidArgument("the parts are of several dtypes")
        mine = [_elements(inputs[rank]).reshape(-1) for rank in self._order]
        x = torch.cat(mine)
        lengths = [_elements(outputs[rank]).numel() for rank in self._order]
        out = x.new_empty(sum(lengths))
        counts = [part.numel() for part in mine]
        work = self._session.all_to_all_v_async(x, out=out, send_counts=counts, receive_counts=lengths)

        def after() -> None:
            for rank, part in zip(self._order, out.split(lengths)):
                here = _elements(outputs[rank])
                here.copy_(part.view(here.shape))

        return self._finish([work], list(outputs), after)

    def alltoall_base(
        self, output: torch.Tensor, input: torch.Tensor, output_sizes: list[int], input_sizes: list[int], opts: Any = None
    ) -> dist.Work:
        def cut(tensor: torch.Tensor, sizes: list[int]) -> Tensors:
            return tensor.split(sizes) if sizes else tensor.chunk(self._size)

        return self.alltoall(cut(output, output_sizes), cut(input, input_sizes))

    all_to_all_single = alltoall_base

    def barrier(self, opts: Any = None) -> dist.Work:
        return self._finish([self._session.barrier_async()], [], timeout=getattr(opts, "timeout", None))

    def monitored_barrier(self, timeout: timedelta | None = None, wait_all_ranks: bool = False) -> None:
        """As Gloo's: rank 0 says who has not come in time. By the store: who is missing may wait in a collective."""
        self._barriers += 1
        patience = self._timeout if timeout is None else timeout.total_seconds()
        deadline = time.monotonic() + patience

        def has_come(name: str) -> bool:
            left = max(deadline - time.monotonic(), 0.001)
            try:
                self._store.wait([f"barrier{self._barriers}/{name}"], timedelta(seconds=left))
            except RuntimeError:  # a store of files raises no DistStoreError
                return False
            return True

        if self._rank != 0:
            self._store.set(f"barrier{self._barriers}/{self._rank}", "")
            if not has_come("all"):
                raise dist.DistError(
                    f"Rank {self._rank} successfully reached monitoredBarrier, but received errors while waiting for "
                    "send/recv from rank 0: it did not say in time that all have come"
                )
            return
        missing: list[str] = []
        for rank in range(1, self._size):
            if time.monotonic() >= deadline and not wait_all_ranks:
                raise dist.DistError(f"Rank 0 timed out in monitoredBarrier after {patience} s, before rank {rank}")
            if not has_come(str(rank)):
                missing.append(str(rank))
                if not wait_all_ranks:
                    break
        if missing:
            those = f"Rank {missing[0]}" if len(missing) == 1 else f"Ranks {', '.join(missing)}"
            raise dist.DistError(f"{those} failed to pass monitoredBarrier in {patience} s")
        self._store.set(f"barrier{self._barriers}/all", "")
        with contextlib.suppress(RuntimeError):  # a store that deletes nothing; all have left the last one
            for name in ("all", *map(str, range(1, self._size))):
                self._store.delete_key(f"barrier{self._barriers - 1}/{name}")

    def send(self, tensors: Tensors, dst: int, tag: int = 0) -> dist.Work:
        x = _elements(tensors[0]).contiguous()
        return self._finish([self._session.send_async(x, self._place(dst), tag=tag)], list(tensors))

    def recv(self, tensors: Tensors, src: int, tag: int = 0) -> dist.Work:
        dense, after = self._in_place(tensors[0])
        return self._finish([self._session.recv_async(dense, self._place(src), tag=tag)], list(tensors), after)

    def _place(self, rank: int) -> int:
        """Of one other rank: the two could go on after a loss, the group does not."""
        if self._session.world_size != self._size:
            raise ringway.WorldTooSmall(f"{self._size - self._session.world_size} of {self._size} ranks are lost")
        return self._places[rank]

    def recv_anysource(self, tensors: Tensors, tag: int = 0) -> dist.Work:
        raise ringway.NotSupported("a receive names its sender: the backend has none from any rank")

    # ------------------------------------------------------------------------------------------ the group

    def size(self) -> int:
        return self._size

    def rank(self) -> int:
        return self._rank

    # torch keeps these in what it calls a group's backends, and a group in Python has none.

    def _get_backend(self, device: torch.device) -> RingwayProcessGroup:
        if device.type not in ("cpu", "cuda"):
            raise ringway.NotSupported(f"the backend has nothing for {device}: it takes tensors of the host and of CUDA")
        return self

    @property
    def _device_types(self) -> list[torch.device]:
        """None while torch makes the group: then its recorder of operations, which asks such backends for a name, is for it."""
        return [torch.device("cpu")] if self in dist.distributed_c10d._world.pg_names else []

    def _set_group_name(self, name: str) -> None:
        self._group_name = name

    @property
    def group_name(self) -> str:
        return self._group_name

    def getBackendName(self) -> str:
        return "ringway"

    def name(self) -> str:
        return "ringway"

    def shutdown(self) -> None:
        with contextlib.suppress(ringway.Error):  # it has ended already
            self._session.leave()
        self._finisher.close()

    def abort(self) -> None:
        self._session.abort()
        self._finisher.close()


def _create(store: dist.Store, rank: int, size: int, timeout: timedelta) -> RingwayProcessGroup:
    return RingwayProcessGroup(store, rank, size, timeout)


dist.Backend.register_backend("ringway", _create, devices=["cpu", "cuda"])
