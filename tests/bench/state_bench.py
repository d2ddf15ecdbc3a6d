#!/usr/bin/env python3
"""A training with a shared state, as one host of it, and a join with a large state. See --help."""
import argparse
import json
import pathlib
import signal
import statistics
import subprocess
import sys
import time

import cluster
import numpy
import ringway


def arguments():
    parser = argparse.ArgumentParser(
        description="All hosts but the last train with a state of --state-mib and steps of --gradient; then the last joins. Host 0 prints"
        " what it took.")
    parser.add_argument("--state-mib", type=int, default=1024)
    parser.add_argument("--gradient", type=int, default=1000, help="elements of float32 that a step of a join sums")
    parser.add_argument("--changes", action="store_true", help="all of the state changes with each step of a join")
    parser.add_argument("--replay", action="store_true", help="newcomers are admitted at once, and replay")
    parser.add_argument("--settle", type=float, default=25, help="seconds of training before what is measured")
    parser.add_argument("--host", type=int, required=True)
    parser.add_argument("--world", type=int, required=True)
    parser.add_argument("--socket", required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True, help="a directory that all hosts share")
    parser.add_argument("--trainer", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def average(session, gradient):
    return session.all_reduce(gradient, "avg")


def train(options, arrays, count, world, reduce=average):
    """Until the file `over` is there, for all: writes the time, revision and world of each step to a file of this host."""
    begin = time.monotonic()
    said = []  # the last before the admission, of a newcomer: what it has taken

    def on_waiting(_):
        said.append(time.monotonic())

    count_of_steps = numpy.zeros(1, "uint64")
    state = ringway.SharedState.join([*arrays, count_of_steps], "state", socket=options.socket, wait_world=world, on_waiting=on_waiting,
                                     replay=options.replay)
    joined = time.monotonic() - begin
    gradient = state.session.empty(count + 1)
    with (options.work / f"steps.{options.host}").open("a", encoding="utf-8") as steps:
        print(json.dumps({"joined": joined, "at": time.monotonic(), "said": said}), file=steps, flush=True)
        while True:
            gradient[:-1] = 1.0
            gradient[-1] = float((options.work / "over").exists())
            begun = time.monotonic()
            try:
                result = reduce(state.session, gradient)
            except ringway.Rejoined:
                state.sync()
                print(json.dumps({"joined": time.monotonic() - begun, "at": time.monotonic()}), file=steps, flush=True)
                continue
            if gradient[-1] > 0:
                return
            reduced = time.monotonic()
            count_of_steps += 1
            if options.changes:
                arrays[0][::4096] += 1
            state.advance(result.update_waits)
            print(json.dumps({"at": time.monotonic(), "revision": state.revision, "world": result.world_size, "begun": begun, "reduced": reduced,
                              "retries": result.retries}),
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
    for event in cluster.events((options.work / f"daemon.{host}.log").read_text(encoding="utf-8")):
        if event.name in ("trainer_gone", "trainer_joins", "view_installed"):
            yield event.at - ahead, event.name, event.number("world")


def main():
    options = arguments()
    if options.trainer:
        train(options, [numpy.zeros(options.state_mib << 20, "uint8")], options.gradient, 1)
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    measure_join(options)


if __name__ == "__main__":
    main()
