"""Ranges in torch's profiler, so that what of a step is Ringway's lines up with all else there."""

from __future__ import annotations

import functools
import sys
from typing import Any, Callable, TypeVar, cast

import torch

Call = TypeVar("Call", bound=Callable[..., Any])


def ranged(name: str) -> Callable[[Call], Call]:
    """Each call is a range `ringway::name`: from when it begins until it returns, in the thread that calls."""

    def decorate(call: Call) -> Call:
        @functools.wraps(call)
        def within(*arguments: Any, **options: Any) -> Any:
            if sys.is_finalizing():  # torch imports what it needs for a range, and there are no imports any more
                return call(*arguments, **options)
            with torch.profiler.record_function(f"ringway::{name}"):
                return call(*arguments, **options)

        return cast(Call, within)

    return decorate
