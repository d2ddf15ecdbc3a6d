"""Who lacks a part of the shared state gets just that, from all who have it at once, whoever dies meanwhile."""
import concurrent.futures
import re
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
            reported = on_progress and (lambda done, of: on_progress(session, done, of))
            try:
                return ringway.sync_shared_state(session, state, revision=revision, on_progress=reported)
            except ringway.Error as error:
                return error

        return together(*[lambda x=x: one(*x) for x in zip(sessions, states, revisions)])

    def test_what_differs_is_taken_whatever_arrays_it_is_in(self):
        sessions = self.join(2)
        new = {"b": content(1, PIECE + 5), "a": numpy.arange(7.0), "empty": numpy.zeros((0, 3)), "flag": numpy.array(True)}
        old = {name: numpy.zeros_like(x) for name, x in sorted(new.items())}
        reported = []
        self.assertEqual(self.sync(sessions, [old, new], [4, 9], lambda *call: reported.append(call)), [9, 9])
        for name, x in new.items():
            numpy.testing.assert_array_equal(old[name], x)
        size = PIECE + 5 + 7 * 8 + 1
        self.assertEqual({call[2] for call in reported}, {size})
        reported.clear()
        self.assertEqual(self.sync(sessions, [old, new], [9, 9], lambda *call: reported.append(call)), [9, 9])
        self.assertEqual(reported, [], "all agree, and something is sent")

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

    def test_newcomer_replays_while_the_others_train(self):
        count = 1 << 19  # of float64: 4 MiB
        joined, contributed, steps = threading.Event(), threading.Event(), [0, 0, 0]

        def train(host, seed, world, may_go):
            weights = numpy.full(count, seed, "float64")
            options = self.options(host % 2, world)
            state = ringway.SharedState.join([weights], options.pop("group"), replay=True, **options)
            self.addCleanup(state.session.abort)
            if host == 2:
                joined.set()
            may_go.wait(PATIENCE)
            gradient = numpy.full(64, 1e9)
            replayed = 0
            for result in state.replay(gradient):
                weights += gradient[0]
                replayed += 1
            while True:
                gradient[:] = host + 1
                gradient[-1] = float(contributed.is_set())
                result = state.session.all_reduce(gradient, "avg")
                weights += gradient[0]
                steps[host] += 1
                if host == 2 and steps[host] == 3:
                    contributed.set()
                if gradient[-1] > 0:
                    return weights, state.revision, replayed, result.world_size
                state.advance(result.update_waits)

        now, later = threading.Event(), threading.Event()
        now.set()
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            members = [pool.submit(train, host, 7, 2, now) for host in range(2)]
            eventually(lambda: steps[0] > 0)
            newcomer = pool.submit(train, 2, 99, 1, later)
            self.assertTrue(joined.wait(PATIENCE))
            before = steps[0]
            eventually(lambda: steps[0] > before + 10)  # they do not wait for the newcomer
            later.set()
            ends = [future.result(PATIENCE) for future in (*members, newcomer)]
        for weights, revision, _, world in ends:
            numpy.testing.assert_array_equal(weights, ends[0][0])
            self.assertEqual((revision, world), (ends[0][1], 3))
        self.assertGreaterEqual(ends[2][2], 10)

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

    def test_states_that_do_not_go_together_are_refused_on_all_and_the_session_goes_on(self):
        """Names, dtypes, shapes, the order of axes and constants are agreed on; the error has both ranks and the first difference."""
        sessions = self.join(2)
        half = numpy.full(3, 0.5, "float16")
        matrix = numpy.zeros((2, 3), "float32")
        for one, other, *words in (
            ([half], [half.view("uint16")], 'rank 0 has "0" of float16[3]', 'rank 1 has "0" of uint16[3]'),
            ([half], [half.astype("float32")], "float16[3] (6 bytes)", "float32[3] (12 bytes)"),
            ([half], [half.byteswap().view(">f2")], "float16[3]", ">f2[3]"),
            ({"same": half, "w": matrix}, {"same": half, "w": matrix.reshape(3, 2)}, '"w" of float32[2, 3]', '"w" of float32[3, 2]'),
            ({"w": matrix}, {"w": numpy.asfortranarray(matrix)}, "float32[2, 3] (24", "with axes [1, 0] in memory"),
            ({"a": half}, {"b": half}, '"a"', '"b"'),
            ({"a": half, "b": half}, {"a": half}, "tensor 1", "rank 0 has \"b\"", "rank 1's list ends before it"),
            ({"n": 1}, {"n": 1.0}, '"n" of int', '"n" of float'),
            ({"n": None}, {"n": "text"}, '"n" of None', "\"n\" of str 'text'"),
        ):
            for outcome in self.sync(sessions, [one, other], [1, 0]):
                with self.subTest(one=one, other=other):
                    self.assertIsInstance(outcome, ringway.Mismatch)
                    for word in words:
                        self.assertIn(word, outcome.message)
        state = [numpy.zeros(3, "float16")]
        self.assertEqual(self.sync(sessions, [[half], state], [1, 0]), [1, 1])
        numpy.testing.assert_array_equal(state[0], half)

    def test_dicts_lists_and_numbers_of_any_depth_are_taken(self):
        def state(seed):
            return {"model": {"w": content(seed, 5), "layers": [content(seed + 1, 3), (content(seed + 2, 2), seed)]},
                    "groups": [{"lr": 0.5 * seed, "betas": (0.25 * seed, 0.125 * seed), "steps": seed, "on": seed > 1,
                                "kind": "adam", "none": None, "scalar": numpy.float32(seed), "phase": complex(seed, 1)}],
                    7: numpy.arange(seed, seed + 3)}

        sessions, states = self.join(2), [state(1), state(2)]
        kept = states[0]["groups"], states[0]["model"]["w"]
        self.assertEqual(self.sync(sessions, states, [0, 1]), [1, 1])
        self.assertEqual(repr(states[0]), repr(state(2)))
        self.assertEqual(repr(states[1]), repr(state(2)))
        self.assertIs(kept[0], states[0]["groups"])
        self.assertIs(kept[1], states[0]["model"]["w"])

    def test_what_is_no_state_is_refused_by_its_path_and_the_others_wait(self):
        sessions = self.join(2)
        for state, error, *words in (
            ({"a": {"b": [1, {2, 3}]}}, TypeError, '"a.b.1"', "set"),
            ({"a": object()}, TypeError, '"a"', "object"),
            ({(1, 2): 3}, TypeError, "tuple", "str or int"),
            (7, TypeError, "int", "replaced"),
            ([numpy.zeros(4)[::2]], ringway.InvalidArgument, '"0"', "gaps"),
            ([numpy.broadcast_to(numpy.zeros(1), (3,))], ringway.InvalidArgument, '"0"', "gaps"),
            ({"x": numpy.array([None])}, ringway.InvalidArgument, '"x"', "object"),
            ({"n": 1 << 64}, ringway.InvalidArgument, '"n"', "64 bits"),
            ({"a.b": 1, "a": {"b": 1}}, ringway.InvalidArgument, '"a.b"', "twice"),
        ):
            with self.assertRaises(error) as raised:
                ringway.sync_shared_state(sessions[0], state)
            for word in words:
                self.assertIn(word, str(raised.exception))
        for revision in (-1, 1 << 64, 0.5, "1"):
            with self.refused(ringway.InvalidArgument, f"revision is {revision!r}"):
                ringway.sync_shared_state(sessions[0], [], revision=revision)
        with self.refused(ringway.InvalidArgument, "every is -1"):
            ringway.SharedState(sessions[0], [], every=-1)
        states = [[numpy.zeros(3)], [numpy.ones(3)]]
        self.assertEqual(self.sync(sessions, states, [0, 1]), [1, 1])

    def test_arrays_whose_axes_are_permuted_are_taken_where_they_are(self):
        sessions = self.join(2)
        states = [[numpy.zeros((2, 3, 4)).transpose(axes), numpy.zeros((5, 1), order="F")] for axes in [(1, 2, 0)] * 2]
        states[1][0][:] = numpy.arange(24).reshape(3, 4, 2)
        self.assertEqual(self.sync(sessions, states, [0, 1]), [1, 1])
        numpy.testing.assert_array_equal(states[0][0], numpy.arange(24).reshape(3, 4, 2))

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

    def test_who_comes_takes_a_large_state_before_it_is_admitted(self):
        large = content(3, (64 << 20) + 5)
        states = self.shared(2, [[numpy.zeros(10), large.copy()] for _ in range(2)])
        array = numpy.zeros_like(large)
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            comes = pool.submit(ringway.SharedState.join, [numpy.zeros(10), array], **self.options(0, 2))
            deadline = time.monotonic() + PATIENCE
            while states[0].session.world_size == 2:
                self.assertLess(time.monotonic(), deadline)
                together(*[lambda s=s: self.step(s) for s in states])
            newcomer = comes.result(PATIENCE)
        self.addCleanup(newcomer.session.abort)
        together(*[lambda s=s: self.step(s) for s in [*states, newcomer]])
        self.assertTrue((array == large).all())
        numpy.testing.assert_array_equal(newcomer.arrays[0], float(states[0].revision))
        group = re.escape(self.options(0, 2)["group"])
        for i in range(self.DAEMONS):  # each of the members gave some of it
            self.assertRegex(self.cluster.text(i), rf"view_installed group={group}#state-\d+-\d+ .* world=2")

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
        with self.assertRaisesRegex(ringway.Mismatch, r'rank 0 has "0" of float64\[1000\] .* rank 2 has "0" of uint8\[7\] '):
            come(numpy.zeros(7, "uint8"), 0).result(PATIENCE)
        together(*[lambda s=s: self.step(s) for s in states])
        for state in states:
            numpy.testing.assert_array_equal(state.arrays[0], float(states[0].revision))

    def test_arrays_that_are_not_those_of_before_are_refused_at_the_end_of_a_step(self):
        (session,) = self.join(1)
        x = {"w": numpy.zeros(3), "n": 1}
        shared = ringway.SharedState(session, x)
        shared.advance(False)
        x["w"] = numpy.ones(3)
        with self.refused(ringway.InvalidArgument, '"w"', "other memory"):
            shared.advance(False)
        x = {"w": numpy.zeros(3)}
        shared = ringway.SharedState(session, lambda: x)
        x["v"] = numpy.zeros(3)
        with self.refused(ringway.InvalidArgument, '"v" where it had "w"'):
            shared.advance(False)
        x = {"w": numpy.zeros(3), "x": numpy.zeros(3)}
        shared = ringway.SharedState(session, lambda: x)
        del x["x"]
        with self.refused(ringway.InvalidArgument, "1 entries"):
            shared.advance(False)
        self.assertEqual(shared.revision, 0)

    def test_numbers_are_read_and_replaced_by_every_call_and_are_in_the_file(self):
        path = self.cluster.directory / f"{self.id()}.state"
        (session,) = self.join(1)
        state = {"lr": 0.5, "w": numpy.zeros(3)}
        shared = ringway.SharedState(session, state, path=path)
        state["lr"] = 0.25
        shared.advance(False)
        again = {"lr": 0.0, "w": numpy.ones(3)}
        self.assertEqual(ringway.SharedState(session, again, path=path).revision, 1)
        self.assertEqual(again["lr"], 0.25)
        first, second = ringway.SharedState(session, again), {"lr": 7.0, "w": numpy.ones(3)}
        again["lr"] = 3.0
        session.abort()
        sessions = self.join(2)
        first.session = sessions[0]
        together(first.sync, lambda: ringway.SharedState(sessions[1], second))
        self.assertEqual((again["lr"], second["lr"]), (3.0, 3.0))

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
