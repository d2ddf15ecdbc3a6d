#!/usr/bin/env python3
"""Prints the side-by-side table of compare.sh and wan.sh from their runs, a JSON object a line."""

import statistics
import sys

import runs

COLUMNS = [("world", 5), ("size", 6), ("system", 8), ("time ms", 11), ("CPU ms a rank", 14), ("Ringway faster", 15),
           ("less CPU", 9), ("line", 5), ("lanes", 6), ("resent", 8)]


def cpu_ms(ranks):
    """CPU time of one operation on one rank: trainer and, for Ringway, daemon."""
    seconds = [(run["trainer_cpu_seconds"] + run["daemon_cpu_seconds"]) / (run.get("iterations") or 1) for run in ranks]
    return statistics.mean(seconds) * 1e3


def ratio(values):
    return f"{statistics.median(values):.2f}x" if values else "-"


def count(ranks, field):
    """Of one rank, the largest; "-" where nobody counted."""
    known = [run[field] for run in ranks if run.get(field) is not None]
    return str(max(known)) if known else "-"


def line_used(ranks):
    used = statistics.median(run.get("line_fraction", 0) for run in ranks)
    return f"{used:.0%}" if used > 0 else "-"


def row(cell, name, base, rounds):
    world, size = cell
    last = rounds[max(rounds)]
    faster, saved = [], []
    if base is not None and name != "ringway":
        common = sorted(set(rounds) & set(base))
        faster = [runs.time_ms(rounds[r]) / runs.time_ms(base[r]) for r in common]
        saved = [cpu_ms(rounds[r]) / cpu_ms(base[r]) for r in common if cpu_ms(base[r]) > 0]
    median = statistics.median(runs.time_ms(ranks) for ranks in rounds.values())
    cpu = statistics.median(cpu_ms(ranks) for ranks in rounds.values())
    cells = [str(world), runs.size_name(size), name, f"{median:.3f}", f"{cpu:.3f}", ratio(faster), ratio(saved),
             line_used(last), count(last, "lanes"), count(last, "retransmits")]
    return [*cells, last[0].get("algorithm", "-")]


def main():
    cells = runs.by_round(runs.load(sys.argv[1]))
    print("\nTimes and CPU are of one operation, medians of rounds. The factors are medians of each round's ratio:")
    print("above 1, Ringway is faster, and needs less CPU time a rank (trainer and daemon together).")
    print("Line: how much of the uplink; lanes to one peer and segments sent again by one rank, where known; the most.\n")
    print(" ".join(f"{title:>{width}}" for title, width in COLUMNS), " algorithm")
    for cell, systems in sorted(cells.items()):
        for name in (system for system in runs.SYSTEMS if system in systems):
            values = row(cell, name, systems.get("ringway"), systems[name])
            print(" ".join(f"{value:>{width}}" for value, (_, width) in zip(values, COLUMNS)), f" {values[-1]}")


if __name__ == "__main__":
    main()
