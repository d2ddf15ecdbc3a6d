"""torchft: its own checks of a process group, and a training by its Manager while a replica dies and another comes."""
import datetime
import importlib
import os
import signal
import unittest

from cluster import ClusterTest, together

try:
    import torch
    import torchft
except ImportError:
    torch = torchft = None

# A replica's data are its own; its weights after each step are those of one process with the data of all who took part.
TRAINER = """
import datetime, hashlib, os
os.environ["RINGWAY_SOCKET"] = SOCKET
import torch, torchft
import ringway.torchft

asked_to_stop, asked_to_die = [], []
signal.signal(signal.SIGTERM, lambda *_: asked_to_stop.append(True))
signal.signal(signal.SIGUSR1, lambda *_: asked_to_die.append(True))
torch.manual_seed(1)
whole = torch.nn.Sequential(torch.nn.Linear(20, 300), torch.nn.Tanh(), torch.nn.Linear(300, 1))
alone = torch.nn.Sequential(torch.nn.Linear(20, 300), torch.nn.Tanh(), torch.nn.Linear(300, 1))
group = ringway.torchft.ProcessGroupRingway(timeout=datetime.timedelta(seconds=20))
store = torch.distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
manager = torchft.Manager(
    pg=group, min_replica_size=2, use_async_quorum=False, timeout=datetime.timedelta(seconds=20),
    state_dict=whole.state_dict, load_state_dict=whole.load_state_dict,
    rank=0, world_size=1, store_addr="127.0.0.1", store_port=store.port, hostname="127.0.0.1")
model = ringway.torchft.DistributedDataParallel(manager, whole, bucket_cap_mb=0.01)
optimizer = torchft.Optimizer(manager, torch.optim.SGD(model.parameters(), lr=0.05))
reference = torch.optim.SGD(alone.parameters(), lr=0.05)

def loss(of, rank, step):
    x = torch.randn(8, 20, generator=torch.Generator().manual_seed(1000 * rank + step))
    return ((of(x) - x.sum(1, keepdim=True)) ** 2).mean()

is_over = False
while not is_over:
    optimizer.zero_grad()  # agrees on who takes part, and takes the others' state
    step = manager.current_step()
    if asked_to_die:  # while the others wait for its gradients
        os.kill(os.getpid(), signal.SIGKILL)
    alone.load_state_dict(whole.state_dict())
    loss(model, manager.participating_rank(), step).backward()
    stops = torch.tensor([float(bool(asked_to_stop))])
    manager.allreduce(stops, reduce_op=torch.distributed.ReduceOp.MAX).wait()
    optimizer.step()
    if manager.current_step() == step:
        say(f"left out step {step}: {type(group.errored()).__name__}")
        continue
    reference.zero_grad()
    parts = [loss(alone, rank, step) for rank in range(manager.num_participants())]
    (sum(parts) / len(parts)).backward()
    reference.step()
    for a, b in zip(whole.parameters(), alone.parameters()):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
    say(f"step {step} world {manager.num_participants()}")
    is_over = stops.item() > 0
say("weights", hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in whole.parameters())).hexdigest())
manager.shutdown(wait=False)
group.shutdown()
"""


@unittest.skipUnless(torchft, "torch and torchft are not installed: RINGWAY_TEST_TORCH=1 installs them, 5.4 GB")
class TorchftTest(ClusterTest):
    def environment(self, name, value):
        os.environ[name] = value
        self.addCleanup(os.environ.pop, name)

    def test_training_goes_on_while_a_replica_dies_and_another_comes(self):
        from torchft._torchft import LighthouseServer

        lighthouse = LighthouseServer(bind="[::]:0", min_replicas=2, join_timeout_ms=10000, heartbeat_timeout_ms=5000)
        self.addCleanup(lighthouse.shutdown)
        self.environment("TORCHFT_LIGHTHOUSE", lighthouse.address())
        trainers = [self.trainer(i, 3, TRAINER) for i in range(3)]
        for trainer in trainers:
            trainer.said(" world 3", times=5)
        trainers[2].signal(signal.SIGUSR1)
        self.assertEqual(trainers[2].end(), -signal.SIGKILL)
        for trainer in trainers[:2]:
            trainer.said("left out step")
            trainer.said(" world 2", times=5)
        seen = trainers[0].text().count(" world 3\n")
        trainers[2] = self.trainer(2, 3, TRAINER)
        trainers[2].said(" world 3", times=5)
        trainers[0].said(" world 3", times=seen + 5)
        trainers[0].signal(signal.SIGTERM)
        self.assertEqual(len({trainer.said("weights") for trainer in trainers}), 1)
        for trainer in trainers:
            self.assertEqual(trainer.end(), 0, trainer.text())

    def groups(self, world):
        import ringway.torchft

        self.environment("RINGWAY_SOCKET", self.cluster.sockets[0])
        self.store = torch.distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        groups = [ringway.torchft.ProcessGroupRingway(datetime.timedelta(seconds=30)) for _ in range(world)]
        self.configure("first", groups)
        return groups

    def configure(self, name, groups):
        """Makes these the ranks of a new group."""
        address = f"127.0.0.1:{self.store.port}/{self.group}/{name}"
        if hasattr(torchft.process_group, "reconfigure_with_store"):  # after 0.2
            configure = torchft.process_group.reconfigure_with_store
            together(*[lambda i=i: configure(groups[i], address, i, len(groups)) for i in range(len(groups))])
        else:
            together(*[lambda i=i: groups[i].configure(address, "0", i, len(groups)) for i in range(len(groups))])

    def test_another_interface_of_torchft_is_refused_with_what_to_do(self):
        import ringway.torchft
        from torchft.process_group import ProcessGroup, ProcessGroupWrapper

        for owner, names in ((ProcessGroup, ("configure", "set_rank_info")), (ProcessGroupWrapper, ("_create_pg",))):
            had = {name: owner.__dict__[name] for name in names if name in owner.__dict__}
            for name in had:
                delattr(owner, name)
            try:
                with self.assertRaisesRegex(ImportError, "neither as 0.2 .* pip install torchft==0.2.0"):
                    importlib.reload(ringway.torchft)
            finally:
                for name, value in had.items():
                    setattr(owner, name, value)
        importlib.reload(ringway.torchft)

    def test_torchfts_own_checks_of_a_process_group(self):
        from torchft.process_group_test import _COLLECTIVE_TO_FUNC

        groups = self.groups(3)
        for name, check in _COLLECTIVE_TO_FUNC.items():
            if name == "send/recv":  # which the backend lacks
                continue
            with self.subTest(name):
                together(*[lambda i=i, check=check: check(groups[i], i, torch.tensor([i + 1])) for i in range(3)])
        for group in groups:
            self.assertIsNone(group.errored())
            group.shutdown()

    def test_a_group_whose_rank_is_gone_fails_until_it_is_configured_anew(self):
        groups = self.groups(3)
        groups[2].abort()
        options = torch.distributed.AllreduceOptions()
        tensors = [torch.ones(3) for _ in groups]

        def fail(i):
            with self.assertRaises(Exception):
                groups[i].allreduce([tensors[i]], options).wait()
            self.assertIsNotNone(groups[i].errored())

        together(lambda: fail(0), lambda: fail(1))
        self.configure("second", groups[:2])
        together(*[lambda i=i: groups[i].allreduce([tensors[i]], options).wait() for i in range(2)])
        for i in range(2):
            self.assertIsNone(groups[i].errored())
            self.assertEqual(tensors[i].tolist(), [2.0, 2.0, 2.0])
            groups[i].shutdown()


if __name__ == "__main__":
    unittest.main()
