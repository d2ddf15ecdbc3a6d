"""accelerate, Lightning and Hugging Face's Trainer on the backend "ringway": two ranks end where one ends."""

import ast
import importlib.util
import os
import pathlib
import re
import sysconfig
import unittest

from cluster import PATIENCE, ClusterTest, Process

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "client/python/examples"
RINGWAY = pathlib.Path(sysconfig.get_path("scripts"), "ringway")


class FrameworksTest(ClusterTest):
    DAEMONS = 1
    SECONDS_MAX = 12 * PATIENCE  # each rank imports a framework, by itself

    def check(self, package, example):
        if importlib.util.find_spec(package) is None:
            self.skipTest(f"{package} is not installed: RINGWAY_TEST_TORCH=1 installs it")
        ends = [self.weights(example, world) for world in (1, 2)]
        self.assertEqual((len(ends[0]), len(ends[1])), (1, 2))
        for weights in ends[1]:
            self.assertEqual(len(weights), len(ends[0][0]))
            for one, many in zip(ends[0][0], weights):
                self.assertAlmostEqual(one, many, delta=1e-4)

    def weights(self, example, world):
        """Of each rank, at the end."""
        environment = {"RINGWAY_SOCKET": self.cluster.sockets[0], "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
        run = Process(self.cluster.directory / f"{self.group}.{world}", [RINGWAY, "run", "--nproc", world, EXAMPLES / example],
                      env={**os.environ, **environment})
        self.addCleanup(run.kill)
        self.assertEqual(run.end(5 * PATIENCE), 0, run.text())
        return [ast.literal_eval(x) for x in re.findall(r"^\[\d\] ringway (\[.*\])$", run.text(), re.MULTILINE)]

    def test_accelerate(self):
        self.check("accelerate", "with_accelerate.py")

    def test_lightning(self):
        self.check("lightning", "with_lightning.py")

    def test_trainer(self):
        self.check("transformers", "with_trainer.py")


if __name__ == "__main__":
    unittest.main()
