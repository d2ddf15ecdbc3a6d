"""DistributedDataParallel whose passes go on without late ranks, weighs its gradients, and keeps the batch of all ranks whole."""
import os
import pathlib
import sys
import unittest

import ringway
from cluster import PATIENCE, ClusterTest, Process, eventually, together

try:
    import torch
except ImportError:
    torch = None

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "client/python/examples"
WORLD = 3


@unittest.skipUnless(torch, "torch is not installed: RINGWAY_TEST_TORCH=1 installs it, 5.4 GB")
class DdpQuorumTest(ClusterTest):
    """Of a model whose gradients are its inputs."""

    def setUp(self):
        super().setUp()
        torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
        self.addCleanup(torch.distributed.destroy_process_group)

    def ranks(self, sizes=(40,), **options):
        """(model, hook) of each, which have made their first pass together: in it they compare their parameters."""
        import ringway.torch

        class Sum(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.weights = torch.nn.ParameterList([torch.zeros(size) for size in sizes])

            def forward(self, x):
                return sum((weight * x).sum() for weight in self.weights)

        models = [torch.nn.parallel.DistributedDataParallel(Sum()) for _ in range(WORLD)]
        sessions = self.join(WORLD)
        ranks = [(model, ringway.torch.ddp_hook(model, session, **options)) for model, session in zip(models, sessions)]
        together(*[lambda rank=rank: self.backward(rank, 0) for rank in ranks])
        return sessions, ranks

    def backward(self, rank, value):
        """The gradients: a number if they are all the same."""
        model, hook = rank
        model.zero_grad()
        model(torch.tensor(float(value))).backward()
        return self.gradient_of(model), hook.results

    def gradient_of(self, model):
        values = {value for p in model.parameters() for value in p.grad.tolist()}
        return values.pop() if len(values) == 1 else values

    def test_passes_go_on_without_a_late_rank_which_makes_up_for_them(self):
        sessions, ranks = self.ranks(quorum=2)
        late, passes = sessions[2].peer_id, 4
        for number in range(1, passes + 1):
            both = together(*[lambda i=i: self.backward(ranks[i], number * (i + 1)) for i in range(2)])
            for gradient, (result,) in both:
                self.assertEqual((gradient, result.absent, len(result.contributors)), (1.5 * number, (late,), 2))
        gradient, (result,) = self.backward(ranks[2], 1e6)
        self.assertEqual((gradient, result.is_late, result.is_kept), (1.5, True, False))
        for number in range(2, passes + 1):
            self.assertEqual(ranks[2][1].behind, passes + 1 - number)
            ranks[2][1].take_missed()
            self.assertEqual(self.gradient_of(ranks[2][0]), 1.5 * number)
        self.assertEqual(ranks[2][1].behind, 0)
        with self.refused(ringway.InvalidArgument, "behind"):
            ranks[2][1].take_missed()

    def test_gradients_that_come_late_are_in_the_next_pass_where_they_are_kept(self):
        _, ranks = self.ranks(quorum=2, grace=PATIENCE / 10, late="next")
        total = 0.0
        for value in (1, 2):
            both = together(*[lambda i=i: self.backward(ranks[i], value) for i in range(2)])
            total += sum(gradient for gradient, _ in both)  # the average of two
        _, (result,) = self.backward(ranks[2], 30)
        self.assertTrue(result.is_late and result.is_kept)
        ranks[2][1].take_missed()
        given = 1 + 1 + 2 + 2 + 30

        def all_are_in():
            nonlocal total, given
            each = together(*[lambda i=i: self.backward(ranks[i], 6) for i in range(WORLD)])
            (gradient, (first,)), *_ = each
            self.assertEqual({one for one, _ in each}, {gradient})
            total += gradient * len(first.contributors)
            given += 18
            return first.absent == ()

        eventually(all_are_in)
        self.assertEqual(total, given)

    def test_chunks_are_averages_over_their_own_contributors(self):
        sessions, ranks = self.ranks(sizes=(40, 50), overlap_mb=1e-4, quorum=2)
        self.assertEqual(len(ranks[0][1].results), 2)
        _, hook = ranks[2]
        both = together(*[lambda i=i: self.backward(ranks[i], i + 1) for i in range(2)])
        self.assertEqual(both[0][0], 1.5)
        self.assertEqual([result.absent for result in both[0][1]], [(sessions[2].peer_id,)] * 2)
        self.assertEqual(self.backward(ranks[2], 7)[0], 1.5)
        self.assertEqual(hook.behind, 0)

    def test_averages_are_weighted_by_what_each_pass_has(self):
        _, ranks = self.ranks(weight=1)
        for weights in ((1, 2, 5), (8, 1, 1)):
            for (_, hook), weight in zip(ranks, weights):
                hook.weight = weight
            each = together(*[lambda i=i: self.backward(ranks[i], 10 ** i) for i in range(WORLD)])
            wanted = sum(weight * 10 ** i for i, weight in enumerate(weights)) / sum(weights)
            for gradient, (result,) in each:
                self.assertAlmostEqual(gradient, wanted, places=5)
                self.assertEqual(result.weight, sum(weights))

    def test_the_groups_quorum_is_not_that_of_a_hook_without_one(self):
        import ringway.torch

        sessions = self.join(2, quorum=1)
        models = [torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2)) for _ in range(2)]
        models[1].load_state_dict(models[0].state_dict())
        hooks = [ringway.torch.ddp_hook(model, session) for model, session in zip(models, sessions)]
        together(*[lambda model=model: model(torch.ones(1, 2)).sum().backward() for model in models])
        self.assertEqual([hook.result.absent for hook in hooks], [(), ()])

    def test_what_a_pass_without_late_ranks_cannot_have_is_refused(self):
        import ringway.torch

        session, = self.join(1)
        ddp, hook_of = torch.nn.parallel.DistributedDataParallel, ringway.torch.ddp_hook
        with self.refused(ringway.InvalidArgument, "skip_nonfinite takes no quorum"):
            hook_of(ddp(torch.nn.Linear(2, 2)), session, quorum=1, skip_nonfinite=True)
        for arguments in ({"find_unused_parameters": True}, {"static_graph": True}):
            with self.refused(ringway.NotSupported, "which parameters they use"):
                hook_of(ddp(torch.nn.Linear(2, 2), **arguments), session, quorum=1)
        with self.refused(ringway.NotSupported, "broadcast_buffers=False"):
            hook_of(ddp(torch.nn.BatchNorm1d(2)), session, quorum=1)
        hook_of(ddp(torch.nn.BatchNorm1d(2), broadcast_buffers=False), session, quorum=1)


@unittest.skipUnless(torch, "torch is not installed: RINGWAY_TEST_TORCH=1 installs it, 5.4 GB")
class ConstantBatchTest(ClusterTest):
    """The example: each step has all of the batch, whoever dies."""

    def test_steps_have_the_same_examples_in_any_world(self):
        trainers = []
        for i in range(WORLD):
            trainers.append(Process(self.cluster.directory / f"constant_batch.{i}", [
                sys.executable, "-B", EXAMPLES / "constant_batch.py", self.cluster.sockets[i], WORLD, 1000]))
            self.addCleanup(trainers[-1].kill)
        for trainer in trainers:
            trainer.said("step 3 ")
        trainers[2].kill()
        ends = [trainer.said("weights ") for trainer in trainers[:2]]
        self.assertEqual(len(set(ends)), 1, ends)
        for trainer in trainers[:2]:
            self.assertEqual(trainer.end(), 0, trainer.text())
            steps = [line.split() for line in trainer.text().splitlines() if line.startswith("step ")]
            self.assertEqual({int(words[3]) for words in steps}, {60})
            self.assertEqual({int(words[5]) for words in steps}, {2, 3})

    def test_a_batch_of_fewer_examples_than_ranks_is_not_larger(self):
        script = "import sys, constant_batch as it; it.BATCH = 2; it.main(*sys.argv[1:])"
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(EXAMPLES), os.environ.get("PYTHONPATH")]))}
        trainers = [Process(self.cluster.directory / f"small_batch.{i}", [
            sys.executable, "-B", "-c", script, self.cluster.sockets[i], WORLD, 3], env=environment) for i in range(WORLD)]
        for trainer in trainers:
            self.addCleanup(trainer.kill)
        for trainer in trainers:
            self.assertEqual(trainer.end(), 0, trainer.text())
            steps = [line.split() for line in trainer.text().splitlines() if line.startswith("step ")]
            self.assertEqual([(words[3], words[5]) for words in steps], [("2", str(WORLD))] * 3)


if __name__ == "__main__":
    unittest.main()
