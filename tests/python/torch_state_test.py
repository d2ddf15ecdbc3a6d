"""Shared state that torch has: modules, optimizers and their state_dicts are taken as they are, or refused by name."""
import unittest

import ringway

try:
    import torch
except ImportError:
    torch = None

from cluster import ClusterTest, together


@unittest.skipUnless(torch, "torch is not installed: RINGWAY_TEST_TORCH=1 installs it, 5.4 GB")
class TorchStateTest(ClusterTest):
    DAEMONS = 2

    @staticmethod
    def model(seed):
        torch.manual_seed(seed)
        layers = [torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.Flatten(), torch.nn.Linear(4, 2)]
        return torch.nn.Sequential(*layers).to(memory_format=torch.channels_last)

    @staticmethod
    def train(model, optimizer):
        optimizer.zero_grad()
        model(torch.ones(2, 3, 3, 3)).square().sum().backward()
        optimizer.step()

    def assert_same(self, one, other):
        for (name, x), y in zip(one.state_dict().items(), other.state_dict().values()):
            torch.testing.assert_close(x, y, rtol=0, atol=0, msg=name)
            self.assertEqual(x.stride(), y.stride())

    def both(self, sessions, call):
        def one(session):
            try:
                return call(session, session.rank)
            except (ringway.Error, TypeError) as error:
                return error

        return together(*[lambda s=s: one(s) for s in sessions])

    def test_models_of_two_dtypes_are_refused_and_not_reinterpreted(self):
        sessions = self.join(2)
        models = [torch.nn.Linear(3, 2).to(dtype) for dtype in (torch.bfloat16, torch.float16)]
        before = [x.weight.clone() for x in models]
        for outcome in self.both(sessions, lambda s, rank: ringway.sync_shared_state(s, models[rank], revision=rank)):
            self.assertIsInstance(outcome, ringway.Mismatch)
            self.assertIn('rank 0 has "bias" of bfloat16[2] (4 bytes), and rank 1 has "bias" of float16[2] (4 bytes)', outcome.message)
        for model, x in zip(models, before):
            self.assertTrue(torch.equal(model.weight, x))

    def test_a_model_and_its_optimizer_are_taken_with_numbers_and_channels_last(self):
        sessions = self.join(2)
        models = [self.model(rank) for rank in range(2)]
        optimizers = [torch.optim.Adam(model.parameters(), lr=0.1 + rank) for rank, model in enumerate(models)]
        for each in zip(models, optimizers):
            self.train(*each)
        self.train(models[1], optimizers[1])
        done = self.both(sessions, lambda s, rank: ringway.sync_shared_state(
            s, {"model": models[rank], "optimizer": optimizers[rank]}, revision=rank))
        self.assertEqual(done, [1, 1])
        self.assertEqual(optimizers[0].param_groups[0]["lr"], 1.1)
        for each in zip(models, optimizers):
            self.train(*each)
        self.assert_same(*models)

    def test_the_state_dict_of_an_optimizer_is_taken(self):
        sessions = self.join(2)
        models = [torch.nn.Linear(3, 2) for _ in range(2)]
        optimizers = [torch.optim.Adam(x.parameters(), lr=0.1 * (rank + 1)) for rank, x in enumerate(models)]
        for rank, optimizer in enumerate(optimizers):
            models[rank](torch.full((1, 3), float(rank))).sum().backward()
            optimizer.step()
        states = [x.state_dict() for x in optimizers]
        done = self.both(sessions, lambda s, rank: ringway.sync_shared_state(s, states[rank], revision=rank))
        self.assertEqual(done, [1, 1])
        optimizers[0].load_state_dict(states[0])
        self.assertEqual(repr(optimizers[0].state_dict()), repr(optimizers[1].state_dict()))

    def test_a_module_that_has_other_memory_is_refused_at_the_end_of_a_step(self):
        (session,) = self.join(1)
        for state_of in (lambda x: x, lambda x: x.state_dict(), lambda x: x.state_dict, lambda x: {"model": x.state_dict()},
                         lambda x: [*x.parameters()], lambda x: x.parameters()):
            model = self.model(1)
            shared = ringway.SharedState(session, state_of(model))
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for _ in range(2):
                self.train(model, optimizer)
                shared.advance(False)
            model.load_state_dict(self.model(2).state_dict())
            shared.advance(False)
            model.to(torch.float64)
            with self.refused(ringway.InvalidArgument, "other memory"):
                shared.advance(False)
            self.assertEqual(shared.revision, 3)

    def test_an_optimizer_that_gets_its_state_later_is_refused_by_name(self):
        (session,) = self.join(1)
        model = self.model(1)
        optimizer = torch.optim.Adam(model.parameters())
        shared = ringway.SharedState(session, optimizer)
        self.train(model, optimizer)
        with self.refused(ringway.InvalidArgument, '"state.0.exp_avg"'):
            shared.advance(False)

    def test_tensors_that_are_not_plain_are_refused_by_name(self):
        (session,) = self.join(1)
        for x in (torch.zeros(3, 3).to_sparse(), torch.zeros(3, device="meta"), torch.zeros(3, dtype=torch.complex64).conj()):
            with self.refused(ringway.InvalidArgument, '"x"', "not a plain tensor"):
                ringway.sync_shared_state(session, {"x": x})
        with self.refused(ringway.InvalidArgument, '"x"', "gaps"):
            ringway.sync_shared_state(session, {"x": torch.zeros(4, 4)[:, ::2]})


if __name__ == "__main__":
    unittest.main()
