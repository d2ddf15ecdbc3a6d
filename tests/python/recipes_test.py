"""What users of torch.distributed run gives by "ringway" what it gives by Gloo, from the same seeds."""

import os
import pathlib
import sys
import unittest

from cluster import PATIENCE, ClusterTest, Process

try:
    import torch
except ImportError:
    torch = None

WORLD = 4
HERE = pathlib.Path(__file__).parent


@unittest.skipUnless(torch, "torch is not installed: RINGWAY_TEST_TORCH=1 installs it, 5.4 GB")
class RecipesTest(ClusterTest):
    DAEMONS = 2
    SECONDS_MAX = 12 * PATIENCE  # each rank imports torch, by itself

    def ends(self, backend):
        """Of each rank, by recipe."""
        runs, files = [], []
        for rank in range(WORLD):
            files.append(self.cluster.directory / f"{backend}.{rank}.pt")
            argv = [sys.executable, "-B", HERE / "recipes.py", backend, self.cluster.directory / f"store-{backend}", rank, WORLD, files[-1]]
            environment = {**os.environ, "RINGWAY_SOCKET": self.cluster.sockets[rank % self.DAEMONS], "OMP_NUM_THREADS": "1"}
            runs.append(Process(self.cluster.directory / f"{backend}.{rank}.log", argv, env=environment))
            self.addCleanup(runs[-1].kill)
        for run in runs:
            self.assertEqual(run.end(5 * PATIENCE), 0, run.text())
        return [torch.load(file) for file in files]

    def test_recipes_end_as_with_gloo(self):
        for rank, (gloo, ours) in enumerate(zip(self.ends("gloo"), self.ends("ringway"))):
            self.assertEqual(len(gloo), 8)
            self.assertEqual(gloo.keys(), ours.keys())
            for name in gloo:
                self.assertEqual(len(gloo[name]), len(ours[name]))
                self.assertTrue(gloo[name])
                for place, (a, b) in enumerate(zip(gloo[name], ours[name])):
                    where = f"rank {rank}, {name}, result {place}"
                    torch.testing.assert_close(b, a, rtol=1e-4, atol=1e-5, msg=lambda text, where=where: f"{where}: {text}")


if __name__ == "__main__":
    unittest.main()
