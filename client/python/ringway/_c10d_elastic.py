"""Process groups whose members change: torch.distributed's reconfiguration (torch 2.14), by Ringway's own agreement.

A handle says of which group of Ringway a rank is a member, and whom it knows there. All ranks that reconfigure get the same
handles, so each finds by itself, without a word to the others, what becomes of them:

    the newest view of a group has members with a handle only --> the group stays, with its sessions and connections;
                                                                  ranks from elsewhere join it
    no group is so (a member is left out that lives, or whose death nobody knows) --> all leave, and join a new group

Of several groups that may stay the one with most members does. Then all update the view until its members are those with
handles, which also brings their operations in line, and compare the arguments of the call. Who fails in this leaves its group,
and is a newcomer the next time, unless a member was lost: the others stay.

An operation that loses a rank fails on all (`fail_on_peer_loss`). The group does go on without the rank, as of Ringway's groups
one whose `min_world` is 1; so a process group that is not whole refuses operations, an operation that succeeded without a rank
has failed, and who waits for others that refuse cancels.
"""

from __future__ import annotations

import collections
import hashlib
import json
import os
import socket
import threading
import time
import uuid
from typing import TYPE_CHECKING, Any, NamedTuple, Sequence

import torch

import ringway
from ringway._c10d_join import JoinLog, Membership, bounded, group_prefix
from ringway._c10d_work import Submissions

if TYPE_CHECKING:
    from ringway._c10d_work import Operation

_WORLD_MAX = 64
_HANDLE_MAX = 16384
"""Characters: more than one of a whole world's names has."""
_UUIDS_KEPT = 4096
_WATCH = 0.1
_PAUSE_FIRST, _PAUSE_MAX = 0.001, 0.05
"""Seconds between two updates of the view, while those who join are on their way."""
_CHANNELS = 63
"""Of messages, 1 to 63 in turn: a message that one end gave up is not paired with one of a later configuration."""
_RETRIED = (ringway.Mismatch, ringway.Cancelled, ringway.PeerLost, ringway.WorldTooSmall, ringway.Deadline)
"""What an update of the view fails with, on all ranks, where one has submitted something else before."""


class Handle(NamedTuple):
    """name: of a member of Ringway's group, or of one to be. group: its name; "": none yet. generation: how many configurations
    the group has had. members: whom the rank knows there; within a generation they only become fewer."""

    name: str
    group: str
    generation: int
    members: list[str]

    def text(self) -> str:
        return json.dumps(["ringway", 1, *self], separators=(",", ":"))

    @classmethod
    def parse(cls, text: str) -> Handle:
        try:
            kind, version, name, group, generation, members = json.loads(text[: _HANDLE_MAX + 1])
        except (TypeError, ValueError, RecursionError):
            kind = version = None
        else:
            texts = isinstance(members, list) and all(isinstance(x, str) for x in (name, group, *members))
            is_sound = texts and len(members) <= _WORLD_MAX and type(generation) is int and 0 <= generation < 2**63
            if kind == "ringway" and version == 1 and is_sound and name:
                return cls(name, group, generation, members)
        raise ringway.InvalidArgument(
            f"{repr(text)[:80]} is no handle of this backend's: pass what _get_reconfigure_handle returned on each rank"
        )


class Plan(NamedTuple):
    """What the handles say: group: "": a new one. staying: names of those who are in it."""

    group: str
    staying: set[str]
    generation: int


def plan_of(handles: Sequence[Handle]) -> Plan:
    """The same on all ranks, whatever the order of the handles."""
    plans = []
    for group in {handle.group for handle in handles if handle.group}:
        theirs = {handle.name: handle for handle in handles if handle.group == group}
        newest = max(theirs.values(), key=lambda handle: (handle.generation, -len(handle.members), handle.name))
        if set(newest.members) <= theirs.keys():
            plans.append(Plan(group, set(newest.members), newest.generation + 1))
    return max(plans, key=lambda plan: (len(plan.staying), plan.group), default=Plan("", set(), 1))


class ElasticMembership(Membership):
    """A rank's session as it is in one configuration."""

    cause = "a process group goes on with those left when they reconfigure it: torch.distributed._reconfigure"
    watch = _WATCH

    def __init__(
        self, session: ringway.Session, members: Sequence[str], names: Sequence[str], deadline: float, channel: int
    ) -> None:
        super().__init__(session, members, names, range(len(names)), deadline)
        self.channel, self._has_lost = channel, False

    @property
    def is_whole(self) -> bool:
        """A later configuration may have as many members: a rank that replaces a lost one has another name."""
        return not self._has_lost and set(self._names) <= set(_names_in(self.session))

    def supersede(self, staying: set[str]) -> None:
        """The group goes on with `staying`. A rank that left it, and comes back by its name, has missed operations."""
        self._has_lost = self._has_lost or not set(self._names) <= staying

    def check(self, result: ringway.Result) -> None:
        if result.world_size < len(self._names) and not self.is_whole:
            raise ringway.WorldTooSmall("a rank was lost before the operation began")

    def translate(self, error: Exception, operation: Operation | None = None) -> Exception:
        kinds = (ringway.WorldTooSmall, ringway.PeerLost, ringway.Cancelled, ringway.Mismatch)
        if isinstance(error, kinds) and not self.is_whole:
            return self.lost(operation)
        if not isinstance(error, ringway.Error):
            return error
        text = error.message
        for rank, name in enumerate(self._names):
            text = text.replace(name, f"rank {rank}")
        return super().translate(type(error)(text), operation)


class Unconfigured:
    """Stands where a process group has no session, and says so to whoever uses it."""

    def __init__(self, kind: type[ringway.Error], text: str) -> None:
        self._kind, self._text = kind, text

    def __getattr__(self, name: str) -> Any:
        raise self._kind(self._text)


def never_configured() -> Unconfigured:
    return Unconfigured(
        ringway.InvalidArgument,
        "the process group has no members yet, since it was made with enable_reconfigure: exchange the handles of all ranks "
        "(torch.distributed._get_reconfigure_handle), and pass them to torch.distributed._reconfigure on each",
    )


def _names_in(session: ringway.Session) -> list[str]:
    return [member.name for member in session.members()]


def _left(until: float) -> float:
    return max(until - time.monotonic(), 0.001)


def _text(names: set[str]) -> str:
    return f"{', '.join(sorted(names))} {'is' if len(names) == 1 else 'are'}"


def _digest(number: int, handles: list[str] | set[str]) -> int:
    ordered = list(handles) if isinstance(handles, list) else ["", *sorted(handles)]
    return int.from_bytes(hashlib.sha256("\n".join([str(number), *ordered]).encode()).digest()[:8], "big") >> 1


class Elastic:
    """The sessions of one process group, one configuration after another. Threads: one; any may abort.

    timeout: seconds, of operations that name none. title: for logs.
    """

    def __init__(self, timeout: float, title: str) -> None:
        self._deadline, self._title = bounded(timeout), title
        self._uuids: collections.deque[int] = collections.deque(maxlen=_UUIDS_KEPT)
        self._submissions: Submissions | None = None
        self.socket = os.environ.get("RINGWAY_SOCKET")
        self._is_over = False
        self._lock = threading.RLock()
        """Of what `_reset` sets, against an abort in the middle of a configuration; a finalizer may abort, too."""
        self._reset()

    def _reset(self) -> None:
        """A newcomer everywhere: with a name that nobody has lost."""
        self._name = f"{socket.gethostname()[:30]}:{os.getpid()}:{uuid.uuid4().hex[:16]}"
        self._session: ringway.Session | None = None
        self._membership: ElasticMembership | None = None
        self._group, self._generation = "", 0
        self._parts: collections.Counter[tuple[int, ...]] = collections.Counter()

    def handle(self) -> str:
        session = self._session
        if session is None:
            return Handle(self._name, "", 0, []).text()
        return Handle(self._name, self._group, self._generation, _names_in(session)).text()

    def lost_ranks(self) -> list[int]:
        """Of the last configuration that succeeded, which one that failed by a death leaves as it was."""
        with self._lock:
            membership = self._membership
        return [] if membership is None else membership.lost_ranks()

    def check(self, number: int, handles: list[str] | set[str]) -> None:
        """Raises what is wrong with a call of `configure`, of which nothing has changed then."""
        if self._is_over:
            raise ringway.Left("the process group was shut down: make another")
        if number in self._uuids:
            raise ringway.InvalidArgument(f"uuid {number} was already used for this process group: pass a new one on all ranks")
        if not 0 < len(handles) <= _WORLD_MAX:
            raise ringway.InvalidArgument(f"there are {len(handles)} handles: a process group has 1 to {_WORLD_MAX} ranks")
        names = [Handle.parse(text).name for text in handles]
        if len(set(names)) < len(names):
            raise ringway.InvalidArgument("two handles are of one rank")
        if self._name not in names:
            raise ringway.InvalidArgument("none of the handles is of this rank as it is now: exchange new ones and pass them")

    def configure(self, number: int, handles: list[str] | set[str], timeout: float) -> tuple[ElasticMembership, int]:
        """Returns the new membership, and this process's rank in it; raises an Error, and then there is none.

        number: new for this process group, the same on all ranks, as the handles are. A list has them in the order of the
        ranks; for a set that is the order of Ringway's, so that nothing is rearranged. timeout: seconds, of all.
        REQUIRES: `check` has returned.
        """
        self._uuids.append(number)
        try:
            return self._configure(number, handles, time.monotonic() + timeout)
        except ringway.PeerLost:
            raise
        except BaseException:
            self.abort()
            raise

    def _configure(self, number: int, handles: list[str] | set[str], until: float) -> tuple[ElasticMembership, int]:
        members = [Handle.parse(text) for text in handles]
        wanted, plan = {member.name for member in members}, plan_of(members)
        if (submissions := self._submissions) is not None:
            submissions.cancel(until)
            self._submissions = None
        with self._lock:
            self._refuse_aborted(wanted)
            name, session, membership = self._name, self._session, self._membership
            stays = session is not None and plan.group == self._group and name in plan.staying
            self._generation = plan.generation
        if stays and membership is not None:
            membership.supersede(plan.staying)
        digest = _digest(number, handles)
        if session is None or not stays:
            session = self._join(plan.group or f"{group_prefix()}-{digest:016x}", wanted, until)
        here = self._agree(session, plan.staying, stays, digest, wanted, until)
        names = [member.name for member in members] if isinstance(handles, list) else here
        membership = ElasticMembership(session, here, names, self._deadline, 1 + plan.generation % _CHANNELS)
        with self._lock:
            self._refuse_aborted(wanted)
            self._membership, self._submissions, self._parts = membership, Submissions(membership), collections.Counter()
        return membership, names.index(name)

    def _refuse_aborted(self, wanted: set[str]) -> None:
        """An abort gives this rank a new name, which no handle of the configuration under way has."""
        if self._name not in wanted:
            raise ringway.Left("the process group was aborted while it was reconfigured")

    @property
    def submissions(self) -> Submissions:
        if (submissions := self._submissions) is None:
            raise ringway.Left("the process group was aborted while it was reconfigured")
        return submissions

    def name_of_part(self, ranks: Sequence[int]) -> str:
        """Of the next group of these ranks of this configuration, the same on each of them."""
        if self._submissions is None:
            raise ringway.InvalidArgument("the process group has no members to make another of: reconfigure it first")
        key = tuple(ranks)
        self._parts[key] += 1
        words = json.dumps([self._group, self._generation, key, self._parts[key]])
        return f"{group_prefix()}-{hashlib.sha256(words.encode()).hexdigest()[:32]}"

    def _join(self, group: str, wanted: set[str], until: float) -> ringway.Session:
        with self._lock:
            self._refuse_aborted(wanted)
            previous, name = self._session, self._name
            self._session = self._membership = None
            self._group = group
        if previous is not None:
            previous.abort()
        session = ringway.join(
            group,
            socket=self.socket,
            name=name,
            wait_world=len(wanted),
            fail_on_peer_loss=True,
            op_deadline=self._deadline,
            evict_hung_after=None,
            reconnect=0,
            rejoin_when_evicted=False,
            timeout=_left(until),
            on_waiting=JoinLog(self._title),
        )
        try:
            with self._lock:
                self._refuse_aborted(wanted)
                self._session = session
        except ringway.Left:
            session.abort()
            raise
        return session

    def _agree(
        self, session: ringway.Session, staying: set[str], stays: bool, digest: int, wanted: set[str], until: float
    ) -> list[str]:
        """The members' names in the order of Ringway's ranks, once they are those that are wanted.

        All ranks go through this in step: what an update or a comparison ends with is the same on all.
        """
        seen, is_in_line, pauses, pause = set(staying), not stays, not stays, _PAUSE_FIRST
        while True:
            here = _names_in(session)
            lost, others = (seen & wanted) - set(here), set(here) - wanted
            if lost:
                raise ringway.PeerLost(f"{_text(lost)} lost in the reconfiguration: exchange new handles and try again")
            if is_in_line and others:
                raise ringway.JoinRefused(f"{_text(others)} in the group without a handle: exchange new handles and try again")
            seen.update(here)
            try:
                if time.monotonic() >= until:
                    raise ringway.Timeout("each attempt ended without an agreement")
                if is_in_line and set(here) == wanted:
                    digests = self._exchange(session, digest, len(wanted), until)
                    break
                if pauses:
                    time.sleep(min(pause, _left(until)))
                    pause = min(2 * pause, _PAUSE_MAX)
                pauses = True
                session.update_view(timeout=_left(until))
                is_in_line = True
            except _RETRIED:
                is_in_line = False
            except ringway.Timeout:
                missing = wanted - set(_names_in(session))
                what = f"{_text(missing)} missing" if missing else "a rank has not called it, or with other handles"
                raise ringway.Timeout(f"the timeout of the reconfiguration has passed: {what}") from None
        if (digests != digest).any():
            raise ringway.Mismatch("ranks passed other uuids or handles to the reconfiguration: pass the same on all")
        return here

    @staticmethod
    def _exchange(session: ringway.Session, digest: int, size: int, until: float) -> torch.Tensor:
        """What all ranks were called with."""
        mine, theirs = torch.tensor([digest]), torch.zeros(size, dtype=torch.int64)
        work = session.all_gather_async(mine, out=theirs)
        while True:
            try:
                result = work.wait(min(_WATCH, _left(until)))
            except ringway.Timeout:
                if time.monotonic() >= until:
                    raise
                if len(session.members()) < size:  # some may know that, and never submit it
                    work.cancel()
            else:
                if result.world_size < size:
                    raise ringway.PeerLost("a rank was lost")
                return theirs

    def abort(self) -> None:
        """Leaves the group at once; all operations end. The next configuration has this rank as a newcomer."""
        with self._lock:
            submissions, session = self._submissions, self._session
            self._submissions = None
            self._reset()
        if submissions is not None:
            submissions.abort()
        elif session is not None:
            session.abort()

    def leave(self) -> None:
        """For good, when what was submitted is over, or after a while."""
        self._is_over = True
        if (submissions := self._submissions) is not None:
            submissions.leave()
        self.abort()
