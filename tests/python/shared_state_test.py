"""Who lacks a part of the shared state gets just that, from all who have it at once, whoever dies meanwhile."""
import concurrent.futures
import threading
import time
import unittest

import numpy
import ringway
from cluster import PATIENCE, ClusterTest, eventually, together

PIECE = 16 << 20


def content(seed, size):
    return numpy.random.default_rng(seed).integers(0, 256, size, "uint8")


class SharedStateTest(ClusterTest):
    DAEMONS = 2

    def join(self, world, **options):
        sessions = together(*[lambda i=i: ringway.join(**self.options(i % 2, world, **options)) for i in range(world)])
        for session in sessions:
            self.addCleanup(session.abort)
        return sorted(sessions, key=lambda session: session.rank)

    def sync(self, sessions, states, revisions, on_progress=None):
        """What each rank then has: its revision, or the exception. on_progress: also gets the session."""

        def one(session, state, revision):
            told = on_progress and (lambda done, of: on_progress(session, done, of))
            try:
                return ringway.sync_shared_state(session, state, revision=revision, on_progress=told)
            except ringway.Error as error:
                return error

        return together(*[lambda x=x: one(*x) for x in zip(sessions, states, revisions)])

    def test_what_differs_is_taken_whatever_arrays_it_is_in(self):
        sessions = self.join(2)
        new = {"b": content(1, PIECE + 5), "a": numpy.arange(7.0), "empty": numpy.zeros((0, 3)), "flag": numpy.array(True)}
        old = {name: numpy.zeros_like(x) for name, x in sorted(new.items())}
        told = []
        self.assertEqual(self.sync(sessions, [old, new], [4, 9], lambda *call: told.append(call)), [9, 9])
        for name, x in new.items():
            numpy.testing.assert_array_equal(old[name], x)
        size = PIECE + 5 + 7 * 8 + 1
        self.assertEqual({call[2] for call in told}, {size})
        told.clear()
        self.assertEqual(self.sync(sessions, [old, new], [9, 9], lambda *call: told.append(call)), [9, 9])
        self.assertEqual(told, [], "all agree, and something is sent")

    def test_a_holder_that_dies_is_made_up_for_by_the_others(self):
        sessions = self.join(4)
        new = content(5, 12 * PIECE + 3)
        states = [[new.copy()], [new.copy()], [new.copy()], [numpy.zeros_like(new)]]

        def die(session, done, _of):
            if session is sessions[1] and done > 0:
                session.abort()

        outcomes = self.sync(sessions, states, [3, 3, 3, 0], die)
        self.assertIsInstance(outcomes.pop(1), ringway.Left)
        self.assertEqual(outcomes, [3, 3, 3])
        numpy.testing.assert_array_equal(states[3][0], new)

    def test_what_on_progress_raises_ends_the_call(self):
        sessions = self.join(2)
        states = [[content(1, 20 * PIECE)], [numpy.zeros(20 * PIECE, "uint8")]]

        def one(session):
            def fail(_done, _of):
                if session is sessions[1]:
                    raise KeyError("enough")

            try:
                ringway.sync_shared_state(session, states[session.rank], revision=session.rank == 0, on_progress=fail)
            except KeyError:
                session.abort()
                return "ended"
            return "synchronized"

        outcomes = together(*[lambda s=s: one(s) for s in sessions])
        self.assertEqual(outcomes, ["synchronized", "ended"])
        self.assertFalse(states[1][0].any(), "a part of it has been adopted")

    def test_states_of_different_sizes_are_refused_on_all(self):
        sessions = self.join(2)
        for outcome in self.sync(sessions, [[content(1, 5)], [content(1, 6)]], [1, 1]):
            self.assertIsInstance(outcome, ringway.Mismatch)
            self.assertIn("[5, 6] bytes", outcome.message)

    # ------------------------------------------------------------------------------------------ SharedState

    def shared(self, world, arrays, paths=None, **options):
        """A SharedState a rank, in rank order."""

        def join(i):
            path = paths[i] if paths else None
            state = ringway.SharedState.join(arrays[i], path=path, **self.options(i % 2, world), **options)
            self.addCleanup(state.session.abort)
            return state

        return sorted(together(*[lambda i=i: join(i) for i in range(world)]), key=lambda state: state.session.rank)

    @staticmethod
    def step(state):
        """Adds one to the first array, on every rank."""
        one = numpy.ones_like(state.arrays[0])
        result = state.session.all_reduce(one, "avg")
        state.arrays[0] += one
        return state.advance(result.update_waits)

    def test_who_comes_takes_the_state_while_the_others_train(self):
        states = self.shared(2, [[numpy.zeros(1000)] for _ in range(2)])
        for _ in range(3):
            together(*[lambda s=s: self.step(s) for s in states])
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            comes = pool.submit(
                ringway.SharedState.join, [numpy.full(1000, -5.0)], **self.options(0, 2), revision=1)
            deadline = time.monotonic() + PATIENCE
            while not all(together(*[lambda s=s: self.step(s) for s in states])):
                self.assertLess(time.monotonic(), deadline)
            newcomer = comes.result(PATIENCE)
        self.addCleanup(newcomer.session.abort)
        states.append(newcomer)
        self.assertEqual({state.session.world_size for state in states}, {3})
        together(*[lambda s=s: self.step(s) for s in states])
        for state in states:
            self.assertEqual(state.revision, states[0].revision)
            numpy.testing.assert_array_equal(state.arrays[0], float(state.revision))

    def test_a_run_of_which_nobody_is_left_goes_on_from_the_newest_file(self):
        paths = [self.cluster.directory / f"{self.id()}.{i}" for i in range(3)]
        states = self.shared(3, [[numpy.zeros(1000), numpy.arange(3)] for _ in range(3)], paths, every=2)
        for _ in range(5):
            together(*[lambda s=s: self.step(s) for s in states])
        for state in states:
            state.session.abort()
        self.assertEqual(len({path.read_bytes() for path in paths}), 1)
        self.assertEqual({x.name for x in self.cluster.directory.glob(f"{self.id()}*")}, {path.name for path in paths})
        paths[1].unlink()
        for state in self.shared(3, [[numpy.zeros(1000), numpy.zeros(3, int)] for _ in range(3)], paths, every=2):
            self.assertEqual(state.revision, 4)
            numpy.testing.assert_array_equal(state.arrays[0], 4.0)
            numpy.testing.assert_array_equal(state.arrays[1], [0, 1, 2])

    def test_a_file_that_is_not_this_state_whole_is_refused(self):
        path = self.cluster.directory / "state"

        def join(x, **options):
            return ringway.SharedState.join([x], path=path, **{**self.options(0, 1), **options})

        with join(numpy.arange(100)).session as session:
            ringway.SharedState(session, [numpy.arange(100)], path=path).advance(False)
        whole = path.read_bytes()
        path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        x = numpy.zeros(100, int)
        with self.assertRaisesRegex(ringway.InvalidArgument, "damaged"):
            join(x)
        self.assertFalse(x.any(), "it was read")
        path.write_bytes(whole)
        with self.assertRaisesRegex(ringway.InvalidArgument, "another model's"):
            join(numpy.zeros(101, int))
        with self.assertRaisesRegex(ringway.InvalidArgument, "no directory"):
            ringway.SharedState.join([numpy.zeros(1)], path=path / "x", **self.options(0, 1))
        with self.assertRaisesRegex(ringway.InvalidArgument, "every is 0"):
            join(numpy.zeros(100, int), every=0)

    def test_newcomers_change_nothing_of_a_training_that_runs(self):
        """Neither one that says it has more revisions, nor one with another model."""
        states = self.shared(2, [[numpy.zeros(1000)] for _ in range(2)])

        def come(array, revision):
            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                comes = pool.submit(ringway.SharedState.join, [array], **self.options(0, 2), revision=revision)
                deadline = time.monotonic() + PATIENCE
                while not comes.done():
                    self.assertLess(time.monotonic(), deadline)
                    together(*[lambda s=s: self.step(s) for s in states])
                    if states[0].session.world_size == 3 and comes.done():
                        break
                    if states[0].session.world_size == 3:
                        eventually(comes.done)
                return comes

        newcomer = come(numpy.full(1000, 7.0), 99999).result(PATIENCE)
        self.addCleanup(newcomer.session.abort)
        for state in [*states, newcomer]:
            numpy.testing.assert_array_equal(state.arrays[0], float(states[0].revision))
        newcomer.session.abort()
        eventually(lambda: not any(together(*[lambda s=s: self.step(s) for s in states]))
                   and states[0].session.world_size == 2)
        with self.assertRaisesRegex(ringway.Mismatch, r"\[7, 8000\] bytes"):
            come(numpy.zeros(7, "uint8"), 0).result(PATIENCE)
        together(*[lambda s=s: self.step(s) for s in states])
        for state in states:
            numpy.testing.assert_array_equal(state.arrays[0], float(states[0].revision))

    def test_a_save_that_fails_leaves_the_file_of_before_and_all_else_done(self):
        path = self.cluster.directory / f"{self.id()}.state"
        states = self.shared(2, [[numpy.zeros(10)] for _ in range(2)], [path, path.with_name("other")])
        together(*[lambda s=s: self.step(s) for s in states])
        kept = path.read_bytes()
        blocks = [path.with_name(path.name + ".new"), path.with_name("other.new")]
        for block in blocks:
            block.mkdir()
        for state in states:  # which are alone in this
            with self.assertRaises(OSError) as raised:
                state.advance(False)
            self.assertIsInstance(raised.exception, ringway.Error)
        for block in blocks:
            block.rmdir()
        self.assertEqual(path.read_bytes(), kept)
        self.assertEqual(list(self.cluster.directory.glob("*.new")), [])
        self.assertEqual([state.revision for state in states], [2, 2])
        together(*[lambda s=s: self.step(s) for s in states])
        self.assertNotEqual(path.read_bytes(), kept)

    def test_a_training_in_which_every_peer_was_replaced_ends_as_an_undisturbed_one(self):
        size, rate = 20, 0.02
        truth = numpy.random.default_rng(1).normal(size=size)

        def batch(peer, revision, count=8):
            random = numpy.random.default_rng([peer, revision])
            x = random.normal(size=(count, size))
            return x, x @ truth + random.normal(size=count)

        def train(index, revisions, until):
            """Until `until` says so, to all; or until this one is to go. The weights and the revision."""
            weights = numpy.zeros(size)
            state = ringway.SharedState.join([weights], **self.options(index % 2, 3))
            self.addCleanup(state.session.abort)
            is_over = False
            while not is_over and revisions[index] is not None:
                x, y = batch(state.session.peer_id, state.revision)
                mean = numpy.append(x.T @ (x @ weights - y) / len(y), until(state.revision))
                result = state.session.all_reduce(mean, "avg")
                weights -= rate * mean[:-1]
                is_over = mean[-1] > 0
                state.advance(result.update_waits and not is_over)
                if revisions[index] is not None:
                    revisions[index] = state.revision
            (state.session.leave if is_over else state.session.abort)()
            return weights, state.revision

        def error(weights):
            x, y = batch(0, 0, 2000)
            return float(numpy.mean((x @ weights - y) ** 2))

        revisions, replaced = [0] * 6, threading.Event()
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            runs = [pool.submit(train, i, revisions, lambda _: replaced.is_set()) for i in range(3)]
            for old in range(3):
                eventually(lambda: min(x for x in revisions[old : old + 3] if x is not None) >= 100 * (old + 1))
                runs.append(pool.submit(train, old + 3, revisions, lambda _: replaced.is_set()))
                eventually(lambda: (revisions[old + 3] or 0) > 0)
                revisions[old] = None
                runs[old].result(PATIENCE)
            replaced.set()
            ends = [run.result(PATIENCE) for run in runs[3:]]
        weights, last = ends[0]
        for other, revision in ends[1:]:
            self.assertEqual(revision, last)
            numpy.testing.assert_array_equal(other, weights)
        calm = together(*[lambda i=i: train(i, [0] * 3, lambda revision: revision + 1 >= last) for i in range(3)])[0]
        self.assertEqual(calm[1], last)
        self.assertLess(error(weights), 0.2 * error(numpy.zeros(size)))
        self.assertLess(abs(error(weights) / error(calm[0]) - 1), 0.1)


if __name__ == "__main__":
    unittest.main()
