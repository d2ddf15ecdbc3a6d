#!/usr/bin/env python3
"""Measures a group that forms again and again on the same daemons, over an emulated network. By hand only.

    tests/bench/sessions.py --scenario us:congestion=cubic --sessions 3 -- --bytes 64M --codec int8       as root

Training starts anew after each crash, and a figure of a first session says little of it: the daemons know the rates then, but
every connection is fresh. A session is a run of ringway-bench with the options after --, without warm-up; the first waits for
the probes. The table has the first operation, the third and the median of each session, and what they are times the
limit (network_cells.py; of the encoded bytes where there is a codec).
"""

import argparse
import json
import pathlib
import re
import statistics
import sys
import tempfile

import network_cells as cells
import networks
import runs


def bits_of(codec):
    """Of an element of float32 on the wire; scales come on top."""
    return int(re.search(r"\d+", codec).group()) if codec != "none" else 32


def session(network, folder, turn, options):
    """The times of its operations, and how it was done."""
    world = len(network.spaces)
    files = [folder / f"{turn}.{host}.json" for host in range(world)]
    settle = options.settle if turn == 1 else 0
    commands = {host: ([network.program("ringway-bench"), "--socket", network.work / f"{host}.sock", "--group", "sessions", "--world",
                        world, "--warmup", 0, "--settle", settle, "--iters", options.iters, "--timeout", options.deadline,
                        "--json", files[host], *options.bench], folder / f"{turn}.{host}.log") for host in range(world)}
    network.run(commands, options.deadline, [])
    results = [json.loads(path.read_text())["results"][0] for path in files]
    return cells.times_of_ranks(results)[0], results[0]


def row(turn, times, result, limit):
    shown = [f"{time:.0f} | {time / limit:.2f}" for time in (times[0], times[min(2, len(times) - 1)], statistics.median(times))]
    return f"| {turn} | {result['algorithm']} | {' | '.join(shown)} | {result['retransmits']} |"


def parse(arguments):
    parser = argparse.ArgumentParser(prog="sessions.py", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--scenario", default="us", help="as tests/wan/run has it (us)")
    parser.add_argument("--sessions", type=networks.positive, default=3, help="(3)")
    parser.add_argument("--iters", type=networks.positive, default=6, help="operations of each (6)")
    parser.add_argument("--settle", type=networks.positive, default=30, help="seconds that the probes get first (30)")
    parser.add_argument("--deadline", type=networks.positive, default=300, help="seconds that a session may take (300)")
    parser.add_argument("--kernel", choices=["tuned", "default", "debian"], default="default", help="as tests/wan/run has it (default)")
    parser.add_argument("--daemon-option", action="append", default=[], metavar="TEXT", help="one more for every ringwayd; repeatable")
    parser.add_argument("--bin", metavar="DIR", help="the programs (built first)")
    parser.add_argument("bench", nargs="*", metavar="OPTION", help="of ringway-bench, after --")
    options = parser.parse_args(arguments)
    options.only = ["ringway"]
    return options


def main():
    options = parse(sys.argv[1:])
    with tempfile.TemporaryDirectory(prefix="sessions_") as name:
        folder = pathlib.Path(name)
        networks.build(options, folder)
        network = networks.Network(cells.Cell(options.scenario, options.scenario, "", ""), options, folder)
        try:
            for turn in range(1, options.sessions + 1):
                times, result = session(network, folder, turn, options)
                if turn == 1:
                    limit = cells.limit_ms(network.facts, result["bytes"] * bits_of(result["codec"]) / 32)
                    print(f"{options.scenario}, {runs.size_name(result['bytes'])}, codec {result['codec']}: limit {limit:.0f} ms\n\n"
                          "| session | algorithm | first, ms | times the limit | third | times | median | times | sent again |\n"
                          "|---|---|---|---|---|---|---|---|---|")
                print(row(turn, times, result, limit), flush=True)
        except networks.Failed as failure:
            sys.exit(f"sessions.py: {failure}")
        finally:
            said = network.close()
    if said:
        sys.exit(f"sessions.py: {said}")


if __name__ == "__main__":
    main()
