#!/usr/bin/env python3
"""What leaves the sites of two-sites-shared, counted by the emulator, is what the schedule says must.

way_out_test.py RUN BIN: ends with 77 where tests/wan/run may not make devices.
"""

import collections
import json
import subprocess
import sys
import tempfile

BYTES = 16 << 20  # of a buffer
OPERATIONS = 2
# Each of two sites adds up what is inside, and sends half of the sum and half of the result: one buffer.
MINIMUM = BYTES * OPERATIONS
# Headers of TCP and IP are 3.6% of full packets; acknowledgements, those of segments and control messages come on top.
OVERHEAD_MAX = 0.08
PACKET_BYTES = 1500  # what drops at a full queue is large, for small packets are few; it has not left the site


def bytes_out(run, programs, algorithm):
    """Bytes that left each site while all hosts ran the operations."""
    with tempfile.NamedTemporaryFile(suffix=".json") as stats:
        command = [run, "--skip-without-tun", "--bin", programs, "--stats", stats.name, "--daemon-option",
                   "--probe-bytes=0", "two-sites-shared", "--", programs + "/ringway-bench", "--socket", "{socket}",
                   "--group", "g", "--world", "{world}", "--bytes", str(BYTES), "--algorithm", algorithm, "--iters",
                   str(OPERATIONS), "--warmup", "0"]
        status = subprocess.run(command, check=False).returncode
        if status != 0:
            sys.exit(status)
        paths = json.load(stats)["paths"]
    out = collections.Counter()
    for path in paths:
        if path["from_site"] != path["to_site"]:
            out[path["from_site"]] += path["bytes"] - path["overflowed"] * PACKET_BYTES
    return out


def main():
    run, programs = sys.argv[1:]
    failed = False
    for algorithm, at_minimum in (("hierarchical", True), ("ring", False)):
        for site, count in sorted(bytes_out(run, programs, algorithm).items()):
            times = count / MINIMUM
            print(f"{algorithm}: {site} sent {count} bytes, {times:.3f} times the minimum")
            failed |= times < 1 or (times <= 1 + OVERHEAD_MAX) != at_minimum
    sys.exit("these are not the bytes that the schedules need" if failed else 0)


if __name__ == "__main__":
    main()
