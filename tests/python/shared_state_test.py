"""Who lacks a part of the shared state gets just that, from all who have it at once, whoever dies meanwhile."""
import unittest
from unittest import mock

import numpy
import ringway
from cluster import ClusterTest, together

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


if __name__ == "__main__":
    unittest.main()
