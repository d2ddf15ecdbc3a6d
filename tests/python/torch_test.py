"""PyTorch's models are trained by several processes, whoever dies or comes."""
import pathlib
import signal
import sys
import unittest
import unittest.mock

import ringway
from cluster import ClusterTest, Process

try:
    import torch
except ImportError:
    torch = None

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "client/python/examples"

# A rank's data are its own; its weights after each step are those of one process with everybody's data.
DDP = """
import torch, ringway.torch
import torch.distributed as dist

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
torch.manual_seed(1)
device = "cuda" if torch.cuda.is_available() else "cpu"
model = torch.nn.Sequential(torch.nn.Linear(20, 300), torch.nn.Tanh(), torch.nn.Linear(300, 1)).to(device)
alone = torch.nn.Sequential(torch.nn.Linear(20, 300), torch.nn.Tanh(), torch.nn.Linear(300, 1)).to(device)
alone.load_state_dict(model.state_dict())
session = join()
model = torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=0.01)
hook = ringway.torch.ddp_hook(model, session)
optimizers = [torch.optim.SGD(each.parameters(), lr=0.05) for each in (model, alone)]

def data(peer, step):
    generator = torch.Generator().manual_seed(1000 * peer + step)
    return torch.randn(8, 20, generator=generator).to(device)

def loss(of, x):
    return ((of(x) - x.sum(1, keepdim=True)) ** 2).mean()

step = 0
while True:
    for optimizer in optimizers:
        optimizer.zero_grad()
    loss(model, data(session.peer_id, step)).backward()
    parts = [loss(alone, data(peer, step)) for peer in hook.result.contributors]
    (sum(parts) / len(parts)).backward()
    for optimizer in optimizers:
        optimizer.step()
    for a, b in zip(model.parameters(), alone.parameters()):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
    step += 1
    say(f"step {step} world {hook.result.world_size}")
"""

# The same in two chunks: the first is on its way when the first layer's weights are yet to come, a bucket of their own.
DDP_OVERLAPPED = DDP.replace("hook = ringway.torch.ddp_hook(model, session)", """
events = []
hook = ringway.torch.DdpHook(model, session, {}, 0.01)
begin = ringway.torch._ChunkAverage.__init__
def noted(self, *arguments):
    events.append("begun")
    begin(self, *arguments)
ringway.torch._ChunkAverage.__init__ = noted
def average(state, bucket):
    future = hook._average(state, bucket)
    events.append("last" if bucket.is_last() else "bucket")
    return future
model.register_comm_hook(None, average)
""").replace("bucket_cap_mb=0.01", "bucket_cap_mb=0.001").replace("    parts = [loss", """    assert len(hook.results) == 2
    if step > 0:  # DDP makes the first pass in one bucket
        assert "bucket" in events[events.index("begun") + 1:], events
    events.clear()
    if len({tuple(result.contributors) for result in hook.results}) > 1:  # one died between them
        alone.load_state_dict(model.module.state_dict())
        continue
    parts = [loss""")


@unittest.skipUnless(torch, "torch is not installed: RINGWAY_TEST_TORCH=1 installs it, 5.4 GB")
class DdpTest(ClusterTest):
    def test_gradients_are_those_of_one_process_with_all_data_and_a_death_takes_one_away(self):
        self.check_a_death(DDP)

    def test_backward_raises_what_the_collective_failed_with(self):
        import ringway.torch

        torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
        self.addCleanup(torch.distributed.destroy_process_group)
        session = self.join(1)[0]
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 2))
        hook = ringway.torch.ddp_hook(model, session)
        model(torch.ones(3, 4)).sum().backward()
        self.assertEqual(hook.result.world_size, 1)
        self.assertFalse(hook.take_update())
        hook._session = unittest.mock.Mock(all_reduce_many_async=unittest.mock.Mock(side_effect=ringway.Rejoined("for a test")))
        for _ in range(2):
            with self.assertRaises(ringway.Rejoined):
                model(torch.ones(3, 4)).sum().backward()
        hook._session = session
        model(torch.ones(3, 4)).sum().backward()  # DDP is none the worse for it
        self.assertEqual(hook.result.world_size, 1)
        session.leave()
        with self.refused(ringway.Left):
            model(torch.ones(3, 4)).sum().backward()

    def test_chunks_travel_while_the_backward_pass_goes_on(self):
        self.check_a_death(DDP_OVERLAPPED)

    def test_chunks_have_feedback_of_their_own(self):
        self.check_a_death(DDP_OVERLAPPED.replace(
            "session, {}, 0.01", "session, {'codec': 'int8', 'error_feedback': 'g'}, 0.01").replace(
            "rtol=1e-4, atol=1e-5", "rtol=0.5, atol=0.5"))

    def test_gradients_that_are_not_finite_are_left_out(self):
        for script in (DDP, DDP_OVERLAPPED):
            with self.subTest(overlapped=script is DDP_OVERLAPPED):
                self.group = f"{self._testMethodName}-{script is DDP_OVERLAPPED}"
                script = script.replace("ddp_hook(model, session)", "ddp_hook(model, session, skip_nonfinite=True)")
                script = script.replace("session, {}, 0.01", "session, {}, 0.01, skip_nonfinite=True")
                script = script.replace("return torch.randn(8, 20, generator=generator).to(device)", """
    x = torch.randn(8, 20, generator=generator)
    if (peer + step) % 5 == 0:
        x[0] = float("nan")
        left_out.extend([step] if peer == session.peer_id else [])
    return x.to(device)
""").replace("step = 0\n", "step, left_out = 0, []\n").replace("    step += 1\n", """
    assert hook.left_out == len(left_out), (hook.left_out, left_out)
    assert all(p.isfinite().all() for p in model.parameters())
    step += 1
    if len(hook.result.contributors) < hook.result.world_size:
        say("somebody was left out")
""")
                trainers = self.check_a_death(script)
                for trainer in trainers[:2]:
                    trainer.said("somebody was left out", times=2)
                self.assertIn("gradients are not finite", "".join(trainer.text() for trainer in trainers))

    def test_what_is_ringways_in_a_step_is_a_range_of_the_profiler(self):
        import ringway.torch

        torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
        self.addCleanup(torch.distributed.destroy_process_group)
        session = self.join(1)[0]
        layer = torch.nn.Linear(4, 2)
        model = torch.nn.parallel.DistributedDataParallel(layer)
        ringway.torch.ddp_hook(model, session)
        outer = ringway.torch.DiLoCo(layer.parameters(), session, every=1)
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            model(torch.ones(3, 4)).sum().backward()
            outer.step()
            outer.settle()
        ranges = {event.name for event in profile.events() if event.name.startswith("ringway::")}
        of_ddp = {"ringway::ddp_submit", "ringway::ddp_end_pass", "ringway::ddp_wait"}
        self.assertEqual(ranges, of_ddp | {"ringway::diloco_step", "ringway::diloco_wait"})

    def in_chunks(self):
        """A model of many chunks, the hook, and its session, of which this process is the one rank."""
        import ringway.torch

        torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
        self.addCleanup(torch.distributed.destroy_process_group)
        session = self.join(1)[0]
        layers = torch.nn.Sequential(*[torch.nn.Linear(50, 50) for _ in range(4)])
        model = torch.nn.parallel.DistributedDataParallel(layers, bucket_cap_mb=0.01)
        return model, ringway.torch.ddp_hook(model, session, overlap_mb=0.01), session

    def test_pass_of_which_a_part_was_refused_here_alone_is_the_last(self):
        model, hook, session = self.in_chunks()
        many = session.all_reduce_many_async
        begun = []

        def refuse_the_second(*arguments, **options):
            begun.append(1)
            if len(begun) == 2:
                raise ringway.ResourceExhausted("for a test")
            return many(*arguments, **options)

        hook._session = unittest.mock.Mock(all_reduce_many_async=refuse_the_second)
        with self.assertRaises(ringway.ResourceExhausted):
            model(torch.ones(3, 50)).sum().backward()
        with self.assertRaisesRegex(RuntimeError, "ended in its middle"):
            model(torch.ones(3, 50)).sum().backward()

    def test_a_pass_that_ends_in_its_middle_is_not_mixed_with_the_next(self):
        model, hook, _ = self.in_chunks()
        model(torch.ones(3, 50)).sum().backward()
        self.assertGreater(len(hook.results), 2)
        self.assertLess(max(len(chunk) for chunk in hook._chunks), 4)

        hook._works.append("of a pass that was left")
        with self.assertRaisesRegex(RuntimeError, "ended in its middle"):
            model(torch.ones(3, 50)).sum().backward()

    def test_the_gpt_learns_while_one_dies_and_another_comes(self):
        self.check_gpt("ddp.py", 1)

    def test_the_gpt_learns_by_diloco_while_one_dies_and_another_comes(self):
        self.check_gpt("diloco.py", 10)

    def check_a_death(self, script):
        trainers = [self.trainer(i, 3, script) for i in range(3)]
        for trainer in trainers:
            trainer.said("step 3 world 3")
        trainers[2].kill()
        for trainer in trainers[:2]:
            trainer.said(" world 2", times=3)
        return trainers

    def check_gpt(self, example, first_step):
        text = pathlib.Path(self.cluster.directory, "text")
        text.write_bytes(b"to be, or not to be: that is the question. " * 100)

        def start(index, name):
            trainer = Process(self.cluster.directory / f"{example}.{name}", [
                sys.executable, "-B", EXAMPLES / example, self.cluster.sockets[index], 3, text])
            self.addCleanup(trainer.kill)
            return trainer

        trainers = [start(i, i) for i in range(3)]
        first = float(trainers[0].said(f"step {first_step} ").split()[3])
        trainers[0].said(f"step {10 * first_step} ")
        trainers[2].kill()
        trainers[0].said(" world 2")
        trainers[2] = start(2, "newcomer")
        trainers[2].said(" world 3", times=20)
        trainers[1].signal(signal.SIGTERM)
        ends = [trainer.said("weights ") for trainer in trainers]
        self.assertEqual(len(set(ends)), 1, ends)
        for trainer in trainers:
            self.assertEqual(trainer.end(), 0)
            *_, last, _ = trainer.text().splitlines()
            self.assertLess(float(last.split()[3]), first / 2)
