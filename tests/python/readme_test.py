"""The trainers of client/python/README.md, literally."""

import itertools
import json
import pathlib
import re
import signal
import subprocess
import sys
import unittest

import ringway
from cluster import PATIENCE, PROGRAMS, ClusterTest, Process, eventually

README = pathlib.Path(__file__).resolve().parents[2] / "client/python/README.md"


class ReadmeTest(ClusterTest):
    def setUp(self):
        super().setUp()
        blocks = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
        self.ten_lines, self.whole, self.reconfiguration = blocks.findall(README.read_text(encoding="utf-8"))
        self.number = itertools.count()

    def run_block(self, block, index, world):
        path = self.cluster.directory / f"{self._testMethodName}.{next(self.number)}"
        script = path.with_suffix(".py")
        script.write_text(block, encoding="utf-8")
        trainer = Process(path.with_suffix(".out"), [sys.executable, "-B", script, self.cluster.sockets[index], world])
        self.addCleanup(trainer.kill)
        return trainer

    def test_ten_lines_train(self):
        self.assertEqual(len(self.ten_lines.splitlines()), 10)
        trainers = [self.run_block(self.ten_lines, i, 2) for i in range(2)]
        for trainer in trainers:
            self.assertEqual(trainer.end(), 0, trainer.text())
            self.assertEqual(trainer.text(), "trained 100 steps with 2 ranks, weight 1.0000\n")

    def test_reconfiguration_is_python(self):  # a part of a program; reconfigure_training.py is a whole one
        compile(self.reconfiguration, README.name, "exec")

    def test_the_whole_loop_admits_newcomers_and_survives_a_death(self):
        trainers = [self.run_block(self.whole, i, 2) for i in range(2)]
        eventually(lambda: self.world_size(0) == 2)
        trainers.append(self.run_block(self.whole, 2, 2))
        eventually(lambda: self.world_size(2) == 3)
        trainers[0].kill()
        eventually(lambda: self.world_size(2) == 2)
        trainers[2].signal(signal.SIGTERM)
        for trainer in trainers[1:]:
            self.assertEqual(trainer.end(), 0, trainer.text())
        self.assertRegex(trainers[1].text(), r"^trained \d+ steps, weight [\d.]+\n$")
        self.assertEqual(trainers[1].text(), trainers[2].text())

    def world_size(self, index):
        """Of the group, as this daemon sees it."""
        asked = [PROGRAMS / "ringwayctl", "--socket", self.cluster.sockets[index], "status", "--json"]
        status = json.loads(subprocess.run(asked, check=True, capture_output=True, timeout=PATIENCE).stdout)
        return next((group["world_size"] for group in status["groups"]), 0)

    def test_every_call_of_the_table_is_there(self):
        calls = README.read_text(encoding="utf-8").partition("## Calls")[2].partition("\n## ")[0]
        for name in re.findall(r"`(?:session\.|ringway\.)?(\w+)\(", calls.partition("Every collective")[0]):
            self.assertTrue(any(hasattr(x, name) for x in (ringway.Session, ringway.Work, ringway.SharedState, ringway)), name)
        options, result = calls.partition("Every collective")[2].split("A `Result`")
        for name in re.findall(r"`(\w+)`", options):
            self.assertIn(name, ringway.Options.__annotations__)
        for name in re.findall(r"`(\w+)`", result):
            self.assertTrue(hasattr(ringway.Result, name), name)


if __name__ == "__main__":
    unittest.main()
