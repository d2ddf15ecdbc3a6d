"""torch's reconfiguration of a process group (torch 2.14) by the backend "ringway": its ranks are threads here.

The cases are those of pytorch's test/distributed/test_c10d_fault_tolerance.py, and what Ringway promises beyond them.
"""
import os
import pathlib
import signal
import sys
import unittest
from datetime import timedelta
from unittest import mock

import ringway
from cluster import PATIENCE, ClusterTest, Process, eventually, together

try:
    import torch
    import ringway.torch
    import torch.distributed as dist
    from ringway import _c10d_elastic
    from ringway._c10d import RingwayProcessGroup
    from torch.distributed.distributed_c10d import ReconfigureOptions
except ImportError:
    torch = None

LONG, SOON = timedelta(seconds=PATIENCE), timedelta(milliseconds=500)


class Elastic(ClusterTest):
    """Process groups that can be reconfigured, each with a daemon of its own while there are enough."""

    DAEMONS = 2

    def elastic(self, index, world=3, timeout=LONG):
        """One whose ranks torch believes to be so many."""
        with mock.patch.dict(os.environ, RINGWAY_SOCKET=self.cluster.sockets[index % len(self.cluster.sockets)]):
            made = RingwayProcessGroup(dist.HashStore(), index, world, timeout, enable_reconfigure=True)
        self.addCleanup(made.abort)
        return made

    def groups(self, world=3, timeout=LONG):
        return [self.elastic(i, world, timeout) for i in range(world)]

    def reconfigure(self, number, groups, handles=None, timeout=LONG):
        """All of them, which have the ranks of their order then unless there are other handles."""
        handles = [group.get_reconfigure_handle() for group in groups] if handles is None else handles
        options = ReconfigureOptions()
        options.uuid, options.handles, options.timeout = number, handles, timeout
        together(*[lambda group=group: self.assertTrue(group.reconfigure(options).wait()) for group in groups])
        self.assertEqual({group.size() for group in groups}, {len(handles)})

    def configured(self, world=3, timeout=LONG):
        groups = self.groups(world, timeout)
        self.reconfigure(1, groups)
        return groups

    def check(self, groups):
        """They are the ranks of one world, in this order."""
        self.assertEqual([group.rank() for group in groups], list(range(len(groups))))
        tensors = [torch.full((4,), group.rank() + 1.0) for group in groups]
        together(*[group.allreduce([x]).wait for group, x in zip(groups, tensors)])
        for x in tensors:
            self.assertEqual(x.tolist(), [sum(range(1, len(groups) + 1))] * 4)

    def refused_all_reduce(self, group, kind, *words):
        x = torch.ones(3)
        with self.refused(kind, *words):
            group.allreduce([x]).wait()
        self.assertEqual(x.tolist(), [1, 1, 1])


@unittest.skipUnless(torch, "torch is not installed: RINGWAY_TEST_TORCH=1 installs it, 5.4 GB")
class ReconfigureTest(Elastic):
    # ------------------------------------------------------------------------------------------ before

    def test_group_without_members_says_what_to_do(self):
        group = self.elastic(0)
        self.assertTrue(group.supports_reconfigure)
        self.assertEqual((group.rank(), group.size()), (0, 3))
        x = torch.ones(3)
        for call in (lambda: group.allreduce([x]), lambda: group.broadcast(x, 0), lambda: group.send([x], 1, 0),
                     lambda: group.recv([x], 1, 0), lambda: group.allgather([[x] * 3], [x]), lambda: group.barrier(),
                     lambda: group.reduce_scatter([x], [[x] * 3]), lambda: group.alltoall([x] * 3, [x] * 3),
                     lambda: group.split_group([0])):
            with self.refused(ringway.InvalidArgument, "has no members"):
                call()
        self.assertEqual(group.get_error(), torch._C._distributed_c10d.ErrorType.SUCCESS)
        self.assertEqual(ringway.torch.lost_ranks(group), [])
        with self.refused(ringway.InvalidArgument, "no process group of the backend ringway"):
            ringway.torch.lost_ranks(torch)

    def test_group_that_is_not_made_for_it_refuses(self):
        group = RingwayProcessGroup.__new__(RingwayProcessGroup)
        group._elastic = None
        self.assertFalse(group.supports_reconfigure)
        with self.refused(ringway.InvalidArgument, "without enable_reconfigure"):
            group.get_reconfigure_handle()

    def test_arguments_that_are_wrong_change_nothing(self):
        groups = self.configured(2)
        handles = [group.get_reconfigure_handle() for group in groups]
        stranger = self.elastic(0).get_reconfigure_handle()
        nested = "[" * 10000
        many = [self.elastic(0).get_reconfigure_handle() for _ in range(64)]
        for number, given, words in ((1, handles, "already used"), (2, [], "0 handles"), (2, [handles[0]] * 2, "two handles"),
                                     (2, [stranger], "none of the handles"), (2, [*many, handles[0]], "65 handles"),
                                     (2, [handles[0], nested], "is no handle"), (2, [handles[0], "[1,2]"], "is no handle"),
                                     (2, [handles[0], handles[1].replace('",1,', '",-1,')], "is no handle"),
                                     (2, [handles[0], '["ringway",1,"","",0,[]]'], "is no handle")):
            with self.subTest(words), self.refused(ringway.InvalidArgument, words):
                self.reconfigure(number, groups[:1], given)
        self.check(groups)

    # ------------------------------------------------------------------------------------------ members that live

    def test_first_configuration_has_the_order_of_the_list(self):
        groups = self.groups()
        self.reconfigure(100, [groups[2], groups[0], groups[1]])
        self.check([groups[2], groups[0], groups[1]])

    def test_messages_after_a_reconfiguration(self):
        groups = self.configured()

        def pass_on(group):
            right, left = (group.rank() + 1) % 3, (group.rank() - 1) % 3
            received = torch.zeros(4)
            sent = group.send([torch.full((4,), group.rank() + 1.0)], right, 0)
            group.recv([received], left, 0).wait()
            sent.wait()
            self.assertEqual(received.tolist(), [left + 1.0] * 4)

        together(*[lambda group=group: pass_on(group) for group in groups])

    def test_message_that_one_end_gave_up_is_not_paired_with_a_later_one(self):
        groups = self.configured(2)
        early = groups[0].send([torch.zeros(3)], 1, 7)
        self.reconfigure(2, groups)
        with self.refused(ringway.Cancelled):
            early.wait()
        received = torch.zeros(3)
        late = groups[0].send([torch.ones(3)], 1, 7)
        groups[1].recv([received], 0, 7).wait()
        late.wait()
        self.assertEqual(received.tolist(), [1, 1, 1])

    def test_rank_that_is_left_out_is_lost_and_the_others_are_renumbered(self):
        for number, place in enumerate((2, 1, 0)):
            with self.subTest(place=place):
                groups = self.configured()
                rest = [group for group in groups if group is not groups[place]]
                self.reconfigure(2 + number, rest)
                self.check(rest)
                x = [torch.full((4,), 42.0 * (group.rank() == 0)) for group in rest]
                together(*[lambda i=i: rest[i].broadcast(x[i], 0).wait() for i in range(2)])
                self.assertEqual(x[1].tolist(), [42.0] * 4)
                eventually(lambda left_out=groups[place]: not left_out._membership.is_whole)
                self.refused_all_reduce(groups[place], ringway.WorldTooSmall, " lost, and")

    def test_rank_that_was_left_out_comes_back(self):
        groups = self.configured()
        for number, place in enumerate((2, 1, 0), 1):
            self.reconfigure(10 * number, [group for group in groups if group is not groups[place]])
            self.reconfigure(10 * number + 1, groups)
            self.check(groups)

    def test_shrinking_and_growing_again_and_again(self):
        groups = self.configured()
        for i in range(3):
            dropped = groups.pop(i)
            self.reconfigure(10 + 2 * i, groups)
            self.check(groups)
            groups.append(dropped)
            self.reconfigure(11 + 2 * i, groups)
            self.check(groups)

    def test_each_alone_then_all_then_each_alone(self):
        groups = self.groups()
        for i, group in enumerate(groups):
            self.reconfigure(600 + i, [group])
            self.check([group])
        self.reconfigure(603, groups)
        self.check(groups)
        for i, group in enumerate(groups):
            self.reconfigure(604 + i, [group])
            self.check([group])

    def test_the_same_ranks_again_keep_their_group(self):
        groups = self.configured()
        before = [group._session for group in groups]
        self.reconfigure(2, groups[::-1])
        self.check(groups[::-1])
        self.assertEqual([group._session for group in groups], before)

    def test_ranks_that_come_later_join_the_group_that_is_there(self):
        groups = self.groups()
        self.reconfigure(900, groups[:2])
        before = [group._session for group in groups[:2]]
        self.reconfigure(901, groups)
        self.check(groups)
        self.assertEqual([group._session for group in groups[:2]], before)

    def test_groups_merge_and_split(self):
        groups = self.groups(4)
        self.reconfigure(1000, groups[:2])
        self.reconfigure(1001, groups[2:])
        self.reconfigure(1002, groups)
        self.check(groups)
        together(lambda: self.reconfigure(1003, groups[:2]), lambda: self.reconfigure(1004, groups[2:]))
        self.check(groups[:2])
        self.check(groups[2:])

    def test_set_of_handles_has_ranks_in_the_order_of_ringways(self):
        groups = self.groups()
        self.reconfigure(1, groups, {group.get_reconfigure_handle() for group in groups})
        self.check(sorted(groups, key=lambda group: group.rank()))
        self.assertEqual([group.rank() for group in groups], [group._session.rank for group in groups])

    def test_operations_under_way_are_cancelled(self):
        groups = self.configured(2)
        works = [groups[0].allreduce([torch.ones(3)]) for _ in range(300)]  # more than a session takes at once
        future = works[0].get_future()
        self.reconfigure(2, groups)
        for work in works:
            with self.refused(ringway.Cancelled):
                work.wait()
        with self.assertRaisesRegex(RuntimeError, "Cancelled"):
            future.wait()
        self.check(groups)

    def test_parts_of_a_group_are_groups_wherever_their_ranks_come_from(self):
        old = self.configured(2)
        together(*[lambda group=group: self.check_parts(group, 2, [0, 1]) for group in old])
        groups = [*old, self.elastic(2)]
        self.reconfigure(2, groups)
        together(*[lambda group=group: self.check_parts(group, 3, [2, 0]) for group in groups])

    def check_parts(self, group, world, ranks):
        for _ in range(2):
            part = group.split_group(ranks, timeout=LONG)
            if group.rank() not in ranks:
                self.assertIsNone(part)
                continue
            self.addCleanup(part.abort)
            self.assertEqual((part.rank(), part.size()), (ranks.index(group.rank()), 2))
            x = torch.tensor([float(group.rank())])
            part.broadcast(x, 0).wait()
            self.assertEqual(x.item(), ranks[0])
            self.assertFalse(part.supports_reconfigure)

    # ------------------------------------------------------------------------------------------ what fails

    def test_abort_is_recovered_from(self):
        groups = self.configured()
        works = [group.allreduce([torch.ones(3)]) for group in groups[:2]]
        for group in groups:
            group.abort()
            self.refused_all_reduce(group, ringway.Left, "reconfigure it")
            self.assertEqual(group.get_error(), torch._C._distributed_c10d.ErrorType.SUCCESS)
        for work in works:
            with self.refused(ringway.Left):
                work.wait()
        self.reconfigure(2, groups)
        self.check(groups)

    def test_abort_while_it_joins_ends_the_reconfiguration(self):
        group, sessions, join = self.elastic(0), [], ringway.join

        def join_and_abort(*args, **kwargs):
            sessions.append(join(*args, **kwargs))
            group.abort()
            return sessions[-1]

        with mock.patch.object(ringway, "join", join_and_abort), self.refused(ringway.Left, "aborted"):
            self.reconfigure(1, [group])
        with self.refused(ringway.Left):
            sessions[0].update_view()
        self.reconfigure(2, [group])
        self.check([group])

    def test_shutdown_is_the_end(self):
        group = self.configured(1)[0]
        group.shutdown()
        with self.refused(ringway.Left, "was shut down"):
            self.reconfigure(2, [group])

    def test_timeout_of_an_operation_is_recovered_from(self):
        groups = self.configured()
        groups[1].set_timeout(SOON)
        self.refused_all_reduce(groups[1], ringway.Deadline, "rank")
        self.assertEqual(groups[1].get_error(), torch._C._distributed_c10d.ErrorType.TIMEOUT)
        groups[1].set_timeout(LONG)
        self.reconfigure(2, groups)
        self.check(groups)
        self.assertEqual(groups[1].get_error(), torch._C._distributed_c10d.ErrorType.SUCCESS)

    def test_reconfiguration_that_one_does_not_join_times_out_and_can_be_tried_again(self):
        groups = self.groups()
        handles = [group.get_reconfigure_handle() for group in groups]

        def fail(i):
            with self.assertRaises(ringway.Error):
                self.reconfigure(1, groups[i : i + 1], handles, SOON)

        together(lambda: fail(0), lambda: fail(1))
        self.refused_all_reduce(groups[0], ringway.InvalidArgument, "failed")
        self.assertEqual(len({group.get_reconfigure_handle() for group in groups}), 3)
        self.reconfigure(2, groups)
        self.check(groups)

    def test_member_that_does_not_join_a_later_reconfiguration_is_named(self):
        groups = self.configured()
        handles = [group.get_reconfigure_handle() for group in groups]
        with self.refused(ringway.Timeout, "timeout of the reconfiguration"):
            self.reconfigure(2, groups[:1], handles, SOON)
        self.reconfigure(3, groups)
        self.check(groups)

    def test_ranks_that_pass_other_arguments_all_fail(self):
        groups = self.configured(2)
        handles = [group.get_reconfigure_handle() for group in groups]

        def call(i, number, given):
            with self.refused(ringway.Mismatch, "other uuids or handles"):
                self.reconfigure(number, groups[i : i + 1], given)

        together(lambda: call(0, 2, handles), lambda: call(1, 3, handles))
        handles = [group.get_reconfigure_handle() for group in groups]
        self.reconfigure(4, groups, handles)
        handles = [group.get_reconfigure_handle() for group in groups]
        together(lambda: call(0, 5, handles), lambda: call(1, 5, handles[::-1]))
        self.reconfigure(6, groups)
        self.check(groups)


def connections(daemon):
    """Established TCP connections of a daemon: local and remote port."""
    inodes = set()
    for descriptor in os.listdir(f"/proc/{daemon.pid}/fd"):
        try:
            inodes.add(os.readlink(f"/proc/{daemon.pid}/fd/{descriptor}"))
        except FileNotFoundError:  # closed meanwhile
            continue
    with open("/proc/net/tcp", encoding="ascii") as table:
        rows = [line.split() for line in table.readlines()[1:]]
    return {tuple(int(end.partition(":")[2], 16) for end in row[1:3])
            for row in rows if row[3] == "01" and f"socket:[{row[9]}]" in inodes}


@unittest.skipUnless(torch, "torch is not installed: RINGWAY_TEST_TORCH=1 installs it, 5.4 GB")
class DeathTest(Elastic):
    """The daemon of a rank is killed, and with it all that the others know of the rank."""

    DAEMONS = 0  # those of a test are its own

    def setUp(self):
        super().setUp()
        self.start(4)

    def between(self, indices):
        """The connections between these daemons."""
        ends = [connections(self.cluster.daemons[i]) for i in indices]
        return {frozenset(pair) for theirs in ends for pair in theirs
                if any(pair[::-1] in others for others in ends if others is not theirs)}

    def test_survivors_fail_alike_and_go_on_without_a_new_connection(self):
        groups = self.configured(4)
        self.check(groups)
        works = [group.allreduce([torch.ones(1000)]) for group in groups[:3]]
        before, sessions = self.between(range(3)), [group._session for group in groups[:3]]
        self.assertGreaterEqual(len(before), 6)  # a control link and a lane of each pair
        self.cluster.kill(3)
        for work in works:
            with self.refused(ringway.PeerLost, "rank 3 is lost"):
                work.wait()
        together(*[lambda group=group: self.refused_all_reduce(group, ringway.WorldTooSmall, "rank 3 is lost")
                   for group in groups[:3]])
        for group in groups[:3]:
            with self.refused(ringway.WorldTooSmall, "rank 3 is lost"):
                group.send([torch.ones(3)], (group.rank() + 1) % 3, 0)
        self.assertEqual(groups[0].get_error(), torch._C._distributed_c10d.ErrorType.COMM_ERROR)
        self.assertEqual([ringway.torch.lost_ranks(group) for group in groups[:3]], [[3]] * 3)
        self.reconfigure(2, groups[:3])
        self.check(groups[:3])
        self.assertEqual([ringway.torch.lost_ranks(group) for group in groups[:3]], [[]] * 3)
        self.assertLessEqual(self.between(range(3)), before)
        self.assertEqual([group._session for group in groups[:3]], sessions)

        self.cluster.start(3)
        groups[3] = self.elastic(3)  # another process in its place
        self.reconfigure(3, groups)
        self.check(groups)
        self.assertLessEqual(self.between(range(3)), before)

        self.cluster.kill(0)
        eventually(lambda: all(not group._membership.is_whole for group in groups[1:]))
        self.reconfigure(4, groups[1:])
        self.check(groups[1:])
        self.assertLessEqual(self.between([1, 2]), before)

    def test_rank_that_waits_for_others_that_know_of_the_loss_already_fails_too(self):
        groups = self.configured(3)
        self.cluster.kill(2)
        eventually(lambda: not groups[0]._membership.is_whole)
        self.refused_all_reduce(groups[0], ringway.WorldTooSmall, "rank 2 is lost")
        eventually(lambda: not groups[1]._membership.is_whole)
        with mock.patch.object(_c10d_elastic.ElasticMembership, "is_whole", True):  # as if it did not know it yet
            work = groups[1].allreduce([torch.ones(3)])
        with self.refused(ringway.PeerLost, "rank 2 is lost"):
            work.wait()
        self.reconfigure(2, groups[:2])
        self.check(groups[:2])

    def test_operation_that_ran_without_a_lost_rank_has_failed(self):
        groups = self.configured(3)
        self.cluster.kill(2)
        eventually(lambda: all(not group._membership.is_whole for group in groups[:2]))
        with mock.patch.object(_c10d_elastic.ElasticMembership, "is_whole", True):
            works = [group.allreduce([torch.ones(3)]) for group in groups[:2]]
        for work in works:
            with self.refused(ringway.PeerLost, "rank 2 is lost"):
                work.wait()

    def test_operation_that_ran_without_a_rank_has_failed_when_another_has_replaced_it(self):
        groups = self.configured(3)
        self.cluster.kill(2)
        eventually(lambda: all(not group._membership.is_whole for group in groups[:2]))
        with mock.patch.object(_c10d_elastic.ElasticMembership, "is_whole", True):
            works = [group.allreduce([torch.ones(3)]) for group in groups[:2]]
        eventually(lambda: all(work._operation.is_done() for work in works))
        self.cluster.start(2)
        groups[2] = self.elastic(2)
        self.reconfigure(2, groups)
        for work in works:
            with self.refused(ringway.PeerLost, "rank 2 is lost"):
                work.wait()
        self.check(groups)

    def test_death_that_nobody_knows_of_yet_needs_no_detection(self):
        groups = self.configured(3)
        self.cluster.daemons[2].signal(signal.SIGSTOP)  # silent; detected after two seconds
        self.reconfigure(2, groups[:2])
        self.check(groups[:2])
        self.cluster.daemons[2].signal(signal.SIGCONT)

    def test_member_that_dies_before_it_reconfigures_is_lost_to_the_others(self):
        groups = self.configured(3)
        handles = [group.get_reconfigure_handle() for group in groups]
        self.cluster.kill(2)

        def fail(i):
            with self.refused(ringway.PeerLost, "lost"):
                self.reconfigure(2, groups[i : i + 1], handles)

        together(lambda: fail(0), lambda: fail(1))
        self.assertEqual([ringway.torch.lost_ranks(group) for group in groups[:2]], [[2]] * 2)  # as it was before
        self.reconfigure(3, groups[:2])
        self.check(groups[:2])

    def test_rank_whose_own_daemon_died_comes_back_as_another(self):
        groups = self.configured(2)
        self.cluster.kill(1)
        self.refused_all_reduce(groups[1], ringway.DaemonLost)
        self.cluster.start(1)
        eventually(lambda: not groups[0]._membership.is_whole)
        groups[1].abort()
        self.reconfigure(2, groups)
        self.check(groups)


@unittest.skipUnless(torch, "torch is not installed: RINGWAY_TEST_TORCH=1 installs it, 5.4 GB")
class TrainingTest(ClusterTest):
    def test_trainings_whose_ranks_change_end_as_one_process_does(self):
        program = pathlib.Path(__file__).resolve().parent / "reconfigure_training.py"
        directory = self.cluster.directory / self.group
        directory.mkdir()
        training = Process(self.cluster.directory / "training.log", [sys.executable, "-B", program, directory, *self.cluster.sockets])
        self.addCleanup(training.kill)
        self.assertEqual(training.process.wait(3 * PATIENCE), 0, training.text())  # 14 processes that train
        alone = torch.load(directory / "alone.pt")
        ended = {"ddp.0", "ddp.1", "ddp.3", "fsdp2.0", "fsdp2.1", "fsdp2.3", "hsdp.0", "hsdp.1", "hsdp.4", "hsdp.5"}
        self.assertEqual({path.stem for path in directory.glob("*.pt")}, {*ended, "alone"})
        for name in sorted(ended):
            mine = torch.load(directory / f"{name}.pt")
            self.assertEqual(mine.keys(), alone.keys())
            for key, value in alone.items():
                torch.testing.assert_close(mine[key], value, rtol=1e-4, atol=1e-5, msg=lambda text, name=name: f"{name}: {text}")


if __name__ == "__main__":
    unittest.main()
