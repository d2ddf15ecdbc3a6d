"""How the ranks of a c10d process group become a group of Ringway, and meet by its store."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import time
import uuid
from datetime import timedelta
from typing import TYPE_CHECKING, Sequence

from torch.distributed import DistError

import ringway
from ringway._c10d_work import DEADLINE_MAX

if TYPE_CHECKING:
    import torch.distributed as dist

    from ringway._c10d_work import Operation

_log = logging.getLogger("ringway")

_LOG_FIRST, _LOG_MAX = 5.0, 60.0
"""Seconds: when who waits says so first, and how often at most after that; each pause is twice the last."""
_JOIN_MIN = 60.0
"""Seconds: what joining may take when all ranks have come, which is a matter of hosts and networks, not of the program."""


def has_key(store: dist.Store, key: str, seconds: float) -> bool:
    """Waits for it so long."""
    begin = time.monotonic()
    try:
        store.wait([key], timedelta(seconds=max(seconds, 0.001)))
    except RuntimeError:  # a store of files raises no DistStoreError
        if time.monotonic() - begin < seconds / 2:  # that was no timeout
            raise
        return False
    return True


def bounded(timeout: float) -> float:
    """As an operation's deadline may be."""
    return min(max(timeout, 0.001), DEADLINE_MAX)


def ranks_text(ranks: Sequence[int]) -> str:
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {', '.join(map(str, ranks))}"


@dataclasses.dataclass(frozen=True)
class GroupOptions:
    """The `pg_options` of a process group: its all_reduces of SUM and AVG go on without late ranks, as `ringway.Options` says it. The
    same on all ranks. An AVG is over those that are in; what is divided by the world's size elsewhere, as by DDP, is not."""

    quorum: int | float | None = None
    grace: float | None = None

    @property
    def goes_on(self) -> bool:
        return self.quorum is not None


class Membership:
    """What a process group is to a session of Ringway: c10d's ranks and Ringway's, and errors in c10d's terms.

    members: names, by Ringway's rank. names: by c10d's. labels: of each rank, which errors and logs name. deadline: seconds,
    of operations that name none.
    """

    cause = "a process group goes on with all its ranks only: destroy it, make another"
    channel = 0
    """Of messages."""
    watch: float | None = None
    """Seconds between two looks at who is there, of who waits for an operation; None: the master ends what nobody can finish."""

    def __init__(
        self, session: ringway.Session, members: Sequence[str], names: Sequence[str], labels: Sequence[int], deadline: float
    ) -> None:
        self.session, self.deadline = session, deadline
        self._names, self._labels = names, labels
        self.order = [names.index(name) for name in members]
        """c10d's rank of each of Ringway's."""
        self.places = [members.index(name) for name in names]
        """And the other way around."""

    @property
    def is_whole(self) -> bool:
        """No rank is known to be lost."""
        return self.session.world_size == len(self._names)

    def check(self, result: ringway.Result) -> None:
        """Raises what an operation that has succeeded fails with nevertheless."""

    def translate(self, error: Exception, operation: Operation | None = None) -> Exception:
        """An error in c10d's terms, where ranks have deadlines and groups do not change."""
        if isinstance(error, ringway.Deadline):
            return ringway.Deadline(f"the timeout of a rank has passed: {error}")
        if isinstance(error, ringway.WorldTooSmall):
            return self.lost(operation)
        return error

    def lost(self, operation: Operation | None) -> Exception:
        """What an operation fails with that lost a rank, or came after the loss."""
        kind = ringway.PeerLost if operation is not None and operation.was_whole else ringway.WorldTooSmall
        return kind(f"{self._lost()} lost, and {self.cause}")

    def lost_ranks(self) -> list[int]:
        """Labels of those that are known to be lost."""
        here = {member.name for member in self.session.members()}
        return [label for label, name in zip(self._labels, self._names) if name not in here]

    def _lost(self) -> str:
        try:
            lost = self.lost_ranks()
        except ringway.Error:  # the session has ended meanwhile
            lost = []
        return f"{ranks_text(lost)} {'is' if len(lost) == 1 else 'are'}" if lost else "a rank was"


class JoinLog:
    """Logs what who joins waits for: at first after some seconds, then ever more rarely. title: of the process group."""

    def __init__(self, title: str) -> None:
        self._title, self._next_word, self._pause = title, 0.0, _LOG_FIRST

    def __call__(self, problem: ringway.Error | None) -> None:
        if problem is None or time.monotonic() < self._next_word:
            return
        _log.warning("process group %s cannot begin yet: %s", self._title, problem)
        self._next_word = time.monotonic() + self._pause
        self._pause = min(2 * self._pause, _LOG_MAX)


def group_prefix() -> str:
    """Of the names of Ringway's groups."""
    return os.environ.get("RINGWAY_GROUP", "torch")


def join_by_store(
    store: dist.Store,
    rank: int,
    size: int,
    timeout: float,
    global_ranks: Sequence[int],
    title: str,
    options: GroupOptions,
) -> Membership:
    """Ranks whose number is fixed meet in a new group of Ringway, whose name rank 0 puts into the store.

    store: the process group's. timeout: seconds.
    global_ranks: of each rank of the group, which errors and logs name.
    title: of the process group, for logs.
    """
    turn = store.add(f"turn{rank}", 1)  # a store may have served groups before, which were as many for all
    if rank == 0:
        store.set(f"group/{turn}", f"{group_prefix()}-{uuid.uuid4().hex}")
    store.set(f"here{rank}/{turn}", "")
    _await_all(store, [f"here{i}/{turn}" for i in range(size)], timeout, global_ranks, title)
    names = [f"rank {i}" for i in global_ranks]
    group = store.get(f"group/{turn}").decode()
    return join_fixed(group, names, rank, timeout, global_ranks, title, options=options)


def join_fixed(
    group: str,
    names: Sequence[str],
    rank: int,
    timeout: float,
    labels: Sequence[int],
    title: str,
    socket: str | None = None,
    options: GroupOptions = GroupOptions(),
) -> Membership:
    """A new group of Ringway that its ranks form together, and that does not change."""
    deadline = bounded(timeout)
    session = ringway.join(
        group,
        socket=socket,
        name=names[rank],
        wait_world=len(names),
        min_world=len(names),
        fail_on_peer_loss=True,
        op_deadline=deadline,
        evict_hung_after=None,  # a rank that is busy for long: others give up waiting after the timeout
        reconnect=0,
        timeout=max(timeout, _JOIN_MIN),
        on_waiting=JoinLog(title),
        **dataclasses.asdict(options),
    )
    members = [member.name for member in session.members()]
    if lost := [label for label, name in zip(labels, names) if name not in members]:
        session.abort()
        raise ringway.PeerLost(f"{ranks_text(lost)} of process group {title} was lost as soon as it had begun: make another")
    return Membership(session, members, names, labels, deadline)


def _await_all(store: dist.Store, keys: list[str], timeout: float, labels: Sequence[int], title: str) -> None:
    begin = time.monotonic()
    pause = _LOG_FIRST
    for place, key in enumerate(keys):
        while not has_key(store, key, min(pause, begin + timeout - time.monotonic())):
            missing = [labels[i] for i in range(place, len(keys)) if not store.check([keys[i]])]
            waited = time.monotonic() - begin
            if not missing:
                continue
            if waited >= timeout:
                raise ringway.Timeout(f"{ranks_text(missing)} did not come to process group {title} within {timeout} s")
            _log.warning("process group %s waits for %s since %.0f s", title, ranks_text(missing), waited)
            pause = min(2 * pause, _LOG_MAX)


class StoreBarrier:
    """monitored_barrier, as Gloo's: rank 0 says who has not come in time. By the store: who is missing may wait in a collective."""

    def __init__(self, store: dist.Store, rank: int, size: int) -> None:
        self._store, self._rank, self._size = store, rank, size
        self._barriers = 0

    def wait(self, patience: float, wait_all_ranks: bool) -> None:
        """patience: seconds. wait_all_ranks: rank 0 names all who are missing, not the first."""
        self._barriers += 1
        deadline = time.monotonic() + patience
        if self._rank == 0:
            self._collect(patience, deadline, wait_all_ranks)
            return
        self._store.set(f"barrier{self._barriers}/{self._rank}", "")
        if not self._has_come("all", deadline):
            raise DistError(
                f"Rank {self._rank} successfully reached monitoredBarrier, but received errors while waiting for "
                "send/recv from rank 0: it did not say in time that all have come"
            )

    def _has_come(self, name: str, deadline: float) -> bool:
        return has_key(self._store, f"barrier{self._barriers}/{name}", deadline - time.monotonic())

    def _collect(self, patience: float, deadline: float, wait_all_ranks: bool) -> None:
        missing: list[int] = []
        for rank in range(1, self._size):
            if time.monotonic() >= deadline and not wait_all_ranks:
                raise DistError(f"Rank 0 timed out in monitoredBarrier after {patience} s, before rank {rank}")
            if not self._has_come(str(rank), deadline):
                missing.append(rank)
                if not wait_all_ranks:
                    break
        if missing:
            raise DistError(f"{ranks_text(missing).capitalize()} failed to pass monitoredBarrier in {patience} s")
        self._store.set(f"barrier{self._barriers}/all", "")
        with contextlib.suppress(RuntimeError):  # a store that deletes nothing; all have left the last one
            for name in ("all", *map(str, range(1, self._size))):
                self._store.delete_key(f"barrier{self._barriers - 1}/{name}")
