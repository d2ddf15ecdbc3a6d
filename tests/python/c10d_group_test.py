"""A process group of the backend "ringway" by itself: its ranks are threads here."""
import gc
import os
import threading
import unittest
from datetime import timedelta
from unittest import mock

import ringway
from cluster import PATIENCE, ClusterTest, eventually, together

try:
    import torch
    import ringway.torch
    import torch.distributed as dist
    from ringway import _c10d_join
    from ringway._c10d import RingwayProcessGroup
except ImportError:
    torch = None

SECOND = timedelta(seconds=1)
LONG = timedelta(seconds=PATIENCE)


def options(kind, **values):
    made = kind()
    for name, value in values.items():
        setattr(made, name, value)
    return made


@unittest.skipUnless(torch, "torch is not installed: RINGWAY_TEST_TORCH=1 installs it, 5.4 GB")
class C10dGroupTest(ClusterTest):
    def groups(self, world=2, timeout=LONG, store=None):
        store = store or dist.HashStore()

        def group(rank):
            return RingwayProcessGroup(store, rank, world, timeout)

        with mock.patch.dict(os.environ, RINGWAY_SOCKET=self.cluster.sockets[0]):
            groups = together(*[lambda rank=rank: group(rank) for rank in range(world)])
        for group in groups:
            self.addCleanup(group.abort)
        return groups

    def refused_wait(self, work, kind, *words, timeout=None):
        with self.refused(kind, *words):
            work.wait(*([] if timeout is None else [timeout]))

    # ------------------------------------------------------------------------------------------ timeouts

    def test_timeout_of_one_rank_fails_the_operations_on_all_and_says_whom_it_waited_for(self):
        first, second = self.groups(timeout=SECOND)
        for _ in range(2):
            self.refused_wait(first.allreduce([torch.ones(3)]), ringway.Deadline, "last for rank 1")
        for _ in range(2):
            self.refused_wait(second.allreduce([torch.ones(3)]), ringway.Deadline, "last for rank 1")
        for group in (first, second):
            group.set_timeout(LONG)
        x, y = torch.ones(3), torch.ones(3)
        together(first.allreduce([x]).wait, second.allreduce([y]).wait)
        self.assertEqual((x.tolist(), y.tolist()), ([2, 2, 2], [2, 2, 2]))

    def test_timeout_of_a_message_is_that_of_both_ends(self):
        first, second = self.groups(timeout=SECOND)
        for receives, sends, rank in ((first, second, 1), (second, first, 0)):
            work = receives.recv([torch.ones(3)], rank, 5)
            self.refused_wait(work, ringway.Deadline, f"which waited for rank {rank}")
            self.refused_wait(sends.send([torch.ones(3)], 1 - rank, 5), ringway.Deadline, f"waited for rank {rank}")
            self.refused_wait(sends.send([torch.ones(100_000)], 1 - rank, 6), ringway.Deadline, f"for rank {1 - rank}")

    def test_timeout_of_a_wait_fails_the_operation_on_all_ranks(self):
        first, second = self.groups()
        for call in (lambda group: group.allreduce([torch.ones(3)]),
                     lambda group: group.allgather([[torch.ones(3)] * 2], [torch.ones(3)]),
                     lambda group: group.barrier()):
            self.refused_wait(call(first), ringway.Deadline, "last for rank 1", timeout=timedelta(milliseconds=20))
            self.refused_wait(call(second), ringway.Deadline, "last for rank 1")
        self.refused_wait(first.recv([torch.ones(3)], 1, 0), ringway.Deadline, "rank 1", timeout=timedelta(milliseconds=20))
        self.refused_wait(second.send([torch.ones(3)], 0, 0), ringway.Deadline, "rank 1")

    def test_timeout_of_a_wait_ends_that_of_another_thread_too(self):
        first, second = self.groups()
        work = first.allreduce([torch.ones(3)])
        waiting = threading.Event()

        def wait():
            waiting.set()
            self.refused_wait(work, ringway.Deadline)

        def hurry():
            waiting.wait()
            self.refused_wait(work, ringway.Deadline, timeout=timedelta(milliseconds=20))

        together(wait, hurry)
        self.refused_wait(second.allreduce([torch.ones(3)]), ringway.Deadline)

    def test_timeout_of_a_call_replaces_the_group_s(self):
        soon = timedelta(milliseconds=20)
        first, second = self.groups()
        self.refused_wait(first.barrier(options(dist.BarrierOptions, timeout=soon)), ringway.Deadline, "rank 1")
        self.refused_wait(second.barrier(), ringway.Deadline, "rank 1")
        self.refused_wait(first.broadcast(torch.ones(3), 1, timeout=soon), ringway.Deadline, "rank 1")
        self.refused_wait(second.broadcast(torch.ones(3), 1), ringway.Deadline, "rank 1")

    # ------------------------------------------------------------------------------------------ many

    def test_operations_beyond_what_a_session_takes_are_submitted_in_their_order(self):
        first, second = self.groups()
        count = 600
        mine = [torch.full((3,), float(i)) for i in range(count)]
        works = [first.allreduce([x]) for x in mine]  # before the other rank has submitted one
        self.assertFalse(works[-1].is_completed())
        theirs = [torch.full((3,), float(i)) for i in range(count)]
        others = [second.allreduce([x]) for x in theirs]
        eventually(lambda: all(work.is_completed() for work in works + others))
        for x in (mine, theirs):
            self.assertEqual([t.tolist() for t in x], [[2.0 * i] * 3 for i in range(count)])

    def test_operations_that_are_done_and_not_read_leave_room(self):
        first, second = self.groups()
        rounds = [[group.allreduce([torch.ones(1)]) for group in (first, second)] for _ in range(256)]
        done = [work._operation.works[0] for pair in rounds for work in pair]
        eventually(lambda: all(work.done() for work in done))
        x = torch.ones(2)
        more = [first.allreduce([x]), second.allreduce([torch.ones(2)])]
        self.assertIsNone(more[0]._operation.begun)  # it did not have to wait
        for work in [*more, *[work for pair in rounds for work in pair]]:
            work.wait()
        self.assertEqual(x.tolist(), [2, 2])

    def test_waiting_operations_have_timeouts_futures_and_an_end(self):
        first, _second = self.groups()
        works = [first.allreduce([torch.ones(3)]) for _ in range(300)]
        future = works[298].get_future()
        self.refused_wait(works[0], ringway.Deadline, "rank 1", timeout=timedelta(milliseconds=20))
        first.abort()
        self.refused_wait(works[299], ringway.Left)
        with self.assertRaisesRegex(RuntimeError, "Left"):
            future.wait()

    # ------------------------------------------------------------------------------------------ what is reduced and moved

    def test_averages_of_integers_are_their_sums_divided_towards_zero(self):
        dtypes = [torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.uint16, torch.uint32, torch.uint64]
        groups = self.groups(3)

        def averages(group, rank, dtype):
            def values(*those):
                return torch.tensor(those, dtype=torch.int64).to(dtype)

            sign = 1 if dtype in (torch.uint8, torch.uint16, torch.uint32, torch.uint64) else -1
            average = dist.ReduceOp.AVG
            x = values(7 * (rank + 1), sign * 7 * (rank == 0), 5)
            gaps = values(8, 0, rank, 0)[::2]
            root, part = values(rank + 6), values(0)
            group.allreduce([x], options(dist.AllreduceOptions, reduceOp=average)).wait()
            group.allreduce([gaps], options(dist.AllreduceOptions, reduceOp=average)).wait()
            group.reduce([root], options(dist.ReduceOptions, reduceOp=average, rootRank=1)).wait()
            parts = [values(sign * (rank + 10 * i)) for i in range(3)]
            group.reduce_scatter([part], [parts], options(dist.ReduceScatterOptions, reduceOp=average)).wait()
            self.assertEqual(x.tolist(), [14, 7 // 3 * sign, 5], dtype)
            self.assertEqual(gaps.tolist(), [8, 1], dtype)
            self.assertEqual(root.item(), 7 if rank == 1 else rank + 6, dtype)
            self.assertEqual(part.item(), sign * (1 + 10 * rank), dtype)

        for dtype in dtypes:
            together(*[lambda rank=rank: averages(groups[rank], rank, dtype) for rank in range(3)])
        alone, = self.groups(1)
        x = torch.tensor([7, -7])
        alone.allreduce([x], options(dist.AllreduceOptions, reduceOp=dist.ReduceOp.AVG)).wait()
        self.assertEqual(x.tolist(), [7, -7])

    def test_elements_without_arithmetic_are_moved_and_not_reduced(self):
        first, second = self.groups()
        names = ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu", "uint16", "uint32", "uint64"]

        def move(group, rank, dtype):
            mine, zero = torch.tensor([1, 2, rank + 3]).to(dtype), torch.zeros(3).to(dtype)
            theirs = torch.tensor([1, 2, 4 - rank]).to(dtype)

            def check(*results):
                for got, wanted in results:
                    self.assertEqual(got.view(torch.uint8).tolist(), wanted.view(torch.uint8).tolist(), dtype)

            ordered = [mine, theirs] if rank == 0 else [theirs, mine]
            x, parts = mine.clone(), [zero.clone(), zero.clone()]
            group.broadcast([x], options(dist.BroadcastOptions, rootRank=1)).wait()
            group.allgather([parts], [mine]).wait()
            check((x, ordered[1]), *zip(parts, ordered))
            parts = [zero.clone(), zero.clone()]
            group.alltoall(parts, [mine, mine]).wait()
            check(*zip(parts, ordered))
            parts = [zero.clone(), zero.clone()]
            group.gather([parts] if rank == 0 else [], [mine], options(dist.GatherOptions, rootRank=0)).wait()
            if rank == 0:
                check(*zip(parts, ordered))
            x = zero.clone()
            group.scatter([x], [ordered] if rank == 0 else [], options(dist.ScatterOptions, rootRank=0)).wait()
            check((x, mine))
            x = zero.clone()
            work = group.send([mine], 1 - rank, 0)
            group.recv([x], 1 - rank, 0).wait()
            work.wait()
            check((x, theirs))
            if dtype.is_floating_point:
                with self.refused(ringway.NotSupported, str(dtype)):
                    group.allreduce([mine])

        for name in names:
            dtype = getattr(torch, name)
            together(lambda: move(first, 0, dtype), lambda: move(second, 1, dtype))

    # ------------------------------------------------------------------------------------------ the group

    def test_rank_that_goes_before_it_submits_is_lost_to_who_waits(self):
        first, second, third = self.groups(3)
        work = first.allreduce([torch.ones(3)])
        second.abort()
        self.refused_wait(work, ringway.PeerLost, "rank 1")
        self.refused_wait(third.allreduce([torch.ones(3)]), ringway.PeerLost, "rank 1")
        for call in (lambda: first.allreduce([torch.ones(3)]).wait(), lambda: first.recv([torch.ones(3)], 2, 0)):
            with self.refused(ringway.WorldTooSmall, "rank 1 is lost"):
                call()
        self.assertEqual(ringway.torch.lost_ranks(first), [1])
        self.assertEqual(ringway.torch.lost_ranks(third), [1])

    def test_group_that_is_dropped_keeps_no_descriptors_and_no_threads(self):
        def in_use():
            gc.collect()
            return len(os.listdir("/proc/self/fd")), sum(thread.name == "ringway-c10d" for thread in threading.enumerate())

        def use():
            groups = self.groups()
            self.doCleanups_of_groups(groups)
            together(*[lambda group=group: group.allreduce([torch.ones(3)]).wait() for group in groups])

        before = in_use()
        use()
        eventually(lambda: in_use() == before)

    def doCleanups_of_groups(self, groups):
        self._cleanups = [x for x in self._cleanups if getattr(x[0], "__self__", None) not in groups]

    def test_who_waits_for_others_to_come_logs_their_ranks(self):
        store = dist.HashStore()
        with mock.patch.object(_c10d_join, "_LOG_FIRST", 0.05), self.assertLogs("ringway", "WARNING") as logs:
            late = threading.Event()

            def second():
                late.wait()
                return RingwayProcessGroup(store, 1, 2, LONG)

            def first():
                return RingwayProcessGroup(store, 0, 2, LONG)

            def watch():
                eventually(lambda: any("waits for rank 1 since" in line for line in logs.output))
                late.set()

            with mock.patch.dict(os.environ, RINGWAY_SOCKET=self.cluster.sockets[0]):
                for group in together(first, second, watch)[:2]:
                    self.addCleanup(group.abort)

    def test_who_does_not_come_is_named(self):
        with self.refused(ringway.Timeout, "ranks 0, 2 did not come"):
            RingwayProcessGroup(dist.HashStore(), 1, 3, timedelta(milliseconds=50))

    def test_all_reduces_of_a_group_with_a_quorum_go_on_without_late_ranks(self):
        from ringway.torch import GroupOptions

        store = dist.HashStore()
        with mock.patch.dict(os.environ, RINGWAY_SOCKET=self.cluster.sockets[0]):
            groups = together(*[
                lambda rank=rank: RingwayProcessGroup(store, rank, 3, LONG, options=GroupOptions(quorum=2)) for rank in range(3)])
        for group in groups:
            self.addCleanup(group.abort)
        average = options(dist.AllreduceOptions, reduceOp=dist.ReduceOp.AVG)
        xs = [torch.full((4,), value) for value in (1.0, 3.0, 50.0)]
        for work in [group.allreduce([x], average) for group, x in zip(groups[:2], xs)]:
            work.wait()
        groups[2].allreduce([xs[2]], average).wait()
        self.assertEqual([x.tolist() for x in xs], [[2.0] * 4] * 3)
        with self.refused(ringway.NotSupported, "average of integers"):
            groups[0].allreduce([torch.ones(2, dtype=torch.int32)], average)
        largest = options(dist.AllreduceOptions, reduceOp=dist.ReduceOp.MAX)
        xs = [torch.tensor([rank]) for rank in range(3)]
        for work in [group.allreduce([x], largest) for group, x in zip(groups, xs)]:
            work.wait()
        self.assertEqual([int(x) for x in xs], [2, 2, 2])

    def test_split_has_ranks_in_the_order_that_is_asked_for(self):
        groups = self.groups(3)

        def split(rank):
            group = groups[rank].split_group([2, 0], timeout=LONG, group_name="half")
            if rank == 1:
                self.assertIsNone(group)
                return
            self.addCleanup(group.abort)
            self.assertEqual((group.size(), group.rank(), group.group_name), (2, 0 if rank == 2 else 1, "half"))
            x = torch.tensor([float(rank)])
            group.broadcast(x, 0).wait()
            self.assertEqual(x.item(), 2)

        with mock.patch.dict(os.environ, RINGWAY_SOCKET=self.cluster.sockets[0]):
            together(*[lambda rank=rank: split(rank) for rank in range(3)])


if __name__ == "__main__":
    unittest.main()
