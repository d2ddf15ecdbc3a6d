"""The textbook's programs, as they stand, with the backend "ringway": in several processes they end where one ends."""
import os
import pathlib
import sys
import unittest

from cluster import ClusterTest, Process

try:
    import torch
except ImportError:
    torch = None

PROGRAMS = pathlib.Path(__file__).resolve().parents[2] / "client/python/examples/textbook"
WORLD = 2


@unittest.skipUnless(torch, "torch is not installed: RINGWAY_TEST_TORCH=1 installs it, 5.4 GB")
class TextbookTest(ClusterTest):
    DAEMONS = WORLD

    def trained(self, program, world, *words):
        """Rank 0's parameters at the end."""
        name = f"{self.group}.{world}"
        out = self.cluster.directory / f"{name}.pt"
        ranks = []
        for rank in range(world):
            environment = {**os.environ, "RINGWAY_SOCKET": self.cluster.sockets[rank * WORLD // world]}  # the halves are sites
            argv = [sys.executable, "-B", PROGRAMS / program, rank, world, self.cluster.directory / f"{name}.store", out, *words]
            ranks.append(Process(self.cluster.directory / f"{name}.{rank}.log", argv, env=environment))
            self.addCleanup(ranks[-1].kill)
        for process in ranks:
            self.assertEqual(process.end(), 0, process.text())
        return torch.load(out)

    def check(self, program, *words, world=WORLD):
        one, many = self.trained(program, 1, *words), self.trained(program, world, *words)
        self.assertEqual(one.keys(), many.keys())
        for name in one:
            torch.testing.assert_close(many[name], one[name], rtol=1e-4, atol=1e-5, msg=lambda text, name=name: f"{name}: {text}")
        return one

    def test_data_parallel(self):
        alone = self.check("data_parallel.py")
        # The others train the same network on the same data.
        for program, *words in (("zero.py", "1"), ("zero.py", "2"), ("zero3.py",), ("tensor_parallel.py",), ("pipeline.py",), ("fsdp2.py",)):
            with self.subTest(program=program, words=words):
                for name, p in self.trained(program, WORLD, *words).items():
                    torch.testing.assert_close(p, alone[name], rtol=1e-4, atol=1e-5)

    def test_sequence_parallel(self):
        self.check("sequence_parallel.py")

    def test_replicas_of_shards(self):
        self.check("hsdp.py", "2", world=4)
