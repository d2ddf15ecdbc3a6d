#!/usr/bin/env python3
"""Packets with a changed byte, which TCP does not notice, change no result, evict nobody and leave nothing waiting.

corruption_test.py RUN BIN [SEEDS [SHARE [SECONDS]]]: three hosts whose every path changes SHARE of the packets, for SECONDS,
beside operations of all sizes, once for each of SEEDS. More than a thousandth of the packets may cost a member its place, but
no operation its end: what was under way when the network became clean is over END_S later. Ends with 77 where tests/wan/run may not make devices. `corruption_test.py host ...` is what host 0 runs.
"""

import datetime
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

SCENARIO = """
seed = {seed}
[default]
delay_ms = 10
corrupt = {share}
[[site]]
name = "a"
uplink_mbit = 200
[[site]]
name = "b"
uplink_mbit = 200
[[site]]
name = "c"
uplink_mbit = 200
"""
END_S = 10  # of an operation, after the network is clean
ALL_S = 60  # of all that follow
GENTLE = 0.001


def clean(work):
    scenario = pathlib.Path(work, "scenario.toml")
    scenario.write_text(re.sub("corrupt = .*", "corrupt = 0", scenario.read_text()))
    os.kill(int(pathlib.Path(work, "emulator.pid").read_text()), signal.SIGHUP)
    pathlib.Path(work, "clean").write_text(str(time.time()))


def longest_after(clean_at, said):
    """Of the operations that had begun before: how many seconds the last one to end took beyond that moment."""
    longest = 0.0
    for when, took_us in re.findall(r"^(\S+)Z \w+ operation_(?:done|over) .* us=(\d+)", said, re.MULTILINE):
        end = datetime.datetime.fromisoformat(when).replace(tzinfo=datetime.timezone.utc).timestamp()
        if end - int(took_us) / 1e6 < clean_at:
            longest = max(longest, end - clean_at)
    return longest


def host(number, work, folder, seconds, *command):
    """The command; host 0 ends the corruption meanwhile, and saves what the daemons said."""
    timer = threading.Timer(float(seconds), clean, [work])
    if number == "0":
        timer.start()
    try:
        status = subprocess.run(command, check=False, timeout=float(seconds) + ALL_S).returncode
    except subprocess.TimeoutExpired:
        status = 124
    timer.cancel()
    if number == "0":
        for log in pathlib.Path(work).glob("daemon.*.log"):
            pathlib.Path(folder, log.name).write_text(log.read_text())
        if pathlib.Path(work, "clean").exists():
            pathlib.Path(folder, "clean").write_text(pathlib.Path(work, "clean").read_text())
    sys.exit(status)


def check_seed(run, programs, seed, share, seconds):
    with tempfile.TemporaryDirectory() as folder:
        scenario = pathlib.Path(folder, "scenario.toml")
        scenario.write_text(SCENARIO.format(seed=seed, share=share))
        result = pathlib.Path(folder, "result.0")
        command = [run, "--skip-without-tun", "--bin", programs, "--daemon-option", "--probe-bytes=0",
                   "--daemon-option", "--log-level=debug", "--master-option", "--heartbeat-ms=20", str(scenario), "--", sys.executable, "-B", __file__, "host",
                   "{host}", "{work}", folder, str(seconds), programs + "/ringway-bench", "--socket", "{socket}",
                   "--group", "g", "--world", "{world}", "--min-bytes", "4K", "--max-bytes", "4M", "--factor", "4",
                   "--iters", str(max(2, int(seconds))), "--warmup", "0", "--check", "--json", folder + "/result.{host}"]
        status = subprocess.run(command, check=False).returncode
        if status == 77:
            sys.exit(77)
        said = "".join(log.read_text() for log in sorted(pathlib.Path(folder).glob("daemon.*.log")))
        events = {name: len(re.findall(rf" {name} ", said)) for name in ("lane_down", "control_down", "peer_lost", "abort", "operation_stuck")}
        clean_at = pathlib.Path(folder, "clean")
        longest = longest_after(float(clean_at.read_text()), said) if clean_at.exists() else 0.0
        print(f"seed {seed}: exit {status}, {events}, the last one ended {longest:.2f} s after the corruption", flush=True)
        if status == 124 or longest > END_S:
            sys.exit("an operation took too long once the network was clean:\n" + said)
        if status != 0 and (share <= GENTLE or not events["peer_lost"]):
            sys.exit("an operation failed, or waits for ever:\n" + said)
        if events["operation_stuck"]:
            sys.exit("an operation got stuck, and started anew:\n" + said)
        if share <= GENTLE and events["peer_lost"] + events["abort"]:
            sys.exit("a member was lost, and all live:\n" + said)
        if status == 0 and not json.loads(result.read_text())["results"]:
            sys.exit("nothing was measured")
        return events


def main(run, programs, seeds="1", share="0.0005", seconds="4"):
    totals = [check_seed(run, programs, seed, float(share), float(seconds)) for seed in range(1, int(seeds) + 1)]
    if not sum(events["lane_down"] + events["control_down"] for events in totals):
        sys.exit("no link broke: nothing was corrupted")


if __name__ == "__main__":
    if sys.argv[1] == "host":
        host(*sys.argv[2:])
    else:
        main(*sys.argv[1:])
