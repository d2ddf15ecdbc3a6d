"""Launching on one machine: `ringway.local`, and the commands `ringway up` and `ringway run`."""

import contextlib
import json
import logging
import os
import pathlib
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import unittest
import unittest.mock

import numpy
import ringway
from cluster import PATIENCE, PROGRAMS, Process, eventually, together
from ringway import _sockets

try:
    import torch
except ImportError:
    torch = None

RINGWAY = pathlib.Path(sysconfig.get_path("scripts"), "ringway")


def is_running(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def children_of(pid):
    """Master and daemons, by name."""
    listed = subprocess.run(["ps", "-o", "pid=,comm=", "--ppid", str(pid)], check=False, capture_output=True, text=True).stdout
    return [(name, int(child)) for child, name in (line.split(None, 1) for line in listed.splitlines()) if name != "ps"]


def sums(sockets, group="demo"):
    """A sum of ones, by each socket's session."""

    def one(socket):
        with ringway.join(group, socket=socket, wait_world=len(sockets), timeout=PATIENCE) as session:
            x = numpy.ones(3, "float32")
            session.all_reduce(x)
            return x.tolist()

    return together(*[lambda socket=socket: one(socket) for socket in sockets])


class LaunchTest(unittest.TestCase):
    """Temporary files, and with them the default place of `ringway up`, are a test's own."""

    def setUp(self):
        kept = tempfile.TemporaryDirectory(prefix="ringway-launch-")
        self.addCleanup(kept.cleanup)
        self.directory = pathlib.Path(kept.name)
        self.environment(TMPDIR=kept.name, RINGWAY_PROGRAMS=str(PROGRAMS))
        for name in ("RINGWAY_SOCKET", "LOCAL_RANK"):
            self.environment()
            os.environ.pop(name, None)
        patch = unittest.mock.patch.object(tempfile, "tempdir", None)  # it keeps the first TMPDIR
        patch.start()
        self.addCleanup(patch.stop)

    def environment(self, **variables):
        patch = unittest.mock.patch.dict(os.environ, variables)
        patch.start()
        self.addCleanup(patch.stop)

    def command(self, *words, **options):
        process = Process(self.directory / f"{len(list(self.directory.iterdir()))}.log", [RINGWAY, *words], **options)
        self.addCleanup(process.kill)
        return process

    def script(self, text):
        path = self.directory / "script.py"
        path.write_text(text, encoding="utf-8")
        return path


class LocalTest(LaunchTest):
    def test_each_rank_has_a_daemon_and_nothing_is_left(self):
        with ringway.local(world=3) as cluster:
            self.assertEqual(sums(cluster.sockets), [[3, 3, 3]] * 3)
            children = children_of(os.getpid())
            self.assertEqual(sorted(name for name, _ in children), ["ringway-master", "ringwayd", "ringwayd", "ringwayd"])
        for name, pid in children:
            self.assertFalse(is_running(pid), name)
        self.assertEqual(list(self.directory.iterdir()), [])
        cluster.close()

    def test_logs_go_to_a_logger_with_their_levels(self):
        with self.assertLogs("ringway.local", logging.INFO) as logs, ringway.local(world=1):
            pass
        lines = {(record.levelname, *record.getMessage().split()[:3]) for record in logs.records}
        self.assertLessEqual({("INFO", "ringway-master:", "listening"), ("INFO", "ringwayd", "d0:", "ready")},
                             {x[:3] if x[1] == "ringway-master:" else x for x in lines})
        self.assertEqual({record.levelname for record in logs.records}, {"INFO"})

    def test_a_daemon_that_dies_is_named_with_its_last_lines(self):
        with self.assertLogs("ringway.local", logging.ERROR) as logs, ringway.local(world=2) as cluster:
            os.kill(dict(children_of(os.getpid()))["ringway-master"], signal.SIGKILL)
            eventually(lambda: logs.output)
        self.assertRegex(logs.output[0], r"ringway-master was ended by SIGKILL; its last lines:\n(?s:.*) listening ")
        self.assertEqual(len(logs.output), 1)
        del cluster

    def test_a_killed_daemon_is_lost_to_the_others_and_starts_again_at_its_socket(self):
        options = ["--heartbeat-ms=50", "--detect-ms=500"]
        with self.assertNoLogs("ringway.local", logging.ERROR), ringway.local(world=2, master_options=options) as cluster:
            self.assertEqual(sums(cluster.sockets), [[2, 2, 2]] * 2)
            with self.assertRaisesRegex(RuntimeError, r"rank 1 runs: kill\(1\)"):
                cluster.start(1)
            cluster.kill(1)
            with self.assertRaises(ringway.DaemonUnreachable):
                ringway.join("demo", socket=cluster.sockets[1], wait_world=1, timeout=0.5)
            self.assertEqual(sums(cluster.sockets[:1], "alone"), [[1, 1, 1]])
            cluster.start(1)
            self.assertEqual(sums(cluster.sockets, "again"), [[2, 2, 2]] * 2)
        self.assertEqual(list(self.directory.iterdir()), [])

    def test_programs_that_are_missing_are_an_error_that_says_how_to_get_them(self):
        self.environment(RINGWAY_PROGRAMS=str(self.directory))
        with self.assertRaisesRegex(FileNotFoundError, f"ringway-master is not in {self.directory}.*install a wheel"):
            ringway.local()
        os.environ.pop("RINGWAY_PROGRAMS")
        # The wheel's own programs are beside the interpreter.
        for elsewhere in (unittest.mock.patch("sysconfig.get_path", return_value="/nowhere"),
                          unittest.mock.patch("sys.executable", "/nowhere/python")):
            elsewhere.start()
            self.addCleanup(elsewhere.stop)
        self.environment(PATH="/nowhere")
        with self.assertRaisesRegex(FileNotFoundError, "neither beside .* nor on PATH: install a wheel"):
            ringway.local()
        self.environment(PATH=f"/nowhere:{PROGRAMS}")
        with ringway.local(world=1):
            pass

    def test_options_that_a_program_refuses_are_an_error_with_its_words(self):
        with self.assertLogs("ringway.local"), self.assertRaisesRegex(ChildProcessError, "ringwayd d0 ended with exit code 2; its last lines:\n.*--lanes"):
            ringway.local(world=1, daemon_options=["--lanes=0"])
        self.assertEqual(children_of(os.getpid()), [])
        self.assertEqual(list(self.directory.iterdir()), [])

    def test_worlds_that_are_none(self):
        for world in (0, 65, 1.0, "2", True):
            with self.assertRaisesRegex(ValueError, f"1 to 64 .*{world}"):
                ringway.local(world=world)

    def test_a_process_that_is_killed_leaves_nothing_running(self):
        script = self.script("import ringway, sys\ncluster = ringway.local(world=2)\nprint('up', flush=True)\nsys.stdin.read()\n")
        process = Process(self.directory / "killed.log", [sys.executable, "-B", script], stdin=subprocess.PIPE)
        self.addCleanup(process.process.stdin.close)
        self.addCleanup(process.kill)
        process.said("up")
        children = children_of(process.process.pid)
        self.assertEqual(len(children), 3)
        process.kill()
        for _, pid in children:
            eventually(lambda pid=pid: not is_running(pid))

    def test_a_process_that_ends_without_closing_leaves_nothing(self):
        script = self.script("import ringway\ncluster = ringway.local(world=1)\nprint(cluster.directory)\n")
        done = subprocess.run([sys.executable, "-B", script], check=True, capture_output=True, text=True, timeout=PATIENCE)
        self.assertFalse(os.path.exists(done.stdout.strip()))
        self.assertEqual(done.stderr, "")

    def test_a_forked_child_leaves_it_alone(self):
        with ringway.local(world=1) as cluster:
            child = os.fork()
            if child == 0:
                with contextlib.suppress(BaseException):
                    cluster.close()
                os._exit(0)
            os.waitpid(child, 0)
            self.assertEqual(sums(cluster.sockets), [[1, 1, 1]])


class UpTest(LaunchTest):
    def up(self, *words):
        process = self.command("up", *words)
        process.said("next ")
        return process

    def test_trainers_find_its_daemons_until_it_is_interrupted(self):
        with unittest.mock.patch.object(_sockets, "DEFAULT_SOCKET", "/nowhere.sock"):
            up = self.up("--daemons", "2")
            sockets = [line.split()[1] for line in up.text().splitlines() if line.startswith("socket")]
            self.assertEqual(_sockets.up_sockets(_sockets.up_directory()), sockets)
            self.assertEqual(sums([None, None]), [[2, 2, 2]] * 2)
            for rank in range(4):  # ranks of a host take turns
                self.environment(LOCAL_RANK=str(rank))
                self.assertEqual(_sockets.socket_of(None)[0], sockets[rank % 2])
            os.environ.pop("LOCAL_RANK")
            children = children_of(up.process.pid)
            self.assertEqual(len(children), 3)
            up.signal(signal.SIGINT)
            self.assertEqual(up.end(), 0, up.text())
            self.assertFalse(any(is_running(pid) for _, pid in children))
            with self.assertRaisesRegex(ringway.DaemonUnreachable, "/nowhere.sock.*`ringway up`, which does not run"):
                ringway.join("demo", wait_world=1)

    def test_it_ends_with_a_child_and_says_which(self):
        up = self.up()
        os.kill(dict(children_of(up.process.pid))["ringwayd"], signal.SIGKILL)
        self.assertEqual(up.end(), 1)
        self.assertRegex(up.text(), r"ringwayd d0 was ended by SIGKILL; its last lines:\n( .*\n)* .* ready ")
        self.assertEqual(_sockets.up_sockets(_sockets.up_directory()), [])

    def test_one_runs_at_a_time_in_a_place(self):
        first = self.up()
        second = self.command("up")
        self.assertEqual(second.end(), 1)
        self.assertIn(f"as process {first.process.pid}: end it, or give --directory", second.text())
        third = self.up("--directory", self.directory / "other")
        socket = next(line.split()[1] for line in third.text().splitlines() if line.startswith("socket"))
        self.assertIn(f"RINGWAY_SOCKET={socket} ringway run", third.said("next "))
        self.assertEqual(sums([socket]), [[1, 1, 1]])
        first.kill()  # what it leaves behind is in nobody's way
        self.up()

    def test_a_place_that_others_may_write_to_is_refused(self):
        self.directory.joinpath("shared").mkdir()
        self.directory.joinpath("shared").chmod(0o777)
        up = self.command("up", "--directory", self.directory / "shared")
        self.assertEqual(up.end(), 1)
        self.assertIn("not yours alone to write to", up.text())
        place = _sockets.up_directory()
        place.joinpath("up").mkdir(parents=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as daemon:
            daemon.bind(str(place / "up/d0.sock"))
            daemon.listen()
            place.chmod(0o777)
            self.assertEqual(_sockets.up_sockets(place), [])
            place.chmod(0o700)
            self.assertEqual(_sockets.up_sockets(place), [str(place / "up/d0.sock")])
        self.assertEqual(_sockets.up_sockets(place), [])  # what one that was killed left behind


SUM = """
import numpy, os, ringway
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
with ringway.join("demo", wait_world=world, timeout=60) as session:
    x = numpy.full(3, rank + 1.0)
    session.all_reduce(x)
    print(x.tolist())
"""


class RunTest(LaunchTest):
    def run_script(self, text, *words, arguments=()):
        return self.command("run", *words, self.script(text), *arguments)

    def test_ranks_sum_from_nothing(self):
        run = self.run_script(SUM, "--nproc", "3", "--daemons", "2")
        self.assertEqual(run.end(), 0, run.text())
        self.assertEqual(sorted(run.text().splitlines()), [f"[{rank}] [6.0, 6.0, 6.0]" for rank in range(3)])

    def test_ranks_take_the_daemons_that_run(self):
        up = self.command("up", "--daemons", "2")
        up.said("next ")
        script = "import json, os\nprint(json.dumps(dict(os.environ)))\n"
        runs = [self.run_script(script, "--nproc", "3")]
        runs[0].end()
        self.environment(RINGWAY_SOCKET="/named.sock")
        runs.append(self.run_script(script, "--nproc", "3"))
        found = []
        for run in runs:
            self.assertEqual(run.end(), 0, run.text())
            ranks = {line[1]: json.loads(line[4:]) for line in run.text().splitlines()}
            for rank in "012":
                names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR")
                self.assertEqual([ranks[rank][name] for name in names], [rank, rank, "3", "3", "127.0.0.1"])
            self.assertEqual(len({ranks[rank]["MASTER_PORT"] for rank in "012"}), 1)
            found.append([ranks[rank]["RINGWAY_SOCKET"] for rank in "012"])
        self.assertEqual(found[1], ["/named.sock"] * 3)
        if not os.path.exists(_sockets.DEFAULT_SOCKET):
            sockets = [line.split()[1] for line in up.text().splitlines() if line.startswith("socket")]
            self.assertEqual(found[0], [sockets[0], sockets[1], sockets[0]])

    def test_arguments_and_both_outputs_reach_their_ends(self):
        script = "import sys\nprint(sys.argv[1:])\nprint('complains', file=sys.stderr)\nprint('a\\rb', end='')\n"
        self.environment(RINGWAY_SOCKET="/named.sock")
        done = subprocess.run([RINGWAY, "run", "--nproc", "1", self.script(script), "--nproc", "x"], check=True, capture_output=True,
                              text=True, timeout=PATIENCE)
        self.assertEqual((done.stdout, done.stderr), ("[0] ['--nproc', 'x']\n[0] a\n[0] b\n", "[0] complains\n"))

    def test_a_rank_that_fails_ends_the_others_with_its_exit_code(self):
        self.environment(RINGWAY_SOCKET="/named.sock")
        script = "import os, signal\nif os.environ['RANK'] == '1':\n    {}\nsignal.pause()\n"
        for how, code, said in (("os._exit(7)", 7, "exit code 7"), ("os.kill(os.getpid(), signal.SIGABRT)", 134, "SIGABRT")):
            run = self.run_script(script.format(how), "--nproc", "3")
            self.assertEqual(run.end(), code, run.text())
            self.assertRegex(run.text().splitlines()[0], f"ringway: rank 1 .*{said}")

    def test_the_others_go_on_where_they_are_to(self):
        script = "import os, sys\nrank = os.environ['RANK']\nif rank == '0':\n    sys.exit(3)\n" \
                 "import time, pathlib\nwhile 'rank 0' not in pathlib.Path(sys.argv[1]).read_text():\n    time.sleep(0.01)\nprint('on')\n"
        self.environment(RINGWAY_SOCKET="/named.sock")
        log = self.directory / "going.log"
        run = Process(log, [RINGWAY, "run", "--nproc", "2", "--keep-going", self.script(script), log])
        self.addCleanup(run.kill)
        self.assertEqual(run.end(), 3)
        self.assertIn("[1] on", run.text())

    def test_signals_go_to_all_ranks_and_the_end_is_bounded(self):
        self.environment(RINGWAY_SOCKET="/named.sock")
        # pause() would sleep through a signal that comes just before it.
        script = "import signal, sys, time\nsignal.signal(signal.SIGTERM, {})\nprint('ready')\nwhile True:\n    time.sleep(1)\n"
        kind = "lambda *_: (print('ends'), sys.exit(0))"
        run = self.run_script(script.format(kind), "--nproc", "2")
        run.said("ready", times=2)
        run.signal(signal.SIGTERM)
        self.assertEqual(run.end(), 0, run.text())
        self.assertEqual(sorted(run.text().splitlines()), ["[0] ends", "[0] ready", "[1] ends", "[1] ready"])
        stubborn = "lambda *_: print('does not')"
        for words in (["--grace", "0.1"], ["--grace", "86400"]):
            run = self.run_script(script.format(stubborn), "--nproc", "2", *words)
            run.said("ready", times=2)
            run.signal(signal.SIGTERM)
            if words[1] != "0.1":
                run.said("does not", times=2)
                run.signal(signal.SIGTERM)  # which is for who is in a hurry
            self.assertEqual(run.end(), 137, run.text())

    def test_what_a_rank_leaves_running_ends_with_it(self):
        self.environment(RINGWAY_SOCKET="/named.sock")
        script = "import subprocess\nprint('left', subprocess.Popen(['sleep', '1000']).pid)\n"
        run = self.run_script(script, "--nproc", "1")
        self.assertEqual(run.end(), 0)
        eventually(lambda: not is_running(int(run.said("left").split()[-1])))  # it was killed, and dies when it next runs

    def test_a_reader_that_goes_ends_the_run(self):
        self.environment(RINGWAY_SOCKET="/named.sock")
        script = "import time\nwhile True:\n    print('x' * 1000)\n    time.sleep(0.001)\n"
        with subprocess.Popen([RINGWAY, "run", "--nproc", "2", self.script(script)], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE) as run:
            run.stdout.read(100)
            run.stdout.close()
            self.assertEqual(run.wait(PATIENCE), 1)
            self.assertIn(b"cannot be written", run.stderr.read())

    def test_what_cannot_be_run_is_refused(self):
        for words, code, said in ((["run", "--nproc", "0", "x.py"], 2, "not a number from 1 to 1024"),
                                  (["run", "--nproc", "1", "/nowhere.py"], 1, "there is no script /nowhere.py"),
                                  (["run", "--nproc", "1", "--grace", "nan", "x.py"], 2, "not a number of seconds"),
                                  (["up", "--daemons", "65"], 2, "not a number from 1 to 64"), ([], 2, "COMMAND")):
            process = self.command(*words)
            self.assertEqual(process.end(), code)
            self.assertIn(said, process.text())


ELASTIC = """
import os, signal, sys, torch
import torch.distributed as dist
attempt, rank, kept = os.environ["TORCHELASTIC_RESTART_COUNT"], int(os.environ["RANK"]), sys.argv[1]
dist.init_process_group("ringway")
model = torch.nn.Linear(1, 1, bias=False)
torch.nn.init.zeros_(model.weight)
if os.path.exists(kept):
    model.load_state_dict(torch.load(kept))
model = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
while (step := -round(model.module.weight.item())) < 6:  # the gradient is the mean of the ranks' inputs, 1
    optimizer.zero_grad()
    model(torch.tensor([[2.0 * rank]])).sum().backward()
    optimizer.step()
    if rank == 0:
        torch.save(model.module.state_dict(), kept + ".new")
        os.replace(kept + ".new", kept)
    dist.barrier()
    if rank == 1 and step == 2 and attempt == "0":
        os.kill(os.getpid(), signal.SIGKILL)
print("rank", rank, "attempt", attempt, "weight", model.module.weight.item(), flush=True)
dist.destroy_process_group()
"""


@unittest.skipUnless(torch, "torch is not installed: RINGWAY_TEST_TORCH=1 installs it, 5.4 GB")
class TorchrunTest(LaunchTest):
    def torchrun(self, *words):
        kept = self.directory / "kept.pt"
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", *words]
        process = Process(self.directory / "torchrun.log", [*command, self.script(ELASTIC), kept])
        self.addCleanup(process.kill)
        return process

    @unittest.skipIf(os.path.exists(_sockets.DEFAULT_SOCKET), "this machine has a daemon")
    def test_without_a_daemon_it_says_so(self):
        run = self.torchrun()
        self.assertNotEqual(run.end(5 * PATIENCE), 0)
        self.assertRegex(run.text(), "DaemonUnreachable: no daemon listens on .*by RINGWAY_SOCKET or socket=; .*`ringway up`")

    @unittest.skipIf(os.path.exists(_sockets.DEFAULT_SOCKET), "this machine has a daemon")
    def test_a_rank_that_dies_comes_back_and_the_training_goes_on(self):
        self.command("up", "--daemons", "2").said("next ")
        run = self.torchrun("--max-restarts", "1")
        self.assertEqual(run.end(5 * PATIENCE), 0, run.text())  # agent and ranks each import torch
        ends = sorted(line for line in run.text().splitlines() if line.startswith("rank "))
        self.assertEqual(ends, [f"rank {rank} attempt 1 weight -6.0" for rank in range(2)])


if __name__ == "__main__":
    unittest.main()
