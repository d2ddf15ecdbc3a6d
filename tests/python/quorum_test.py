"""All-reduces that go on without late ranks, and weighted averages."""

import pickle
import unittest

import numpy
import ringway
from cluster import PATIENCE, ClusterTest, eventually, together


def filled(value, count=1000, dtype="float32"):
    return numpy.full(count, value, dtype)


class QuorumTest(ClusterTest):
    def submit(self, ranks, value, op="sum", **options):
        xs = [filled(value * (place + 1)) for place in range(len(ranks))]
        return xs, [rank.all_reduce_async(x, op, **options) for rank, x in zip(ranks, xs)]

    def test_the_others_go_on_and_a_late_rank_gets_their_result(self):
        ranks = self.join(3)
        for count in (1000, 3_000_000):  # reported at once, and when all hold it
            for late in range(3):  # the rank that decides is one of them
                in_time = [x for place, x in enumerate(ranks) if place != late]
                xs = [filled(10 ** place, count) for place in range(3)]
                others = [x for place, x in enumerate(xs) if place != late]
                works = [rank.all_reduce_async(x, quorum=2) for rank, x in zip(in_time, others)]
                results = [work.wait(PATIENCE) for work in works]
                results.insert(late, ranks[late].all_reduce_async(xs[late], quorum=2).wait(PATIENCE))
                wanted = 111 - 10 ** late
                for place, result in enumerate(results):
                    self.assertEqual(set(xs[place].tolist()), {wanted})
                    self.assertEqual(result.absent, (ranks[late].peer_id,))
                    self.assertEqual(set(result.contributors), {x.peer_id for x in in_time})
                    self.assertEqual((result.world_size, result.is_late), (3, place == late))

    def test_a_late_rank_catches_up_and_is_in_again(self):
        ranks = self.join(3)
        for step in range(5):
            xs, works = self.submit(ranks[:2], step + 1, "avg", quorum=0.5)
            for work, x in zip(works, xs):
                self.assertEqual(len(work.wait(PATIENCE).contributors), 2)
                self.assertEqual(set(x.tolist()), {1.5 * (step + 1)})
        for step in range(5):
            x = filled(1e9)
            result = ranks[2].all_reduce_async(x, "avg", quorum=0.5).wait(PATIENCE)
            self.assertEqual((result.is_late, result.behind), (True, 4 - step))
            self.assertEqual(set(x.tolist()), {1.5 * (step + 1)})

        def all_are_in():
            xs, works = self.submit(ranks, 1, quorum=2, grace=PATIENCE)
            absent = {work.wait(PATIENCE).absent for work in works}
            self.assertEqual({x.tobytes() for x in xs}, {xs[0].tobytes()})
            self.assertEqual(set(xs[0].tolist()), {6 if absent == {()} else 3})
            return absent == {()}

        eventually(all_are_in)  # once the rank that decides has heard that it caught up

    def test_late_inputs_are_in_the_next_one_where_they_are_kept(self):
        ranks = self.join(3)
        steps, name = 3, {"error_feedback": "gradient", "late": "next"}
        for codec, tolerance in (("none", 0), ("int8", 1)):
            for count in (1000, 3_000_000):  # reported at once, and when all hold it
                options = {"codec": codec, **name, "quorum": 2}
                sums = numpy.zeros(count)
                for _ in range(steps):
                    xs = [filled(10 ** place, count) for place in range(2)]
                    works = [rank.all_reduce_async(x, **options) for rank, x in zip(ranks, xs)]
                    for work in works:
                        self.assertEqual(work.wait(PATIENCE).absent, (ranks[2].peer_id,))
                    sums += xs[0]
                for _ in range(steps):
                    self.assertTrue(ranks[2].all_reduce_async(filled(100, count), **options).wait(PATIENCE).is_late)
                given = steps

                def all_are_in():
                    nonlocal sums, given
                    xs = [filled(10 ** place, count) for place in range(3)]
                    works = [rank.all_reduce_async(x, **{**options, "grace": PATIENCE}) for rank, x in zip(ranks, xs)]
                    absent = {work.wait(PATIENCE).absent for work in works}
                    self.assertEqual({x.tobytes() for x in xs}, {xs[0].tobytes()})
                    sums += xs[0]
                    given += 1
                    return absent == {()}

                eventually(all_are_in)
                self.assertLessEqual(abs(sums - 111 * given).max(), tolerance, (codec, count))

    def test_late_inputs_are_dropped_unless_they_are_kept(self):
        ranks = self.join(3)
        options = {"codec": "int8", "error_feedback": "gradient", "quorum": 2}
        for late in ("dropped", "next"):
            xs = [filled(1), filled(1)]
            for work in [rank.all_reduce_async(x, **options) for rank, x in zip(ranks, xs)]:
                work.wait(PATIENCE)
            self.assertTrue(ranks[2].all_reduce(filled(4), late=late, **options).is_late)
        totals = []

        def all_are_in():
            xs = [filled(1) for _ in ranks]
            works = [rank.all_reduce_async(x, grace=PATIENCE, **options) for rank, x in zip(ranks, xs)]
            is_in = all(work.wait(PATIENCE).absent == () for work in works)
            totals.append(float(xs[0][0]))
            return is_in

        eventually(all_are_in)
        self.assertAlmostEqual(totals[-1], 1 + 1 + (1 + 4), delta=0.2)

    def test_what_a_late_input_cannot_be_is_refused(self):
        first, _ = self.join(2)
        with self.refused(ringway.InvalidArgument, "needs a quorum"):
            first.all_reduce(filled(1), late="next", error_feedback="gradient")
        with self.refused(ringway.InvalidArgument, "error_feedback with the tensor's name"):
            first.all_reduce(filled(1), late="next", quorum=2)
        with self.refused(ringway.InvalidArgument, "one of dropped, next"):
            first.all_reduce(filled(1), late="later", quorum=2, error_feedback="gradient")
        for quorum in (0, -1, 65, 2**70, True, [1], 0.0, 1.5, "some"):
            with self.refused(ringway.InvalidArgument, "1 to 64 ranks, a share"):
                first.all_reduce(filled(1), quorum=quorum)
        with self.refused(ringway.NotSupported, "f32, f16 and bf16"):
            first.all_reduce(filled(1, dtype="int32"), late="next", quorum=2, error_feedback="gradient")

    def test_who_missed_an_operation_is_not_waited_for_again(self):
        ranks = self.join(3)
        xs, works = self.submit(ranks[:2], 1, quorum=2)
        for work in works:
            work.wait(PATIENCE)
        for _ in range(3):  # the grace would outlast the patience
            xs, works = self.submit(ranks[:2], 1, quorum=2, grace=10 * PATIENCE)
            for work in works:
                self.assertEqual(work.wait(PATIENCE).absent, (ranks[2].peer_id,))

    def test_a_lost_rank_is_no_late_one(self):
        ranks = self.join(3)
        xs, works = self.submit(ranks[:2], 1, quorum=3)
        ranks[2].leave()
        for work, x in zip(works, xs):
            result = work.wait(PATIENCE)
            self.assertEqual((result.world_size, result.absent), (2, ()))
            self.assertEqual(set(x.tolist()), {3})

    def test_what_a_quorum_cannot_be_is_refused(self):
        first, second, third = self.join(3)
        with self.refused(ringway.NotSupported, "sum and avg"):
            first.all_reduce(filled(1), "max", quorum=2)
        with self.refused(ringway.InvalidArgument, "1 to 64 ranks"):
            first.all_reduce(filled(1), quorum=0)
        with self.refused(ringway.InvalidArgument, "1 to 64 ranks"):
            first.all_reduce(filled(1), quorum=1.5)
        with self.refused(ringway.InvalidArgument, "grace needs a quorum"):
            first.all_reduce(filled(1), grace=1)
        with self.refused(ringway.InvalidArgument, "no quorum"):
            first.all_reduce(filled(1), quorum=2, skip_nonfinite=True)
        works = [x.all_reduce_async(filled(1), quorum=2) for x in (first, second)]
        for work in works:
            work.wait(PATIENCE)
        with self.refused(ringway.InvalidArgument, "the group went on with"):
            third.all_reduce(filled(1, 7), quorum=2)
        x = filled(5)
        self.assertTrue(third.all_reduce(x, quorum=2).is_late)
        self.assertEqual(set(x.tolist()), {2})

    def test_other_quorums_are_a_mismatch(self):
        first, second = self.join(2)
        works = [first.all_reduce_async(filled(1), quorum=2), second.all_reduce_async(filled(1))]
        for work in works:
            with self.refused(ringway.Mismatch, "quorum of 2"):
                work.wait(PATIENCE)


class GroupQuorumTest(ClusterTest):
    """What a group is joined with, and which of its operations take it."""

    def test_operations_that_name_no_quorum_take_the_groups(self):
        ranks = self.join(3, quorum=2, late="next")
        options = {"error_feedback": "gradient"}
        for work in [rank.all_reduce_async(filled(1), **options) for rank in ranks[:2]]:
            self.assertEqual(work.wait(PATIENCE).absent, (ranks[2].peer_id,))
        late = ranks[2].all_reduce(filled(100), **options)
        self.assertEqual((late.is_late, late.is_kept), (True, True))
        self.assertTrue(pickle.loads(pickle.dumps(late)).is_kept)
        xs = [filled(0) for _ in ranks]
        for work in [rank.all_reduce_async(x, quorum="all") for rank, x in zip(ranks, xs)]:
            self.assertEqual(work.wait(PATIENCE).absent, ())
        self.assertEqual(set(xs[0].tolist()), {0}, "which takes nothing of another tensor's")
        xs = [filled(0) for _ in ranks]
        for work in [rank.all_reduce_async(x, quorum=1.0, late="next", **options) for rank, x in zip(ranks, xs)]:
            self.assertEqual(work.wait(PATIENCE).absent, ())
        self.assertEqual(set(xs[0].tolist()), {100})

    def test_other_operations_and_what_the_library_agrees_on_are_all_ranks(self):
        ranks = self.join(2, quorum=1)
        for op in ("max", "min", "prod"):
            works = [rank.all_reduce_async(filled(1), op) for rank in ranks]
            self.assertEqual({work.wait(PATIENCE).absent for work in works}, {()})
        works = [rank.all_reduce_async(filled(1), "sum", quorum="all") for rank in ranks]
        self.assertEqual({work.wait(PATIENCE).absent for work in works}, {()})
        results = together(*[lambda r=r: r.all_reduce(filled(2), "avg", skip_nonfinite=True) for r in ranks])
        self.assertEqual({result.absent for result in results}, {()})

    def test_members_that_disagree_learn_so(self):
        sessions = together(*[lambda i=i: ringway.join(**self.options(i, 2, quorum=2 - i)) for i in range(2)])
        for session in sessions:
            self.addCleanup(session.abort)
        for work in [session.all_reduce_async(filled(1)) for session in sessions]:
            with self.refused(ringway.Mismatch, "quorum of"):
                work.wait(PATIENCE)

    def test_what_a_group_cannot_have_is_refused(self):
        for wrong, word in (({"quorum": 65}, "1 to 64"), ({"grace": 1}, "needs its quorum"), ({"late": "next"}, "needs its quorum"),
                            ({"quorum": "some"}, "'all'")):
            with self.refused(ringway.InvalidArgument, word):
                ringway.join(**self.options(0, 1, **wrong))


class WeightTest(ClusterTest):
    def test_an_average_is_of_weighted_inputs(self):
        ranks = self.join(3)
        weights = (1, 2.5, 1e6)
        values = (3e38, -1e38, 2e38)  # a sum would overflow
        wanted = sum(w * v for w, v in zip(weights, values)) / sum(weights)
        for dtype, tolerance in (("float32", 1e-6), ("float64", 1e-14)):
            xs = [filled(value, dtype=dtype) for value in values]
            works = [r.all_reduce_async(x, "avg", weight=w) for r, x, w in zip(ranks, xs, weights)]
            for work, x in zip(works, xs):
                self.assertEqual(work.wait(PATIENCE).weight, sum(weights))
                self.assertEqual(x.tobytes(), xs[0].tobytes())
                self.assertLess(abs(float(x[0]) / wanted - 1), tolerance)

    def test_codecs_stay_within_their_bound(self):
        ranks = self.join(3)
        random = numpy.random.default_rng(1)
        for codec in ("int8", "int4", "fp8_e4m3", "bf16", "f16"):
            for algorithm in ("ring", "direct", "one_shot"):
                inputs = [random.standard_normal(5000).astype("float32") for _ in ranks]
                weights = (0.1, 7, 40)
                xs = [x.copy() for x in inputs]
                works = [r.all_reduce_async(x, "avg", weight=w, codec=codec, algorithm=algorithm)
                         for r, x, w in zip(ranks, xs, weights)]
                bound = max(work.wait(PATIENCE).error_bound for work in works)
                exact = sum(w * x.astype("float64") for w, x in zip(weights, inputs)) / sum(weights)
                self.assertEqual({x.tobytes() for x in xs}, {xs[0].tobytes()})
                largest = max(float(abs(x).max()) for x in inputs)
                self.assertLessEqual(float(abs(xs[0] - exact).max()), bound * largest, (codec, algorithm))

    def test_equal_weights_are_a_plain_average(self):
        ranks = self.join(3)
        random = numpy.random.default_rng(2)
        inputs = [random.standard_normal(5000).astype("float32") for _ in ranks]
        bytes_of = []
        for options in ({}, {"weight": 1}, {"weight": 4.0}):
            xs = [x.copy() for x in inputs]
            works = [r.all_reduce_async(x, "avg", **options) for r, x in zip(ranks, xs)]
            for work in works:
                work.wait(PATIENCE)
            bytes_of.append(xs[0].tobytes())
        self.assertEqual(set(bytes_of), {bytes_of[0]})

    def test_weights_go_with_a_quorum(self):
        ranks = self.join(3)
        xs = [filled(value) for value in (1, 2, 4)]
        works = [r.all_reduce_async(x, "avg", weight=w, quorum=2) for r, x, w in zip(ranks[:2], xs, (1, 3))]
        for work, x in zip(works, xs):
            self.assertEqual((work.wait(PATIENCE).weight, x[0]), (4, 1.75))
        late = ranks[2].all_reduce(xs[2], "avg", weight=100, quorum=2)
        self.assertEqual((late.weight, late.is_late, xs[2][0]), (4, True, 1.75))

    def test_what_a_weight_cannot_be_is_refused(self):
        first, second = self.join(2)
        for weight in (0, -1, float("nan"), float("inf"), "much"):
            with self.refused(ringway.InvalidArgument, "weight"):
                first.all_reduce(filled(1), "avg", weight=weight)
        with self.refused(ringway.NotSupported, "a weight is for avg"):
            first.all_reduce(filled(1), "sum", weight=1)
        works = [first.all_reduce_async(filled(1), "avg", weight=1), second.all_reduce_async(filled(1), "avg")]
        for work in works:
            with self.refused(ringway.Mismatch, "weighted"):
                work.wait(PATIENCE)


if __name__ == "__main__":
    unittest.main()
