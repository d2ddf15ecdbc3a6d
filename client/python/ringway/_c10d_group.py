"""A c10d process group of the backend "ringway" but for its collectives: who is in it, and what torch asks and sets."""

from __future__ import annotations

import weakref
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Sequence

import torch
import torch.distributed as dist

import ringway
from ringway._c10d_elastic import Elastic, Unconfigured, never_configured
from ringway._c10d_join import GroupOptions, Membership, StoreBarrier, join_by_store, join_fixed
from ringway._c10d_work import Submissions

if TYPE_CHECKING:
    from typing_extensions import Self


class Group(dist.ProcessGroup):
    """global_ranks: of each of its ranks, none: they are the same. title: for logs.

    enable_reconfigure: it has no members before its first reconfiguration; rank and size are those that torch asks for till then.
    membership: that it has already; None: it gets one by the store. options: of one that it gets.
    """

    def __init__(
        self,
        store: dist.Store,
        rank: int,
        size: int,
        timeout: timedelta,
        global_ranks: Sequence[int] = (),
        title: str = "",
        enable_reconfigure: bool = False,
        membership: Membership | None = None,
        options: GroupOptions = GroupOptions(),
    ) -> None:
        super().__init__(rank, size)
        self._goes_on = options.goes_on
        self._rank, self._size = rank, size
        self._group_name, self._is_split_off = title, False
        self._timeout = timeout.total_seconds()
        self._store, self._store_barrier = store, StoreBarrier(store, rank, size)
        self._global_ranks = list(global_ranks) or list(range(size))
        if enable_reconfigure:
            self._elastic: Elastic | None = Elastic(self._timeout, title or "of torch")
            self._withdraw(never_configured())
            weakref.finalize(self, self._elastic.abort).atexit = False  # of one that is dropped
            return
        self._elastic = None
        if membership is None:
            membership = join_by_store(store, rank, size, self._timeout, self._global_ranks, title or "of torch", options)
        submissions = Submissions(membership)
        self._adopt(membership, submissions)
        weakref.finalize(self, submissions.abort).atexit = False

    def _adopt(self, membership: Membership, submissions: Submissions) -> None:
        self._membership, self._submissions, self._session = membership, submissions, membership.session
        self._order, self._places = membership.order, membership.places

    def _withdraw(self, why: Unconfigured) -> None:
        """Until its next configuration all that needs its members raises."""
        self._membership = self._submissions = self._session = why  # type: ignore[assignment]
        self._order = self._places = list(range(self._size))

    @property
    def error(self) -> Exception | None:
        """What an operation of this configuration failed with first."""
        return None if isinstance(self._submissions, Unconfigured) else self._submissions.error

    def lost_ranks(self) -> list[int]:
        return self._membership.lost_ranks() if self._elastic is None else self._elastic.lost_ranks()

    def size(self) -> int:
        return self._size

    def rank(self) -> int:
        return self._rank

    getSize, getRank = size, rank  # what C++ calls, as DDP's reducer

    def set_timeout(self, timeout: timedelta) -> None:
        """Of what comes after this call."""
        self._timeout = timeout.total_seconds()

    _set_default_timeout = set_timeout

    # torch keeps these in what it calls a group's backends, and a group in Python has none.

    def _get_backend(self, device: torch.device) -> Self:
        if device.type not in ("cpu", "cuda"):
            raise ringway.NotSupported(f"the backend has nothing for {device}: it takes tensors of the host and of CUDA")
        return self

    @property
    def _device_types(self) -> list[torch.device]:
        """None while torch makes the group: its recorder of operations takes that for a group that it cannot record. For one that
        is split off torch asks once before that, to find its backend."""
        is_shown = self in dist.distributed_c10d._world.pg_names or self._is_split_off
        self._is_split_off = False
        return [torch.device("cpu")] if is_shown else []

    def _set_group_name(self, name: str) -> None:
        self._group_name = name

    @property
    def group_name(self) -> str:
        return self._group_name

    def getBackendName(self) -> str:
        return "ringway"

    def name(self) -> str:
        return "ringway"

    # Splitting: torch asks the backend whether it can, and the group to do it. A new group of Ringway is no dearer.

    @property
    def supports_splitting(self) -> bool:
        return True

    def eager_connect_single_device(self, device: torch.device | None = None) -> None:
        """It is connected."""

    def perform_nocolor_split(self, device: torch.device) -> None:
        """Who is not in the new group has nothing to do."""

    def get_group_store(self) -> dist.Store:
        return self._store

    def split_group(
        self,
        new_ranks: Sequence[int],
        timeout: timedelta | None = None,
        opts: Any = None,
        group_name: str | None = None,
        group_desc: str | None = None,
        device_types: Sequence[torch.device] | None = None,
    ) -> Self | None:
        if self._rank not in new_ranks:
            return None
        options = options_of(opts)
        name = group_name or f"{self._group_name}:split:{','.join(map(str, new_ranks))}"
        patience = timedelta(seconds=self._timeout) if timeout is None else timeout
        group = self.part(dist.PrefixStore(f"{name}/", self._store), new_ranks, patience, name, options)
        group._is_split_off = True
        return group

    def part(
        self, store: dist.Store, ranks: Sequence[int], timeout: timedelta, title: str, options: GroupOptions = GroupOptions()
    ) -> Self:
        """A group of some of these ranks, of which this is one; it cannot be reconfigured.

        store: of the new group. One that can be reconfigured asks no store, since ranks that came later have counted fewer groups.
        """
        labels = [self._global_ranks[rank] for rank in ranks]
        place, seconds, membership = list(ranks).index(self._rank), timeout.total_seconds(), None
        if self._elastic is not None:
            name = self._elastic.name_of_part(ranks)
            names, socket = [f"rank {i}" for i in labels], self._elastic.socket
            membership = join_fixed(name, names, place, seconds, labels, title, socket, options)
        return type(self)(store, place, len(ranks), timeout, labels, title, membership=membership, options=options)

    # Reconfiguration, of torch 2.14.

    @property
    def supports_reconfigure(self) -> bool:
        return self._elastic is not None

    def _changing(self) -> Elastic:
        if self._elastic is None:
            raise ringway.InvalidArgument("the process group was made without enable_reconfigure: its ranks do not change")
        return self._elastic

    def get_reconfigure_handle(self) -> str:
        return self._changing().handle()

    def reconfigure(self, opts: Any) -> dist.Work:
        """Returns when it is over on all ranks. REQUIRES: no other thread uses the group meanwhile."""
        elastic, handles = self._changing(), opts.handles
        elastic.check(opts.uuid, handles)
        self._withdraw(Unconfigured(ringway.InvalidArgument, "the last reconfiguration of the process group failed: try another"))
        timeout = self._timeout if opts.timeout is None else opts.timeout.total_seconds()
        membership, rank = elastic.configure(opts.uuid, handles, timeout)
        self._rank, self._size = rank, len(handles)
        self._global_ranks = list(range(self._size))
        self._adopt(membership, elastic.submissions)
        self._tell_torch()
        over: torch.futures.Future[Any] = torch.futures.Future()
        over.set_result([])
        return torch._C._distributed_c10d._create_work_from_future(over)

    def _tell_torch(self) -> None:
        """Torch's table of a group's global ranks. Those of a group beside the default one are not ranks of that, but for this one."""
        known, world = dist.distributed_c10d._world.pg_group_ranks, dist.GroupMember.WORLD
        if self is world:
            known[self] = {i: i for i in range(self._size)}
        elif self in known and world is not None:
            known[self] = {world.rank(): self._rank}

    def get_error(self) -> Any:
        """As torch's backends say it."""
        kinds, error = torch._C._distributed_c10d.ErrorType, self.error
        if error is None:
            return kinds.SUCCESS
        return kinds.TIMEOUT if isinstance(error, (ringway.Deadline, ringway.Timeout)) else kinds.COMM_ERROR

    def shutdown(self) -> None:
        if self._elastic is not None:
            self._elastic.leave()
        else:
            self._submissions.leave()

    def abort(self) -> None:
        """A group that can be reconfigured may be, after that."""
        if self._elastic is not None:
            self._withdraw(Unconfigured(ringway.Left, "the process group was aborted: reconfigure it"))
            self._elastic.abort()
        else:
            self._submissions.abort()


def options_of(options: Any) -> GroupOptions:
    if options is None:
        return GroupOptions()
    if isinstance(options, GroupOptions):
        return options
    raise ringway.NotSupported(f"the backend's options for a group (pg_options) are a ringway.torch.GroupOptions, not a {type(options).__name__}")
