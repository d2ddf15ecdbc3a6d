"""Who lacks a part of the shared state gets just that, from all who have it at once, whoever dies meanwhile."""
import concurrent.futures
import hashlib
import threading
import time
import unittest
from unittest import mock

import numpy
import ringway
from cluster import PATIENCE, ClusterTest, eventually, together

PIECE = ringway._shared_state._PIECE_BYTES


def content(seed, size):
    return numpy.random.default_rng(seed).integers(0, 256, size, "uint8")


class SharedStateTest(ClusterTest):
    DAEMONS = 2

    def join(self, world, **options):
        sessions = together(*[lambda i=i: ringway.join(**self.options(i % 2, world, **options)) for i in range(world)])
        for session in sessions:
            self.addCleanup(session.abort)
        return sorted(sessions, key=lambda session: session.rank)

    def sync(self, sessions, states, revisions, spy=None):
        """What each rank then has: its revision, or the exception. `spy` sees each all_to_all_v."""
        whole = ringway.Session.all_to_all_v_async

        def watched(session, x, **options):
            if spy is not None:
                spy(session, options["send_counts"])
            return whole(session, x, **options)

        def one(session, state, revision):
            try:
                return ringway.sync_shared_state(session, state, revision=revision)
            except ringway.Error as error:
                return error

        with mock.patch.object(ringway.Session, "all_to_all_v_async", watched):
            return together(*[lambda x=x: one(*x) for x in zip(sessions, states, revisions)])

    def test_only_what_differs_travels_and_in_equal_stripes_from_all_who_have_it(self):
        sessions = self.join(4)
        sizes = (PIECE + 5, 3 * PIECE // 2, 1, 700)
        new = [content(i, size) for i, size in enumerate(sizes)]
        states = [[x.copy() for x in new] for _ in range(4)]
        states[3][1][10] ^= 1  # in one piece of four
        sent = {session: [0] * 4 for session in sessions}

        def count(session, counts):
            sent[session] = [a + b for a, b in zip(sent[session], counts)]

        self.assertEqual(self.sync(sessions, states, [7, 7, 7, 2], count), [7] * 4)
        for state in states:
            for x, want in zip(state, new):
                numpy.testing.assert_array_equal(x, want)
        stripes = [sent[session][3] for session in sessions[:3]]
        self.assertEqual(sum(stripes), PIECE)
        self.assertLessEqual(max(stripes) - min(stripes), 1)
        self.assertEqual([sum(counts[:3]) for counts in sent.values()], [0] * 4)

        sent = {session: [0] * 4 for session in sessions}
        self.assertEqual(self.sync(sessions, states, [8] * 4, count), [8] * 4)
        self.assertEqual(sum(sum(counts) for counts in sent.values()), 0, "all agree, and something is sent")

    def test_many_small_arrays_travel_together(self):
        sessions = self.join(2)
        states = [[content(1000 * (1 - rank) + i, 3 + i % 40) for i in range(900)] for rank in range(2)]
        calls = []
        self.assertEqual(self.sync(sessions, states, [4, 9], lambda *call: calls.append(call)), [9, 9])
        for a, b in zip(*states):
            numpy.testing.assert_array_equal(a, b)
        self.assertEqual(len(calls), 2, "a call a rank")

    def test_a_holder_that_dies_is_made_up_for_by_the_others(self):
        sessions = self.join(4)
        new = content(5, 12 * PIECE + 3)
        states = [[new.copy()], [new.copy()], [new.copy()], [numpy.zeros_like(new)]]
        calls = []

        def die(session, _counts):
            calls.append(session)
            if session is sessions[1] and calls.count(session) == 5:
                session.abort()

        outcomes = self.sync(sessions, states, [3, 3, 3, 0], die)
        self.assertIsInstance(outcomes.pop(1), ringway.Left)
        self.assertEqual(outcomes, [3, 3, 3])
        numpy.testing.assert_array_equal(states[3][0], new)

    def test_the_last_with_the_newest_dies_and_the_next_newest_is_taken_whole(self):
        sessions = self.join(3)
        newest, older = content(6, 12 * PIECE), content(7, 12 * PIECE)
        states = [[newest.copy()], [older.copy()], [numpy.zeros_like(older)]]
        calls = []

        def die(session, _counts):
            calls.append(session)
            if session is sessions[0] and calls.count(session) == 10:  # the first pieces have arrived
                session.abort()

        outcomes = self.sync(sessions, states, [9, 5, 1], die)
        self.assertIsInstance(outcomes[0], ringway.Left)
        self.assertEqual(outcomes[1:], [5, 5])
        for state in states[1:]:
            numpy.testing.assert_array_equal(state[0], older)

    def test_who_writes_to_it_meanwhile_makes_all_refuse_it(self):
        sessions = self.join(3)
        new = content(8, 4 * PIECE)
        states = [[new], [numpy.zeros_like(new)], [numpy.zeros_like(new)]]
        kept = new.copy()

        def write(session, _counts):
            if session is sessions[0]:
                new[:] += 1

        for outcome in self.sync(sessions, states, [2, 1, 1], write):
            self.assertIsInstance(outcome, ringway.Mismatch)
            self.assertIn("written to", outcome.message)
        self.assertFalse(states[1][0].any() or states[2][0].any(), "a part of it has been adopted")
        self.assertFalse((new == kept).all())

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
        with join(numpy.zeros(100, int)).session:
            pass
        head = whole[:8] + b"\xff" * 8 + whole[16:24]  # a revision that leaves no room for the next
        far = head + hashlib.blake2b(head + whole[40:], digest_size=16).digest() + whole[40:]
        for content, said in (
            *[(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :], "damaged") for at in (8, 24, 39, 40, len(whole) - 1)],
            (whole[:-1], "damaged"),
            (whole + b"x", "damaged"),
            (whole[:16] + b"\xff" * 8 + whole[24:], "another model's"),
            (far, "damaged"),
            (b"", "not a state file"),
            (b"x" * 1000, "not a state file"),
        ):
            path.write_bytes(content)
            x = numpy.zeros(100, int)
            with self.assertRaisesRegex(ringway.InvalidArgument, said):
                join(x)
            self.assertFalse(x.any(), "it was read")
        path.write_bytes(whole)
        with self.assertRaisesRegex(ringway.InvalidArgument, "another model's"):
            join(numpy.zeros(101, int))
        with self.assertRaisesRegex(ringway.InvalidArgument, "no directory"):
            ringway.SharedState.join([numpy.zeros(1)], path=path / "x", **self.options(0, 1))
        with mock.patch("shutil.disk_usage", return_value=mock.Mock(free=1500)):
            with self.assertRaisesRegex(ringway.ResourceExhausted, "make room"):
                join(numpy.zeros(1000, int))
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
        with mock.patch("os.fsync", side_effect=OSError("no space")):
            for state in states:  # which are alone in this
                with self.assertRaises(OSError):
                    state.advance(False)
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
