"""What torch.distributed and FSDP2 promise is done by the backend "ringway", as Gloo does it, or refused: each row of promises.py."""
import inspect
import os
import pathlib
import re
import sys
import unittest

from cluster import ClusterTest, Process

try:
    import torch
except ImportError:
    torch = None

WORLD = 3
HERE = pathlib.Path(__file__).resolve().parent
README = HERE.parents[1] / "client/python/README.md"


@unittest.skipUnless(torch, "torch is not installed: RINGWAY_TEST_TORCH=1 installs it, 5.4 GB")
class PromisesTest(ClusterTest):
    def said_by(self, backend):
        """What came of each row, by rank."""
        ranks, outcomes = [], []
        for rank in range(WORLD):
            path = self.cluster.directory / f"{self.group}.{backend}.{rank}"
            argv = [sys.executable, "-B", HERE / "promises.py", backend, self.cluster.directory / f"store-{backend}", rank, WORLD,
                    f"{path}.pt"]
            environment = {**os.environ, "RINGWAY_SOCKET": self.cluster.sockets[rank], "OMP_NUM_THREADS": "1"}
            ranks.append(Process(f"{path}.log", argv, env=environment))
            self.addCleanup(ranks[-1].kill)
            outcomes.append(f"{path}.pt")
        for process in ranks:
            self.assertEqual(process.end(), 0, process.text())
        return [torch.load(outcome) for outcome in outcomes]

    def test_each_call_does_what_gloo_does_or_raises_what_the_table_says(self):
        gloo, ours = self.said_by("gloo"), self.said_by("ringway")
        self.assertGreater(len(gloo[0]), 140)
        for name, (refusal, *_) in ours[0].items():
            with self.subTest(row=name):
                if refusal is None:
                    for rank in range(WORLD):
                        self.assertEqual(ours[rank][name][1], "returns", ours[rank][name])
                        self.check_equal(gloo[rank][name], ours[rank][name], f"rank {rank}")
                else:
                    raised = {kind for rank in range(WORLD) for _, how, kind in [ours[rank][name]] if how == "raises"}
                    self.assertEqual(raised, {refusal}, [outcomes[name] for outcomes in ours])

    def check_equal(self, theirs, ours, place):
        if isinstance(theirs, torch.Tensor):
            if theirs.dtype.is_floating_point and theirs.itemsize == 1:
                theirs, ours = theirs.view(torch.uint8), ours.view(torch.uint8)
            tolerance = 2e-2 if theirs.dtype == torch.bfloat16 else 1e-3 if theirs.dtype == torch.float16 else 1e-5
            torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=1e-6, msg=lambda text: f"{place}: {text}")
        elif isinstance(theirs, (list, tuple)):
            self.assertEqual((type(ours), len(ours)), (type(theirs), len(theirs)), place)
            for at, (a, b) in enumerate(zip(theirs, ours)):
                self.check_equal(a, b, f"{place}, {at}")
        elif isinstance(theirs, dict):
            self.check_equal([*theirs, *theirs.values()], [*ours, *ours.values()], place)
        else:
            self.assertEqual(ours, theirs, place)

    def test_readme_has_each_function_and_a_row_calls_it(self):
        from torch.distributed import distributed_c10d

        table = README.read_text().partition("| function of torch.distributed |")[2].partition("\n\n")[0]
        named = {word for row in table.splitlines() for word in re.findall(r"`(\w+)`", row.split("|")[1] if "|" in row else "")}
        functions = {name for name in distributed_c10d.__all__ if name not in ("reduce_op", "get_debug_level")
                     and inspect.isfunction(getattr(distributed_c10d, name))}
        program = "".join((HERE / f"{name}.py").read_text() for name in ("promises", "promises_training"))
        called = {name for name in functions if re.search(rf"\b{name}\b", program)} | {
            f"is_{each}_available" for each in ("gloo", "mpi", "nccl", "ucc", "xccl")}
        self.assertEqual(functions - named, set())
        self.assertEqual(functions - called, set())


if __name__ == "__main__":
    unittest.main()
