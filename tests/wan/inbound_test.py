#!/usr/bin/env python3
"""A host that lets no connection in dials the others, is a member like them, gets more lanes where losses bound each, and stays one
when another dies.

inbound_test.py RUN BIN: ends with 77 where tests/wan/run may not make devices. On each host it calls itself again, with
BIN HOST WORLD SOCKET WORK.
"""

import json
import pathlib
import signal
import subprocess
import sys
import tempfile

FIRST_LANES = 11  # proto/lane_roles.h
HIDDEN, VICTIM = 2, 1
SCENARIO = """
[default]
delay_ms = 20
loss = 0.003
[[site]]
name = "a"
uplink_mbit = 400
[[site]]
name = "b"
uplink_mbit = 400
[[site]]
name = "c"
uplink_mbit = 400
inbound = false
"""


def bench(programs, host, world, socket, work):
    """Returns the lanes that are in use at the end; the sums were right."""
    result = pathlib.Path(work, f"result.{host}")
    subprocess.run([programs + "/ringway-bench", "--socket", socket, "--group", "bench", "--world", world, "--bytes", "32M",
                    "--algorithm", "ring", "--iters", "8", "--warmup", "0", "--check", "--json", result], check=True)
    return json.loads(result.read_text())["results"][0]["lanes"]


def train(programs, host, world, socket, work):
    """Steps on past the death of the victim's daemon."""
    killed = pathlib.Path(work, "killed")
    with subprocess.Popen([programs + "/shortest", socket, "train", world], stdout=subprocess.PIPE, text=True) as trainer:
        steps = 0
        for _ in trainer.stdout:
            steps += 1
            if host == VICTIM and steps == 20:
                daemon = subprocess.run(["pgrep", "-f", f"ringwayd .*--socket {socket} "], check=True, capture_output=True, text=True)
                subprocess.run(["kill", "-9", *daemon.stdout.split()], check=True)
                killed.touch()
                break
            if not killed.exists():
                steps = min(steps, 19)
            elif steps == 50:
                trainer.send_signal(signal.SIGTERM)
        if host == VICTIM:
            trainer.kill()
        elif trainer.wait(60) != 0 or steps < 50:
            sys.exit(f"host {host}: ended after {steps} steps past the death, with {trainer.returncode}")


def run_host(programs, host, world, socket, work):
    lanes = bench(programs, host, world, socket, work)
    dials = "dials_for_both" in pathlib.Path(work, f"daemon.{host}.log").read_text()
    if host == HIDDEN and (not dials or lanes <= FIRST_LANES):
        sys.exit(f"host {host}: {lanes} lanes are in use; it dials for both: {dials}")
    train(programs, host, world, socket, work)


def main():
    if len(sys.argv) > 3:
        programs, host, world, socket, work = sys.argv[1:]
        return run_host(programs, int(host), world, socket, work)
    run, programs = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        scenario = pathlib.Path(folder, "scenario.toml")
        scenario.write_text(SCENARIO)
        return subprocess.run([run, "--skip-without-tun", "--bin", programs, "--daemon-option", "--congestion=cubic",
                               "--daemon-option", "--probe-bytes=0", scenario, "--", sys.executable, "-B", __file__, programs,
                               "{host}", "{world}", "{socket}", "{work}"], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
