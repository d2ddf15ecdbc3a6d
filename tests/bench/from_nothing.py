#!/usr/bin/env python3
"""From nothing to numbers, as a new user would: what is typed, and how long it takes.

    build/python/venv/bin/python -B tests/bench/from_nothing.py --wheel build/python/ringway-*.whl [ROW...]

    wheel        a new virtual environment, and the wheel in it; NumPy comes from PyPI
    run          `ringway run` of the script that README.md shows first, in that environment
    torchrun     torchrun beside `ringway up`
    slurm        sbatch of deploy/examples/slurm.sh with that script, and of a job that does nothing, until it ended;
                 needs Debian's slurm-wlm, and root
    hook, reconfigure, torchft
                 a training of client/python/examples/survive, one of whose four ranks is killed (SIGKILL; its daemon
                 lives): from then until the last of the others has ended a step without it. All others end with the
                 same weights, or this fails

By hand, in an environment with the wheel, torch and torchft: RINGWAY_TEST_TORCH=1 tests/run.sh --preset python makes
build/python/venv.
"""

import argparse
import contextlib
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/deploy"))
EXAMPLES = ROOT / "client/python/examples/survive"
BIN = pathlib.Path(sys.executable).parent
LIGHTHOUSE = "127.0.0.1:29510"
WORLD, VICTIM, PATIENCE = 4, 3, 120
SURVIVORS = {"hook": "hook.py", "reconfigure": "reconfigure.py", "torchft": "with_torchft.py"}
STEP = re.compile(r"\[(\d+)\] step \d+ world (\d+) process (\d+)")
OF_TORCH = """
import torch, torch.distributed as dist
dist.init_process_group("ringway")
x = torch.full((1000,), dist.get_rank() + 1.0)
dist.all_reduce(x)
print("the sum is", x[0].item())
dist.destroy_process_group()
"""


def timed(*command, sums=0, **options):
    """Seconds. sums: how many lines have to say that of ranks 1, 2, ...."""
    begin = time.monotonic()
    words = [str(x) for x in command]
    ran = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True, timeout=PATIENCE, **options)
    took = time.monotonic() - begin
    check_sums(ran.stdout, sums)
    return took


def check_sums(said, ranks):
    expected = sum(range(1, ranks + 1))
    if said.count(f"the sum is {expected}.0\n") != ranks:
        raise SystemExit(f"{ranks} ranks do not say that the sum is {expected}: {said}")


def script(directory):
    """What README.md shows first."""
    path = directory / "first"
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    path.write_text(re.search(r"<<'END'\n(.*?)^END$", page, re.DOTALL | re.MULTILINE)[1])
    return path


def wheel(arguments, directory):
    pip = f"{directory}/venv/bin/pip --no-cache-dir install {arguments.wheel}"
    return timed("bash", "-euc", f"python3 -m venv {directory}/venv && {pip}")


def run(_, directory):
    installed = directory / "venv/bin/ringway"
    command = installed if installed.exists() else BIN / "ringway"
    return timed(command, "run", "--nproc", 2, "--daemons", 2, script(directory), sums=2)


def torchrun(_, directory):
    path = directory / "with_torch"
    path.write_text(OF_TORCH)
    with subprocess.Popen([BIN / "ringway", "up"], stdout=subprocess.PIPE, text=True) as up:
        try:
            while not up.stdout.readline().startswith("next"):
                if up.poll() is not None:
                    raise SystemExit("ringway up ended")
            return timed(BIN / "torchrun", "--nproc-per-node", 2, path, sums=2, stderr=subprocess.DEVNULL)
        finally:
            up.send_signal(signal.SIGINT)


def slurm(_, directory):
    import slurm_test  # of tests/deploy

    place = directory / "slurm"
    place.mkdir()
    started = slurm_test.Slurm(place, BIN)
    try:
        slurm_test.eventually("both nodes are idle", started.is_ready)
        nothing = place / "nothing.sh"
        nothing.write_text("#!/bin/bash\n#SBATCH --nodes=2\nsrun true\n")
        begin = time.monotonic()
        slurm_test.run_job(started, nothing)
        between = time.monotonic()
        _, state, said = slurm_test.run_job(started, slurm_test.EXAMPLE, sys.executable, str(script(directory)))
        took = time.monotonic() - between
        print(f"slurm: {state}; a job that does nothing {between - begin:.2f} s")
        check_sums(said, 4)
        return took
    finally:
        started.close()


ONCE = {"wheel": wheel, "run": run, "torchrun": torchrun, "slurm": slurm}
ROWS = (*ONCE, *SURVIVORS)


class Run:
    """The ranks of an example; what they print is read as it comes."""

    def __init__(self, path, steps):
        command = [BIN / "ringway", "run", "--nproc", WORLD, "--daemons", WORLD, "--keep-going", path, steps]
        environment = {**os.environ, "TORCHFT_LIGHTHOUSE": f"http://{LIGHTHOUSE}"}
        words, pipe = [str(x) for x in command], subprocess.PIPE
        self.process = subprocess.Popen(words, stdout=pipe, stderr=subprocess.STDOUT, text=True, env=environment)
        self.lines, self.steps, self.changed = [], [], threading.Condition()
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            now, found = time.monotonic(), STEP.match(line)
            with self.changed:
                self.lines.append(line)
                if found:
                    self.steps.append((now, *map(int, found.groups())))
                self.changed.notify()

    def first(self, world, rank, after=0.0):
        """The time and process of the rank's first step of so many that ended then."""
        def find():
            matching = (step for step in self.steps if step[1:3] == (rank, world) and step[0] > after)
            return next(((at, process) for at, _, _, process in matching), None)

        with self.changed:
            if not self.changed.wait_for(find, PATIENCE):
                raise TimeoutError(f"rank {rank} ends no step of {world}: {''.join(self.lines[-20:])}")
            return find()

    def check_end(self):
        self.process.wait(PATIENCE)
        self.reader.join()
        weights = [line.split()[-1] for line in self.lines if " weights " in line]
        if (len(weights), len(set(weights))) != (WORLD - 1, 1):
            raise SystemExit(f"the others did not end alike: {''.join(self.lines[-20:])}")

    def close(self):
        self.process.terminate()  # which ends the ranks, too
        self.process.wait()
        self.reader.join()


def death(arguments, row):
    with contextlib.closing(Run(EXAMPLES / SURVIVORS[row], arguments.steps)) as training:
        _, victim = [training.first(WORLD, rank) for rank in range(WORLD)][VICTIM]
        killed = time.monotonic()
        os.kill(victim, signal.SIGKILL)
        done = max(training.first(WORLD - 1, rank, killed)[0] for rank in range(WORLD) if rank != VICTIM)
        training.check_end()
        return done - killed


@contextlib.contextmanager
def lighthouse():
    command = [BIN / "torchft_lighthouse", "--min_replicas", "2", "--bind", LIGHTHOUSE]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wheel", type=pathlib.Path, help="for the row of that name")
    parser.add_argument("--rounds", type=int, default=5, help="deaths of each kind (%(default)s)")
    parser.add_argument("--steps", type=int, default=300, help="of each training (%(default)s)")
    parser.add_argument("rows", nargs="*", help="all without: " + ", ".join(ROWS))
    arguments = parser.parse_args()
    if unknown := set(arguments.rows) - set(ROWS):
        parser.error(f"no rows: {', '.join(sorted(unknown))}")
    with tempfile.TemporaryDirectory() as name:
        for row in arguments.rows or ROWS:
            if row in ONCE:
                print(f"{row}: {ONCE[row](arguments, pathlib.Path(name)):.2f} s", flush=True)
                continue
            with lighthouse() if row == "torchft" else contextlib.nullcontext():
                times = [death(arguments, row) for _ in range(arguments.rounds)]
            print(f"{row}: {statistics.median(times):.2f} s ({min(times):.2f} to {max(times):.2f})", flush=True)


if __name__ == "__main__":
    main()
