"""Ranges in torch's profiler, so that what of a step is Ringway's lines up with all else there."""

from __future__ import annotations

import functools
from typing import Any, Callable, TypeVar, cast

import torch

Call = TypeVar("Call", bound=Callable[..., Any])


def ranged(name: str) -> Callable[[Call], Call]:
    """Each call is a range `ringway::name`: from when it begins until it returns, in the thread that calls."""

    def decorate(call: Call) -> Call:
        @functools.wraps(call)
        def within(*arguments: Any, **options: Any) -> Any:
            with torch.profiler.record_function(f"ringway::{name}"):
                return call(*arguments, **options)

        return cast(Call, within)

    return decorate
