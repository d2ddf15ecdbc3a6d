"""What is wrong with a call is said by an exception of its own class, with advice; the session goes on."""

import copy
import os
import pathlib
import pickle
import re
import unittest
import unittest.mock

import numpy
import ringway
from cluster import PATIENCE, ClusterTest, Exporter, together

CLIENT_README = pathlib.Path(__file__).resolve().parents[2] / "client/README.md"


def codes():
    """The codes of the table of errors, which a test of the C++ side compares with the library's list."""
    table = CLIENT_README.read_text(encoding="utf-8").partition("## Errors")[2].partition("\n## ")[0]
    return re.findall(r"^\| `([a-z_]+)` \|", table, re.MULTILINE)


class ErrorsTest(unittest.TestCase):
    def test_each_code_has_a_class(self):
        self.assertEqual(len(codes()), 26)
        for code in codes():
            kind = getattr(ringway, code.title().replace("_", ""))
            self.assertTrue(issubclass(kind, ringway.Error))
            self.assertEqual((kind.code, kind.__module__), (code, "ringway"))
            again = pickle.loads(pickle.dumps(kind("what to do")))
            self.assertEqual((type(again), again.message, str(again)), (kind, "what to do", "what to do"))
        classes = {x for x in vars(ringway).values() if isinstance(x, type) and issubclass(x, ringway.Error)}
        self.assertEqual(len(classes), len(codes()) + 1)

    def test_each_class_says_what_it_means_and_what_to_do(self):
        rows = CLIENT_README.read_text(encoding="utf-8").partition("## Errors")[2].partition("\n## ")[0]
        for code, meaning in re.findall(r"^\| `([a-z_]+)` \| (\w+ \w+)", rows, re.MULTILINE):
            doc = getattr(ringway, code.title().replace("_", "")).__doc__
            self.assertTrue(doc.startswith(meaning[0].upper() + meaning[1:]), doc)
            self.assertIn("What to do: ", doc)
        for x in vars(ringway).values():  # a wheel has no README but Python's
            self.assertNotIn("README", getattr(x, "__doc__", None) or "")

    def test_classes_are_what_python_calls_such_failures(self):
        self.assertTrue(issubclass(ringway.Timeout, TimeoutError))
        self.assertTrue(issubclass(ringway.InvalidArgument, ValueError))


class JoinTest(ClusterTest):
    def test_wrong_options_are_refused_by_name(self):
        with self.refused(ringway.InvalidArgument, "wait_world", "-1"):
            ringway.join("g", wait_world=-1)
        with self.refused(ringway.InvalidArgument, "group"):
            ringway.join(7, wait_world=1)
        with self.refused(ringway.InvalidArgument, r"'\udc80'"):
            ringway.join("g", wait_world=1, timeout="\udc80")
        with self.refused(ringway.InvalidArgument, "fail_on_peer_loss"):
            ringway.join("g", wait_world=1, fail_on_peer_loss="no")
        for time in (-1, float("nan"), "soon"):
            with self.refused(ringway.InvalidArgument, repr(time)):
                ringway.join("g", wait_world=1, timeout=time)
        with self.assertRaisesRegex(TypeError, "world"):
            ringway.join("g", world=1)

    def test_nobody_listens(self):
        with self.environment(RINGWAY_SOCKET="/other.sock"):
            for socket in ("/nowhere.sock", pathlib.Path("/nowhere.sock")):
                with self.refused(ringway.DaemonUnreachable, "/nowhere.sock", "socket="):
                    ringway.join("g", wait_world=1, socket=socket, timeout=5)
            with self.refused(ringway.DaemonUnreachable, "/other.sock", "RINGWAY_SOCKET, which names this one"):
                ringway.join("g", wait_world=1, timeout=5)

    def test_the_socket_is_that_of_the_environment_unless_it_is_given(self):
        with self.environment(RINGWAY_SOCKET=self.cluster.sockets[0]):
            ringway.join(self.group, wait_world=1, timeout=PATIENCE).leave()
            ringway.join(self.group, wait_world=1, timeout=PATIENCE, socket=None).leave()
        with self.environment(RINGWAY_SOCKET="/nowhere.sock"):
            ringway.join(self.group, wait_world=1, socket=pathlib.Path(self.cluster.sockets[0]), timeout=PATIENCE).leave()
        with self.refused(ringway.InvalidArgument, "socket is 7"):
            ringway.join("g", wait_world=1, socket=7)

    @staticmethod
    def environment(**variables):
        return unittest.mock.patch.dict(os.environ, variables)

    def test_others_do_not_come(self):
        seen = []
        with self.refused(ringway.Timeout):
            ringway.join(**self.options(0, 2, timeout=0.2, on_waiting=seen.append))
        self.assertEqual(seen, [None])

    def test_on_waiting_may_raise(self):
        def give_up(problem):
            raise LookupError(f"reminded of {problem}")

        with self.assertRaisesRegex(LookupError, "reminded of None"):
            ringway.join(**self.options(0, 2, on_waiting=give_up))

    def test_a_session_that_failed_to_join_cannot_be_used(self):
        session = ringway.Session.__new__(ringway.Session)
        with self.assertRaises(TypeError), self.assertWarns(RuntimeWarning):
            session.leave()

    def test_refusals_of_the_master_are_typed(self):
        self.join(1)
        with self.refused(ringway.JoinRefused):
            ringway.join(**self.options(1, 1, fail_on_peer_loss=True))


class ArraysTest(ClusterTest):
    DAEMONS = 1

    def setUp(self):
        super().setUp()
        (self.session,) = self.join(1)
        self.addCleanup(lambda: self.assertEqual(self.session.all_reduce(numpy.ones(3)).world_size, 1))

    def test_what_is_no_array(self):
        for x in (None, 1.5, [1.0, 2.0], "text", object()):
            with self.assertRaisesRegex(TypeError, f"x must be an array .*{type(x).__name__}"):
                self.session.all_reduce(x)
        with self.assertRaisesRegex(TypeError, "out must be an array .*NoneType"):
            self.session.all_gather(numpy.zeros(3), out=None)

    def test_dtypes_that_have_no_sum(self):
        structured = numpy.zeros(3, [("a", "f4"), ("b", "i4")])
        for x in (numpy.zeros(3, bool), numpy.zeros(3, "complex64"), numpy.zeros(3, "longdouble"), structured,
                  numpy.zeros(3, ">f4"), numpy.zeros(3, "datetime64[s]"), numpy.zeros(3, object), numpy.zeros(3, "S0"),
                  numpy.zeros(3, "U4")):
            with self.subTest(dtype=x.dtype), self.refused(ringway.NotSupported, str(x.dtype)):
                self.session.all_reduce(x)

    def test_arrays_with_gaps(self):
        matrix = numpy.zeros((4, 6), "float32")
        for x in (matrix[:, ::2], matrix.T, matrix[:, :3], matrix[::-1], numpy.broadcast_to(numpy.float32(1), (3,))):
            with self.refused(ringway.InvalidArgument, "contiguous"):
                self.session.all_reduce(x, out=numpy.zeros(x.shape, "float32"))
        self.session.all_reduce(matrix[1:3])
        self.session.all_reduce(matrix[:, None, :])
        self.session.all_reduce(numpy.zeros((0, 5))[:, ::2])

    def test_read_only_arrays(self):
        x = numpy.arange(3.0)
        x.flags.writeable = False
        with self.refused(ringway.InvalidArgument, "x is read-only", "out="):
            self.session.all_reduce(x)
        with self.refused(ringway.InvalidArgument, "out is read-only"):
            self.session.all_reduce(numpy.zeros(3), out=x)
        with self.refused(ringway.InvalidArgument, "read-only"):
            self.session.all_reduce(bytes(3))
        out = numpy.zeros(3)
        self.session.all_reduce(x, out=out)
        self.assertEqual(out.tolist(), [0, 1, 2])

    def test_two_arrays_that_do_not_match(self):
        x = numpy.zeros(6)
        with self.refused(ringway.InvalidArgument, "6", "5"):
            self.session.all_reduce(x, out=numpy.zeros(5))
        with self.refused(ringway.InvalidArgument, "6", "7"):
            self.session.reduce_scatter(x, out=numpy.zeros(7))
        with self.refused(ringway.InvalidArgument, "f64", "f32"):
            self.session.all_reduce(x, out=numpy.zeros(6, "float32"))
        with self.refused(ringway.InvalidArgument, "room"):
            self.session.all_gather(x, out=numpy.zeros(5))
        with self.refused(ringway.InvalidArgument, "overlap"):
            self.session.all_reduce(x[:4], out=x[2:])
        with self.refused(ringway.InvalidArgument, "overlap"):
            self.session.all_gather(x, out=x)

    def test_wrong_options(self):
        x = numpy.zeros(64, "float32")
        with self.refused(ringway.InvalidArgument, "'mean'", "sum, avg, prod, min, max"):
            self.session.all_reduce(x, "mean")
        with self.refused(ringway.InvalidArgument, "int7", "int8_zp"):
            self.session.all_reduce(x, codec="int7")
        with self.refused(ringway.InvalidArgument, "channel"):
            self.session.all_reduce(x, channel=64)
        for channel in (-1, 1 << 32, "0", 1.0):
            with self.refused(ringway.InvalidArgument, "channel", repr(channel)):
                self.session.all_reduce(x, channel=channel)
        for wrong in (-1, 1 << 32, 1.5, "0", None):
            calls = {
                "root": (lambda: self.session.broadcast(x, wrong), lambda: self.session.reduce(x, root=wrong),
                         lambda: self.session.gather(x, root=wrong), lambda: self.session.scatter(x, out=x, root=wrong)),
                "to": (lambda: self.session.send(x, wrong),),
                "source": (lambda: self.session.recv(x, wrong),),
                "tag": (lambda: self.session.send(x, 0, tag=wrong), lambda: self.session.recv(x, 0, tag=wrong)),
                "priority": (lambda: self.session.all_reduce(x, priority=wrong),),
                "block": (lambda: self.session.all_reduce(x, codec="int8", block=wrong),),
            }
            for name, each in calls.items():
                for call in each:
                    with self.refused(ringway.InvalidArgument, f"{name} is {wrong!r}", "an integer from 0 to"):
                        call()
        for wrong in (-1, 1 << 64, 0.5):
            for name, call in {
                "counts": lambda: self.session.all_gather_v(x, out=x.copy(), counts=[wrong]),
                "receive_counts": lambda: self.session.all_to_all_v(x, out=x.copy(), send_counts=[1], receive_counts=[wrong]),
                "send_begins": lambda: self.session.all_to_all_v(
                    x, out=x.copy(), send_counts=[1], receive_counts=[1], send_begins=[wrong]),
                "as_peer": lambda: self.session.all_reduce(x, as_peer=wrong),
            }.items():
                with self.refused(ringway.InvalidArgument, f"{name} is {wrong!r}"):
                    call()
        for wrong in (None, 7):
            with self.refused(ringway.InvalidArgument, f"counts is {wrong}", "sequence"):
                self.session.all_gather_v(x, out=x.copy(), counts=wrong)
        for wrong in (-1, float("nan"), 10**400, "1"):
            work = self.session.all_reduce_async(x)
            for call in (lambda: work.wait(wrong), lambda: self.session.all_reduce(x, submit_timeout=wrong),
                         lambda: self.session.update_view(wrong), lambda: self.session.leave(wrong)):
                with self.refused(ringway.InvalidArgument, "a time is"):
                    call()
            work.wait(1e300)
        with self.refused(ringway.InvalidArgument, "algorithm", "bitonic"):
            self.session.all_reduce(x, algorithm="bitonic")
        with self.assertRaisesRegex(TypeError, "chanel.*channel"):
            self.session.all_reduce(x, chanel=1)
        with self.assertRaisesRegex(TypeError, r"\\udc80"):
            self.session.all_reduce(x, **{"\udc80": 1})
        with self.refused(ringway.InvalidArgument, r"\udc80"):
            self.session.all_reduce(x, "\udc80")
        with self.refused(ringway.NotSupported, "ring and direct"):
            self.session.all_gather(x, out=numpy.zeros(64, "float32"), algorithm="tree")
        with self.refused(ringway.NotSupported, "avg of integers"):
            self.session.all_reduce(numpy.zeros(3, "int32"), "avg")
        with self.refused(ringway.NotSupported, "block"):
            self.session.all_reduce(x, codec="int8", block=7)

    def test_wrong_shapes_and_dtypes_of_empty(self):
        with self.refused(ringway.InvalidArgument, "negative"):
            self.session.empty((3, -1))
        with self.assertRaises(TypeError):
            self.session.empty(2.5)
        with self.refused(ringway.InvalidArgument, "dtype", "bool"):
            self.session.empty(3, bool)
        with self.refused(ringway.InvalidArgument, "length", str(1 << 64)):
            self.session.empty((3, 1 << 64))
        with self.refused(ringway.InvalidArgument, "addresses"):
            self.session.empty((1 << 40, 1 << 40))
        with self.refused(ringway.InvalidArgument, "2^46"):
            self.session.empty(1 << 50)
        with self.refused(ringway.ResourceExhausted):
            self.session.empty(1 << 40)

    def test_memory_of_a_device(self):
        x = numpy.ones(3)
        with self.refused(ringway.NotSupported, "x is in the memory of a GPU", "no CUDA driver"):
            self.session.all_reduce(Exporter(x, device=2))
        with self.refused(ringway.NotSupported, "x is in the memory of a device that is not CUDA's", "tensor.cpu()"):
            self.session.all_reduce(Exporter(x, device=10))
        self.session.all_reduce(Exporter(x, device=3))  # of the host, pinned

    def test_the_owner_of_an_array_says_why_it_cannot_be_read(self):
        class Refuses:
            dtype = "odd"

            def __dlpack__(self, **_):
                raise RuntimeError("call detach first")

        with self.refused(ringway.NotSupported, "Refuses of odd", "call detach first"):
            self.session.all_reduce(Refuses())


class SessionTest(ClusterTest):
    def test_after_leave_every_call_says_so(self):
        (session,) = self.join(1)
        kept = session.empty(3)
        session.leave()
        for call in (lambda: session.all_reduce(kept), session.leave, session.update_view, lambda: session.empty(3)):
            with self.refused(ringway.Left, "join again"):
                call()
        session.abort()

    def test_the_end_of_a_block_leaves_unless_it_has_left(self):
        with ringway.join(**self.options(0, 1)) as session:
            pass
        with self.refused(ringway.Left):
            session.all_reduce(numpy.zeros(3))
        with ringway.join(**self.options(0, 1)) as session:
            session.leave()
        with self.assertRaises(LookupError), ringway.join(**self.options(0, 1)) as session:
            raise LookupError
        with self.refused(ringway.Left):
            session.all_reduce(numpy.zeros(3))

    def test_ranks_that_submit_different_operations(self):
        def rank(session, op):
            with self.refused(ringway.Mismatch, "sum", "max"):
                session.all_reduce(numpy.zeros(3), op)

        first, second = self.join(2)
        together(lambda: rank(first, "sum"), lambda: rank(second, "max"))

    def test_more_operations_than_may_be_in_flight(self):
        first, _ = self.join(2)
        works = []
        with self.refused(ringway.ResourceExhausted, "256"):
            for _ in range(257):
                works.append(first.all_reduce_async(numpy.zeros(1)))
        self.assertEqual(len(works), 256)

    def test_an_operation_past_its_deadline_fails(self):
        first, _ = self.join(2, op_deadline=0.2)
        with self.refused(ringway.Deadline):
            first.all_reduce(numpy.zeros(3))

    def test_update_view_with_operations_in_flight(self):
        first, _ = self.join(2)
        work = first.all_reduce_async(numpy.zeros(3))
        with self.refused(ringway.InvalidArgument, "in flight"):
            first.update_view()
        del work

    def test_as_peer_of_an_earlier_membership(self):
        (session,) = self.join(1)
        with self.refused(ringway.Rejoined):
            session.all_reduce(numpy.zeros(3), as_peer=session.peer_id + 1)

    def test_sessions_cannot_be_pickled_or_made_without_joining(self):
        (session,) = self.join(1)
        work = session.all_reduce_async(numpy.zeros(3))
        for x, said in ((session, "ringway.join"), (work, "operation of this process")):
            for copied in (pickle.dumps, copy.copy, copy.deepcopy):
                with self.assertRaisesRegex(TypeError, said):
                    copied(x)
        work.wait()
        with self.assertRaises(AttributeError):
            session.work = session.all_reduce_async(numpy.zeros(3))  # no cycles that nobody collects
        with self.assertRaises(TypeError):
            ringway.Work()
        with self.assertRaises(TypeError):
            ringway.Result()

    def test_sessions_works_and_results_say_what_they_are(self):
        (session,) = self.join(1)
        result = session.reduce_scatter(numpy.zeros(1000, "float32"), codec="int8")
        for name in ("rank=0", "world_size=1", f"epoch={session.epoch}", f"peer_id={session.peer_id}"):
            self.assertIn(name, repr(session))
        self.assertIn("world_size=1", repr(result))
        work = session.all_reduce_async(numpy.zeros(3))
        work.wait()
        self.assertEqual(repr(work), "<ringway.Work done>")
        session.leave()
        self.assertIn("rank=0", repr(session))

    def test_results_can_be_pickled(self):
        sessions = self.join(2)
        for result in together(*[lambda s=s: s.reduce_scatter(numpy.zeros(1000, "float32"), codec="int8") for s in sessions]):
            fields = [x for x in dir(result) if not x.startswith("_")]
            self.assertEqual(len(fields), 15)
            for again in (pickle.loads(pickle.dumps(result)), copy.deepcopy(result)):
                self.assertIs(type(again), ringway.Result)
                for field in fields:
                    self.assertEqual(getattr(again, field), getattr(result, field))
        with self.refused(ringway.InvalidArgument, "another release's"):
            ringway.Result.__new__(ringway.Result).__setstate__((0, 0, 1, [1], 0, 0, False, 200, 0.0, 0, 0))


if __name__ == "__main__":
    unittest.main()
