#!/usr/bin/env python3
"""Measures what faults cost a training: goodput, and of each death where the time until all train again goes.

    tests/bench/goodput.py --fault trainer --period 10                      on loopback
    tests/bench/goodput.py --fault host --scenario us --state-mib 40        as root: over an emulated WAN (tests/wan/run)

    tests/bench/goodput.py --fault trainer,join,slow,hung --json out.jsonl && tests/bench/plot --goodput --out out.svg out.jsonl

World ranks train with a shared state, --seconds without faults, then --seconds with them. Goodput is the steps of the second time
over those of the first. Faults: the trainer, the daemon or both (a host) of one rank after the other get SIGKILL every --period and
are started again at once; join: the last rank comes every --period, and goes half a period later; a slow trainer computes --slow
seconds a step; a hung one gets SIGSTOP for as long as --hold. Several faults, with commas between, are a run each.
By hand only. Needs a Python with ringway: RINGWAY_TEST_TORCH=1 tests/run.sh --preset python makes build/python/venv/bin/python.
"""

import argparse
import contextlib
import dataclasses
import json
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import types

import cluster
import networks

PARTS = ("a member notices", "the others' view without it", "the others' next result", "its daemon is back", "its trainer asks to join",
         "view with it on all", "it has the state", "its first step")
FAULTS = ("trainer", "daemon", "host", "join", "slow", "hung")
DEADLY = ("trainer", "daemon", "host")
END_S = 60  # from the end of the measurement until all trainers have ended


@dataclasses.dataclass(frozen=True)
class Death:
    """Of the trainer or the daemon of a host, or both; in seconds of the host's clock."""
    victim: int
    at: float
    until: float  # the next one, or the end


def faults_in(text):
    faults = text.split(",")
    if not set(faults) <= set(FAULTS):
        raise argparse.ArgumentTypeError(f"there are {', '.join(FAULTS)}")
    return faults


def parse(arguments):
    parser = argparse.ArgumentParser(prog="goodput.py", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--fault", type=faults_in, default=["trainer"], help=", ".join(FAULTS) + ", or several with commas (trainer)")
    parser.add_argument("--period", type=float, default=10, help="seconds from death to death (10)")
    parser.add_argument("--scenario", help="as tests/wan/run has it; default: loopback")
    parser.add_argument("--world", type=networks.positive, default=4, help="ranks; of a scenario its first hosts (4)")
    parser.add_argument("--gradient", type=networks.positive, default=10_500_000, help="elements of float32 that a step sums (10500000)")
    parser.add_argument("--state-mib", type=networks.positive, default=40, help="the state beside the count of steps (40)")
    parser.add_argument("--changes", action="store_true", help="all of the state changes with each step")
    parser.add_argument("--replay", action="store_true", help="newcomers are admitted at once, and replay")
    parser.add_argument("--seconds", type=float, default=60, help="with faults, and as many without (60)")
    parser.add_argument("--settle", type=float, default=25, help="seconds of training before that (25)")
    parser.add_argument("--compute", type=float, default=0, help="seconds between the steps' sums (0)")
    parser.add_argument("--slow", type=float, default=5, help="the same of the slow rank (5)")
    parser.add_argument("--hold", type=float, default=40, help="seconds that a trainer hangs (40)")
    parser.add_argument("--quorum", type=int, default=0, help="of each step (0: all ranks)")
    parser.add_argument("--grace", type=float, default=0.1, help="seconds beyond a quorum (0.1)")
    parser.add_argument("--kernel", choices=["tuned", "default", "debian"], default="default", help="as tests/wan/run has it (default)")
    parser.add_argument("--daemon-option", action="append", default=[], metavar="TEXT", help="one more for every ringwayd; repeatable")
    parser.add_argument("--json", type=pathlib.Path, help="add a line for each run to this file, as tests/bench/plot --goodput takes it")
    parser.add_argument("--tls", action="store_true", help="certificates for all programs")
    parser.add_argument("--bin", type=pathlib.Path, default=networks.ROOT / "build/test-release/bin", help="the programs")
    parser.add_argument("--host", type=int, help=argparse.SUPPRESS)  # of a trainer, as the next two
    parser.add_argument("--work", type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("--returns", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.quorum and options.quorum > options.world:
        parser.error("the quorum is larger than the world")
    return options


# ---- a trainer


def train(options):
    """As state_bench does. Only the first trainers have a state: who returns takes it."""
    import numpy  # pylint: disable=import-outside-toplevel
    import state_bench  # pylint: disable=import-outside-toplevel

    size = options.state_mib << 20
    state = numpy.zeros(size, "uint8") if options.returns else numpy.random.default_rng(1).integers(0, 256, size, "uint8")
    slow = options.work / f"slow.{options.host}"
    quorum = {"quorum": options.quorum, "grace": options.grace} if options.quorum else {}
    behind = 0  # steps that the others have done without this rank, which it makes up for without computing

    def reduce(session, gradient):
        nonlocal behind
        if behind == 0:
            time.sleep(options.slow if slow.exists() else options.compute)
        result = session.all_reduce(gradient, "avg", **quorum)
        behind = result.behind
        return result

    options.socket = str(options.work / f"daemon{options.host}.sock")
    state_bench.train(options, [state], options.gradient, 1 if options.returns else founders(options), reduce)


def founders(options):
    """How many ranks begin."""
    return options.world - (options.fault == ["join"])


# ---- what it took


def parts_of(death, logs, steps):
    """Seconds after a death until each part of PARTS that came before the next one. logs, steps: of each host."""
    world, victim = len(logs), death.victim
    others = [host for host in range(world) if host != victim]

    def first(times):
        return next((at for at in times if death.at <= at < death.until), None)

    def event(host, name, after=death.at, size=0):
        return first(event.at for event in logs[host] if event.name == name and event.at >= after and size in (0, event.number("world")))

    def last(times):
        times = list(times)
        return None if None in times else max(times)

    notices = [event(host, name) for host in others for name in ("peer_lost", "abort", "view_installed")] + [event(victim, "trainer_gone")]
    without = last(event(host, "view_installed", size=world - 1) for host in others)
    result = without and last(first(step["at"] for step in steps[host] if "revision" in step and step["at"] > without) for host in others)
    asks = event(victim, "trainer_joins")
    together = asks and last(event(host, "view_installed", asks, world) for host in range(world))
    mine = [step for step in steps[victim] if asks and step["at"] > asks]
    values = (min((at for at in notices if at), default=None), without, result, event(victim, "ready"), asks, together,
              first(step["at"] for step in mine if "joined" in step), first(step["at"] for step in mine if "revision" in step))
    return {name: at - death.at for name, at in zip(PARTS, values) if at}


def thrown_away(death, steps):
    """Seconds from the begin of the steps that the death ended until they were begun anew; None: it ended none."""
    lost = [step for host, own in enumerate(steps) if host != death.victim for step in own
            if step.get("retries") and step["begun"] < death.at < step["reduced"]]
    return max((death.at - step["begun"] for step in lost), default=None)


def table(deaths, logs, steps, word="deaths"):
    rows = {name: [] for name in (*PARTS, "thrown away: the attempt until the death", "of these, its first step")}
    for death in deaths:
        parts = parts_of(death, logs, steps)
        if word == "joins":  # nothing is lost before it
            parts = {name: parts[name] for name in PARTS[PARTS.index("its trainer asks to join"):] if name in parts}
        lost = thrown_away(death, steps)
        if lost is not None:
            parts["thrown away: the attempt until the death"] = lost
        if PARTS[-1] in parts and PARTS[-2] in parts:
            parts["of these, its first step"] = parts[PARTS[-1]] - parts[PARTS[-2]]
        for name, value in parts.items():
            rows[name].append(value)
    yield f"| seconds after each of {len(deaths)} {word} until | median | worst | of {word} |\n|---|---|---|---|"
    for name, values in rows.items():
        if values:
            yield f"| {name} | {statistics.median(values):.2f} | {max(values):.2f} | {len(values)} |"


def counts_of(steps, times):
    """Steps in each of the times (begin, end), counted once whoever was first."""
    revisions = {}
    for step in (step for own in steps for step in own if "revision" in step):
        revisions[step["revision"]] = min(step["at"], revisions.get(step["revision"], step["at"]))
    return [sum(begin <= at < end for at in revisions.values()) for begin, end in times]


# ---- the measurement


class Training:
    """The trainers of a cluster."""

    def __init__(self, options, ring, folder):
        self.options, self.ring, self.folder = options, ring, folder
        self.fault, = options.fault

    def start(self, host, returns=False):
        self.ring.start(f"trainer{host}", self.ring.hosts[host], sys.executable, "-B", __file__, *sys.argv[1:],
                        "--fault", self.fault, "--host", host, "--work", self.folder, *(["--returns"] if returns else []))

    def steps(self, host):
        """In seconds of the host's clock."""
        path = self.folder / f"steps.{host}"
        ahead = time.time() - time.monotonic()
        for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
            yield {name: value + ahead if name in ("at", "begun", "reduced") else value for name, value in json.loads(line).items()}

    def await_first_steps(self):
        deadline = time.monotonic() + cluster.PATIENCE_S
        while any(sum("revision" in step for step in self.steps(host)) < 1 for host in range(founders(self.options))):
            self.check()
            if time.monotonic() > deadline:
                raise TimeoutError("the trainers make no step: " + self.last_words())
            time.sleep(0.1)

    def check(self):
        for host in range(self.options.world):
            if self.is_ill(host):
                raise ChildProcessError(f"the trainer of host {host} has ended: " + self.last_words())

    def is_ill(self, host):
        trainer = self.ring.processes.get(f"trainer{host}")
        is_guest = self.fault == "join" and host == self.options.world - 1
        return trainer is not None and trainer.poll() not in (None, 0, *([-signal.SIGTERM] if is_guest else []))

    def last_words(self):
        return "; ".join(networks.last_words(self.folder / f"trainer{host}.log") for host in range(self.options.world))

    def strike(self, host):
        """Kills, and starts again at once. When."""
        now = time.time()
        if self.fault in ("daemon", "host"):
            self.ring.kill(f"daemon{host}")
        if self.fault in ("trainer", "host"):
            self.ring.kill(f"trainer{host}")
        if self.fault in ("daemon", "host"):
            self.ring.start_daemon(host)
        if self.fault == "host":
            deadline = time.monotonic() + cluster.PATIENCE_S
            while not any(event.name == "ready" for event in self.ring.events(host, now)) and time.monotonic() < deadline:
                time.sleep(0.01)
        if self.fault in ("trainer", "host"):
            self.start(host, returns=True)
        return now

    def deaths(self, begin, end):
        struck = []  # (host, when)
        while (at := begin + self.options.period * (len(struck) + 0.5)) < end:
            time.sleep(max(0.0, at - time.time()))
            self.check()
            struck.append(((len(struck) + 1) % self.options.world, self.strike((len(struck) + 1) % self.options.world)))
        time.sleep(max(0.0, end - time.time()))
        until = [at for _, at in struck[1:]] + [end]
        return [Death(host, at, next_at) for (host, at), next_at in zip(struck, until)]

    def joins(self, begin, end):
        last, came = self.options.world - 1, []
        while (at := begin + self.options.period * (len(came) + 0.25)) + self.options.period / 2 < end:
            time.sleep(max(0.0, at - time.time()))
            self.check()
            came.append(time.time())
            self.start(last, returns=True)
            time.sleep(max(0.0, at + self.options.period / 2 - time.time()))
            self.ring.signal(f"trainer{last}", signal.SIGTERM)
        time.sleep(max(0.0, end - time.time()))
        return [Death(last, at, at + self.options.period / 2) for at in came]

    def hold(self, end):
        """The last rank is slow until the end, or hangs."""
        last = self.options.world - 1
        slow = self.folder / f"slow.{last}"
        if self.fault == "slow":
            slow.touch()
        else:
            self.ring.signal(f"trainer{last}", signal.SIGSTOP)
            time.sleep(min(self.options.hold, max(0.0, end - time.time())))
            self.ring.signal(f"trainer{last}", signal.SIGCONT)
        time.sleep(max(0.0, end - time.time()))
        slow.unlink(missing_ok=True)

    def run(self):
        options = self.options
        for host in range(founders(options)):
            self.start(host)
        self.await_first_steps()
        calm = time.time() + options.settle
        first, over = calm + options.seconds, calm + 2 * options.seconds
        time.sleep(max(0.0, first - time.time()))
        strike = self.deaths if self.fault in DEADLY else self.joins if self.fault == "join" else lambda _, end: self.hold(end) or []
        deaths = strike(first, over)
        (self.folder / "over").touch()
        steps = [list(self.steps(host)) for host in range(options.world)]
        logs = [self.ring.events(host) for host in range(options.world)]
        for host in range(options.world):
            with contextlib.suppress(subprocess.TimeoutExpired, KeyError):
                self.ring.processes[f"trainer{host}"].wait(END_S)
        return deaths, steps, logs, ((calm, first), (first, over))


def report(options, deaths, steps, logs, times):
    without, under = counts_of(steps, times)
    worlds = [step["world"] for step in steps[0] if "world" in step and times[1][0] <= step["at"] < times[1][1]]
    longest = max((b["at"] - a["at"] for a, b in zip(steps[0], steps[0][1:]) if times[1][0] <= b["at"] < times[1][1]), default=0)
    fault, = options.fault
    word = "joins" if fault == "join" else "deaths"
    traits = [options.scenario or "loopback", f"world {options.world}", fault, f"state {options.state_mib} MiB",
              "which changes" * options.changes, "replayed" * options.replay, f"steps of {options.gradient * 4 / 1e6:.0f} MB",
              f"quorum {options.quorum}" * bool(options.quorum), "TLS" * options.tls]
    print(f"{', '.join(filter(None, traits))}: {without} steps in {options.seconds:.0f} s, {under} under"
          f" {len(deaths) or 'the'} {word if deaths else 'fault'}: goodput {under / max(without, 1):.2f}"
          f" (worlds of {min(worlds, default=0)} to {max(worlds, default=0)}; rank 0's longest step {longest:.2f} s)", flush=True)
    for line in table(deaths, logs, steps, word) if deaths else ():
        print(line)
    if options.json:
        with options.json.open("a", encoding="utf-8") as file:
            line = {"fault": fault, "network": options.scenario or "loopback", "world": options.world, "quorum": options.quorum,
                    "period": options.period if deaths else None, "without": without, "under": under, "goodput": under / max(without, 1)}
            file.write(json.dumps(line) + "\n")


@contextlib.contextmanager
def hosts_of(options, folder):
    """The hosts of a scenario's network, or as many of loopback."""
    if not options.scenario:
        yield [cluster.Host()] * options.world
        return
    cell = types.SimpleNamespace(scenario=options.scenario)
    network = networks.Network(cell, options, folder, bare=True)
    try:
        if len(network.spaces) < options.world:
            raise networks.Failed(f"{options.scenario} has {len(network.spaces)} hosts")
        yield [cluster.Host(("ip", "netns", "exec", space), networks.address(host), networks.DAEMON_PORT)
               for host, space in enumerate(network.spaces[:options.world])]
    finally:
        network.close()


def main():
    options = parse(sys.argv[1:])
    if options.host is not None:
        train(options)
        return
    for fault in options.fault:
        measure(types.SimpleNamespace(**{**vars(options), "fault": [fault]}))


def measure(options):
    with tempfile.TemporaryDirectory(prefix="goodput_") as name:
        folder = pathlib.Path(name)
        with hosts_of(options, folder) as hosts, \
                cluster.Cluster(options.bin, folder, hosts, daemon_options=options.daemon_option, tls=options.tls) as ring:
            report(options, *Training(options, ring, folder).run())


if __name__ == "__main__":
    main()
