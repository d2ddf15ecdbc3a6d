"""What c10d gets of a collective: a Work, which its waiter finishes."""

from __future__ import annotations

import contextlib
import functools
import queue
import threading
import traceback
from datetime import timedelta
from typing import Any, Callable

import torch
import torch.distributed as dist

import ringway


def _stream_of(tensors: Any) -> torch.cuda.Stream | None:
    """The current stream of the first tensor's GPU; None: it is in host memory, or there is none."""
    while isinstance(tensors, (list, tuple)):
        if not tensors:
            return None
        tensors = tensors[0]
    return torch.cuda.current_stream(tensors.device) if isinstance(tensors, torch.Tensor) and tensors.is_cuda else None


class Operation:
    """What one call has submitted, and what is left to do when it is over; by whoever comes first.

    after: copies the results to where they go.
    patience: seconds of a wait.
    """

    __slots__ = ("_after", "_lock", "_report", "_works", "error", "is_over", "output", "patience", "stream")

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
        self.stream = _stream_of(output)
        """Of the submission, and so of the temporaries: none is reused before it was copied."""
        self.is_over = False
        self.error: Exception | None = None
        self._lock = threading.Lock()

    def finish(self, timeout: float | None = None) -> None:
        """timeout: seconds, after which the operation goes on; then it raises Timeout. Without, nothing is raised: what it failed
        with is in `error` then."""
        patience = self.patience if timeout is None else timeout
        # Somebody else may wait for it, and longer; no wait of theirs is without an end.
        if not self._lock.acquire(timeout=-1 if timeout is None else timeout):
            raise ringway.Timeout(f"the operation is not over after {patience} s")
        try:
            if self.is_over:
                return
            try:
                for work in self._works:
                    work.wait(patience)
                if self._after is not None:
                    with self.on_stream():
                        self._after()
            except Exception as error:
                if timeout is not None and isinstance(error, ringway.Timeout):
                    raise
                self.error = error
                self._report(error)
            self.is_over = True
        finally:
            self._lock.release()

    def on_stream(self) -> contextlib.AbstractContextManager[Any]:
        return torch.cuda.stream(self.stream) if self.stream is not None else contextlib.nullcontext()

    def is_done(self) -> bool:
        return self.is_over or all(work.done() for work in self._works)


class Finisher:
    """Finishes operations, each by a thread of its own. What it is given waits in a queue, which even a finalizer may fill.

    Its threads are daemons, for which the interpreter does not wait at its exit: sessions end then, and so do their waits.
    """

    _THREADS = 256  # as many as a session may have operations in flight; they start as they are needed

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
        self._calls: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()  # of those that work
        self._idle = threading.Semaphore(0)
        self._workers: list[threading.Thread] = []
        self._thread = self._started(self._run)

    def submit(self, call: Callable[[], object]) -> None:
        self._queue.put(call)

    def close(self) -> None:
        """Waits for all that it was given, unless that calls it."""
        self._queue.put(None)
        if threading.current_thread() not in (*self._workers, self._thread):
            self._thread.join()

    @staticmethod
    def _started(run: Callable[[], object]) -> threading.Thread:
        thread = threading.Thread(target=run, name="ringway-c10d", daemon=True)
        thread.start()
        return thread

    def _run(self) -> None:
        while (call := self._queue.get()) is not None:
            if not self._idle.acquire(blocking=False) and len(self._workers) < self._THREADS:
                try:
                    self._workers.append(self._started(self._work))
                except RuntimeError:  # there are no more threads: one of these takes it, or this one
                    if not self._workers:
                        self._do(call)
                        continue
            self._calls.put(call)
        for _ in self._workers:
            self._calls.put(None)
        for worker in self._workers:
            worker.join()

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            self._do(call)
            self._idle.release()

    @staticmethod
    def _do(call: Callable[[], object]) -> None:
        try:
            call()
        except Exception:  # of a callback of the future; the thread goes on with what it is given next
            traceback.print_exc()


class Work(dist.Work):
    """Waiting for it raises what the operation failed with. If nobody does, a thread of the group finishes the operation."""

    def __init__(self, operation: Operation, finisher: Finisher) -> None:
        super().__init__()
        self._operation, self._finisher = operation, finisher
        self._future: torch.futures.Future[Any] | None = None

    def __del__(self) -> None:
        if not self._operation.is_over and self._future is None:
            self._finisher.submit(self._operation.finish)

    def wait(self, timeout: timedelta | None = None) -> bool:
        self._operation.finish(timeout.total_seconds() if timeout is not None and timeout > timedelta() else None)
        if self._operation.error is not None:
            raise self._operation.error
        if (stream := self._operation.stream) is not None:
            torch.cuda.current_stream(stream.device).wait_stream(stream)
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
            stream = self._operation.stream
            over: torch.futures.Future[Any] = torch.futures.Future(devices=None if stream is None else [stream.device])
            self._future = over.then(functools.partial(_outcome, self._operation))
            if self._operation.is_over:  # so that a future after `wait` is done
                _complete(self._operation, over)
            else:
                self._finisher.submit(functools.partial(_complete, self._operation, over))
        return self._future


def _complete(operation: Operation, over: torch.futures.Future[Any]) -> None:
    operation.finish()
    with operation.on_stream():
        over.set_result(operation.output)


def _outcome(operation: Operation, _over: torch.futures.Future[Any]) -> Any:
    """What the future is then. What this raises is an error for C++, too: DDP's reducer asks a future by itself, and takes what
    `set_exception` leaves there for a result."""
    if operation.error is not None:
        raise operation.error
    return operation.output
