"""Each capability that PCCL publishes, by the call that client/python/PCCL.md has beside it."""
import json
import pathlib
import re
import subprocess
import threading
import unittest

import numpy
import ringway
from cluster import PATIENCE, PROGRAMS, ClusterTest, Process, eventually, together

PAGE = pathlib.Path(__file__).resolve().parents[2] / "client/python/PCCL.md"


class PcclTest(ClusterTest):
    def on_all(self, sessions, call):
        """What the call returns for each session."""
        return together(*[lambda s=s: call(s) for s in sessions])

    def test_every_row_of_the_page_names_its_test(self):
        named = re.findall(r"^\| .* \| `(test_\w+)` \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
        self.assertEqual(set(named), {name for name in dir(self) if name.startswith("test_")} - {self._testMethodName})

    def test_master(self):
        log = self.cluster.directory / "own-master.log"
        argv = [PROGRAMS / "ringway-master", "--listen", "127.0.0.1:0", "--journal", self.cluster.directory / "own.db"]
        master = Process(log, argv)
        master.said(" listening ")
        master.signal(15)
        self.assertEqual(master.end(), 0, master.text())

    def test_connect(self):
        causes = []
        with self.assertRaises(ringway.Timeout):
            ringway.join(**self.options(0, 2, timeout=0.3), on_waiting=causes.append)
        self.assertEqual(len(self.join(2)), 2)

    def test_peer_groups(self):
        both = together(*[lambda i=i: ringway.join(**{**self.options(i, 1), "group": f"{self.group}.{i}"}) for i in range(2)])
        for session in both:
            self.addCleanup(session.abort)
            self.assertEqual(session.world_size, 1)
        asked = [PROGRAMS / "ringwayctl", "--master", self.cluster.master, "status", "--json"]
        status = json.loads(subprocess.run(asked, check=True, capture_output=True, timeout=PATIENCE).stdout)
        sizes = {group["name"]: len(group["peers"]) for group in status["groups"]}
        self.assertEqual([sizes[f"{self.group}.{i}"] for i in range(2)], [1, 1])

    def test_world_size(self):
        for session in self.join(3):
            self.assertEqual((session.world_size, len(session.members())), (3, 3))

    def test_newcomers(self):
        first = ringway.join(**self.options(0, 1))
        self.addCleanup(first.abort)
        newcomer = []
        thread = threading.Thread(target=lambda: newcomer.append(ringway.join(**self.options(1, 1))))
        thread.start()
        eventually(lambda: first.all_reduce(numpy.ones(3)).update_waits)  # are_peers_pending
        first.update_view()  # update_topology
        thread.join(PATIENCE)
        self.addCleanup(newcomer[0].abort)
        self.assertEqual((first.world_size, newcomer[0].world_size), (2, 2))

    def test_reductions(self):
        want = {"sum": 6, "avg": 2, "prod": 6, "min": 1, "max": 3}
        sessions = self.join(3)
        for op, result in want.items():
            outs = self.on_all(sessions, lambda s, op=op: self.reduced(s, op))
            self.assertEqual(outs, [result] * 3, op)

    def reduced(self, session, op):
        out = numpy.zeros(5)
        session.all_reduce(numpy.full(5, session.rank + 1.0), op, out=out)
        return out[4]

    def test_concurrent(self):
        def many(session):
            xs = [numpy.full(100, i + session.rank, "float32") for i in range(20)]
            works = [session.all_reduce_async(x) for x in xs]
            results = [work.wait() for work in works]
            return [x[0] for x in xs], {result.world_size for result in results}

        for values, worlds in self.on_all(self.join(2), many):
            self.assertEqual((values, worlds), ([2 * i + 1 for i in range(20)], {2}))

    def test_multiple_with_retry(self):
        sessions = self.join(3)
        sessions[2].abort()

        def many(session):
            xs = [numpy.full(1000, i + 1, "float32") for i in range(10)]
            result = session.all_reduce_many(xs)
            return [x[999] / result.world_size for x in xs]

        self.assertEqual(self.on_all(sessions[:2], many), [list(range(1, 11))] * 2)

    def test_quantization(self):
        def coded(session, codec):
            x = numpy.linspace(-1, 1, 1000, dtype="float32")
            want = 2 * x
            result = session.all_reduce(x, codec=codec)
            self.assertLessEqual(numpy.abs(x - want).max(), result.error_bound)
            return x.tobytes()

        sessions = self.join(2)
        for codec in ("int8", "int8_zp", "int4", "int4_zp", "bf16", "f16", "fp8_e4m3", "fp8_e5m2"):
            self.assertEqual(len(set(self.on_all(sessions, lambda s, codec=codec: coded(s, codec)))), 1, codec)

    def test_result(self):
        for result in self.on_all(self.join(2), lambda s: s.all_reduce(numpy.ones(1 << 20))):
            self.assertEqual(result.world_size, 2)
            self.assertGreater(result.wire_bytes, 0)

    def test_loss(self):
        sessions = self.join(3)
        works = [session.all_reduce_async(numpy.ones(1 << 20, "float32")) for session in sessions[:2]]
        sessions[2].abort()
        for work in works:
            self.assertEqual(work.wait().world_size, 2)

    def test_loss_as_an_error(self):
        self.addCleanup(self.cluster.start, 2)
        options = {"fail_on_peer_loss": True, "reconnect": 0}
        first, second, lost = together(*[lambda i=i: ringway.join(**self.options(i, 3, **options)) for i in range(3)])
        for session in (first, second, lost):
            self.addCleanup(session.abort)
        works = [session.all_reduce_async(numpy.ones(1 << 20, "float32")) for session in (first, second)]
        self.cluster.kill(2)
        for work in works:
            with self.assertRaises(ringway.PeerLost):
                work.wait()

    # ------------------------------------------------------------------------------------------ shared state

    def synchronized(self, sessions, offers, **options):
        """What each has in the end, and the revisions; of each rank's value, revision and strategy."""

        def one(session):
            value, revision, strategy = offers[session.rank]
            state = [numpy.full(7, value, "float32"), numpy.full((2, 3), value, "int64"), numpy.zeros(0)]
            now = ringway.sync_shared_state(session, state, revision=revision, strategy=strategy, **options)
            self.assertEqual(set(state[0]) | set(state[1].reshape(-1)), {state[0][0]})
            return state[0][0], now

        return self.on_all(sessions, one)

    def test_shared_state(self):
        sessions = self.join(3)
        for offers, outcome in (
            ([(5, 1, "popular")] * 3, (5, 1)),
            ([(5, 1, "popular"), (6, 1, "popular"), (6, 1, "popular")], (6, 1)),  # what most have
            ([(6, 1, "popular"), (6, 1, "popular"), (5, 2, "popular")], (5, 2)),  # the newest
            ([(4, 1, "popular"), (5, 1, "popular"), (6, 1, "popular")], (4, 1)),  # the lowest rank's
            ([(6, 9, "receive"), (6, 9, "receive"), (5, 2, "popular")], (5, 2)),
            ([(6, 1, "popular"), (5, 0, "send"), (6, 1, "popular")], (5, 0)),
            ([(6, 1, "receive"), (6, 1, "send"), (7, 1, "receive")], (6, 1)),
        ):
            with self.subTest(offers):
                self.assertEqual(self.synchronized(sessions, offers), [outcome] * 3)

    def test_shared_state_conflict(self):
        sessions = self.join(2)
        for offers in ([(1, 1, "send"), (2, 1, "send")], [(1, 1, "receive"), (1, 1, "receive")]):
            def refused(session, offers=offers):
                value, revision, strategy = offers[session.rank]
                with self.assertRaises(ringway.Mismatch):
                    ringway.sync_shared_state(session, [numpy.full(3, value)], revision=revision, strategy=strategy)

            self.on_all(sessions, refused)
        with self.assertRaisesRegex(ringway.InvalidArgument, "popular, send, receive"):
            ringway.sync_shared_state(sessions[0], [], strategy="best")

    def test_shared_state_of_one_who_dies(self):
        sessions = self.join(3)
        def one(session):
            state = numpy.full(9, session.rank)

            def die(_done, _of):
                if session is sessions[2]:  # who has the newest
                    session.abort()

            try:
                ringway.sync_shared_state(session, [state], revision=session.rank // 2, on_progress=die)
            except ringway.Left:
                return None
            return state.tolist()

        self.assertEqual(self.on_all(sessions, one), [[0] * 9, [0] * 9, None])


if __name__ == "__main__":
    unittest.main()
