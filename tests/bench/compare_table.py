#!/usr/bin/env python3
"""Prints the side-by-side table of compare.sh from its runs, a JSON object a line."""

import collections
import json
import statistics
import sys

ORDER = ["ringway", "gloo", "mpi"]


def load(path):
    """(world, bytes) -> system -> round -> list of the ranks' results, by rank."""
    cells = collections.defaultdict(lambda: collections.defaultdict(lambda: collections.defaultdict(list)))
    with open(path, encoding="utf-8") as file:
        for line in file:
            run = json.loads(line)
            cells[run["world"], run["bytes"]][run["system"]][run["round"]].append(run)
    return cells


def time_ms(ranks):
    """A run's time is the median over its iterations, as rank 0 saw them."""
    return min(ranks, key=lambda run: run["rank"])["time_ms_median"]


def cpu_ms(ranks):
    """CPU time of one operation on one rank: trainer and, for Ringway, daemon."""
    seconds = [(run["trainer_cpu_seconds"] + run["daemon_cpu_seconds"]) / run["iterations"] for run in ranks]
    return statistics.mean(seconds) * 1e3


def size_name(count):
    for shift, suffix in ((30, "G"), (20, "M"), (10, "K")):
        if count >= 1 << shift and count % (1 << shift) == 0:
            return f"{count >> shift}{suffix}"
    return str(count)


def print_cell(world, size, systems):
    base = systems.get("ringway")
    for name in (system for system in ORDER if system in systems):
        rounds = systems[name]
        median = statistics.median(time_ms(ranks) for ranks in rounds.values())
        cpu = statistics.median(cpu_ms(ranks) for ranks in rounds.values())
        line = f"{world:>5} {size_name(size):>6} {name:>8} {median:>11.3f} {cpu:>14.3f}"
        if base is not None and name != "ringway":
            common = sorted(set(rounds) & set(base))
            speed = statistics.median(time_ms(rounds[r]) / time_ms(base[r]) for r in common)
            saved = [cpu_ms(rounds[r]) / cpu_ms(base[r]) for r in common if cpu_ms(base[r]) > 0]
            line += f" {speed:>14.2f}x"
            line += f" {statistics.median(saved):>10.2f}x" if saved else f" {'-':>11}"
        print(line)


def main():
    cells = load(sys.argv[1])
    print("\nTimes and CPU are of one operation, medians of rounds. The factors are medians of each round's ratio:")
    print("above 1, Ringway is faster, and needs less CPU time a rank (trainer and daemon together).\n")
    print(f"{'world':>5} {'size':>6} {'system':>8} {'time ms':>11} {'CPU ms a rank':>14} {'Ringway faster':>15} {'less CPU':>11}")
    for (world, size), systems in sorted(cells.items()):
        print_cell(world, size, systems)


if __name__ == "__main__":
    main()
