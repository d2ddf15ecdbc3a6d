#!/usr/bin/env python3
"""A group that forms again on the same daemons, ten times and after a death, has the connections of the first time, whose
windows are open: none is dialled again, and the sums stay right.

sessions_test.py RUN BIN: ends with 77 where tests/wan/run may not make devices.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time

LANES = 11  # of a pair between sites: proto/lane_roles.h
DAEMON_PORT = 7401  # tests/wan/run
SESSIONS = 10
DEATH_AT = 4  # the session that ends by a death on both sides
PATIENCE_S = 60
SCENARIO = """
[default]
delay_ms = 20
[[site]]
name = "a"
uplink_mbit = 400
[[site]]
name = "b"
uplink_mbit = 400
"""


def until(condition, what):
    """The first value of `condition()` that is true."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.05)
    sys.exit(f"sessions_test.py: {what}")


def status(host):
    command = [host.programs + "/ringwayctl", "--socket", host.socket, "status", "--json"]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def connections():
    """Both ends of each that stands between the daemons."""
    port = f"( sport = :{DAEMON_PORT} or dport = :{DAEMON_PORT} )"
    lines = subprocess.run(["ss", "-tnH", "state", "established", port], check=True, stdout=subprocess.PIPE).stdout
    return {tuple(line.split()[-2:]) for line in lines.decode().splitlines()}


def begin(host, turn, *options):
    return subprocess.Popen([host.programs + "/ringway-bench", "--socket", host.socket, "--group", f"session{turn}", "--world", "2",
                             "--bytes", "4M", "--warmup", "0", *options])


def on_host(host):
    """What one host does: each session, and after it a look at what is kept."""
    at_first = None
    for turn in range(1, SESSIONS + 1):
        if turn == DEATH_AT:
            trainer = begin(host, turn, "--iters", "1000000")
            # Whoever comes later finds a world of one, which was one of two: there is none before.
            until(lambda: any(group["rank"] is not None for group in status(host)["groups"]), "the group did not form")
            trainer.kill()
            trainer.wait()
        elif begin(host, turn, "--iters", "4", "--check").wait() != 0:
            sys.exit(f"sessions_test.py: session {turn} failed")
        until(lambda: status(host)["daemon"]["descriptors"]["kept"] >= LANES, f"session {turn} kept no connections")
        kept = connections()
        at_first = at_first or kept
        if len(at_first & kept) < LANES:
            sys.exit(f"sessions_test.py: of the connections of the first session {len(at_first & kept)} stand after session {turn}")
    print(f"host {host.number}: {len(at_first & kept)} connections stand since the first session")


def main():
    if sys.argv[1] == "--host":
        parser = argparse.ArgumentParser()
        parser.add_argument("--host", dest="number", required=True)
        parser.add_argument("--socket", required=True)
        parser.add_argument("--programs", required=True)
        return on_host(parser.parse_args())
    run, programs = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        scenario = pathlib.Path(folder, "scenario.toml")
        scenario.write_text(SCENARIO)
        command = [run, "--skip-without-tun", "--bin", programs, "--daemon-option", "--probe-bytes=0", str(scenario), "--",
                   sys.executable, "-B", __file__, "--host", "{host}", "--socket", "{socket}", "--programs", programs]
        sys.exit(subprocess.run(command, check=False).returncode)


if __name__ == "__main__":
    main()
