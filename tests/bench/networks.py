#!/usr/bin/env python3
"""Measures all-reduces of float32 over many emulated networks, Ringway beside Gloo and plain TCP, and prints a table. By hand only.

    tests/bench/networks.py --cells 'cubic/q100/*' --json networks.jsonl       as root
    tests/bench/networks.py --render --json networks.jsonl                     only the table, of what the file has

A cell is CONGESTION/qQUEUE_MS/KIND, or CONGESTION/SCENARIO; +super-packets or +device follows where --drops says that queues drop
in another way (tests/wan/scenario.h): at the device not in dip and shared-uplink. In each cell all contenders use the same namespaces and take turns:
a round is a run of each at each size, in an order that rotates. What is measured is appended to the file at once, an object a
line (network_cells.py), so that a run that is cut short is not lost; a later run of a round replaces it. A contender that fails
or takes too long is a row that says so; what is late is tried once more, with one operation. A round of a cell takes two to five
minutes on two cores, the whole table with three rounds over half a day for each way of dropping.

Gloo runs its fastest algorithm, found in the first round. tcp is one connection a hop that sends what a ring sends
(tcp_bench.py). Foreign cells: the limit is that of the network without the foreign connection. dip: operations of the larger
size alone, beginning before the rate falls to a tenth; the median is of those outside the dip. shared-uplink: Jain's index is
of two jobs of two hosts each, whose uplink is the same.
"""

import argparse
import collections
import contextlib
import datetime
import functools
import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import network_cells as cells
import runs

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "wan"))
import flows  # pylint: disable=wrong-import-position

BENCH = ROOT / "tests" / "bench"
START_S, END_S = 120, 40  # of a network
DAEMON_PORT = 7401  # tests/wan/run
DIP_BEGIN_S, DIP_END_S = 10, 30  # tests/wan/scenarios/dip.toml
DIP_LEAD_S = 3  # from a contender's start to the schedule's
ROUND_S = 30  # that one contender's operations of a round should take at most
FIRST_ITERATIONS = 5
SMALL_BYTES, SMALL_ITERATIONS = 64 << 10, 20
JOBS = [[0, 2], [1, 3]]  # hosts of shared-uplink: the first of each has the same uplink
GLOO_FALLBACK = "allreduce_ring_chunked"


class Failed(Exception):
    """A contender or a network; the text is for the table."""


class Late(Failed):
    """It would be again: Contest.gave_up."""


def last_words(path):
    lines = [line for line in path.read_text(errors="replace").splitlines() if line.strip()] if path.exists() else []
    return lines[-1].strip()[:200] if lines else "no word"


def address(host):
    return f"10.111.0.{host + 1}"


class Network:
    """A scenario that runs, with daemons unless it is bare; left with everything taken down."""

    def __init__(self, cell, options, folder, bare=False):
        self.log, self.bin = folder / "run.log", options.bin
        hold = f'echo work={{work}}; while kill -0 {os.getpid()} 2>/dev/null && [[ ! -e {{work}}/finished ]]; do sleep 0.2; done'
        command = [ROOT / "tests" / "wan" / "run", "--kernel", options.kernel, "--bin", options.bin, *(["--bare"] if bare else [])]
        for each in options.daemon_option:
            command += ["--daemon-option", each]
        with open(self.log, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen([*command, cell.scenario, "--", "bash", "-c", hold], stdout=log,
                                            stderr=subprocess.STDOUT, start_new_session=True)
        self.started = time.monotonic()
        try:
            self.work = pathlib.Path(self._await_work())
        except BaseException:
            self.close()
            raise
        self.spaces = (self.work / "namespaces").read_text().split()
        self.emulator = int((self.work / "emulator.pid").read_text())
        self.foreign = self._listed("foreign").split()
        self.facts = json.loads(self._listed("json"))

    def _await_work(self):
        while time.monotonic() < self.started + START_S:
            found = re.search(r"^work=(\S+)$", self.log.read_text(errors="replace"), re.MULTILINE)
            if found:
                return found.group(1)
            if self.process.poll() is not None:
                raise Failed(f"the network ended: {last_words(self.log)}")
            time.sleep(0.1)
        raise Failed(f"the network did not start in {START_S} s: {last_words(self.log)}")

    def _listed(self, what):
        return subprocess.check_output([self.program("wan_emulator"), "--scenario", self.work / "scenario.toml", "--list", what],
                                       text=True)

    def program(self, name):
        return self.bin / name

    def alive(self):
        return self.process.poll() is None

    def signal(self, which):
        os.kill(self.emulator, which)
        return time.monotonic()

    def totals(self):
        """Of all paths: packets, what became of those that did not arrive, and how many of what did was late."""
        path = self.work / "stats.json"
        path.unlink(missing_ok=True)
        self.signal(signal.SIGUSR1)
        end = time.monotonic() + 5
        while not path.exists():
            if time.monotonic() > end:
                raise Failed("the emulator does not say what it carried")
            time.sleep(0.02)
        whole = json.loads(path.read_text())
        totals = {name: sum(each[name] for each in whole["paths"]) for name in ("packets", "overflowed", "policed", "lost")}
        return {**totals, "deliveries": whole["deliveries"], "late": whole["late"]}

    def run(self, commands, deadline_s, events):
        """A command for each host; `events`: (seconds, call), each called until it returns true. Failed: one failed, or is late."""
        started, running, events = time.monotonic(), {}, list(events)
        try:
            for host, (command, log) in commands.items():
                with open(log, "w", encoding="utf-8") as file:
                    running[host] = subprocess.Popen(["ip", "netns", "exec", self.spaces[host], *map(str, command)], stdout=file,
                                                     stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True)
            while True:
                codes = {host: process.poll() for host, process in running.items()}
                for host, code in codes.items():
                    if code:
                        raise Failed(f"host {host} ended with {code}: {last_words(commands[host][1])}")
                if None not in codes.values():
                    return
                if time.monotonic() > started + deadline_s:
                    raise Late(f"not done in {deadline_s} s")
                events = [event for event in events if time.monotonic() < started + event[0] or not event[1]()]
                time.sleep(0.05)
        finally:
            for process in running.values():
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def close(self):
        """Returns what it complained of, or ""."""
        with contextlib.suppress(AttributeError, OSError):
            (self.work / "finished").touch()
        for stop in (None, signal.SIGTERM, signal.SIGKILL):
            if stop is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self.process.pid, stop)
            with contextlib.suppress(subprocess.TimeoutExpired):
                status = self.process.wait(END_S)
                return "" if status == 0 else f"the network ended with {status}: {last_words(self.log)}"
        return "the network could not be stopped"


class Contest:
    """The contenders in one cell's network."""

    def __init__(self, cell, network, options, folder):
        self.cell, self.network, self.options, self.folder = cell, network, options, folder
        self.turn = 0
        self.known = {}  # (contender, bytes): seconds an operation
        self.gloo = {}  # bytes: algorithm
        self.lanes = set()
        self.late = collections.Counter()  # (contender, bytes)

    def gave_up(self, contender, size):
        """After it was late with a single operation, too, as the round after the first late one is."""
        return self.late[contender, size] > 1

    def command(self, contender, hosts, rank, size, iterations, out):
        host, store = hosts[rank], self.folder / f"store.{self.turn}.{hosts[0]}"
        warmup = 0 if self.late[contender, size] else 1
        store.mkdir(exist_ok=True)
        if contender == "ringway":
            return [self.network.program("ringway-bench"), "--socket", self.network.work / f"{host}.sock", "--group",
                    f"networks{self.turn}.{hosts[0]}", "--world", len(hosts), "--bytes", size, "--iters", iterations,
                    "--warmup", warmup, "--settle", self.options.settle, "--timeout", self.options.deadline, "--json", out]
        if contender == "gloo":
            algorithm = ["--algorithm", self.gloo[size]] if size in self.gloo else []
            return [self.options.gloo, "--rank", rank, "--world", len(hosts), "--address", address(host), "--store", store,
                    "--bytes", size, "--iters", iterations, "--warmup", warmup, "--json", out, *algorithm]
        return [sys.executable, "-B", BENCH / "tcp_bench.py", rank, len(hosts), ",".join(map(address, hosts)), size, iterations,
                warmup, store, out]

    def see_lanes(self):
        """What the connections between the daemons run; true once there are some."""
        for space in self.network.spaces:
            said = subprocess.run(["ip", "netns", "exec", space, "ss", "-HtinO"], capture_output=True, text=True, check=False)
            for line in said.stdout.splitlines():
                if re.search(rf"\s10\.111\.0\.\d+:{DAEMON_PORT}\s", line):
                    self.lanes |= {word for word in line.split() if word in ("bbr", "cubic", "reno")}
        return bool(self.lanes)

    def iterations(self, contender, size):
        limit_s = cells.limit_ms(self.network.facts, size) / 1e3
        if self.late[contender, size]:
            return 1
        if self.cell.kind == "dip":
            before_and_after = max(1.0, limit_s * 1.2, self.known.get((contender, size), 0))
            return int(2 * (DIP_END_S - DIP_BEGIN_S) / before_and_after) + 8
        if size <= SMALL_BYTES:
            return SMALL_ITERATIONS
        if (contender, size) not in self.known:
            return min(FIRST_ITERATIONS, self.options.iters)
        return max(1, min(self.options.iters, int(ROUND_S / self.known[contender, size])))

    def run_jobs(self, contender, jobs, size, iterations, events):
        """(times, starts) of each job, and the results of the first one's first rank."""
        self.turn += 1
        commands, files = {}, []
        for hosts in jobs:
            files.append([self.folder / f"{self.turn}.{host}.json" for host in hosts])
            for rank, host in enumerate(hosts):
                commands[host] = (self.command(contender, hosts, rank, size, iterations, files[-1][rank]),
                                  self.folder / f"{self.turn}.{host}.log")
        self.network.run(commands, self.options.deadline, events)
        try:
            results = [[json.loads(path.read_text())["results"][0] for path in paths] for paths in files]
            return [cells.times_of_ranks(job) for job in results], results[0][0]
        except (OSError, ValueError, KeyError, IndexError) as error:
            raise Failed(f"{contender} left no results: {error}") from error

    def measure(self, contender, size, record):
        """Adds what one round says; what is there before a failure counts."""
        dip, dips = self.cell.kind == "dip", []
        settle = self.options.settle if contender == "ringway" else 0
        events = []
        if dip:
            self.wait_for_the_end_of(self.network.started)  # the schedule's first run
            events.append((settle + DIP_LEAD_S, lambda: dips.append(self.network.signal(signal.SIGUSR2)) or True))
        if contender == "ringway":
            self.lanes = set()
            events.append((2, self.see_lanes))
        before = self.network.totals()
        try:
            jobs, result = self.run_jobs(contender, [list(range(len(self.network.spaces)))], size,
                                         self.iterations(contender, size), events)
        finally:
            if dips:
                self.wait_for_the_end_of(dips[0])
        times, starts = jobs[0]
        after = self.network.totals()
        record.update({name: after[name] - before[name] for name in after})
        if contender == "ringway":
            self.check_lanes(record)
        record.update(times_ms=times, algorithm=result["algorithm"])
        if contender == "gloo":
            self.gloo[size] = result["algorithm"]
        self.known[contender, size] = statistics.median(times) / 1e3
        if dip:
            self.judge_dip(record, starts, dips)
        if self.network.foreign:
            record["share"] = self.foreign_share(starts[0], starts[-1] + times[-1] / 1e3)
        if self.cell.kind == "shared-uplink" and size > SMALL_BYTES:
            both, _ = self.run_jobs(contender, JOBS, size, self.options.iters, [])
            record["jain"] = cells.jain_of_jobs(both)

    def wait_for_the_end_of(self, schedule_start):
        time.sleep(max(0.0, schedule_start + DIP_END_S + 1 - time.monotonic()))

    def judge_dip(self, record, starts, dips):
        if not dips:
            raise Failed("it was over before the rate fell: give more --iters")
        window = (dips[0] + DIP_BEGIN_S, dips[0] + DIP_END_S)
        record["all_times_ms"], record["starts_after_dip_s"] = record["times_ms"], [start - window[1] for start in starts]
        record["recovery_s"] = cells.recovery_s(record["times_ms"], starts, *window)
        record["times_ms"] = cells.outside(record["times_ms"], starts, *window)
        if not record["times_ms"] or record["recovery_s"] is None:
            raise Failed("no operation before the rate fell, or none at 90% of that rate after it returned")

    def check_lanes(self, record):
        record["lanes_run"] = sorted(self.lanes)
        # Within a site daemons choose cubic by the round trip, where the host lets them choose.
        allowed = {self.cell.congestion, "cubic"}
        if not self.lanes <= allowed or (self.cell.kind != "lan" and self.cell.congestion not in self.lanes):
            raise Failed(f"the daemons' connections run {sorted(self.lanes)}, not {self.cell.congestion}")

    def foreign_share(self, begin, end):
        """Of their uplink, by what arrives."""
        rate = flows.rate(self.network.work / "foreign.0", begin, end)
        uplink = self.network.facts["hosts"][int(self.network.foreign[0])]["uplink_mbit"]
        return None if rate is None else rate * 8 / 1e6 * cells.WIRE / uplink

    def round(self, contender, size):
        record = {"limit_ms": cells.limit_ms(self.network.facts, size)}
        try:
            self.measure(contender, size, record)
        except Failed as failure:
            record["failed"] = str(failure)
            self.late[contender, size] += isinstance(failure, Late)
            if contender == "gloo":
                self.gloo.setdefault(size, GLOO_FALLBACK)
        return record


@functools.lru_cache
def commit():
    said = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty"], capture_output=True, text=True, check=False)
    return said.stdout.strip()


def keep(path, record, cell, contender, size, turn, options):
    whole = {"cell": cell.name, "contender": contender, "bytes": size, "round": turn,
             "date": datetime.datetime.now().isoformat(timespec="seconds"), "commit": commit(), "kernel": options.kernel,
             "load": os.getloadavg()[0], **record}
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps(whole) + "\n")
    times = whole.get("times_ms")
    said = f"failed: {whole['failed']}" if "failed" in whole else f"{statistics.median(times):.1f} ms ({len(times)} operations)"
    print(f"{cell.name} {cells.runs.size_name(size)} {contender} round {turn}: {said}, load {whole['load']:.1f}", flush=True)


def measure_cell(cell, options):
    sizes = [max(options.sizes)] if cell.kind == "dip" else options.sizes
    turns = [(turn, size, options.only[(turn + i) % len(options.only)])
             for turn in range(1, options.rounds + 1) for size in sizes for i in range(len(options.only))]
    contest, limits = None, {}
    with tempfile.TemporaryDirectory(prefix="networks_") as name:
        try:
            for turn, size, contender in turns:
                if contest and contest.gave_up(contender, size):
                    continue
                try:
                    if contest is None or not contest.network.alive():
                        network = Network(cell, options, pathlib.Path(tempfile.mkdtemp(dir=name)))
                        contest = Contest(cell, network, options, network.log.parent)
                    record = contest.round(contender, size)
                    limits[size] = record["limit_ms"]
                except (Failed, OSError, ValueError, subprocess.SubprocessError) as failure:
                    record = {"limit_ms": limits.get(size, 0), "failed": str(failure)}
                keep(options.json, record, cell, contender, size, turn, options)
        finally:
            said = contest.network.close() if contest else ""
            if said:
                print(f"{cell.name}: {said}", file=sys.stderr)


PROGRAMS = ("wan_emulator", "ringway-master", "ringwayd", "ringway-bench", "ringwayctl")
# The same functions as in tests/wan/run and wan.sh build the programs.
BUILD = '''set -euo pipefail; ROOT=$1; WORK=$2; SYSTEMS=gloo
source "$ROOT/deploy/lib.sh"; source "$ROOT/tests/bench/compare_lib.sh"
if [[ -n $3 ]]; then install_packages g++ libgloo-dev; build_baselines; fi
if [[ -n $4 ]]; then
  cd "$ROOT"; install_packages "${BUILD_PACKAGES[@]}" "${TEST_PACKAGES[@]}"
  configure release build/test-release -DRINGWAY_TESTS=ON
  build_with_bar build/test-release "${@:5}"
fi'''


def build(options, folder):
    needs = ["gloo" if "gloo" in options.only else "", "" if options.bin else "programs"]
    if subprocess.run(["bash", "-c", BUILD, "networks.py", ROOT, folder, *needs, *PROGRAMS], check=False).returncode:
        sys.exit("networks.py: the programs could not be built (the reasons are above)")
    options.gloo = folder / "gloo_bench"
    options.bin = pathlib.Path(options.bin or ROOT / "build" / "test-release" / "bin").resolve()
    missing = [name for name in PROGRAMS if not (options.bin / name).exists()]
    if missing:
        sys.exit(f"networks.py: {options.bin} has no {', '.join(missing)}; build them there, or leave --bin out")


def some_of(known):
    def names_of(text):
        names = text.split(",")
        if not set(names) <= set(known):
            raise argparse.ArgumentTypeError(f"takes some of {','.join(known)}")
        return names
    return names_of


def positive(text):
    if not re.fullmatch(r"[1-9]\d{0,5}", text):
        raise argparse.ArgumentTypeError("takes a number from 1")
    return int(text)


def parse(arguments):
    parser = argparse.ArgumentParser(prog="networks.py", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--cells", default="*", metavar="PATTERNS", help="with commas between them, as 'cubic/q100/*,bbr/us' (all)")
    parser.add_argument("--drops", type=some_of(cells.DROPS), default=list(cells.DROPS[:1]), metavar="LIST",
                        help="what full queues drop: of packets,super-packets,device (packets)")
    parser.add_argument("--list", action="store_true", help="only list the cells")
    parser.add_argument("--render", action="store_true", help="only print the table of what the file has")
    parser.add_argument("--json", default="networks.jsonl", metavar="FILE", help="appended to (networks.jsonl)")
    parser.add_argument("--rounds", type=positive, default=3, help="of all contenders (3)")
    parser.add_argument("--only", type=some_of(cells.CONTENDERS), default=list(cells.CONTENDERS), metavar="LIST", help="of ringway,gloo,tcp (all)")
    parser.add_argument("--sizes", type=lambda text: [runs.size_of(each) for each in text.split(",")], default=[4 << 10, 64 << 20],
                        help="(4K,64M)")
    parser.add_argument("--iters", type=positive, default=5, help="large operations a round, fewer where they are slow (5)")
    parser.add_argument("--settle", type=positive, default=40, help="seconds that Ringway gets to measure the paths (40)")
    parser.add_argument("--deadline", type=positive, default=300, help="seconds that one contender's run may take (300)")
    parser.add_argument("--kernel", choices=["tuned", "default", "debian"], default="tuned", help="as tests/wan/run has it (tuned)")
    parser.add_argument("--daemon-option", action="append", default=[], metavar="TEXT", help="one more for every ringwayd; repeatable")
    parser.add_argument("--bin", metavar="DIR", help="the programs (built first)")
    options = parser.parse_args(arguments)
    try:
        options.chosen = cells.chosen(options.cells, options.drops)
    except ValueError as error:
        parser.error(str(error))
    return options


def load(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]


def main():
    options = parse(sys.argv[1:])
    if options.list:
        return print("\n".join(cell.name for cell in options.chosen))
    if not options.render:
        if os.geteuid() != 0:
            sys.exit("networks.py: network namespaces need root: run it with sudo")
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, lambda number, _: sys.exit(128 + number))
        with tempfile.TemporaryDirectory(prefix="networks_build_") as name:
            build(options, pathlib.Path(name))
            for cell in options.chosen:
                measure_cell(cell, options)
    try:
        print(cells.table([record for record in load(options.json) if record["cell"] in {cell.name for cell in options.chosen}]), end="")
    except (OSError, ValueError, KeyError) as error:
        sys.exit(f"networks.py: {options.json} holds no measurements ({error})")
    return None


if __name__ == "__main__":
    main()
