"""`await work`: a thread waits, the event loop does not.

One thread for each Work that is awaited and not done: at most as many as operations may be in flight. It is a daemon thread,
which the end of its session wakes, so that no await holds up the interpreter's exit.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import threading
from collections.abc import Generator
from typing import Any

from ringway._ringway import Result, Work


def _wait(work: Work, done: concurrent.futures.Future[None]) -> None:
    with contextlib.suppress(Exception):  # the awaiting task finds out, by its own call
        work._wait_until_done()
    done.set_result(None)


def _completion(work: Work) -> concurrent.futures.Future[None]:
    """The one future of the work, which its thread ends."""
    if work._completion is not None:
        return work._completion
    done: concurrent.futures.Future[None] = concurrent.futures.Future()
    done.set_running_or_notify_cancel()  # a task that is cancelled does not end it for others
    threading.Thread(target=_wait, args=(work, done), name="ringway await", daemon=True).start()
    work._completion = done
    return done


def await_work(work: Work) -> Generator[Any, None, Result]:
    if not work.done():
        yield from asyncio.wrap_future(_completion(work)).__await__()
    # This thread calls it, so that it is the one that gets Rejoined.
    return work.wait()
