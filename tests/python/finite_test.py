"""A rank whose numbers are not finite is left out of sums and averages, on all ranks alike, whoever dies or comes."""
import logging
import unittest
from unittest.mock import Mock

import numpy
import ringway
from ringway import _finite
from cluster import ClusterTest, Trainer, of_trainers, together

try:
    import torch
except ImportError:
    torch = None

WORLD = 3


def values(rank, dtype="float32", count=1000):
    return (numpy.arange(count) % 5 + 1 + 2 * rank).astype(dtype)


class FiniteTest(ClusterTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        quiet = logging.NullHandler()
        logging.getLogger("ringway").addHandler(quiet)  # of what most tests make it say
        cls.addClassCleanup(logging.getLogger("ringway").removeHandler, quiet)

    def on_all(self, call, world=WORLD):
        return together(*[lambda s=s: call(s) for s in self.join(world)])

    def check(self, bad, expected, op="sum", dtype="float32", what=numpy.nan, **options):
        """`bad`: ranks whose input has `what` in it. `expected`: of all elements, from those of the others."""
        def rank(session):
            x, out = values(session.rank, dtype), numpy.ones(1000, dtype)
            if session.rank in bad:
                x[7] = what
            before, peers = x.copy(), tuple(member.peer_id for member in session.members())
            for target in (out, None):
                result = session.all_reduce(x, op, out=target, skip_nonfinite=True, **options)
                self.assertEqual(result.contributors, tuple(p for i, p in enumerate(peers) if i not in bad))
                self.assertEqual((result.world_size, result.rank), (WORLD, session.rank))
                if target is not None:
                    numpy.testing.assert_array_equal(x, before, "the input has changed")
            numpy.testing.assert_array_equal(x, out, "in place is another result")
            return out, result

        results = self.on_all(rank)
        for out, result in results:
            numpy.testing.assert_array_equal(out, results[0][0], "ranks differ")
            tolerance = result.error_bound * 9 + (4e-3 if dtype == "float16" else 1e-6)
            numpy.testing.assert_allclose(out.astype("float64"), expected, rtol=1e-3 if dtype == "float16" else 1e-6, atol=tolerance)
        return results[0][1]

    def test_sums_and_averages_are_over_those_who_are_finite(self):
        for op, combine in (("sum", numpy.sum), ("avg", numpy.mean)):
            for dtype in ("float16", "float32", "float64"):
                for bad, what in (({1}, numpy.nan), ({0, 2}, numpy.inf), (set(), 0)):
                    with self.subTest(op=op, dtype=dtype, bad=bad):
                        good = [values(rank, "float64") for rank in range(WORLD) if rank not in bad]
                        self.group = f"{op}-{dtype}-{len(bad)}"
                        self.check(bad, combine(good, axis=0), op, dtype, what)

    def test_codecs_and_what_they_take_are_scaled_too(self):
        good = [values(rank, "float64") for rank in (0, 2)]
        result = self.check({1}, numpy.mean(good, axis=0), "avg", codec="int8")
        self.group += "-whole"
        whole = self.check(set(), numpy.mean([values(r, "float64") for r in range(WORLD)], axis=0), "avg", codec="int8")
        self.assertAlmostEqual(result.error_bound, 1.5 * whole.error_bound, places=6)

    def test_rank_that_is_left_out_says_so_and_nobody_else_does(self):
        with self.assertLogs("ringway", "WARNING") as logs:
            self.on_all(lambda s: s.all_reduce(numpy.full(3, numpy.inf if s.rank == 1 else 1.0), skip_nonfinite=True))
        said, = of_trainers(logs)
        self.assertIn("left out", said)

    def test_result_over_nobody_is_zero(self):
        self.check({0, 1, 2}, numpy.zeros(1000), "avg")

    def test_without_it_one_rank_makes_all_nan(self):
        def rank(session):
            x = numpy.full(3, numpy.nan if session.rank == 1 else 1.0)
            return session.all_reduce(x, "avg"), x

        for result, x in self.on_all(rank):
            self.assertTrue(numpy.isnan(x).all())
            self.assertEqual(len(result.contributors), WORLD)

    def test_rank_is_left_out_of_all_of_many_arrays(self):
        def rank(session):
            xs = [values(session.rank, count=count) for count in (3, 0, 50)]
            if session.rank == 0:
                xs[2][49] = -numpy.inf
            outs = [numpy.zeros_like(x) for x in xs]
            result = session.all_reduce_many(xs, "avg", out=outs, skip_nonfinite=True)
            return len(result.contributors), outs

        for count, outs in self.on_all(rank):
            self.assertEqual(count, 2)
            for out in outs:
                numpy.testing.assert_array_equal(out, (values(1, count=out.size) + values(2, count=out.size)) / 2)

    def test_what_it_cannot_do_is_refused(self):
        session, = self.join(1)
        for op in ("prod", "min", "max"):
            with self.refused(ringway.InvalidArgument, "sum and avg", op):
                session.all_reduce(numpy.ones(3), op, skip_nonfinite=True)
        with self.refused(ringway.NotSupported, "NumPy and torch", "bytearray"):
            session.all_reduce(bytearray(3), skip_nonfinite=True)
        with self.assertRaisesRegex(TypeError, "skip_nonfinite"):
            session.all_reduce_async(numpy.ones(3), skip_nonfinite=True)
        with self.refused(ringway.NotSupported, "waits for no stream"):
            session.all_reduce(numpy.ones(3), skip_nonfinite=True, stream=1)
        self.assertEqual(session.all_reduce(numpy.arange(3), skip_nonfinite=True).world_size, 1)

    def test_numbers_whose_owner_died_before_its_word_came_are_refused(self):
        done = {name: Mock(**{"wait.return_value": Mock(contributors=who, world_size=len(who))})
                for name, who in (("all_gather_async", (1, 2)), ("all_reduce_async", (1, 2, 3)))}
        session = Mock(world_size=3, **{f"{name}.return_value": work for name, work in done.items()})
        x = numpy.ones(4)
        reduction = _finite.FiniteReduction(session, [x], [x], "avg", {})
        for _ in range(2):
            with self.refused(ringway.PeerLost, "peers [3] died"):
                reduction.wait()
        self.assertIsNone(reduction.counted)
        numpy.testing.assert_array_equal(x, numpy.ones(4), "scaled")

    def test_ranks_that_differ_in_it_learn_so(self):
        def rank(session):
            with self.refused(ringway.Mismatch):
                session.all_reduce(numpy.ones(3), skip_nonfinite=session.rank == 0)

        self.on_all(rank, world=2)

    @unittest.skipUnless(torch, "torch is not installed")
    def test_tensors_and_arrays_end_with_the_same_bytes(self):
        import ml_dtypes

        for dtype, of_numpy in (("float16", "float16"), ("bfloat16", ml_dtypes.bfloat16), ("float32", "float32"),
                                ("float64", "float64")):
            def rank(session, dtype=dtype, of_numpy=of_numpy):
                generator = numpy.random.default_rng(session.rank)
                x = generator.normal(size=5000)
                x[3] = numpy.nan if session.rank == 2 else 1
                if session.rank == 1:
                    x = torch.tensor(x).to(getattr(torch, dtype))
                    session.all_reduce(x, "avg", skip_nonfinite=True)
                    return x.view(torch.uint8).numpy().tobytes()
                x = x.astype(of_numpy)
                session.all_reduce(x, "avg", skip_nonfinite=True)
                return x.tobytes()

            with self.subTest(dtype=dtype):
                self.group = f"bytes-{dtype}"
                self.assertEqual(len(set(self.on_all(rank))), 1)
                x = numpy.random.default_rng(5).normal(size=5000)
                array, tensor = x.astype(of_numpy), torch.tensor(x).to(getattr(torch, dtype))
                for each in (array, tensor):
                    _finite._scale(each, 4 / 3)  # no half precision has this number
                self.assertEqual(array.tobytes(), tensor.view(torch.uint8).numpy().tobytes())

    def test_survivors_and_newcomers_agree_on_who_is_left_out(self):
        script = """
import hashlib
total = numpy.zeros(30_000, "float32")
state = ringway.SharedState.join([total], GROUP, socket=SOCKET, wait_world=WORLD, timeout=60)
session = state.session
generator = numpy.random.default_rng(session.peer_id)
while True:
    x = generator.normal(size=total.size).astype("float32")
    if (session.peer_id + state.revision) % 4 == 0:
        x[11] = numpy.nan
    result = session.all_reduce(x, "avg", skip_nonfinite=True)
    total += x
    digest = hashlib.sha256(total.tobytes()).hexdigest()[:16]
    say(f"step {state.revision} world {result.world_size} of {len(result.contributors)} finite {numpy.isfinite(total).all()} {digest}")
    state.advance(result.update_waits)
"""
        trainers = [self.trainer(i, WORLD, script) for i in range(WORLD)]
        for trainer in trainers:
            trainer.said(" world 3 of 2", times=3)
        trainers[0].kill()
        for trainer in trainers[1:]:
            trainer.said(" world 2 of 1", times=3)
        newcomer = Trainer(self.cluster.directory / f"{self.group}.newcomer", script, self.cluster.sockets[0], self.group, WORLD)
        self.addCleanup(newcomer.kill)
        newcomer.said(" world 3 of 2", times=3)
        steps = {}
        for trainer in (*trainers, newcomer):
            trainer.kill()
            for line in trainer.text().splitlines(keepends=True):
                if line.startswith("step ") and line.endswith("\n"):
                    steps.setdefault(int(line.split()[1]), set()).add(line)
        self.assertEqual([lines for lines in steps.values() if len(lines) > 1], [])
        self.assertGreater(len(steps), 9)
        self.assertFalse(any("False" in line for lines in steps.values() for line in lines))


if __name__ == "__main__":
    unittest.main()
