"""Trainers as processes: Ctrl-C, forks, the interpreter's exit, and the death of peers and daemons."""

import asyncio
import signal
import subprocess
import sys
import threading
import unittest

import numpy
import ringway
from cluster import PATIENCE, PROGRAMS, ClusterTest, together

# Says "waiting" before each wait, then "interrupted" when it ends with KeyboardInterrupt.
INTERRUPTED = """
def interrupted(wait):
    say("waiting")
    try:
        wait()
    except KeyboardInterrupt:
        say("interrupted")
    else:
        say("NOT interrupted")
"""


class InterruptTest(ClusterTest):
    def interrupt(self, trainer, number):
        """Ctrl-C for this wait of the trainer's, once it sleeps there."""
        trainer.said("waiting", number)
        trainer.sleeps()
        trainer.signal(signal.SIGINT)
        trainer.said("interrupted", number)
        self.assertNotIn("NOT", trainer.text())

    def test_ctrl_c_ends_a_join(self):
        trainer = self.trainer(0, 2, INTERRUPTED + "interrupted(join); say('goes on')")
        self.interrupt(trainer, 1)
        trainer.said("goes on")
        self.assertEqual(trainer.end(), 0)

    def test_ctrl_c_ends_every_wait_and_the_operation_goes_on(self):
        trainer = self.trainer(0, 2, INTERRUPTED + """
session = join()
x = numpy.ones(3, "float32")
work = session.all_reduce_async(x)
interrupted(work.wait)
interrupted(lambda: work.wait(60))
interrupted(lambda: session.all_reduce(numpy.ones(3, "float32"), channel=1))
say("result", work.wait(60).world_size, *x)
interrupted(session.update_view)
say("updated", session.update_view().world_size)
work = session.all_reduce_async(x)
interrupted(session.leave)
""")
        other = ringway.join(**self.options(1, 2))
        self.addCleanup(other.abort)
        for number in (1, 2, 3):
            self.interrupt(trainer, number)
        other.all_reduce(numpy.ones(3, "float32"))
        x = numpy.ones(3, "float32")
        other.all_reduce(x, channel=1)  # that of the call that was interrupted
        self.assertEqual(x.tolist(), [2, 2, 2])
        self.assertEqual(trainer.said("result"), "result 2 2.0 2.0 2.0")
        self.interrupt(trainer, 4)
        other.update_view(PATIENCE)
        self.assertEqual(trainer.said("updated"), "updated 2")
        self.interrupt(trainer, 5)
        self.assertEqual(trainer.end(), 0)

    def test_signal_handlers_run_while_a_call_waits(self):
        trainer = self.trainer(0, 2, """
import signal
def handler(*_): say("handled")
signal.signal(signal.SIGUSR1, handler)
session = join()
say("waiting")
say("result", session.all_reduce(numpy.ones(3)).world_size)
""")
        other = ringway.join(**self.options(1, 2))
        self.addCleanup(other.abort)
        trainer.said("waiting")
        trainer.sleeps()
        trainer.signal(signal.SIGUSR1)
        trainer.said("handled")
        other.all_reduce(numpy.ones(3))
        self.assertEqual(trainer.said("result"), "result 2")
        self.assertEqual(trainer.end(), 0)

    def test_ctrl_c_ends_a_loop_that_awaits(self):
        trainer = self.trainer(0, 2, """
import asyncio
session = join()
async def main():
    say("waiting")
    await session.all_reduce_async(numpy.ones(3))
try:
    asyncio.run(main())
except KeyboardInterrupt:
    say("interrupted")
""")
        other = ringway.join(**self.options(1, 2))
        self.addCleanup(other.abort)
        self.interrupt(trainer, 1)
        self.assertEqual(trainer.end(), 0)

    def test_a_signal_handler_cannot_wait_within_a_call(self):
        trainer = self.trainer(0, 2, """
import signal
def handler(*_):
    say("done", work.done())
    session.all_reduce(numpy.ones(3), channel=1)
signal.signal(signal.SIGUSR1, handler)
session = join()
work = session.all_reduce_async(numpy.ones(3))
try:
    say("waiting")
    work.wait()
except ringway.InvalidArgument as error:
    say("refused", error)
say("result", work.wait().world_size)
""")
        other = ringway.join(**self.options(1, 2))
        self.addCleanup(other.abort)
        trainer.said("waiting")
        trainer.sleeps()
        trainer.signal(signal.SIGUSR1)
        self.assertIn("let it set a flag", trainer.said("refused"))
        trainer.said("done False")
        other.all_reduce(numpy.ones(3))
        trainer.said("result 2")
        self.assertEqual(trainer.end(), 0)


class SubinterpreterTest(unittest.TestCase):
    def test_an_import_in_a_subinterpreter_is_an_import_error_and_the_process_lives(self):
        script = """
import sys
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
if "first" in sys.argv:
    import ringway
sub = interpreters.create()
interpreters.run_string(sub, '''if True:
    try:
        import ringway
    except ImportError as error:
        print("refused", error)
''')
interpreters.destroy(sub)
import ringway
try:
    ringway.join("group", socket="/nonexistent", wait_world=1)
except ringway.DaemonUnreachable:
    print("goes on", flush=True)
"""
        for order in ("first", "second"):
            with self.subTest(order=order):
                done = subprocess.run([sys.executable, "-B", "-c", script, order], capture_output=True, text=True,
                                      timeout=PATIENCE)
                self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
                self.assertRegex(done.stdout, "refused .*\ngoes on\n")


class ForkTest(ClusterTest):
    def test_a_child_has_no_session_and_the_parent_keeps_its_own(self):
        trainer = self.trainer(0, 2, """
import asyncio, os, threading
session = join()
x = session.empty(3)
x[:] = 1
work = session.all_reduce_async(x)
threading.Thread(target=work.wait, daemon=True).start()
def refused(call):
    try:
        call()
    except ringway.Forked as error:
        say("child refused", "join in the child" in error.message)
async def awaits(): await work
child = os.fork()
if child == 0:
    refused(lambda: session.all_reduce(numpy.ones(3)))
    for call in (work.wait, work.cancel, session.update_view, session.leave, session.members, lambda: session.empty(3),
                 lambda: asyncio.run(awaits())):
        refused(call)
    session.abort()
    own = ringway.join(GROUP + ".child", socket=SOCKET, wait_world=1)
    say("child alone", own.all_reduce(numpy.ones(3)).world_size)
    sys.exit(7)  # through atexit and all destructors
say("child ended", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
say("parent result", work.wait().world_size, *x)
""")
        other = ringway.join(**self.options(1, 2))
        self.addCleanup(other.abort)
        trainer.said("child ended 7")
        self.assertEqual(trainer.text().count("child refused True"), 8)
        trainer.said("child alone 1")
        other.all_reduce(numpy.ones(3, "float32"))
        self.assertEqual(trainer.said("parent result"), "parent result 2 2.0 2.0 2.0")
        self.assertEqual(trainer.end(), 0)

    def test_workers_of_multiprocessing_leave_the_session_alone(self):
        trainer = self.trainer(0, 1, """
import multiprocessing
session = join()
def load(index): return index * index
with multiprocessing.get_context("fork").Pool(4) as pool:
    for step in range(20):
        batch = numpy.array(pool.map(load, range(8)), "float32")
        session.all_reduce(batch)
say("loaded", *batch)
""")
        trainer.said("loaded 0.0 1.0 4.0 9.0 16.0 25.0 36.0 49.0")
        self.assertEqual(trainer.end(), 0)


class ExitTest(ClusterTest):
    def leave_open(self, script, channels=1):
        """A trainer that ends while operations are in flight on these channels: the others get what it had submitted."""
        trainer = self.trainer(0, 2, "session = join()\nx = numpy.ones(3, 'float32')\n" + script)
        other = ringway.join(**self.options(1, 2))
        self.addCleanup(other.abort)
        trainer.said("ready")
        self.assertEqual(trainer.end(), 0, trainer.text())
        self.assertEqual(trainer.text(), "ready\n")
        x = numpy.ones(3, "float32")
        works = [other.all_reduce_async(x if c == 0 else numpy.ones(3, "float32"), channel=c) for c in range(channels)]
        self.assertEqual(works[0].wait(PATIENCE).world_size, 2)
        self.assertEqual(x.tolist(), [2, 2, 2])
        for work in works:
            work.wait(PATIENCE)
        while other.all_reduce(numpy.ones(3)).world_size != 1:
            pass

    def test_with_work_in_flight(self):
        self.leave_open("work = session.all_reduce_async(x); say('ready')")

    def test_with_work_in_flight_and_a_shared_array(self):
        self.leave_open("y = session.empty(3); y[:] = 1; work = session.all_reduce_async(y); say('ready')")

    def test_with_daemon_threads_that_wait(self):
        self.leave_open("""
import threading
def wait(channel):
    while True:
        try:
            session.all_reduce(numpy.ones(3, "float32"), channel=channel)
        except ringway.Error:
            pass
for channel in range(1, 9):
    threading.Thread(target=wait, args=(channel,), daemon=True).start()
def join_alone():
    while True:
        try:
            ringway.join(GROUP + ".others", socket=SOCKET, wait_world=2)
        except ringway.Error:
            pass
threading.Thread(target=join_alone, daemon=True).start()
work = session.all_reduce_async(x)
say("ready")
""", channels=9)

    def test_calls_of_daemon_threads_return_before_the_end(self):
        trainer = self.trainer(0, 2, """
import atexit, threading
session = join()
def wait():
    try:
        session.all_reduce(numpy.ones(3))
    except ringway.Left:
        say("left")
waiting = threading.Event()
def join_alone():
    try:
        ringway.join(GROUP + ".alone", socket=SOCKET, wait_world=2, on_waiting=lambda _: waiting.set())
    except ringway.Interrupted:
        say("interrupted")
thread = threading.Thread(target=wait, daemon=True)
joining = threading.Thread(target=join_alone, daemon=True)
thread.start()
joining.start()
waiting.wait()
POLLS = {"7", "73", "271"}  # poll and ppoll, of x86-64 and others
while open(f"/proc/self/task/{thread.native_id}/syscall").read().split()[0] not in POLLS:
    pass
atexit._run_exitfuncs()
thread.join()
joining.join()
for call in (session.update_view, lambda: ringway.join(GROUP, socket=SOCKET, wait_world=1)):
    try:
        call()
    except ringway.Left as error:
        say(error)
""")
        other = ringway.join(**self.options(1, 2))
        self.addCleanup(other.abort)
        self.assertEqual(trainer.end(), 0, trainer.text())
        said = trainer.text().splitlines()
        self.assertEqual(sorted(said[:2]), ["interrupted", "left"])
        self.assertEqual(said[2:], ["the interpreter exits, which has ended all sessions"] * 2)

    def test_with_an_await_abandoned(self):
        self.leave_open("""
import asyncio
work = session.all_reduce_async(x)
async def main():
    try:
        await asyncio.wait_for(work, 0.01)
    except asyncio.TimeoutError:
        say("ready")
asyncio.run(main())
""")

    def test_with_a_finalizer_that_waits(self):
        self.leave_open("""
work = session.all_reduce_async(x)
class Late:
    def __del__(self):
        try:
            work.wait()
        except ringway.Left:
            say("ready")
late = Late()
""")

    def test_by_an_exception(self):
        trainer = self.trainer(0, 1, "session = join(); session.all_reduce(numpy.zeros(3, bool))")
        self.assertEqual(trainer.end(), 1)
        self.assertIn("ringway.NotSupported: x has elements of bool", trainer.text())


class LossTest(ClusterTest):
    """A cluster for each test, which loses daemons."""

    DAEMONS = 0

    def test_a_killed_daemon_leaves_the_sum_of_the_others(self):
        self.start(3)
        trainer = self.trainer(2, 3, """
session = join()
x = numpy.full(1000, 4, "float32")
while True:
    session.all_reduce(x[:1])
    x[:] = 4
    say("step")
""")
        sessions = together(*[lambda i=i: ringway.join(**self.options(i, 3)) for i in range(2)])
        for session in sessions:
            self.addCleanup(session.abort)

        def steps(session):
            contributors = []
            while len(contributors) < 3 or contributors[-1] == contributors[0]:
                x = numpy.full(1, session.peer_id == sessions[0].peer_id, "float32")
                result = session.all_reduce(x)
                contributors.append(result.contributors)
                self.assertEqual(x[0], 5 if result.world_size == 3 else 1)
                if len(contributors) == 3 and session is sessions[0]:
                    self.cluster.kill(2)
            self.assertEqual((len(contributors[0]), len(contributors[-1])), (3, 2))
            self.assertEqual(set(contributors[-1]), {s.peer_id for s in sessions})
            return contributors

        first, second = together(*[lambda s=s: steps(s) for s in sessions])
        self.assertEqual(first, second)
        trainer.kill()

    def test_a_killed_trainer_leaves_the_others(self):
        self.start(2)
        trainer = self.trainer(1, 2, "session = join(); work = session.all_reduce_async(numpy.ones(3)); say('ready')\n"
                                     "import time; time.sleep(600)")
        session = ringway.join(**self.options(0, 2))
        self.addCleanup(session.abort)
        trainer.said("ready")
        trainer.kill()
        self.assertEqual(session.all_reduce(numpy.ones(3)).world_size, 2, "its input was submitted")
        while session.all_reduce(numpy.ones(3)).world_size != 1:
            pass

    def test_a_lost_peer_is_an_error_where_that_was_asked_for(self):
        self.start(2)
        first, _ = self.join(2, fail_on_peer_loss=True, reconnect=0)
        work = first.all_reduce_async(numpy.ones(3))
        self.cluster.kill(1 - self.daemon_of(first))
        with self.refused(ringway.PeerLost):
            work.wait(PATIENCE)

    def test_a_world_below_the_minimum(self):
        self.start(2)
        first, _ = self.join(2, min_world=2, reconnect=0)
        work = first.all_reduce_async(numpy.ones(3))
        self.cluster.kill(1 - self.daemon_of(first))
        with self.refused(ringway.WorldTooSmall):
            work.wait(PATIENCE)

    def daemon_of(self, session):
        return int(session.members()[session.rank].name[1])

    def test_a_daemon_that_is_gone(self):
        self.start(1)
        (session,) = self.join(1, reconnect=0)
        x = session.empty(3)
        x[:] = 3
        self.cluster.kill(0)
        with self.refused(ringway.DaemonLost):
            session.all_reduce(x)
        self.assertEqual(x.tolist(), [3, 3, 3])

    def test_a_daemon_that_stops(self):
        self.start(1)
        (session,) = self.join(1, reconnect=0)
        self.cluster.daemons[0].signal(signal.SIGTERM)
        with self.refused(ringway.ShuttingDown):
            while True:
                session.all_reduce(numpy.ones(3))
        self.assertTrue(self.cluster.daemons[0].wait(PATIENCE))
        self.assertEqual(self.cluster.daemons[0].returncode, 0)

    def test_a_restarted_daemon_is_joined_again(self):
        self.start(1)
        (session,) = self.join(1)
        x, before = session.empty(3), session.peer_id
        x[:] = 3
        self.cluster.kill(0)
        self.cluster.start(0)
        with self.refused(ringway.Rejoined, "take the others' state"):
            session.all_reduce(x)
        self.assertNotEqual(session.peer_id, before)
        self.assertEqual(session.all_reduce(x).world_size, 1)
        self.assertEqual(x.tolist(), [3, 3, 3])

    def test_an_await_that_outlives_its_membership_is_reported_once(self):
        self.start(2)
        first, second = self.join(2)
        killed = threading.Event()

        async def rejoin():
            work = first.all_reduce_async(numpy.ones(3))
            waiting = asyncio.ensure_future(asyncio.wait_for(work, PATIENCE))
            await asyncio.sleep(0)
            index = self.daemon_of(first)
            self.cluster.kill(index)
            killed.set()
            self.cluster.start(index)
            with self.refused(ringway.Rejoined):
                await waiting
            return await first.all_reduce_async(numpy.ones(3))

        def admit():
            self.assertTrue(killed.wait(PATIENCE))
            while not second.all_reduce(numpy.ones(3)).update_waits:
                pass
            second.update_view(PATIENCE)
            return second.all_reduce(numpy.ones(3))

        results = together(lambda: asyncio.run(rejoin()), admit)
        self.assertEqual([x.world_size for x in results], [2, 2])

    def test_an_evicted_peer(self):
        self.start(2)
        first, second = self.join(2, rejoin_when_evicted=False)
        work = first.all_reduce_async(numpy.ones(3))
        self.evict(first)
        with self.refused(ringway.Evicted):
            work.wait(PATIENCE)
        with self.refused(ringway.Evicted):
            first.update_view()
        self.assertEqual(second.all_reduce(numpy.ones(3)).world_size, 1)

    def evict(self, session):
        name = session.members()[session.rank].name
        subprocess.run([PROGRAMS / "ringwayctl", "--master", self.cluster.master, "evict",
                        "--group", self.group, "--peer", name], check=True, capture_output=True, timeout=PATIENCE)

    def test_a_master_that_is_gone(self):
        self.start(1)
        self.cluster.kill_master()
        with self.refused(ringway.MasterUnreachable):
            ringway.join(**self.options(0, 1, timeout=0.5))


if __name__ == "__main__":
    unittest.main()
