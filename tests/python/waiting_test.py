"""Waiting for operations: with timeouts, in threads, in coroutines; Works that are cancelled or dropped."""

import asyncio
import gc
import sys
import threading
import time
import unittest
import weakref

import numpy
import ringway
from cluster import PATIENCE, ClusterTest, eventually, together


def ones(count=3):
    return numpy.ones(count, "float32")


class WorkTest(ClusterTest):
    def test_a_timeout_leaves_the_operation_under_way(self):
        first, second = self.join(2)
        x = ones()
        work = first.all_reduce_async(x)
        with self.refused(ringway.Timeout, "goes on"):
            work.wait(0.01)
        with self.refused(ringway.Timeout):
            work.wait(0)
        self.assertFalse(work.done())
        second.all_reduce(ones())
        self.assertEqual(work.wait(PATIENCE).world_size, 2)
        self.assertTrue(work.done())
        self.assertEqual(x.tolist(), [2, 2, 2])
        x[:] = 7
        self.assertEqual(work.wait().world_size, 2)
        self.assertEqual(x.tolist(), [7, 7, 7], "a second wait collects nothing")

    def test_the_gil_is_free_while_a_call_waits(self):
        first, second = self.join(2)
        waiter = threading.Thread(target=first.all_reduce, args=(ones(),))
        waiter.start()
        second.all_reduce(ones())  # would never be reached otherwise
        waiter.join(PATIENCE)
        self.assertFalse(waiter.is_alive())

    def test_cancel_is_agreed_by_all_ranks(self):
        first, second = self.join(2)
        work = first.all_reduce_async(ones())
        work.cancel()
        for _ in range(2):
            with self.refused(ringway.Cancelled):
                work.wait(PATIENCE)
        with self.refused(ringway.Cancelled):  # submitted later than the verdict
            second.all_reduce(ones())
        work.cancel()

    def test_one_thread_cancels_what_another_waits_for(self):
        first, _ = self.join(2)
        work = first.all_reduce_async(ones())

        def wait():
            with self.refused(ringway.Cancelled):
                work.wait(PATIENCE)

        def cancel():
            self.assertFalse(work.done())
            work.cancel()

        together(wait, cancel)

    def test_a_cancel_is_not_lost_to_those_who_poll(self):
        first, second = self.join(2)
        for _ in range(50):
            work = first.all_reduce_async(ones())
            over = threading.Event()

            def poll():
                while not over.is_set():
                    work.done()

            def cancel():
                work.cancel()
                with self.refused(ringway.Cancelled):
                    work.wait(PATIENCE)
                over.set()

            def other():  # submits it only afterwards
                over.wait(PATIENCE)
                with self.refused(ringway.Cancelled):
                    second.all_reduce(ones())

            together(poll, poll, cancel, other)

    def test_arrays_whose_end_runs_python_may_be_waited_for_by_several(self):
        first, second = self.join(2)
        x = ones()
        ended = threading.Event()
        weakref.finalize(x, lambda: (time.sleep(0.1), ended.set()))  # another waiter comes meanwhile
        work = first.all_reduce_async(x)
        del x
        together(work.wait, work.wait, lambda: second.all_reduce(ones()))
        self.assertTrue(ended.wait(PATIENCE))

    def test_many_threads_wait_for_one_work(self):
        first, second = self.join(2)
        x = ones(1 << 20)
        work = first.all_reduce_async(x)

        def wait():
            self.assertEqual(work.wait(PATIENCE).world_size, 2)
            self.assertEqual((x.min(), x.max()), (2, 2))

        def poll():
            eventually(work.done)

        together(wait, wait, poll, wait, lambda: second.all_reduce(ones(1 << 20)), poll, wait)

    def test_threads_use_channels_of_their_own(self):
        sessions = self.join(2)

        def train(session, channel):
            for step in range(20):
                x = numpy.full(100, channel * step, "float32")
                session.all_reduce(x, channel=channel)
                self.assertTrue((x == 2 * channel * step).all())

        together(*[lambda s=s, c=c: train(s, c) for s in sessions for c in range(8)])

    def test_a_work_keeps_its_arrays_and_its_session_alive(self):
        first, second = self.join(2)
        session = weakref.ref(first)
        x, out = ones(), numpy.zeros(3, "float32")
        references = sys.getrefcount(x), sys.getrefcount(out)
        work = first.all_reduce_async(x, out=out)
        self.assertGreater(sys.getrefcount(x), references[0])
        self.assertGreater(sys.getrefcount(out), references[1])
        self._cleanups = [x for x in self._cleanups if getattr(x[0], "__self__", None) is not first]
        del first
        gc.collect()
        self.assertIsNotNone(session())
        second.all_reduce(ones())
        work.wait(PATIENCE)
        self.assertEqual((sys.getrefcount(x), sys.getrefcount(out)), references, "until it is done")
        del work
        gc.collect()
        self.assertIsNone(session())

    def test_a_dropped_work_goes_on_for_the_others(self):
        first, second = self.join(2)
        x, shared = ones(), first.empty(3)
        shared[:] = 1
        first.all_reduce_async(x)
        first.all_reduce_async(shared)
        x[:] = 7  # its memory is the trainer's again
        shared[:] = 7
        for _ in range(2):
            other = ones()
            second.all_reduce(other)
            self.assertEqual(other.tolist(), [2, 2, 2])
        with self.refused(ringway.InvalidArgument, "Work was destroyed", "allocate another"):
            first.all_reduce(shared)

    def test_leaving_ends_the_waits_of_other_threads(self):
        first, _ = self.join(2)
        work = first.all_reduce_async(ones())

        def wait():
            with self.refused(ringway.Left):
                work.wait(PATIENCE)

        together(wait, wait, first.abort)

    def test_a_work_in_a_with_statement_is_awaited_at_its_end(self):
        first, second = self.join(2)
        x, y = ones(), ones()
        with first.all_reduce_async(x) as work, second.all_reduce_async(y):
            self.assertIsInstance(work, ringway.Work)
        self.assertEqual((x.tolist(), y.tolist()), ([2, 2, 2], [2, 2, 2]))
        with self.assertRaises(LookupError), first.all_reduce_async(x):  # does not wait for the other rank
            raise LookupError


class AsyncTest(ClusterTest):
    def run_together(self, *coroutines):
        async def gather():
            return await asyncio.wait_for(asyncio.gather(*coroutines), PATIENCE)

        return asyncio.run(gather())

    def threads(self):
        return [x for x in threading.enumerate() if x.name == "ringway await"]

    def test_one_loop_awaits_all_ranks(self):
        async def rank(session):
            x = ones()
            for _ in range(10):
                result = await session.all_reduce_async(x)
            self.assertEqual(result.world_size, 3)
            return x.tolist()

        self.assertEqual(self.run_together(*[rank(s) for s in self.join(3)]), [[3**10] * 3] * 3)
        eventually(lambda: not self.threads())

    def test_many_works_are_awaited_at_once(self):
        first, second = self.join(2)

        async def rank(session):
            arrays = [ones() for _ in range(100)]
            await asyncio.gather(*[session.all_reduce_async(x, channel=i % 64) for i, x in enumerate(arrays)])
            return sum(x.sum() for x in arrays)

        self.assertEqual(self.run_together(rank(first), rank(second)), [600, 600])

    def test_a_work_that_is_done_needs_no_thread(self):
        first, second = self.join(2)
        works = [first.all_reduce_async(ones()), second.all_reduce_async(ones())]
        eventually(lambda: all(work.done() for work in works))

        async def both():
            return [(await work).world_size for work in works], self.threads()

        self.assertEqual(self.run_together(both()), [([2, 2], [])])

    def test_a_task_that_gives_up_leaves_the_operation_under_way(self):
        first, second = self.join(2)
        x = ones()

        async def rank():
            work = first.all_reduce_async(x)
            for _ in range(5):
                with self.assertRaises(asyncio.TimeoutError):
                    await asyncio.wait_for(asyncio.shield(self.wrapped(work)), 0.01)
                with self.assertRaises(asyncio.TimeoutError):
                    await asyncio.wait_for(work, 0.01)
            self.assertEqual(len(self.threads()), 1, "a thread for each attempt")
            other = second.all_reduce_async(ones())
            return (await work).world_size, (await other).world_size

        self.assertEqual(self.run_together(rank()), [(2, 2)])
        self.assertEqual(x.tolist(), [2, 2, 2])

    @staticmethod
    async def wrapped(work):
        return await work

    def test_failures_are_raised_by_the_await(self):
        first, second = self.join(2)

        async def rank():
            work = first.all_reduce_async(ones())
            waiting = asyncio.ensure_future(self.wrapped(work))
            await asyncio.sleep(0)
            work.cancel()
            for one in (waiting, work):
                with self.refused(ringway.Cancelled):
                    await one
            with self.refused(ringway.Cancelled):
                await second.all_reduce_async(ones())
            abandoned = first.all_reduce_async(ones())
            waiting = asyncio.ensure_future(self.wrapped(abandoned))
            await asyncio.sleep(0)
            first.abort()
            with self.refused(ringway.Left):
                await waiting

        self.run_together(rank())

    def test_a_loop_that_closes_while_a_work_is_awaited(self):
        first, second = self.join(2)
        x = ones()
        work = first.all_reduce_async(x)
        with self.assertRaises(asyncio.TimeoutError):
            asyncio.run(asyncio.wait_for(self.wrapped(work), 0.01))
        second.all_reduce(ones())
        self.assertEqual(work.wait(PATIENCE).world_size, 2)
        eventually(lambda: not self.threads())


if __name__ == "__main__":
    unittest.main()
