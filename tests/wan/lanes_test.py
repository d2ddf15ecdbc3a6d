#!/usr/bin/env python3
"""Where losses bound each connection, a pair opens more of them than it began with, and the sums stay right.

lanes_test.py RUN BIN: ends with 77 where tests/wan/run may not make devices.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

FIRST_LANES = 11  # proto/lane_roles.h
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
"""


def main():
    run, programs = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        scenario = pathlib.Path(folder, "scenario.toml")
        scenario.write_text(SCENARIO)
        result = pathlib.Path(folder, "result.0")
        command = [run, "--skip-without-tun", "--bin", programs, "--daemon-option", "--congestion=cubic",
                   "--daemon-option", "--probe-bytes=0", str(scenario), "--", programs + "/ringway-bench", "--socket",
                   "{socket}", "--group", "g", "--world", "{world}", "--bytes", "32M", "--algorithm", "ring", "--iters",
                   "8", "--warmup", "0", "--check", "--json", folder + "/result.{host}"]
        status = subprocess.run(command, check=False).returncode
        if status != 0:
            sys.exit(status)
        used = max(json.loads(path.read_text())["results"][0]["lanes"] for path in result.parent.glob("result.*"))
    print(f"{used} lanes are in use")
    sys.exit("no lanes were opened" if used <= FIRST_LANES else 0)


if __name__ == "__main__":
    main()
