"""Sums and averages of which ranks are left out whose numbers are not finite: `skip_nonfinite`."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy

from ringway._ringway import Error, InvalidArgument, NotSupported, PeerLost, Result, Work

if TYPE_CHECKING:
    from ringway._session import Options, Session

_EXACT = ("channel", "priority", "submit_timeout", "as_peer")


def exact_options(options: Options) -> Options:
    """Those that leave an operation exact, and of all ranks."""
    kept = {name: options[name] for name in _EXACT if name in options}  # type: ignore[literal-required]
    return {**kept, "quorum": "all"}  # type: ignore[typeddict-item,return-value]


def goes_on(options: Options) -> bool:
    """Whether an operation with these goes on without late ranks; the group's quorum is not asked."""
    return options.get("quorum") not in (None, "all")


def check_all_ranks(options: Options) -> None:
    """Raises for options with which not all ranks say whether they are finite."""
    if goes_on(options) or options.get("weight") is not None:
        raise InvalidArgument("skip_nonfinite takes no quorum and no weight: all say first whether they are finite")


class FiniteReduction:
    """A sum or an average on its way, as two operations.

    Each rank says in a first one whether its arrays are finite; if not, it adds zeros in the second one, which is under way at the
    same time. Nobody comes between them, so who took part in the second one took part in the first, but for a rank that dies
    when its numbers have arrived and its word has not: then all ranks raise PeerLost.

    xs: arrays of NumPy or torch. outs: as many; they may be the same ones.
    Raises what a submission is refused for. The first one may be on its way then, and the others wait for the second one: only
    leaving the group helps.
    """

    def __init__(self, session: Session, xs: Sequence[Any], outs: Sequence[Any], op: str, options: Options) -> None:
        if op not in ("sum", "avg"):
            raise InvalidArgument(f"skip_nonfinite is for sum and avg, not for {op}")
        if options.get("stream") is not None:
            raise NotSupported("skip_nonfinite reads the input at once and waits for no stream: synchronize it, and leave `stream` out")
        check_all_ranks(options)
        options = {**options, "quorum": "all"}
        self._outs, self._is_average = outs, op == "avg"
        self.is_finite = all([_is_finite(x) for x in xs])
        """Whether this rank is counted."""
        self._flags = numpy.zeros(session.world_size, "uint8")
        flag = numpy.array([self.is_finite], "uint8")
        self._works: list[Work] = [session.all_gather_async(flag, out=self._flags, **exact_options(options))]
        contributions = xs if self.is_finite else [_zeros_like(x) for x in xs]  # not times 0: that is NaN, too
        if len(xs) == 1:
            self._works.append(session.all_reduce_async(contributions[0], op, out=outs[0], **options))
        else:
            self._works.append(session.all_reduce_many_async(contributions, op, out=outs, **options))
        self.counted: Result | None = None
        """What `wait` returned, with those alone as `contributors` whose arrays are in the result."""

    def wait(self) -> Result:
        """Of all who took part. `outs` have the result over those who are counted then, zeros if nobody is. An Error leaves nothing
        on its way, and in `outs` anything."""
        flag_work, work = self._works
        try:
            flags = flag_work.wait()
        except Error:
            with contextlib.suppress(Error):
                work.cancel()  # a rank that does without skip_nonfinite has not submitted it
                work.wait()
            raise
        result = work.wait()
        if self.counted is None:  # nor is the average scaled twice if this was interrupted
            is_finite = dict(zip(flags.contributors, self._flags.tolist()))
            silent = [peer for peer in result.contributors if peer not in is_finite]
            if silent:  # both results are the same on all ranks, so all raise
                raise PeerLost(
                    f"peers {silent} died when their numbers had arrived, and nobody knows whether these are finite:"
                    " what was to be reduced has to be made anew"
                )
            those = [peer for peer in result.contributors if is_finite[peer]]
            scale = result.world_size / max(1, len(those)) if self._is_average else 1.0
            self.counted = result._counting(those, scale)
            if scale != 1:
                for out in self._outs:
                    _scale(out, scale)
        return result


def _is_tensor(x: Any) -> bool:
    if isinstance(x, numpy.ndarray):
        return False
    if "torch" in sys.modules and isinstance(x, sys.modules["torch"].Tensor):
        return True
    raise NotSupported(f"skip_nonfinite takes arrays of NumPy and torch, not a {type(x).__name__}")


def _is_finite(x: Any) -> bool:
    return bool(x.isfinite().all() if _is_tensor(x) else numpy.isfinite(x).all())


def _zeros_like(x: Any) -> Any:
    return sys.modules["torch"].zeros_like(x) if _is_tensor(x) else numpy.zeros_like(x)


def _scale(x: Any, factor: float) -> None:
    """Rounds as the other of the two does: short floats in single precision."""
    if _is_tensor(x):
        x.detach().mul_(factor)
    else:
        numpy.multiply(x, factor, out=x, dtype="float64" if x.dtype == "float64" else "float32", casting="unsafe")
