"""torch's own tests of a c10d backend pass with "ringway", but for those that conformance/tests.txt leaves out."""
import os
import pathlib
import re
import subprocess
import sys
import unittest

from cluster import ClusterTest

try:
    import torch
except ImportError:
    torch = None

HERE = pathlib.Path(__file__).resolve().parent / "conformance"
SECONDS_MAX = 3600  # of all of them


def listed():
    """The tests by the heading that they stand under: "passes", or a reason."""
    groups, names = {}, None
    for line in (HERE / "tests.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("  "):
            names.append(line.strip())
        elif line and not line.startswith("#"):
            names = groups.setdefault(line, [])
    return groups


def suite(*words, **environment):
    done = subprocess.run([sys.executable, "-B", HERE / "suite.py", *words], env={**os.environ, **environment},
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=SECONDS_MAX)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return done


@unittest.skipUnless(torch, "torch is not installed: RINGWAY_TEST_TORCH=1 installs it, 5.4 GB")
class ConformanceTest(ClusterTest):
    DAEMONS = 2  # for four ranks: some share one
    SECONDS_MAX = SECONDS_MAX

    def test_the_list_has_every_test_of_torch_once(self):
        names = [name for group in listed().values() for name in group]
        self.assertEqual(len(names), len(set(names)))
        self.assertEqual(set(names), set(suite("--list").stdout.split()))

    def test_those_that_pass_do(self):
        passes = listed()["passes"]
        done = suite(*passes, RINGWAY_SOCKETS=",".join(self.cluster.sockets), TEMP_DIR=str(self.cluster.directory))
        outcomes = dict(reversed(x) for x in re.findall(r"^outcome (\w+) (\w+)$", done.stdout, re.MULTILINE))
        self.assertEqual(outcomes, {name: "passed" for name in passes}, done.stderr)


if __name__ == "__main__":
    unittest.main()
