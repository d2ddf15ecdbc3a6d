"""What c10d gets of a collective: a Work, which its waiter finishes."""

from __future__ import annotations

import atexit
import contextlib
import functools
import queue
import threading
import time
import traceback
import weakref
from collections import deque
from datetime import timedelta
from typing import Any, Callable, Sequence

import torch
import torch.distributed as dist

import ringway
from ringway._profile import ranged

DEADLINE_MAX = 24 * 86400.0
"""Seconds: the longest deadline that a daemon takes."""
_AGREEMENT = 60.0
"""Seconds: how long after its deadline an operation may take to end on all ranks, before this one leaves the group."""
_LEAVE = 30.0
"""Seconds: what leaving a group waits for its operations, and then for their futures' callbacks."""
_EXIT = 10.0
"""Seconds: what the interpreter's exit waits for those."""


def seconds_of(timeout: timedelta | None) -> float | None:
    """None where it stands for the group's: c10d has values of its own for that, none of them above zero."""
    return timeout.total_seconds() if timeout is not None and timeout > timedelta() else None


def _stream_of(tensors: Any) -> torch.cuda.Stream | None:
    """The current stream of the first tensor's GPU; None: it is in host memory, or there is none."""
    while isinstance(tensors, (list, tuple)):
        if not tensors:
            return None
        tensors = tensors[0]
    return torch.cuda.current_stream(tensors.device) if isinstance(tensors, torch.Tensor) and tensors.is_cuda else None


class Operation:
    """What one call submits, and what is left to do when that is over; by whoever comes first.

    submissions: each submits to the session.
    after: copies the results to where they go.
    patience: seconds, the deadline of what it submits.
    membership: that it was submitted by; `was_whole`: no rank was known to be lost then.
    """

    __slots__ = (
        "_after",
        "_has_own_deadline",
        "_is_overdue",
        "_lock",
        "_membership",
        "_submissions",
        "begun",
        "error",
        "is_over",
        "output",
        "patience",
        "stream",
        "submissions",
        "was_whole",
        "works",
    )

    def __init__(
        self,
        submissions: Sequence[Callable[[], ringway.Work]],
        output: Any,
        after: Callable[[], object] | None,
        patience: float,
        membership: Membership,
        queue: Submissions,
    ) -> None:
        self.submissions, self.works = deque(submissions), list[ringway.Work]()
        self._after, self._submissions, self._membership = after, queue, membership
        self.output, self.patience, self.was_whole = output, patience, membership.is_whole
        self._has_own_deadline = patience != membership.deadline
        self.stream = _stream_of(output)
        """Of the submission, and so of the temporaries: none is reused before it was copied."""
        self.begun: threading.Event | None = None
        """Set when all is submitted, of an operation that had to wait for that."""
        self.is_over = False
        self.error: Exception | None = None
        self._is_overdue = False
        self._lock = threading.Lock()

    def finish(self, timeout: float | None = None) -> None:
        """Returns when it is over on all ranks; what it failed with is in `error` then.

        timeout: seconds, after which it is asked to fail on all ranks. None: its deadline.
        """
        if self.is_over:
            return
        patience = self.patience + _AGREEMENT if timeout is None else timeout
        until = time.monotonic() + patience
        if not self._lock.acquire(timeout=patience):  # another thread waits for it, and maybe longer
            self._expire()
            self._lock.acquire()  # its wait has an end, and this one with it
        try:
            if not self.is_over:
                self._finish(until)
        finally:
            self._lock.release()

    @ranged("wait")
    def _finish(self, until: float) -> None:
        try:
            if self.begun is not None and not self.begun.wait(max(until - time.monotonic(), 0.0)):
                self._expire()
                self.begun.wait()  # for those before it, each of which ends by its own deadline
            for work in self.works:
                self._collect(work, until)
            if self.error is None and self._after is not None:
                with self.on_stream():
                    self._after()
        except Exception as error:
            self.error = self._submissions.report(error, self)
        self._after = None  # with the temporaries
        self.is_over = True

    def _collect(self, work: ringway.Work, until: float) -> None:
        try:
            try:
                result = self._wait(work, until)
            except ringway.Timeout:
                self._expire()
                result = work.wait(_AGREEMENT)
            self._membership.check(result)
        except ringway.Timeout:
            self._submissions.abort()
            raise ringway.Timeout(
                f"the ranks did not agree within {_AGREEMENT} s that the operation is overdue: this rank has left the group"
            ) from None
        finally:
            if work.done():  # and not interrupted
                self._submissions.landed(work)

    def _wait(self, work: ringway.Work, until: float) -> ringway.Result:
        """Looks at times who is there, where the membership wants that: others may have learned of a loss before they submitted
        this, and then never do."""
        watch = self._membership.watch
        while watch is not None and until - time.monotonic() > watch:
            with contextlib.suppress(ringway.Timeout):
                return work.wait(watch)
            if not self._membership.is_whole:
                with contextlib.suppress(ringway.Error):  # the wait says so, too
                    work.cancel()
                watch = None
        return work.wait(max(until - time.monotonic(), 0.0))

    def _expire(self) -> None:
        """Makes it fail on all ranks, unless it succeeds meanwhile."""
        self._is_overdue = True
        for work in list(self.works):
            with contextlib.suppress(ringway.Error):  # the wait says so, too
                work.set_deadline(0.0)

    @ranged("submit")
    def begin(self) -> ringway.Work:
        """Submits what is next."""
        work = self.submissions[0]()
        self.submissions.popleft()
        self.works.append(work)
        if self._is_overdue:
            work.set_deadline(0.0)
        elif self._has_own_deadline:
            work.set_deadline(self.patience)
        return work

    def refuse(self, error: Exception) -> None:
        """It cannot be submitted."""
        self.error = self._submissions.report(error, self)
        self.submissions.clear()

    def on_stream(self) -> contextlib.AbstractContextManager[Any]:
        return torch.cuda.stream(self.stream) if self.stream is not None else contextlib.nullcontext()

    def is_done(self) -> bool:
        if self.is_over:
            return True
        return (self.begun is None or self.begun.is_set()) and all(work.done() for work in self.works)


class Submissions:
    """Submits a group's operations in their order.

    A session has 256 operations in flight at most. What comes then waits here, and a thread submits it as others end: all of
    those have a deadline. It holds what the caller's Work holds anyway. What has ended and is not read yet counts as in flight
    for the session, so it is read here when there is no room.

    membership: maps an error to what c10d reports to its user.
    """

    def __init__(self, membership: Membership) -> None:
        self._session, self._translate = membership.session, membership.translate
        self._lock = threading.Lock()
        self._flying: set[ringway.Work] = set()
        self._waiting: deque[Operation] = deque()
        self._drainer: threading.Thread | None = None
        self._is_cancelled = False
        self.error: Exception | None = None
        """What an operation failed with first."""
        self.finisher = Finisher()
        _OPEN.add(self)

    def submit(self, operation: Operation) -> None:
        """Raises what the session refuses it for."""
        with self._lock:
            if not self._waiting and self._begin(operation):
                return
            operation.begun = threading.Event()
            self._waiting.append(operation)
            if self._drainer is None:
                self._drainer = start_thread(self._drain)

    def landed(self, work: ringway.Work) -> None:
        self._flying.discard(work)

    def report(self, error: Exception, operation: Operation) -> Exception:
        error = self._translate(error, operation)
        if self._is_cancelled and isinstance(error, (ringway.Cancelled, ringway.Mismatch)):  # with what others went on to
            error = ringway.Cancelled("the process group was reconfigured before this operation was over")
        self.error = self.error or error
        return error

    def leave(self) -> None:
        """Leaves the group when what was submitted is over, or after a while."""
        if (drainer := self._drainer) is not None:
            drainer.join(_LEAVE)
        with contextlib.suppress(ringway.Error):  # it has ended already
            self._session.leave(_LEAVE)
        self.abort()
        self.finisher.join(_LEAVE)

    def abort(self) -> None:
        """Leaves the group at once; all operations end."""
        self._session.abort()
        self.finisher.end()

    def cancel(self, until: float) -> None:
        """Ends what is under way, on all ranks, and keeps the session. REQUIRES: nobody submits any more.

        until: of time.monotonic; what has not ended then raises Timeout.
        """
        with self._lock:
            self._is_cancelled = True
            while self._waiting:
                operation = self._waiting.popleft()
                operation.refuse(ringway.Cancelled())
                assert operation.begun is not None
                operation.begun.set()
        flying = list(self._flying)
        for work in flying:
            with contextlib.suppress(ringway.Error):  # it has ended
                work.cancel()
        for work in flying:
            try:
                work.wait(max(until - time.monotonic(), 0.0))
            except ringway.Timeout:
                raise
            except ringway.Error:  # which the Work says to its owner
                pass
            self._flying.discard(work)
        self.finisher.end()

    def _begin(self, operation: Operation) -> bool:
        """Submits all of it. False: there is no room before another one ends."""
        while operation.submissions:
            try:
                self._flying.add(operation.begin())
            except ringway.ResourceExhausted:
                if not self._flying:
                    raise
                if not self._read_ended():
                    return False
        return True

    def _read_ended(self) -> bool:
        ended = [work for work in list(self._flying) if work.done()]
        for work in ended:
            with contextlib.suppress(ringway.Error):  # which the Work says to its owner
                work.wait()
            self._flying.discard(work)
        return bool(ended)

    def _drain(self) -> None:
        while True:
            with self._lock:
                while self._waiting:
                    operation = self._waiting[0]
                    try:
                        if not self._begin(operation):
                            break
                    except Exception as error:
                        operation.refuse(error)
                    self._waiting.popleft()
                    assert operation.begun is not None
                    operation.begun.set()
                if not self._waiting:
                    self._drainer = None
                    return
                flying = list(self._flying)
            with contextlib.suppress(ringway.Error):  # the next submission says so, too
                ringway.Work._wait_any(flying)
                time.sleep(0.001)  # for whoever is reading that one just now


class Finisher:
    """Finishes operations, each by a thread of its own. What it is given waits in a queue, which even a finalizer may fill.

    Its threads are daemons, for which the interpreter does not wait at its exit: sessions end then, and so do their waits.
    """

    _THREADS = 256  # as many as a session may have operations in flight; they start as they are needed

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
        self._calls: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()  # of those that work
        self._has_ended = False
        self._idle = threading.Semaphore(0)
        self._workers: list[threading.Thread] = []
        self._thread = start_thread(self._run)

    def submit(self, call: Callable[[], object]) -> None:
        if self._has_ended:  # as all operations have, which nothing waits for then
            self._do(call)
        else:
            self._queue.put(call)

    def end(self) -> None:
        """Its threads end when they have done all that it was given."""
        self._has_ended = True
        self._queue.put(None)

    def join(self, timeout: float | None = None) -> None:
        """Waits for that, unless that calls it. REQUIRES: `end` was called."""
        if threading.current_thread() not in (*self._workers, self._thread):
            self._thread.join(timeout)

    def _run(self) -> None:
        while (call := self._queue.get()) is not None:
            if not self._idle.acquire(blocking=False) and len(self._workers) < self._THREADS:
                try:
                    self._workers.append(start_thread(self._work))
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
            del call  # which holds tensors, and their group
            self._idle.release()

    @staticmethod
    def _do(call: Callable[[], object]) -> None:
        try:
            call()
        except Exception:  # of a callback of the future; the thread goes on with what it is given next
            traceback.print_exc()


def start_thread(run: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=run, name="ringway-c10d", daemon=True)
    thread.start()
    return thread


_OPEN: weakref.WeakSet[Submissions] = weakref.WeakSet()


@atexit.register
def _end_all() -> None:
    """Callbacks of open futures run here, with what ended their operations. A thread that would run one later, when there is no
    interpreter any more, would end the process by std::terminate."""
    groups = list(_OPEN)
    for group in groups:
        group.abort()
    until = time.monotonic() + _EXIT
    for group in groups:
        group.finisher.join(max(until - time.monotonic(), 0.0))


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
        self._operation.finish(seconds_of(timeout))
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
