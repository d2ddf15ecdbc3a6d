#!/usr/bin/env python3
"""A training with a shared state, as one host of it: a join with a large state, or deaths again and again. See --help."""
import argparse
import datetime
import json
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import time

import numpy
import ringway

GRADIENT = 10_500_000  # elements of float32: of a model of ten million parameters
PERIOD = 10  # seconds from a death to the next
EVENT = re.compile(r"^(\S+)Z \w+ (trainer_gone|trainer_joins|view_installed) (?:.* world=(\d+))?")


def arguments():
    parser = argparse.ArgumentParser(
        description="join: all hosts but the last train with a state of --state-mib and steps of --gradient; then the last joins. deaths: all"
        " train with gradients of 42 MB; after --seconds without, every 10 s of as many one trainer is killed and started again."
        " Host 0 prints what it took, of each death also its parts.")
    parser.add_argument("--mode", choices=("join", "deaths"), required=True)
    parser.add_argument("--state-mib", type=int, default=1024)
    parser.add_argument("--gradient", type=int, default=1000, help="elements of float32 that a step of a join sums")
    parser.add_argument("--changes", action="store_true", help="all of the state changes with each step of a join")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--settle", type=float, default=25, help="seconds of training before what is measured")
    parser.add_argument("--host", type=int, required=True)
    parser.add_argument("--world", type=int, required=True)
    parser.add_argument("--socket", required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True, help="a directory that all hosts share")
    parser.add_argument("--trainer", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def train(options, arrays, count, world):
    """Until the file `over` is there, for all: writes the time, revision and world of each step to a file of this host."""
    begin = time.monotonic()
    said = []  # the last before the admission, of a newcomer: what it has taken

    def on_waiting(_):
        said.append(time.monotonic())

    count_of_steps = numpy.zeros(1, "uint64")
    state = ringway.SharedState.join([*arrays, count_of_steps], "state", socket=options.socket, wait_world=world, on_waiting=on_waiting)
    joined = time.monotonic() - begin
    gradient = state.session.empty(count + 1)
    with (options.work / f"steps.{options.host}").open("a", encoding="utf-8") as steps:
        print(json.dumps({"joined": joined, "at": time.monotonic(), "said": said}), file=steps, flush=True)
        while True:
            gradient[:-1] = 1.0
            gradient[-1] = float((options.work / "over").exists())
            try:
                result = state.session.all_reduce(gradient, "avg")
            except ringway.Rejoined:
                state.sync()
                continue
            if gradient[-1] > 0:
                return
            reduced = time.monotonic()
            count_of_steps += 1
            if options.changes:
                arrays[0][::4096] += 1
            state.advance(result.update_waits)
            print(json.dumps({"at": time.monotonic(), "revision": state.revision, "world": result.world_size, "reduced": reduced}),
                  file=steps, flush=True)


def steps_of(options, host):
    path = options.work / f"steps.{host}"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def await_steps(options, condition):
    """Until the steps of host 0 meet the condition."""
    while not condition(steps_of(options, 0)):
        time.sleep(0.2)


def print_parts_of_join(options, begins, newcomer):
    """Where the time of the newcomer goes, and that of host 0 from the result that suggests the admission on."""
    last = options.world - 1
    views = [next(at for at, name, size in events_of(options, host) if name == "view_installed" and at > begins and size == options.world)
             for host in range(options.world)]
    before, admission, together = next(three for three in zip(*(steps_of(options, 0)[i:] for i in (1, 2, 3))) if three[1]["at"] > views[0])
    asked = next(at for at, name, _ in events_of(options, last) if name == "trainer_joins" and at > begins)
    print("| seconds of the newcomer | |\n|---|---|")
    for name, begin, end in (("starts", begins, asked), ("takes the state while the others train", asked, newcomer["said"][-1]),
                             ("is admitted", newcomer["said"][-1], views[last]),
                             ("compares, and takes what is missing", views[last], newcomer["at"])):
        print(f"| {name} | {end - begin:.2f} |")
    print("| seconds of the others | |\n|---|---|")
    for name, begin, end in (("a step's sum", before["at"], admission["reduced"]), ("change of the view", admission["reduced"], views[0]),
                             ("compare, and send what is missing", views[0], admission["at"]),
                             ("first step with the newcomer", admission["at"], together["at"])):
        print(f"| {name} | {end - begin:.2f} |")


def measure_join(options):
    state = numpy.zeros(options.state_mib << 20, "uint8")
    is_newcomer = options.host == options.world - 1
    if not is_newcomer:
        state[:] = numpy.random.default_rng(1).integers(0, 256, state.size, "uint8")
        train(options, [state], options.gradient, options.world - 1)
    else:
        await_steps(options, lambda steps: steps and steps[-1]["at"] > steps[0]["at"] + options.settle)
        (options.work / "begins").write_text(str(time.monotonic()), encoding="utf-8")
        child = subprocess.Popen([sys.executable, "-B", *sys.argv, "--trainer"])
        await_steps(options, lambda steps: len(steps_of(options, options.host)) > 20)
        (options.work / "over").touch()
        child.wait()
    if options.host != 0:
        return
    begins = float((options.work / "begins").read_text(encoding="utf-8"))
    newcomer = steps_of(options, options.world - 1)[0]
    times = [step["at"] for step in steps_of(options, 0)]
    lengths = [(b - a, b) for a, b in zip(times, times[1:])]
    longest = max(length for length, at in lengths if begins < at and at - length < newcomer["at"] + 0.5)  # the first with it, too
    median = statistics.median(length for length, at in lengths if at < begins)
    throughput = sum(begins < at < newcomer["at"] for _, at in lengths) * median / (newcomer["at"] - begins)
    rate = options.state_mib * 1.048576 * 8 / newcomer["joined"]
    print(f"a join with {options.state_mib} MiB from {options.world - 1}: {newcomer['joined']:.2f} s, {rate:.0f} Mbit/s;"
          f" the others' steps take {median * 1e3:.0f} ms, the longest then {longest:.2f} s,"
          f" of their throughput {throughput:.2f} is left until it has joined")
    print_parts_of_join(options, begins, newcomer)


def events_of(options, host):
    """(seconds of the monotonic clock, event, world) of what a daemon logged of trainers and views."""
    ahead = time.time() - time.monotonic()
    for line in (options.work / f"daemon.{host}.log").read_text(encoding="utf-8").splitlines():
        found = EVENT.match(line)
        if found:
            stamp = datetime.datetime.fromisoformat(found[1]).replace(tzinfo=datetime.timezone.utc).timestamp()
            yield stamp - ahead, found[2], int(found[3] or 0)


def parts_of(options, begin, end):
    """Of each death from `begin` to `end`: seconds from when its daemon noticed it until each part of its return was over."""
    logs = [list(events_of(options, host)) for host in range(options.world)]

    def until(host, event, after, world=0):
        return next(at for at, name, size in logs[host] if name == event and at > after and world in (0, size))

    for victim, log in enumerate(logs):
        for died in [at for at, name, _ in log if name == "trainer_gone" and begin <= at < end]:
            others = [host for host in range(options.world) if host != victim]
            back = until(victim, "trainer_joins", died)
            steps = [step for step in steps_of(options, victim) if step["at"] > back]
            yield {"the others' view without it": max(until(host, "view_installed", died, options.world - 1) for host in others),
                   "the new trainer asks to join": back,
                   "view with it on all": max(until(host, "view_installed", back, options.world) for host in range(options.world)),
                   "it has the state": next(step["at"] for step in steps if "joined" in step),
                   "its first step": next(step["at"] for step in steps if "revision" in step)}, died


def print_parts(options, begin, end):
    rows = {}
    for parts, died in parts_of(options, begin, end):
        for name, at in parts.items():
            rows.setdefault(name, []).append(at - died)
    print("| seconds after a death until | median | worst |\n|---|---|---|")
    for name, values in rows.items():
        print(f"| {name} | {statistics.median(values):.2f} | {max(values):.2f} |")


def measure_deaths(options):
    """Each host starts its trainer again when it is killed, which they are in turn."""
    trainer = subprocess.Popen([sys.executable, "-B", *sys.argv, "--trainer"])
    await_steps(options, lambda steps: len(steps) > 1)
    calm = steps_of(options, 0)[0]["at"] + options.settle
    first, over = calm + options.seconds, calm + 2 * options.seconds
    deaths = [first + 5 + PERIOD * i for i in range(int(options.seconds / PERIOD)) if (i + 1) % options.world == options.host]
    while time.monotonic() < over:
        time.sleep(0.05)
        if deaths and time.monotonic() > deaths[0]:
            deaths.pop(0)
            trainer.kill()
        if trainer.poll() is not None:
            trainer = subprocess.Popen([sys.executable, "-B", *sys.argv, "--trainer"])
    (options.work / "over").touch()
    if trainer.wait(120) != 0 or options.host != 0:
        return
    revisions = {}  # when the first host had each
    for host in range(options.world):
        for step in steps_of(options, host):
            if "revision" in step:
                revisions[step["revision"]] = min(step["at"], revisions.get(step["revision"], step["at"]))
    counts = [sum(a <= at < b for at in revisions.values()) for a, b in ((calm, first), (first, over))]
    worlds = [step["world"] for step in steps_of(options, 0) if step.get("world") and first <= step["at"] < over]
    print(f"steps of 42 MB in {options.seconds:.0f} s: {counts[0]}; with a trainer killed every {PERIOD} s: {counts[1]},"
          f" which is {counts[1] / counts[0]:.2f}, of worlds of {min(worlds)} to {max(worlds)}")
    print_parts(options, first, over - PERIOD / 2)


def main():
    options = arguments()
    if options.trainer:
        if options.mode == "join":
            train(options, [numpy.zeros(options.state_mib << 20, "uint8")], options.gradient, 1)
        else:
            train(options, [numpy.zeros(GRADIENT, "float32")], GRADIENT, options.world)
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    {"join": measure_join, "deaths": measure_deaths}[options.mode](options)


if __name__ == "__main__":
    main()
