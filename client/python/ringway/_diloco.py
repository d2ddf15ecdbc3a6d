"""Local steps on each rank, and now and then an outer step on what they have moved by: DiLoCo, in fragments and overlapped."""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING, Any, Iterable

import torch

from ringway import Error, InvalidArgument, Io, NotSupported, ResourceExhausted, Timeout

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ringway import Options, Result, Session, Work

REFUSED = (InvalidArgument, NotSupported, ResourceExhausted, Io, Timeout)
"""Of a submission: it took no number, and the others wait for it."""


class _Fragment:
    """Parameters that travel together: what all ranks agree on of them, and the outer momentum, both flat float32."""

    def __init__(self, parameters: list[torch.nn.Parameter]) -> None:
        self.parameters = parameters
        self.agreed = torch.cat([p.detach().reshape(-1).float() for p in parameters])
        self.velocity = torch.zeros_like(self.agreed)

    def moved(self) -> torch.Tensor:
        """By how much this rank's parameters lie below what is agreed: the outer gradient's share."""
        local = torch.cat([p.detach().reshape(-1).float() for p in self.parameters])
        return self.agreed - local

    @torch.no_grad()
    def adopt(self, keep: float) -> None:
        at = 0
        for p in self.parameters:
            agreed = self.agreed[at : at + p.numel()].view_as(p).to(p.dtype)
            p.copy_(torch.lerp(agreed, p, keep) if keep > 0 else agreed)
            at += p.numel()


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
    fragments: the parameters are cut into as many parts, whose outer steps take turns, so that each sends less at once.
    delay: inner steps that go on while a fragment is on its way (less than every / fragments, so that one is at a time).
    keep: of the rank's own parameters when the outer step has come, 0 to 1; None: half of it with a delay, else nothing.
    lr, momentum: of the outer step.
    options: of each operation. With error_feedback=True what a codec takes is added to the fragment's next one.

    All ranks make it with the same arguments and the same parameters, and call `step` as often. The outer state is the same to
    the last bit on all. Threads: one. Tensors are in host memory or a GPU's.
    """

    def __init__(
        self,
        parameters: Iterable[torch.nn.Parameter],
        session: Session,
        *,
        every: int = 100,
        fragments: int = 1,
        delay: int = 0,
        keep: float | None = None,
        lr: float = 0.7,
        momentum: float = 0.9,
        error_feedback: bool = False,
        **options: Unpack[Options],
    ) -> None:
        those = [p for p in parameters if p.requires_grad]
        if not 1 <= fragments <= min(every, len(those)):
            raise ValueError(f"fragments is {fragments}: there are {len(those)} parameters and {every} steps to place them in")
        if not 0 <= delay < max(1, every // fragments):
            raise ValueError(f"delay is {delay}, and a fragment's turn has {every // fragments} steps")
        self._session, self._options = session, options
        self._every, self._delay = every, delay
        self._keep = (0.5 if delay > 0 else 0.0) if keep is None else keep
        self._lr, self._momentum = lr, momentum
        self._error_feedback = error_feedback
        self._fragments = [_Fragment(part) for part in _cut(those, fragments)]
        self._steps = 0
        self._on_way: collections.deque[tuple[int, int, torch.Tensor, Work]] = collections.deque()
        self._is_behind = False
        self._update_waits = False
        self.result: Result | None = None
        """Of the last outer step: who took part. None: there was none."""

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
        for number, fragment in enumerate(self._fragments):
            if (self._steps - number * self._every // len(self._fragments)) % self._every != 0:
                continue
            options = dict(self._options)
            if self._error_feedback:
                options["error_feedback"] = f"diloco.{number}"
            moved = fragment.moved()
            try:
                work = self._session.all_reduce_async(moved, "avg", **options)  # type: ignore[arg-type]
            except REFUSED:
                self._is_behind = True
                raise
            self._on_way.append((self._steps + self._delay, number, moved, work))
        self._take_arrived()

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
        _, number, moved, work = self._on_way[0]  # where it stays if this is interrupted
        try:
            self.result = work.wait()
        except Error as error:
            self._on_way.popleft()
            self._is_behind = self._is_behind or isinstance(error, REFUSED)
            raise
        self._on_way.popleft()
        self._update_waits = self._update_waits or self.result.update_waits
        fragment = self._fragments[number]
        fragment.velocity.mul_(self._momentum).add_(moved)
        fragment.agreed.sub_(moved.add_(fragment.velocity, alpha=self._momentum), alpha=self._lr)
        fragment.adopt(self._keep)

    def state_dict(self) -> dict[str, Any]:
        """What a newcomer needs beside its parameters, which this sets; nothing may be on its way."""
        if self._on_way:
            raise RuntimeError("an outer step is on its way: settle() first, on all ranks after the same step")
        return {
            "steps": torch.tensor([self._steps]),
            "agreed": [fragment.agreed for fragment in self._fragments],
            "velocity": [fragment.velocity for fragment in self._fragments],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Adopts another rank's state: parameters, too, become what is agreed."""
        self._on_way.clear()
        self._is_behind = False
        self._steps = int(state["steps"])
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
