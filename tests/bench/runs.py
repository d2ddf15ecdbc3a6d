"""The results of benchmarks as runs: one rank's measurement of one system, size and round.

compare.sh and wan.sh write a JSON object a line (lines()); ringway-bench --json and the baselines write an object with
"results". load() reads both. Fields that a run always has: system, world, bytes, round, rank, time_ms_median.
"""

import argparse
import collections
import json
import re
import statistics

SYSTEMS = ["ringway", "gloo", "mpi"]  # the order in which they are shown


def of_results(whole, system="ringway", rank=0, turn=1):
    """The runs of one rank's result file: each size's, and those of the systems that were measured beside."""
    for result in whole["results"]:
        own = dict(result, system=system, world=result["world_size"], round=turn, rank=rank)
        others = own.pop("compare", {})
        yield own
        for name, measured in others.items():
            if "failed" in measured:
                continue
            yield dict(measured, system=name, bytes=own["bytes"], world=own["world"], round=turn, rank=rank)


def lines(path, system, rank, turn, **fields):
    """The lines of one rank's result file: what it measured, and whose it is."""
    with open(path, encoding="utf-8") as file:
        whole = json.load(file)
    return "\n".join(json.dumps(dict(run, **fields)) for run in of_results(whole, system, int(rank), int(turn)))


def load(path):
    """The runs of a file. ValueError, with the place, for what is no such file."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    try:
        whole = json.loads(text)
    except json.JSONDecodeError:
        whole = None
    try:
        if isinstance(whole, dict) and "results" in whole:
            given = list(of_results(whole, rank=whole.get("rank", 0)))
        else:
            given = [json.loads(line) for line in text.splitlines() if line.strip()]
        for run in given:
            for field in ("system", "world", "bytes", "round", "rank", "time_ms_median"):
                run[field]  # KeyError: it is no run
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} holds no results of a benchmark ({error})") from error
    return given


def by_round(runs):
    """(world, bytes) -> system -> round -> the ranks' runs."""
    cells = collections.defaultdict(lambda: collections.defaultdict(lambda: collections.defaultdict(list)))
    for run in runs:
        cells[run["world"], run["bytes"]][run["system"]][run["round"]].append(run)
    return cells


def time_ms(ranks):
    """A round's time: of each rank the median of its operations, of those the median."""
    return statistics.median(run["time_ms_median"] for run in ranks)


def report(system, world, size, seconds, path=None):
    """Prints what one rank measured of a size, and appends it as a run to the file, if there is one."""
    median = statistics.median(seconds) * 1e3
    print(f"  {size:12} {min(seconds) * 1e3:10.3f} {median:10.3f} {max(seconds) * 1e3:10.3f}", flush=True)
    if path:
        run = {"system": system, "world": world, "bytes": size, "round": 1, "rank": 0, "time_ms_median": median}
        with open(path, "a", encoding="utf-8") as file:
            print(json.dumps(run), file=file)


def size_of(text):
    """4K is 4096: for options of argparse."""
    found = re.fullmatch(r"(\d+)([KMG]?)", text)
    if not found or not int(found.group(1)):
        raise argparse.ArgumentTypeError(f"not a size: {text} (write 4096, 4K or 64M)")
    return int(found.group(1)) << {"": 0, "K": 10, "M": 20, "G": 30}[found.group(2)]


def size_name(count):
    """4096 is 4K: as the options of the scripts are written."""
    for shift, suffix in ((30, "G"), (20, "M"), (10, "K")):
        if count >= 1 << shift and count % (1 << shift) == 0:
            return f"{count >> shift}{suffix}"
    return str(count)
