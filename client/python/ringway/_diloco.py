"""Local steps on each rank, and now and then an outer step on what they have moved by: DiLoCo, in fragments and overlapped."""

from __future__ import annotations

import collections
import logging
from typing import TYPE_CHECKING, Any, Iterable

import torch

from ringway import Error, InvalidArgument, Io, NotSupported, ResourceExhausted, Timeout
from ringway._ddp_agreement import verify_equal
from ringway._finite import FiniteReduction, check_all_ranks, exact_options
from ringway._profile import ranged

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ringway import Options, Result, Session

_log = logging.getLogger("ringway")

REFUSED = (InvalidArgument, NotSupported, ResourceExhausted, Io, Timeout)
"""Of a submission: it took no number, and the others wait for it."""


class _Fragment:
    """Parameters that travel together: what all ranks agree on of them, and the outer momentum, both flat float32."""

    def __init__(self, parameters: list[torch.nn.Parameter]) -> None:
        self.parameters = parameters
        self.agreed = self._local()
        self.velocity = torch.zeros_like(self.agreed)

    def _local(self) -> torch.Tensor:
        return torch.cat([_reals(p).reshape(-1).float() for p in self.parameters])

    def moved(self) -> torch.Tensor:
        """By how much this rank's parameters lie below what is agreed: the outer gradient's share."""
        return self.agreed - self._local()

    def take_step(self, gradient: torch.Tensor, lr: float, momentum: float) -> None:
        self.velocity.mul_(momentum).add_(gradient)
        self.agreed.sub_(gradient.add_(self.velocity, alpha=momentum), alpha=lr)

    @torch.no_grad()
    def adopt(self, keep: float) -> None:
        at = 0
        for p in self.parameters:
            local = _reals(p)
            agreed = self.agreed[at : at + local.numel()].view_as(local).to(local.dtype)
            local.copy_(torch.lerp(agreed, local, keep) if keep > 0 else agreed)
            at += local.numel()


def _reals(p: torch.nn.Parameter) -> torch.Tensor:
    """The parameter's memory; of a complex one, pairs of reals."""
    return torch.view_as_real(p.detach()) if p.is_complex() else p.detach()


class _OuterGradient:
    """A fragment's outer gradient on its way."""

    def __init__(
        self, session: Session, number: int, moved: torch.Tensor, skip_nonfinite: bool, feedback: str, options: Options
    ) -> None:
        self.number = number
        self.average = moved
        if feedback:
            options = {**options, "error_feedback": feedback}
        self._finite = FiniteReduction(session, [moved], [moved], "avg", options) if skip_nonfinite else None
        self._work = self._finite or session.all_reduce_async(moved, "avg", **options)
        self.is_finite = self._finite is None or self._finite.is_finite
        self.contributors: tuple[int, ...] = ()

    @ranged("diloco_wait")
    def wait(self) -> Result:
        """After it `average` is the mean over `contributors`: none of them if it is not finite. An Error leaves nothing on its way."""
        result = self._work.wait()
        counted = result if self._finite is None else self._finite.counted
        assert counted is not None
        self.contributors = counted.contributors if self._finite is None or self.average.isfinite().all() else ()
        return result


class DiLoCo:
    """Keeps a model that each rank trains by itself near what all agree on.

        outer = ringway.torch.DiLoCo(model.parameters(), session, every=100, codec="int4")
        for batch in batches:
            loss(model(batch)).backward()
            optimizer.step()            # the rank's own, with its own batch
            outer.step()                # now and then: the average of what all have moved by, with Nesterov's momentum
            if outer.take_update():     # the same on all ranks
                session.update_view()   # lets newcomers in: give them state_dict(), and load it everywhere

    every: inner steps from one outer step of a parameter to its next.
    own_every: the same of this rank, where it takes more or fewer of them than `every`, as by its speed. None: as many.
    fragments: the parameters are cut into as many parts, whose outer steps take turns, so that each sends less at once.
    delay: inner steps that go on while a fragment is on its way (less than every / fragments, so that one is at a time).
    keep: of the rank's own parameters when the outer step has come, 0 to 1; None: half of it with a delay, else nothing.
    lr, momentum: of the outer step.
    skip_nonfinite: a rank whose parameters are not finite is left out of an outer step, which is the average over the others, and
        takes what is agreed for all its parameters; Python's logging says so there. Reset its inner optimizer, too, where that
        has moments. An average that is not finite is no outer step. False: one such rank makes the outer state NaN on all.
    options: of each operation. With error_feedback=True what a codec takes is added to the fragment's next one. With a quorum
        (which needs skip_nonfinite=False) an outer step goes on without ranks that are late: they take it when they come to it;
        late="next" adds what they have moved by to their next one. With `weight`, or `outer.weight` set before a step, the average
        is weighted, as by the tokens that each rank has trained on (also with skip_nonfinite=False alone).

    All ranks make it with the same arguments and the same parameters, but for `own_every`. The outer state is the same to the
    last bit on all; the first outer step of a rank compares it, and raises Mismatch on all. Threads: one. Tensors are in host
    memory or a GPU's; complex parameters travel as pairs of reals.
    """

    def __init__(
        self,
        parameters: Iterable[torch.nn.Parameter],
        session: Session,
        *,
        every: int = 100,
        own_every: int | None = None,
        fragments: int = 1,
        delay: int = 0,
        keep: float | None = None,
        lr: float = 0.7,
        momentum: float = 0.9,
        skip_nonfinite: bool = True,
        error_feedback: bool = False,
        **options: Unpack[Options],
    ) -> None:
        those = [p for p in parameters if p.requires_grad]
        own_every = every if own_every is None else own_every
        fewest = min(every, own_every)
        if not 1 <= fragments <= min(fewest, len(those)):
            raise ValueError(f"fragments is {fragments}: there are {len(those)} parameters and {fewest} steps to place them in")
        if not 0 <= delay < max(1, fewest // fragments):
            raise ValueError(f"delay is {delay}, and a fragment's turn has {fewest // fragments} steps")
        if skip_nonfinite:
            check_all_ranks(options)
        self.weight = options.get("weight")
        """Of what this rank has moved by, in the outer steps that begin from now on; on all ranks or on none."""
        self._session = session
        self._options: Options = {**options, "quorum": options.get("quorum") or "all"}
        self._every, self._own_every, self._delay = every, own_every, delay
        self._keep = (0.5 if delay > 0 else 0.0) if keep is None else keep
        self._lr, self._momentum = lr, momentum
        self._keeps_losses = error_feedback or options.get("late") == "next"
        self._fragments = [_Fragment(part) for part in _cut(those, fragments)]
        self._steps = 0  # inner ones, of this rank
        self._turns = 0  # outer steps that have begun
        self._skip_nonfinite = skip_nonfinite
        self._on_way: collections.deque[tuple[int, _OuterGradient]] = collections.deque()
        self._peers: frozenset[int] = frozenset()  # of the last outer step: their state is alike
        self._is_behind = False
        self._update_waits = False
        self.result: Result | None = None
        """Of the last outer step: who took part. None: there was none."""
        self.contributors: tuple[int, ...] = ()
        """Peer ids of those whose parameters are in the last outer step: of `result` those that were finite."""
        self.left_out = 0
        """How often this rank was left out, as its parameters were not finite."""

    @ranged("diloco_step")
    def step(self) -> None:
        """After each inner step. What an outer step fails with is raised on all ranks, and leaves that one out. What is raised
        on one alone, as it could not submit (ResourceExhausted, say), ends its part: the next step raises RuntimeError."""
        if self._is_behind:
            raise RuntimeError(
                "an outer step was refused on this rank alone, and the others wait for it: leave the session, join again "
                "and take the others' state"
            )
        self._steps += 1
        self._take_arrived()
        if self._steps >= self._end_of(self._turns, self._own_every):  # more: what had arrived raised in that step
            number = (self._turns + 1) % len(self._fragments)
            moved = self._fragments[number].moved()
            self._turns += 1
            feedback = f"diloco.{number}" if self._keeps_losses else ""
            try:
                gradient = _OuterGradient(
                    self._session, number, moved, self._skip_nonfinite, feedback, {**self._options, "weight": self.weight}
                )
            except (*REFUSED, KeyboardInterrupt):  # and of what is interrupted a part may be on its way
                self._is_behind = True
                raise
            self._on_way.append((self._steps + self._delay, gradient))
            if not gradient.is_finite:
                self._begin_anew()
        self._take_arrived()

    def _end_of(self, turn: int, every: int) -> int:
        """After how many inner steps, so many a cycle, a fragment's turn ends: then its outer step begins."""
        cycle, place = divmod(turn, len(self._fragments))
        return cycle * every + (place + 1) * every // len(self._fragments)

    def _in_cycles_of(self, every: int, steps: int, steps_every: int) -> int:
        """The place in the turns of `steps`, of which a cycle has `steps_every`, where one has `every`: as far into the same turn,
        or just before its end. So ranks compare and share their steps whatever own_every each of them has."""
        inner = steps - self._end_of(self._turns - 1, steps_every)
        begin, end = self._end_of(self._turns - 1, every), self._end_of(self._turns, every)
        return begin + min(inner, end - begin - 1)

    def _shared_steps(self) -> torch.Tensor:
        return torch.tensor([self._in_cycles_of(self._every, self._steps, self._own_every)])

    def settle(self) -> None:
        """Takes what is on its way now; on all ranks after the same step."""
        while self._on_way:
            self._take()

    def take_update(self) -> bool:
        """Whether newcomers, or a better plan, wait since the last call, and nothing is on its way: then call
        `Session.update_view` on every rank."""
        if self._on_way:
            return False
        waits, self._update_waits = self._update_waits, False
        return waits

    def _take_arrived(self) -> None:
        while self._on_way and self._on_way[0][0] <= self._steps:
            self._take()

    def _take(self) -> None:
        _, gradient = self._on_way[0]  # where it stays if this is interrupted
        try:
            result = gradient.wait()
            self._compare_with_newcomers(result)
        except Error as error:
            self._on_way.popleft()
            self._is_behind = self._is_behind or isinstance(error, REFUSED)
            raise
        self._on_way.popleft()
        self.result, self.contributors = result, gradient.contributors
        self._update_waits = self._update_waits or result.update_waits
        fragment = self._fragments[gradient.number]
        if self.contributors:
            fragment.take_step(gradient.average, self._lr, self._momentum)
        else:
            _log.warning("DiLoCo: no outer step %d, as no rank's parameters are finite, or their average is not", self._steps)
        fragment.adopt(self._keep)

    def _compare_with_newcomers(self, result: Result) -> None:
        members = frozenset((*result.contributors, *result.absent))
        if result.world_size > 1 and not self._peers.issuperset(members):
            state = [("steps", self._shared_steps())]
            for number, fragment in enumerate(self._fragments):
                state += [(f"agreed {number}", fragment.agreed), (f"velocity {number}", fragment.velocity)]
            is_new = self._session.peer_id not in self._peers
            try:
                verify_equal(self._session, exact_options(self._options), state, is_new, result.world_size)
            except KeyboardInterrupt:  # and to do it again would be another operation
                self._is_behind = True
                raise
        self._peers = members

    def _begin_anew(self) -> None:
        """From what is agreed, in all fragments: one that is not finite makes the others so in the next inner step."""
        self.left_out += 1
        _log.warning(
            "DiLoCo: this rank's parameters are not finite: it is left out of outer step %d and takes what is agreed (%d times "
            "by now). Reset its inner optimizer",
            self._steps,
            self.left_out,
        )
        for fragment in self._fragments:
            fragment.adopt(0.0)

    def state_dict(self) -> dict[str, Any]:
        """What a newcomer needs beside its parameters, which this sets; nothing may be on its way."""
        if self._on_way:
            raise RuntimeError("an outer step is on its way: settle() first, on all ranks after the same step")
        return {
            "steps": self._shared_steps(),
            "agreed": [fragment.agreed for fragment in self._fragments],
            "velocity": [fragment.velocity for fragment in self._fragments],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Adopts another rank's state: parameters, too, become what is agreed.

        What the daemon keeps for this rank (error_feedback, late="next") stays, and is added to the next outer steps: right
        where the state is what the group has agreed on, wrong where it is an older one. To load a checkpoint, leave the
        session, join again, and make another DiLoCo with the new one, which begins without.
        """
        self._on_way.clear()
        self._is_behind = False
        steps, parts = int(state["steps"]), len(self._fragments)
        self._turns = steps // self._every * parts + sum(
            self._end_of(turn, self._every) <= steps % self._every for turn in range(parts)
        )
        self._steps = self._in_cycles_of(self._own_every, steps, self._every)
        for fragment, agreed, velocity in zip(self._fragments, state["agreed"], state["velocity"]):
            fragment.agreed.copy_(agreed)
            fragment.velocity.copy_(velocity)
            fragment.adopt(0.0)


def _cut(parameters: list[torch.nn.Parameter], parts: int) -> list[list[torch.nn.Parameter]]:
    """Consecutive ones, each part about as large, none empty where there are enough."""
    out: list[list[torch.nn.Parameter]] = [[]]
    whole, seen = sum(p.numel() for p in parameters), 0
    for place, p in enumerate(parameters):
        missing, left = parts - len(out), len(parameters) - place
        if out[-1] and missing > 0 and (seen * parts >= whole * len(out) or left <= missing):
            out.append([])
        out[-1].append(p)
        seen += p.numel()
    return out
