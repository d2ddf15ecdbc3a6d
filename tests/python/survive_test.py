"""Trainings that a rank's death does not end, by each way to use PyTorch, started as users start them."""

import os
import pathlib
import re
import signal
import sys
import unittest

from cluster import PATIENCE, Process
from launch_test import LaunchTest
from ringway import _command

try:
    import torch
    import torchft
except ImportError:
    torch = torchft = None

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "client/python/examples/survive"
WORLD, VICTIM, STEPS = 3, 2, 500


@unittest.skipUnless(torchft, "torch and torchft are not installed: RINGWAY_TEST_TORCH=1 installs them, 5.4 GB")
class SurviveTest(LaunchTest):
    def check(self, example):
        run = self.command("run", "--nproc", WORLD, "--daemons", WORLD, "--keep-going", EXAMPLES / example, STEPS)
        first = [run.said(f"[{rank}] step ") for rank in range(WORLD)]
        whole = run.said(f" world {WORLD} process {first[VICTIM].split()[-1]}")
        os.kill(int(whole.split()[-1]), signal.SIGKILL)
        self.assertEqual(run.end(3 * PATIENCE), 128 + signal.SIGKILL, run.text())  # the victim's
        self.assertEqual(run.text().count("ringway: rank"), 1, run.text())
        for rank in {*range(WORLD)} - {VICTIM}:
            steps = re.findall(rf"^\[{rank}\] step (\d+) world (\d)", run.text(), re.MULTILINE)
            numbers, worlds = zip(*((int(step), int(world)) for step, world in steps))
            self.assertEqual(list(numbers), list(range(numbers[0], STEPS)))  # each once, whatever became of it at first
            self.assertEqual(worlds[-1], WORLD - 1)
            alone = worlds.index(WORLD - 1, worlds.index(WORLD))
            self.assertEqual({*worlds[alone:]}, {WORLD - 1})
        weights = re.findall(r" weights (\w+)$", run.text(), re.MULTILINE)
        self.assertEqual((len(weights), len({*weights})), (WORLD - 1, 1), run.text())

    def test_hook(self):
        self.check("hook.py")

    def test_reconfigure(self):
        self.check("reconfigure.py")

    def test_torchft(self):
        address = f"127.0.0.1:{_command._free_port()}"
        words = [pathlib.Path(sys.executable).parent / "torchft_lighthouse", "--min_replicas", "2", "--bind", address]
        lighthouse = Process(self.directory / "lighthouse", words)  # which logs each step, thus not in this process
        self.addCleanup(lighthouse.kill)
        self.environment(TORCHFT_LIGHTHOUSE=f"http://{address}")
        self.check("with_torchft.py")


if __name__ == "__main__":
    unittest.main()
