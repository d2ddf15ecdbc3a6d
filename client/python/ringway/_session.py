"""Sessions: joining a group, and its collectives."""

from __future__ import annotations

import logging
import operator
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypedDict

from ringway import _ringway
from ringway._ringway import DaemonUnreachable, Error, InvalidArgument, Left, Result, Work
from ringway._sockets import socket_of

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack


_log = logging.getLogger("ringway")


class Options(TypedDict, total=False):
    """Of one operation, by keyword. Those marked * are the same on all ranks, else Mismatch."""

    channel: int
    """0 to 63: operations of a channel are matched in the order of their submission, so it belongs to one thread. Default 0."""
    codec: str
    """* How elements travel: none, bf16, f16, int8, int8_zp, int4, int4_zp, fp8_e4m3 or fp8_e5m2. Default none."""
    block: int
    """* Elements that share a scale of the codec: 32, 64, .. 1024. Default 256."""
    rounding: str
    """* How the codec rounds: nearest or stochastic. Default nearest."""
    algorithm: str
    """* Schedule, instead of the plan's choice for the size."""
    error_feedback: str
    """A tensor's name: what the codec takes from it is added to its next contribution. Sums and averages. Default none."""
    submit_timeout: float | None
    """Seconds that the submission may wait while the session rejoins; then Timeout, and nothing was submitted. Default None."""
    stream: Any
    """CUDA stream (torch's, CuPy's, its handle) after whose work x is read, if x is a GPU's. Default None: the default stream, \
which torch and CuPy make wait for their current one."""
    quorum: int | float | str | None
    """* Of an all-reduce, sum or avg: go on once so many ranks' inputs are whole (a float: such a share of all) and `grace` is \
over. The result's `absent` names whose inputs are not in; a late rank gets the result at once. "all": all ranks' inputs. \
Default None: as the group was joined with."""
    grace: float | None
    """Seconds to wait for more inputs than the quorum. The longest of the ranks' counts. Default 0."""
    late: str
    """An input that an operation with a quorum went on without is dropped, or (next) added to this rank's next one of the same \
`error_feedback`, which it needs; what is not finite is not kept. Who loads a checkpoint joins again first, or takes \
another name: what was kept would be added to it. Default dropped."""
    weight: float | None
    """Of this rank's input in an average: sum(weight * x) / sum(weight). On all ranks or on none. Default None: all the same."""
    priority: int
    """0 to 255: of collectives in flight on several channels this rank sends what has the highest first. Default 0."""
    as_peer: int
    """Submit only as this peer (`Session.peer_id`), else Rejoined: for threads that share a channel. Default any."""


def join(
    group: str,
    *,
    wait_world: int,
    socket: str | os.PathLike[str] | None = None,
    name: str = "",
    min_world: int = 1,
    fail_on_peer_loss: bool = False,
    quorum: int | float | str | None = None,
    grace: float | None = None,
    late: str = "dropped",
    op_deadline: float | None = None,
    evict_hung_after: float | None = 600.0,
    timeout: float | None = 300.0,
    on_waiting: Callable[[Error | None], object] | None = None,
    reconnect: float | None = 30.0,
    rejoin_when_evicted: bool = True,
    _state: object = None,
) -> Session:
    """Joins a group and returns when this peer is a member. Times are seconds.

    group: its name, the same on all ranks.
    wait_world: a new group forms with at least this many peers; 1: this one alone.
    socket: of the daemon on this host. None: the environment's RINGWAY_SOCKET, else /run/ringway/ringwayd.sock, else that of a
        running `ringway up` of this user (of several, ranks of this host take turns by LOCAL_RANK).
    name: unique in the group, for logs and status; "" lets the daemon choose.
    min_world: below it operations raise WorldTooSmall (the group takes the largest asked for).
    fail_on_peer_loss: an operation that loses a peer raises PeerLost instead of being retried; the same on all peers.
    quorum, grace, late: what all-reduces of sum and avg take that name no quorum (`Options`); late is for those with an
        error_feedback. The same quorum on all peers: where they differ, their operations raise Mismatch.
    op_deadline: an operation that this rank has waited for this long raises Deadline on all ranks. None: never.
    evict_hung_after: a rank that submits nothing for this long while others wait for it is evicted. None: never.
    timeout: of the whole call. Then it raises the last known cause, or Timeout if it only waited for other peers.
    on_waiting: called when what it waits for changes: with None for other peers, else with the Error to fix.
    reconnect: how long a session that lost its daemon looks for one; 0: it ends with its daemon.
    rejoin_when_evicted: False: an eviction ends the session with Evicted.
    """
    options = locals()
    options["socket"], advice = socket_of(socket)
    try:
        return Session(**options)
    except DaemonUnreachable as error:
        raise DaemonUnreachable(f"{error.message} {advice}") from None


class Session(_ringway.Session):
    """One membership of one group, or one after another; made by `join`.

    In a `with` statement the end of the block leaves the group, at once if it raises. A session that is dropped, or left open
    until the interpreter exits, leaves without waiting.

    The collectives take arrays of NumPy, torch or others (DLPack, or the buffer protocol) without a copy of their own: of
    integers of 8 to 64 bits, float16, bfloat16, float32 or float64, contiguous, of the same size and dtype on all ranks.
    Arrays of `empty` are read and written by the daemon where they are; others are staged, those of a GPU (CUDA), too. Each
    collective has a form with _async, which returns a Work; the plain form is that and its `wait`. Every collective takes
    `Options`.

    Rejoining: where this host's daemon went away, or the others went on without this peer, the session rejoins by itself, and
    the next call of each thread raises Rejoined: take the others' state, as a newcomer does, then go on.

    Threads: several may use a session, each its own channel. Forked children have no session: every call raises Forked, and
    arrays of `empty` are not mapped there.
    """

    __slots__ = ()

    def all_reduce(
        self, x: Any, op: str = "sum", *, out: Any = None, skip_nonfinite: bool = False, **options: Unpack[Options]
    ) -> Result:
        """out[i] = op over all contributors of x[i]; the same bytes on all ranks.

        op: sum, avg, prod, min or max; avg is for floats.
        out: of as many elements as x; None: in place.
        skip_nonfinite: the same on all ranks. A rank whose x, of NumPy or torch, has an infinity or a NaN is left out of the sum or
            average; its log says so. `contributors` of the result has the others, `world_size` and `rank` are of all who took part.
            If nobody is left, out is 0. It takes one small operation more; after an Error the output is unspecified. After one that
            says that the submission was refused this rank may be a small operation ahead of the others: leave the group, and join
            again. If a rank dies when its x has arrived and its word on it has not, all raise PeerLost. Without `stream`.
        Raises an Error of the cause's class, and leaves the output unchanged then, unless it is one of `empty`.
        After KeyboardInterrupt the operation goes on with the other ranks: a repeated call is this rank's next operation.
        """
        if skip_nonfinite:
            return self._reduce_finite([x], [x if out is None else out], op, options)
        return self.all_reduce_async(x, op, out=out, **options).wait()

    def all_reduce_async(self, x: Any, op: str = "sum", *, out: Any = None, **options: Unpack[Options]) -> Work:
        """`all_reduce` without waiting for the outcome. At most 256 operations may be in flight."""
        return self._all_reduce(x, x if out is None else out, op, **options)

    def _reduce_finite(self, xs: list[Any], outs: list[Any], op: str, options: Options) -> Result:
        from ringway._finite import FiniteReduction  # NumPy is imported by who uses it

        reduction = FiniteReduction(self, xs, outs, op, options)
        if not reduction.is_finite:
            _log.warning("all_reduce: this rank's input is not finite: it is left out")
        reduction.wait()
        assert reduction.counted is not None
        return reduction.counted

    def all_reduce_many(
        self,
        xs: Sequence[Any],
        op: str = "sum",
        *,
        out: Sequence[Any] | None = None,
        skip_nonfinite: bool = False,
        **options: Unpack[Options],
    ) -> Result:
        """Many arrays as one operation, which takes the delays of one: each as by `all_reduce`.

        xs: of one dtype; on all ranks as many, of the same sizes, in the same order (only the sum of the sizes is compared).
        out: as many arrays; None: in place.
        skip_nonfinite: a rank is left out of all if one of its arrays is not finite.
        They are copied together by this call, and apart by `wait`, also those of `empty`.
        """
        if skip_nonfinite:
            arrays = list(xs)
            return self._reduce_finite(arrays, arrays if out is None else list(out), op, options)
        return self.all_reduce_many_async(xs, op, out=out, **options).wait()

    def all_reduce_many_async(
        self, xs: Sequence[Any], op: str = "sum", *, out: Sequence[Any] | None = None, **options: Unpack[Options]
    ) -> Work:
        """`all_reduce_many` without waiting for the outcome. The inputs may be written to when it has returned."""
        arrays = list(xs)
        return self._all_reduce_many(arrays, arrays if out is None else list(out), op, **options)

    def all_gather(self, x: Any, *, out: Any, **options: Unpack[Options]) -> Result:
        """`out` receives the inputs of the contributors in rank order: result.world_size times as many elements as x.

        out: of at least world_size times as many elements as x, apart from x.
        """
        return self.all_gather_async(x, out=out, **options).wait()

    def all_gather_async(self, x: Any, *, out: Any, **options: Unpack[Options]) -> Work:
        """`all_gather` without waiting for the outcome."""
        return self._all_gather(x, out, **options)

    def reduce_scatter(self, x: Any, op: str = "sum", *, out: Any = None, **options: Unpack[Options]) -> Result:
        """As `all_reduce`, but each rank receives only its part of the result, at its place: out.reshape(-1)[result.part].

        The parts are equal, in rank order; the last ones may be shorter, or empty. A loss makes them larger.
        Outside the part an array of `empty` is unspecified, any other untouched.
        """
        return self.reduce_scatter_async(x, op, out=out, **options).wait()

    def reduce_scatter_async(self, x: Any, op: str = "sum", *, out: Any = None, **options: Unpack[Options]) -> Work:
        """`reduce_scatter` without waiting for the outcome."""
        return self._reduce_scatter(x, x if out is None else out, op, **options)

    def broadcast(self, x: Any, root: int = 0, **options: Unpack[Options]) -> Result:
        """x of rank `root` becomes that of all; with a codec the root, too, goes on with what the others decode.

        root: a rank among the members that the session knows (`rank`, `world_size`). The operation is for that peer, whatever
        its rank is when it runs; if it is gone, all ranks raise PeerLost, and the session knows who is left. So it is with the
        other collectives that have a root.
        """
        return self.broadcast_async(x, root, **options).wait()

    def broadcast_async(self, x: Any, root: int = 0, **options: Unpack[Options]) -> Work:
        """`broadcast` without waiting for the outcome."""
        return self._broadcast(x, root, **options)

    def reduce(self, x: Any, op: str = "sum", *, root: int = 0, out: Any = None, **options: Unpack[Options]) -> Result:
        """As `all_reduce`, but the result is the root's alone: in `out`, or in place. The others' x stays as it is.

        out: of as many elements as x; of other ranks than the root it is not used.
        As of all collectives with a root, its result never has `update_waits`: a barrier's has.
        """
        return self.reduce_async(x, op, root=root, out=out, **options).wait()

    def reduce_async(
        self, x: Any, op: str = "sum", *, root: int = 0, out: Any = None, **options: Unpack[Options]
    ) -> Work:
        """`reduce` without waiting for the outcome."""
        if self.rank != root:
            out = None
        elif out is None:
            out = x
        return self._reduce(x, out, root, op, **options)

    def gather(self, x: Any, *, root: int = 0, out: Any = None, **options: Unpack[Options]) -> Result:
        """As `all_gather`, but only the root's `out` receives the inputs; of other ranks it is not used."""
        return self.gather_async(x, root=root, out=out, **options).wait()

    def gather_async(self, x: Any, *, root: int = 0, out: Any = None, **options: Unpack[Options]) -> Work:
        """`gather` without waiting for the outcome."""
        return self._gather(x, out if self.rank == root else None, root, **options)

    def scatter(self, x: Any = None, *, out: Any, root: int = 0, **options: Unpack[Options]) -> Result:
        """`out` receives this rank's part of the root's x, which has world_size times as many elements.

        x: laid out for the world that the session knows: if the operation runs in a smaller one, all ranks raise PeerLost.
        Of other ranks than the root it is not used.
        """
        return self.scatter_async(x, out=out, root=root, **options).wait()

    def scatter_async(self, x: Any = None, *, out: Any, root: int = 0, **options: Unpack[Options]) -> Work:
        """`scatter` without waiting for the outcome."""
        return self._scatter(x if self.rank == root else None, out, root, **options)

    def all_to_all(self, x: Any, *, out: Any, **options: Unpack[Options]) -> Result:
        """Of world_size equal parts, part r of x goes to rank r, and part r of `out` comes from it.

        out: of as many elements as x, apart from x. After a loss as `scatter`.
        """
        return self.all_to_all_async(x, out=out, **options).wait()

    def all_to_all_async(self, x: Any, *, out: Any, **options: Unpack[Options]) -> Work:
        """`all_to_all` without waiting for the outcome."""
        return self._all_to_all(x, out, **options)

    def all_to_all_v(
        self,
        x: Any,
        *,
        out: Any,
        send_counts: Sequence[int],
        receive_counts: Sequence[int],
        send_begins: Sequence[int] = (),
        **options: Unpack[Options],
    ) -> Result:
        """Rank r receives send_counts[r] elements of x; `out` has receive_counts[r] of rank r, in rank order.

        send_begins: where in x they begin, without it one after the other; they may overlap, and counts may be 0. All
        lists have world_size entries, and the two ends of each pair must say the same (Mismatch).
        out: apart from x. After a loss as `scatter`.
        """
        return self.all_to_all_v_async(
            x,
            out=out,
            send_counts=send_counts,
            receive_counts=receive_counts,
            send_begins=send_begins,
            **options,
        ).wait()

    def all_to_all_v_async(
        self,
        x: Any,
        *,
        out: Any,
        send_counts: Sequence[int],
        receive_counts: Sequence[int],
        send_begins: Sequence[int] = (),
        **options: Unpack[Options],
    ) -> Work:
        """`all_to_all_v` without waiting for the outcome."""
        return self._all_to_all_v(x, out, send_counts, receive_counts, send_begins, **options)

    def all_gather_v(self, x: Any, *, out: Any, counts: Sequence[int], **options: Unpack[Options]) -> Result:
        """Puts the first counts[rank] elements of the ranks' x into `out`, in rank order.

        counts: world_size entries, the same on all ranks (Mismatch). out: of their sum, apart from x.
        After a loss as `scatter`.
        """
        return self.all_gather_v_async(x, out=out, counts=counts, **options).wait()

    def all_gather_v_async(self, x: Any, *, out: Any, counts: Sequence[int], **options: Unpack[Options]) -> Work:
        """`all_gather_v` without waiting for the outcome."""
        return self._all_gather_v(x, out, counts, **options)

    def reduce_scatter_v(
        self, x: Any, op: str = "sum", *, counts: Sequence[int], out: Any = None, **options: Unpack[Options]
    ) -> Result:
        """As `reduce_scatter`, with a part of counts[rank] elements for each rank, one after the other.

        counts: world_size entries, the same on all ranks (Mismatch); x and out have their sum.
        After a loss as `scatter`.
        """
        return self.reduce_scatter_v_async(x, op, counts=counts, out=out, **options).wait()

    def reduce_scatter_v_async(
        self, x: Any, op: str = "sum", *, counts: Sequence[int], out: Any = None, **options: Unpack[Options]
    ) -> Work:
        """`reduce_scatter_v` without waiting for the outcome."""
        return self._reduce_scatter_v(x, x if out is None else out, counts, op, **options)

    def send(self, x: Any, to: int, *, tag: int = 0, **options: Unpack[Options]) -> Result:
        """Sends x to rank `to`, which takes it by `recv`. Returns when that one has it; nobody else takes part.

        to: a rank among the members that the session knows, not its own; it stays that peer. If that is gone, raises PeerLost.
        tag: messages of a pair, a channel and a tag are matched in the order of their submission. From 0 to 2**32 - 1.
        Both ends get the same outcome, such as Mismatch for arrays of another size or dtype, and Cancelled where either cancels.
        An array of over 64 KiB moves when `recv` has been called there.
        """
        return self.send_async(x, to, tag=tag, **options).wait()

    def send_async(self, x: Any, to: int, *, tag: int = 0, **options: Unpack[Options]) -> Work:
        """`send` without waiting for the outcome."""
        return self._send(x, to, tag, **options)

    def recv(self, x: Any, source: int, *, tag: int = 0, **options: Unpack[Options]) -> Result:
        """x becomes what rank `source` sends here by `send`."""
        return self.recv_async(x, source, tag=tag, **options).wait()

    def recv_async(self, x: Any, source: int, *, tag: int = 0, **options: Unpack[Options]) -> Work:
        """`recv` without waiting for the outcome."""
        return self._recv(x, source, tag, **options)

    def barrier(self, **options: Unpack[Options]) -> Result:
        """Returns when all ranks have called it."""
        return self.barrier_async(**options).wait()

    def barrier_async(self, **options: Unpack[Options]) -> Work:
        """`barrier` without waiting for the outcome."""
        return self._barrier(**options)

    def empty(self, shape: int | Sequence[int], dtype: Any = "float32") -> Any:
        """A new array in shared memory, which collectives read and write without a copy. Its contents are unspecified.

        dtype: what NumPy takes, also ml_dtypes.bfloat16, for a NumPy array; a torch.dtype for a tensor.
        The array may outlive the session. It does not exist in forked children: they die of SIGSEGV if they touch it.
        """
        lengths = [operator.index(shape)] if hasattr(shape, "__index__") else [operator.index(x) for x in shape]
        if any(length < 0 for length in lengths):
            raise InvalidArgument(f"the shape is {shape}; lengths cannot be negative")
        if type(dtype).__module__ == "torch":
            import torch  # type: ignore[import-not-found,unused-ignore]

            return torch.from_dlpack(self._allocate(lengths, _short_name(str(dtype).partition(".")[2])))
        import numpy

        if dtype == "bfloat16":
            import ml_dtypes

            dtype = ml_dtypes.bfloat16
        wanted = numpy.dtype(dtype)
        if wanted.name == "bfloat16":  # which NumPy knows by its bits
            return numpy.asarray(self._allocate(lengths, "u16")).view(wanted)
        return numpy.asarray(self._allocate(lengths, _short_name(wanted.name)))

    def __repr__(self) -> str:
        return f"<ringway.Session rank={self.rank} world_size={self.world_size} epoch={self.epoch} peer_id={self.peer_id}>"

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError("a ringway.Session cannot be pickled or copied: it is this process's membership; "
                        "call ringway.join in the process that is to have one")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            self.abort()
            return
        try:
            self.leave()
        except Left:  # within the block
            pass
        except BaseException:
            self.abort()
            raise


def _short_name(dtype: str) -> str:
    """float32: f32, as ringway's own names are."""
    for long, short in (("bfloat", "bf"), ("float", "f"), ("uint", "u"), ("int", "i")):
        if dtype.startswith(long):
            return short + dtype[len(long) :]
    return dtype
