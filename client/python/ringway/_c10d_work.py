"""What c10d gets of a collective: a Work, which its waiter finishes."""

from __future__ import annotations

import concurrent.futures
import contextlib
import threading
from datetime import timedelta
from typing import Any, Callable

import torch
import torch.distributed as dist

import ringway


class Operation:
    """What one call has submitted, and what is left to do when it is over; by whoever comes first.

    after: copies the results to where they go.
    patience: seconds of a wait.
    """

    __slots__ = ("_after", "_lock", "_report", "_works", "error", "is_over", "output", "patience")

    def __init__(
        self,
        works: list[ringway.Work],
        output: Any,
        after: Callable[[], object] | None,
        patience: float,
        report: Callable[[Exception], None],
    ) -> None:
        self._works, self._after, self._report = works, after, report
        self.output, self.patience = output, patience
        self.is_over = False
        self.error: Exception | None = None
        self._lock = threading.Lock()

    def finish(self, timeout: float | None = None) -> None:
        """timeout: seconds, after which the operation goes on; then it raises Timeout. `error`, once it is over."""
        with self._lock:
            if self.is_over:
                return
            try:
                for work in self._works:
                    work.wait(self.patience if timeout is None else timeout)
                if self._after is not None:
                    self._after()
            except Exception as error:
                if timeout is not None and isinstance(error, ringway.Timeout):
                    raise
                self.error = error
                self._report(error)
            self.is_over = True

    def is_done(self) -> bool:
        return self.is_over or all(work.done() for work in self._works)


class Work(dist.Work):
    """Waiting for it raises what the operation failed with. If nobody does, a thread of the group finishes the operation."""

    def __init__(self, operation: Operation, finisher: concurrent.futures.Executor) -> None:
        super().__init__()
        self._operation, self._finisher = operation, finisher
        self._future: torch.futures.Future[Any] | None = None

    def __del__(self) -> None:
        if not self._operation.is_over and self._future is None:
            with contextlib.suppress(RuntimeError):  # the group is shut down, or the interpreter
                self._finisher.submit(self._operation.finish)

    def wait(self, timeout: timedelta | None = None) -> bool:
        self._operation.finish(timeout.total_seconds() if timeout is not None and timeout > timedelta() else None)
        if self._operation.error is not None:
            raise self._operation.error
        return True

    def is_completed(self) -> bool:
        if not self._operation.is_done():
            return False
        self._operation.finish()
        return True

    def is_success(self) -> bool:
        return self.is_completed() and self._operation.error is None

    def exception(self) -> BaseException | None:
        return self._operation.error

    def result(self) -> Any:
        self.wait()
        return self._operation.output

    def get_future(self) -> torch.futures.Future[Any]:
        if self._future is None:
            self._future = torch.futures.Future()
            if self._operation.is_over:  # so that a future after `wait` is done
                _complete(self._operation, self._future)
            else:
                self._finisher.submit(_complete, self._operation, self._future)
        return self._future


def _complete(operation: Operation, future: torch.futures.Future[Any]) -> None:
    operation.finish()
    if operation.error is not None:
        future.set_exception(operation.error)
    else:
        future.set_result(operation.output)
