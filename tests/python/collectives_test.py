"""Every dtype, reduction and form of call gives what NumPy computes, on every rank."""
import re
import threading
import unittest

import numpy
import ringway
from cluster import ClusterTest, Exporter, together

try:
    import ml_dtypes
except ImportError:
    ml_dtypes = None
try:
    import torch
except ImportError:
    torch = None

DTYPES = ["uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float16", "float32", "float64"]
REDUCE = {"sum": numpy.sum, "avg": numpy.mean, "prod": numpy.prod, "min": numpy.min, "max": numpy.max}
COUNT = 1003
WORLD = 3


def values(rank, dtype, count=COUNT):
    """Small integers: their sums, products and means over three ranks are exact in every dtype."""
    return (numpy.arange(count) % 3 + 1 + rank).astype(dtype)


def expected(op, dtype, count=COUNT):
    return REDUCE[op]([values(rank, "int64", count) for rank in range(WORLD)], axis=0).astype(dtype)


def regions():
    """Shared regions of the library that this process has mapped."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        return {x.split()[0] for x in maps if re.search(r"/memfd:ringway", x)}


class CollectivesTest(ClusterTest):
    def run_ranks(self, sessions, call):
        return together(*[lambda s=s: call(s) for s in sessions])

    def check_all_reduce(self, sessions, dtype, op):
        def rank(session):
            x = values(session.rank, dtype)
            out = numpy.zeros(COUNT, dtype)
            separate = session.all_reduce(x, op, out=out)
            numpy.testing.assert_array_equal(x, values(session.rank, dtype), "the input has changed")
            session.all_reduce(x, op)
            numpy.testing.assert_array_equal(x, out, "in place is another result")
            return separate, out

        results = self.run_ranks(sessions, rank)
        for result, out in results:
            numpy.testing.assert_array_equal(out, expected(op, dtype), f"{dtype} {op}")
            self.assertEqual(result.world_size, WORLD)
            self.assertEqual(result.contributors, results[0][0].contributors)
            self.assertEqual(result.part, slice(0, COUNT))

    def test_all_reduce_of_every_dtype_and_op(self):
        sessions = self.join(WORLD)
        for dtype in DTYPES:
            for op in REDUCE:
                if op == "avg" and "int" in dtype:
                    continue
                with self.subTest(dtype=dtype, op=op):
                    self.check_all_reduce(sessions, dtype, op)

    def test_collectives_from_and_to_every_root(self):
        sessions = self.join(WORLD)
        everything = numpy.concatenate([values(rank, "int32") for rank in range(WORLD)])
        for root in range(WORLD):
            def rank(session, root=root):
                mine = values(session.rank, "int32")
                kept = mine.copy()
                cast = mine.copy()
                session.broadcast(cast, root)
                numpy.testing.assert_array_equal(cast, values(root, "int32"))
                session.reduce(mine, "max", root=root)
                is_root = session.rank == root
                numpy.testing.assert_array_equal(mine, expected("max", "int32") if is_root else kept)
                gathered = numpy.zeros(WORLD * COUNT, "int32")
                result = session.gather(kept, root=root, out=gathered if is_root else None)
                self.assertEqual(result.part, slice(0, WORLD * COUNT if is_root else 0))
                if is_root:
                    numpy.testing.assert_array_equal(gathered, everything)
                part = numpy.zeros(COUNT, "int32")
                session.scatter(everything if is_root else None, root=root, out=part)
                numpy.testing.assert_array_equal(part, kept)
                session.barrier()
                return True

            self.assertEqual(self.run_ranks(sessions, rank), [True] * WORLD)

    def test_all_to_all_is_a_transposition(self):
        def rank(session):
            x = numpy.arange(WORLD * 5, dtype="float32").reshape(WORLD, 5) + 100 * session.rank
            out = numpy.zeros_like(x)
            session.all_to_all(x, out=out)
            return session.rank, x, out

        ranks = sorted(self.run_ranks(self.join(WORLD), rank), key=lambda each: each[0])
        for to, _, out in ranks:
            for source, x, _ in ranks:
                numpy.testing.assert_array_equal(out[source], x[to])

    def test_send_and_recv(self):
        dtypes = [*DTYPES, ml_dtypes.bfloat16] if ml_dtypes else DTYPES
        ended = threading.Event()

        def rank(session):
            to, source = (session.rank + 1) % WORLD, (session.rank - 1) % WORLD
            for tag, dtype in enumerate(dtypes):
                out = numpy.zeros(COUNT, dtype)
                work = session.send_async(values(session.rank, dtype), to, tag=tag)
                result = session.recv(out, source, tag=tag)
                numpy.testing.assert_array_equal(out, values(source, dtype))
                self.assertEqual(result.part, slice(0, COUNT))
                self.assertEqual(work.wait().part, slice(0, 0))
            large = session.empty(300_000)
            large[:] = session.rank
            here = session.empty(300_000)
            arrives = session.recv_async(here, source, channel=3)
            session.send(large, to, channel=3)
            arrives.wait()
            self.assertEqual((here.min(), here.max()), (source, source))
            with self.assertRaisesRegex(ringway.InvalidArgument, "itself"):
                session.send(large, session.rank)
            if session.rank < 2:
                with self.assertRaisesRegex(ringway.Mismatch, "sends 5 i32.*receives 6 i32"):
                    session.send(numpy.zeros(5, "int32"), 1) if session.rank == 0 else session.recv(numpy.zeros(6, "int32"), 0)
                with self.assertRaises(ringway.Cancelled):
                    if session.rank == 0:
                        work = session.send_async(large, 1)
                        work.cancel()
                        try:
                            work.wait()
                        finally:
                            ended.set()
                    else:
                        ended.wait(60)  # else it may have arrived before the cancel
                        session.recv(here, 0)
            return True

        self.assertEqual(self.run_ranks(self.join(WORLD), rank), [True] * WORLD)

    def test_counts_by_rank(self):
        counts = [[(3 * source + to) % 4 * 100 for to in range(WORLD)] for source in range(WORLD)]

        def rank(session):
            me = session.rank
            sent, received = counts[me], [row[me] for row in counts]
            x = values(me, "int32")
            begins = [10 * to for to in range(WORLD)]  # they overlap
            out = numpy.full(sum(received), -1, "int32")
            session.all_to_all_v(x, out=out, send_counts=sent, receive_counts=received, send_begins=begins)
            parts = [values(source, "int32")[10 * me : 10 * me + counts[source][me]] for source in range(WORLD)]
            numpy.testing.assert_array_equal(out, numpy.concatenate(parts))
            row = numpy.zeros(sum(received), "int32")
            session.all_to_all_v(x, out=row, send_counts=sent, receive_counts=numpy.array(received))
            first = sum(counts[0][:me])
            numpy.testing.assert_array_equal(row[: received[0]], values(0, "int32")[first : first + received[0]])
            lengths = [500, 0, 3]
            everything = numpy.zeros(503, "int32")
            session.all_gather_v(x, out=everything, counts=lengths)
            numpy.testing.assert_array_equal(
                everything, numpy.concatenate([values(r, "int32", lengths[r]) for r in range(WORLD)])
            )
            total = values(me, "int32", 503)
            part = session.reduce_scatter_v(total, "max", counts=lengths).part
            numpy.testing.assert_array_equal(total[part], expected("max", "int32", 503)[part])
            return part

        parts = self.run_ranks(self.join(WORLD), rank)
        self.assertEqual(sorted((p.start, p.stop) for p in parts), [(0, 500), (500, 500), (500, 503)])

    def test_counts_that_fit_nothing_are_refused(self):
        session, = self.join(1)
        x, out = numpy.arange(6, dtype="float32"), numpy.zeros(6, "float32")
        for call, why in (
            (lambda: session.all_to_all_v(x, out=out, send_counts=[7], receive_counts=[7]), "x has 6 elements"),
            (lambda: session.all_to_all_v(x, out=out, send_counts=[3], receive_counts=[7]), "out has 6 elements"),
            (lambda: session.all_to_all_v(x, out=out, send_counts=[3], receive_counts=[4]), "to itself"),
            (lambda: session.all_gather_v(x, out=out, counts=[1, 2]), "counts for 2 ranks"),
            (lambda: session.reduce_scatter_v(x, counts=[]), "counts for 0 ranks"),
        ):
            with self.assertRaisesRegex(ringway.InvalidArgument, why):
                call()
        session.all_to_all_v(x, out=out, send_counts=[2], receive_counts=[2], send_begins=[4])
        self.assertEqual(out.tolist(), [4, 5, 0, 0, 0, 0])

    def test_wrong_roots_and_rooms_are_refused(self):
        session, = self.join(1)
        x = numpy.zeros(6, "float32")
        with self.assertRaisesRegex(ringway.InvalidArgument, "root is 1"):
            session.broadcast(x, 1)
        with self.assertRaisesRegex(ringway.InvalidArgument, "root is -1"):
            session.broadcast(x, -1)
        with self.assertRaisesRegex(ringway.InvalidArgument, "room for 5"):
            session.gather(x, out=numpy.zeros(5, "float32"))
        with self.assertRaisesRegex(ringway.InvalidArgument, "both None"):
            session.scatter(None, out=None)
        with self.assertRaisesRegex(ringway.InvalidArgument, "has 5 elements"):
            session.scatter(x[:5].copy(), out=numpy.zeros(6, "float32"))

    @unittest.skipUnless(ml_dtypes, "ml_dtypes is not installed")
    def test_all_reduce_of_bfloat16(self):
        sessions = self.join(WORLD)
        for op in REDUCE:
            with self.subTest(op=op):
                self.check_all_reduce(sessions, ml_dtypes.bfloat16, op)

    def test_bfloat16_by_dlpack(self):
        def rank(session):
            bits = numpy.array([0x3F80, 0x4000], "uint16")  # 1 and 2
            session.all_reduce(Exporter(bits, dtype=(4, 16)))
            return bits.tolist()

        self.assertEqual(self.run_ranks(self.join(2), rank), [[0x4000, 0x4080]] * 2)

    @unittest.skipUnless(torch, "torch is not installed")
    def test_tensors(self):
        def rank(session):
            for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.int64, torch.uint8):
                for x in (torch.ones((2, 3), dtype=dtype), session.empty((2, 3), dtype)):
                    self.assertEqual((x.dtype, tuple(x.shape)), (dtype, (2, 3)))
                    x[:] = session.rank + 1
                    address = x.data_ptr()
                    session.all_reduce(x)
                    self.assertTrue((x == 3).all())
                    self.assertEqual(x.data_ptr(), address)
            out = session.empty(4, torch.float32)
            session.all_gather(torch.full((2,), float(session.rank)), out=out)
            self.assertEqual(out.tolist(), [0, 0, 1, 1])
            leaf = torch.ones(3, requires_grad=True)
            session.all_reduce(leaf)  # autograd does not see it
            self.assertEqual(leaf.tolist(), [2, 2, 2])
            with self.refused(ringway.InvalidArgument, "contiguous"):
                session.all_reduce(torch.ones(3, 4).T)

        self.run_ranks(self.join(2), rank)

    def test_results_name_those_who_took_part(self):
        sessions = self.join(WORLD)
        results = self.run_ranks(sessions, lambda s: s.all_reduce(values(s.rank, "float32")))
        self.assertEqual(results[0].contributors, tuple(s.peer_id for s in sessions))
        self.assertEqual([r.rank for r in results], [0, 1, 2])
        self.assertEqual([m.peer_id for m in sessions[0].members()], [s.peer_id for s in sessions])
        for result in results:
            self.assertEqual((result.epoch, result.retries, result.update_waits, result.error_bound),
                             (sessions[0].epoch, 0, False, 0))
            self.assertIn("world_size=3", repr(result))

    def test_shapes_are_kept_and_scalars_are_arrays(self):
        def rank(session):
            matrix = values(session.rank, "float32", 12).reshape(3, 4)
            session.all_reduce(matrix)
            scalar = numpy.array(session.rank + 1.0)
            session.all_reduce(scalar)
            nothing = numpy.zeros(0, "float32")
            self.assertEqual(session.all_reduce(nothing).world_size, WORLD)
            return matrix, scalar

        for matrix, scalar in self.run_ranks(self.join(WORLD), rank):
            numpy.testing.assert_array_equal(matrix, expected("sum", "float32", 12).reshape(3, 4))
            self.assertEqual(scalar, 6)

    def test_many_arrays_are_one_operation(self):
        sessions = self.join(WORLD)

        def rank(session):
            xs = [values(session.rank, "float32", count) for count in (3, 0, 1000)] + [session.empty(5)]
            xs[-1][:] = values(session.rank, "float32", 5)
            outs = [numpy.zeros_like(x) for x in xs]
            result = session.all_reduce_many(xs, "avg", out=outs)
            work = session.all_reduce_many_async(xs, "avg")
            work.wait()
            for x, out in zip(xs, outs):
                numpy.testing.assert_array_equal(out, expected("avg", "float32", out.size))
                numpy.testing.assert_array_equal(x, out, "in place is another result")
            return result

        for result in self.run_ranks(sessions, rank):
            self.assertEqual(result.world_size, WORLD)
            self.assertEqual(result.part, slice(0, 1008))
        session = sessions[0]
        for xs, out, why in (
            ([numpy.zeros(3), numpy.zeros(3, "int32")], None, "array 0 has elements of f64 and array 1 of i32"),
            ([numpy.zeros(3)], [], "1 arrays and 0 outputs"),
            ([numpy.zeros(3)], [numpy.zeros(4)], "as many"),
        ):
            with self.assertRaisesRegex(ringway.InvalidArgument, why):
                session.all_reduce_many(xs, out=out)

    def test_all_gather_puts_inputs_in_rank_order(self):
        def rank(session):
            out = numpy.zeros((WORLD, COUNT), "int32")
            result = session.all_gather(values(session.rank, "int32"), out=out)
            self.assertEqual(result.part, slice(0, WORLD * COUNT))
            return out

        for out in self.run_ranks(self.join(WORLD), rank):
            numpy.testing.assert_array_equal(out, [values(rank, "int32") for rank in range(WORLD)])

    def test_reduce_scatter_leaves_each_rank_its_part(self):
        def rank(session):
            x, out = values(session.rank, "float32"), numpy.full(COUNT, -1, "float32")
            result = session.reduce_scatter(x, out=out)
            own = session.reduce_scatter(x)
            self.assertEqual(own.part, result.part)
            numpy.testing.assert_array_equal(x[own.part], out[own.part])
            rest = numpy.delete(out, numpy.arange(COUNT)[result.part])
            self.assertTrue((rest == -1).all(), "memory outside of the part was touched")
            return result.part, out[result.part]

        parts = self.run_ranks(self.join(WORLD), rank)
        self.assertEqual([(p.start, p.stop) for p, _ in parts], [(0, 335), (335, 670), (670, 1003)])
        numpy.testing.assert_array_equal(numpy.concatenate([x for _, x in parts]), expected("sum", "float32"))

    def test_options_reach_the_operation(self):
        def rank(session):
            x = numpy.full(512, session.rank, "float32")
            result = session.all_reduce(x, codec="int8", block=64, rounding="stochastic", algorithm="direct", channel=63,
                                        error_feedback="weights", submit_timeout=5, as_peer=session.peer_id)
            self.assertEqual(result.algorithm, "direct")
            self.assertGreater(result.error_bound, 0)
            return x

        for x in self.run_ranks(self.join(WORLD), rank):
            numpy.testing.assert_allclose(x, 3, rtol=0.1)

    def test_options_may_come_in_any_order_and_from_numpy(self):
        first, second = self.join(2)
        one = first.all_reduce_async(numpy.ones(512, "float32"), codec="int8", block=32, rounding="stochastic", channel=3)
        other = second.all_reduce_async(numpy.ones(512, "float32"), channel=numpy.int64(3), rounding="stochastic",
                                        block=numpy.uint8(32), codec="int8")
        self.assertEqual((one.wait(60).world_size, other.wait(60).world_size), (2, 2))

    def test_arrays_of_empty_are_used_where_they_are(self):
        def shared(session):
            x, out = session.empty(1 << 20), session.empty((1 << 10, 1 << 10), "float32")
            x[:] = session.rank
            session.all_reduce(x, out=out)
            return x, out

        def staged(session):
            x = numpy.full(1 << 20, session.rank, "float32")
            session.all_reduce(x)
            return x, x

        sessions = self.join(WORLD)
        counts = []
        for call in (shared, staged):
            before = regions()
            arrays = self.run_ranks(sessions, call)
            counts.append(len(regions() - before))
            self.assertTrue(all((out == 3).all() for _, out in arrays))
        self.assertEqual(counts[0], 2 * WORLD, "regions besides the arrays themselves")
        self.assertEqual(counts[1], 2 * WORLD, "staging is not seen by its regions any more")

    def test_arrays_of_empty_lie_in_shared_memory_and_outlive_the_session(self):
        session, = self.join(1)
        before = regions()
        array = session.empty((3, 5), "int16")
        self.assertEqual((array.shape, array.dtype, array.flags.c_contiguous, array.flags.writeable),
                         ((3, 5), numpy.dtype("int16"), True, True))
        new = [[int(x, 16) for x in x.split("-")] for x in regions() - before]
        self.assertTrue(any(begin <= array.ctypes.data < end for begin, end in new))
        session.leave()
        del session
        array[:] = 7
        self.assertEqual(array.sum(), 105)
        del array

    def test_arrays_of_empty_have_every_dtype(self):
        session, = self.join(1)
        for dtype in DTYPES + (["bfloat16", ml_dtypes.bfloat16] if ml_dtypes else []):
            array = session.empty(4, dtype)
            array[:] = 3
            session.all_reduce(array)
            self.assertEqual((array.dtype, array.tolist()), (numpy.dtype(dtype), [3] * 4))
        self.assertEqual(session.empty(0).size, 0)

    def test_other_exporters_of_memory_are_arrays_too(self):
        def rank(session):
            octets = bytearray([1, 2, session.rank])
            session.all_reduce(octets)
            frozen = bytes(octets)
            total = numpy.zeros(3, "uint8")
            session.all_reduce(frozen, out=total)
            return bytes(octets), bytes(total)

        for octets, total in self.run_ranks(self.join(2), rank):
            self.assertEqual((octets, total), (bytes([2, 4, 1]), bytes([4, 8, 2])))

    def test_update_view_admits_a_newcomer(self):
        sessions = self.join(2)
        newcomer = together(
            lambda: ringway.join(**self.options(2, 2)),
            *[lambda s=s: self.train_until_update_waits(s) for s in sessions])[0]
        self.addCleanup(newcomer.abort)
        self.assertEqual([s.world_size for s in [*sessions, newcomer]], [3, 3, 3])

    @staticmethod
    def train_until_update_waits(session):
        while not session.all_reduce(numpy.zeros(1, "float32")).update_waits:
            pass
        session.update_view(timeout=60)


if __name__ == "__main__":
    unittest.main()
