"""What DistributedDataParallel promises holds with the hook: each case runs beside DDP over Gloo, with the same data."""
import inspect
import pathlib
import re
import unittest
import unittest.mock

import ringway
from cluster import ClusterTest, Trainer, together

try:
    import torch
except ImportError:
    torch = None

README = pathlib.Path(__file__).resolve().parents[2] / "client/python/README.md"

# Each rank has one model averaged by Gloo and one by the hook, whose process group is the rank alone.
BESIDE_GLOO = """
import os, contextlib
import torch, ringway.torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

torch.set_num_threads(1)
session = join()
rank = session.rank
dist.init_process_group("gloo", init_method=f"file://{os.path.dirname(SOCKET)}/{GROUP}.store", rank=rank, world_size=WORLD)
alone, _ = dist.new_subgroups(1)

class Net(nn.Module):
    "b is used by rank 0 alone, c by nobody."
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 6)
        self.scale = nn.Parameter(torch.ones(6))
    def forward(self, x):
        return self.a(x) * self.scale + (self.b(x) if rank == 0 else 0)

class OfB(Net):
    def forward(self, x):
        return self.b(self.a(x) * self.scale) + 0 * self.c(x)

class Complex(nn.Module):
    def __init__(self):
        super().__init__()
        self.p = nn.Parameter(torch.tensor([1 + 1j, 2 - 1j, 3j]))
        self.q = nn.Parameter(torch.ones(2, 3, dtype=torch.complex64))
        self.r = nn.Parameter(torch.ones(3))
    def forward(self, x):
        return ((self.q @ (self.p * self.r * 0.05 * torch.complex(x[0, :3], x[0, 3:]))).abs() ** 2).sum() + 0 * x

class Norms(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.linear = nn.BatchNorm1d(6), nn.Linear(6, 6)
        self.register_buffer("phase", torch.tensor([1j * rank, 2.0]))
        self.register_buffer("flags", torch.tensor([rank == 0, True, False]))
    def forward(self, x):
        return self.linear(self.norm(x))

class Images(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = [nn.Conv2d(2, 2, 2).to(memory_format=torch.channels_last) for _ in range(2)]
    def forward(self, x):
        x = x.reshape(1, 2, 4, 6)
        return self.a(x) + (self.b(x) if rank == 0 else 0)

def data(step, part=0):
    generator = torch.Generator().manual_seed(step * 100 + 10 * part + rank)
    return torch.randn(8, 6, generator=generator) + 10 * rank

def train_step(model, step, accumulate=0):
    for part in range(accumulate):
        with model.no_sync():
            (model(data(step, part + 1)) ** 2).mean().backward()
    (model(data(step)) ** 2).mean().backward()

def compare(name, make=Net, steps=4, set_to_none=True, accumulate=0, hook_options={}, **arguments):
    models, seen = [], ([], [])
    for group, buffers in zip((dist.group.WORLD, alone), seen):
        torch.manual_seed(1)
        models.append(DDP(make(), process_group=group, **arguments))
        for module in models[-1].modules():
            if isinstance(module, nn.BatchNorm1d):
                module.register_forward_pre_hook(lambda m, _, buffers=buffers: buffers.append(m.running_mean.clone()))
    hook = ringway.torch.ddp_hook(models[1], session, **hook_options)
    optimizers = [torch.optim.SGD(each.parameters(), lr=1e-3, momentum=0.9, weight_decay=0.1) for each in models]
    for step in range(steps):
        for model, optimizer in zip(models, optimizers):
            optimizer.zero_grad(set_to_none=set_to_none)
            train_step(model, step, accumulate)
        for (parameter, a), b in zip(models[0].named_parameters(), models[1].parameters()):
            assert (a.grad is None) == (b.grad is None), (name, step, parameter, a.grad, b.grad)
            if a.grad is not None:
                torch.testing.assert_close(b.grad, a.grad, msg=lambda text: f"{name} {step} {parameter}: {text}")
        for optimizer in optimizers:
            optimizer.step()
        torch.testing.assert_close(list(models[1].parameters()), list(models[0].parameters()))
    for a, b in zip(*seen):
        torch.testing.assert_close(b, a, msg=lambda text: f"{name}: {text}")
    assert len(seen[0]) == len(seen[1])
    say(f"{name} is as by Gloo")
    return models, hook
"""


@unittest.skipUnless(torch, "torch is not installed: RINGWAY_TEST_TORCH=1 installs it, 5.4 GB")
class DdpPromisesTest(ClusterTest):
    def check(self, cases, world=2):
        trainers = [self.trainer(i, world, BESIDE_GLOO + cases + "\nsay('all is done')\n") for i in range(world)]
        for trainer in trainers:
            for times in range(1, cases.count("compare(") + 1):  # each has its time
                trainer.said("is as by Gloo", times)
            trainer.said("all is done")
            self.assertEqual(trainer.end(), 0, trainer.text())

    def test_parameters_that_some_ranks_use_are_the_same_on_all(self):
        self.check("""
compare("unused", find_unused_parameters=True)
compare("zeroed", find_unused_parameters=True, set_to_none=False)
compare("as views", find_unused_parameters=True, gradient_as_bucket_view=True)
compare("views zeroed", find_unused_parameters=True, gradient_as_bucket_view=True, set_to_none=False)
compare("in buckets", find_unused_parameters=True, bucket_cap_mb=0.0001)
compare("overlapped", find_unused_parameters=True, bucket_cap_mb=0.0001, hook_options={"overlap_mb": 0.0001})
compare("accumulated", find_unused_parameters=True, accumulate=2)
compare("static", static_graph=True)
compare("static in buckets", static_graph=True, bucket_cap_mb=0.0001, gradient_as_bucket_view=True)
compare("all used", OfB)
compare("by other strides", Images, find_unused_parameters=True)
""", world=3)

    def test_complex_gradients_are_averaged_as_a_whole(self):
        self.check("""
models, _ = compare("complex", Complex)
p = models[1].module.p
assert p.is_complex() and p.grad.imag.abs().min() > 0
compare("complex in chunks", Complex, hook_options={"overlap_mb": 1e-5})
compare("complex unused", Complex, find_unused_parameters=True)
""")

    def test_buffers_are_those_of_rank_0_in_each_forward_pass(self):
        self.check("""
models, _ = compare("buffers", Norms)
models[1].eval(), models[0].eval()
with torch.no_grad():
    for model in models:  # Gloo's broadcasts now
        model(data(99))
torch.testing.assert_close(list(models[1].buffers()), list(models[0].buffers()))
assert models[1].module.phase[0] == 0 and models[1].module.flags[0]
compare("with gradients unused", Norms, find_unused_parameters=True)
compare("accumulated", Norms, accumulate=2)

def own(**arguments):
    models, _ = compare("own buffers", Norms, **arguments)
    assert models[1].module.phase[0] == 1j * rank, models[1].module.phase
own(broadcast_buffers=False)

def ignoring():
    module = Norms()
    DDP._set_params_and_buffers_to_ignore_for_model(module, ["norm.running_mean", "linear.bias"])
    return module
models, _ = compare("ignored", ignoring)
means = torch.empty(2, 6)
session.all_gather(models[1].module.norm.running_mean, out=means)
assert not means[0].allclose(means[1])
""")

    def test_arguments_do_what_they_do_with_gloo(self):
        self.check("""
compare("the defaults", OfB)
compare("device_ids, output_device and dim", OfB, device_ids=None, output_device=None, dim=0)
compare("bucket_cap_mb_list", OfB, bucket_cap_mb_list=[1, 2])
compare("check_reduction", OfB, check_reduction=True)
for find in False, True:
    make = Net if find else OfB
    compare("batched_grad_copy", make, batched_grad_copy=True, find_unused_parameters=find)
    compare("lazy_bucket_allocation", make, lazy_bucket_allocation=True, find_unused_parameters=find)
models, _ = compare("forward_sync_buffers", Norms, forward_sync_buffers=False)
assert models[1].module.phase[0] == 1j * rank, "Gloo's are rank 0's, by init_sync"

from torch.distributed.device_mesh import init_device_mesh
for arguments in {"process_group": dist.group.WORLD}, {"device_mesh": init_device_mesh("cpu", (WORLD,))}:
    try:
        ringway.torch.ddp_hook(DDP(OfB(), **arguments), session)
    except ringway.InvalidArgument as error:
        assert "process group has 2 ranks" in str(error), error
    else:
        raise AssertionError(arguments)
""")


# Without Gloo, whose group ends with its first rank. What a step leaves is said, to be the same on all who made it.
ELASTIC = """
import hashlib
import torch, ringway.torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

torch.set_num_threads(1)
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
torch.manual_seed(1)

class Net(nn.Module):
    "b is used by rank 0 and newcomers, c by nobody."
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 6)
        self.norm = nn.BatchNorm1d(6)
    def forward(self, x):
        return self.norm(self.a(x)) + (self.b(x) if uses_b else 0)

model = DDP(Net(), **ARGUMENTS)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, weight_decay=0.1)
for p in model.parameters():
    optimizer.state[p]["momentum_buffer"] = torch.zeros_like(p)
arrays = [*model.parameters(), *model.buffers(), *(each["momentum_buffer"] for each in optimizer.state.values())]
state = ringway.SharedState.join(arrays, GROUP, socket=SOCKET, wait_world=WORLD, timeout=60)
session = state.session
uses_b = session.rank == 0 or state.revision > 0
say(f"begins as rank {session.rank}")
hook = ringway.torch.ddp_hook(model, session)
generator = torch.Generator().manual_seed(session.peer_id)
while True:
    optimizer.zero_grad()
    (model(torch.randn(8, 6, generator=generator) + session.peer_id) ** 2).mean().backward()
    optimizer.step()
    digest = hashlib.sha256(b"".join(x.detach().numpy().tobytes() for x in arrays)).hexdigest()[:16]
    used = "".join("-" if p.grad is None else "x" for p in model.parameters())
    say(f"step {state.revision} world {hook.result.world_size} used {used} {digest}")
    state.advance(hook.take_update())
"""


@unittest.skipUnless(torch, "torch is not installed: RINGWAY_TEST_TORCH=1 installs it, 5.4 GB")
class DdpElasticTest(ClusterTest):
    def check(self, arguments):
        """Kills the lowest rank of three, then lets another come: all that make a step end with the same bytes."""
        script = f"ARGUMENTS = dict({arguments})\n{ELASTIC}"
        trainers = sorted([self.trainer(i, 3, script) for i in range(3)], key=lambda trainer: trainer.said("begins as rank"))
        for trainer in trainers:
            trainer.said(" world 3 used", times=3)
        trainers[0].kill()
        for trainer in trainers[1:]:
            trainer.said(" world 2 used", times=3)
        path = self.cluster.directory / f"{self.group}.newcomer.out"
        newcomer = Trainer(path, script, self.cluster.sockets[0], self.group, 3)
        self.addCleanup(newcomer.kill)
        newcomer.said(" world 3 used", times=3)
        steps = {}
        for trainer in (*trainers, newcomer):
            trainer.kill()
            for line in trainer.text().splitlines(keepends=True):
                if line.startswith("step ") and line.endswith("\n"):
                    steps.setdefault(int(line.split()[1]), []).append(line)
        differing = {step: lines for step, lines in steps.items() if len(set(lines)) > 1}
        self.assertEqual(differing, {})
        self.assertGreater(sum(len(lines) > 1 for lines in steps.values()), 8)
        patterns = [lines[0].split()[5] for _, lines in sorted(steps.items())]
        return [pattern for at, pattern in enumerate(patterns) if at == 0 or patterns[at - 1] != pattern]

    def test_survivors_and_newcomers_agree_on_what_is_used(self):
        self.assertEqual(self.check("find_unused_parameters=True"), ["xxxx--xx", "xx----xx", "xxxx--xx"])

    def test_newcomer_begins_a_static_graph_that_others_are_in(self):
        self.assertEqual(self.check("static_graph=True, bucket_cap_mb=0.0001"), ["xxxx--xx", "xx----xx", "xxxx--xx"])

    def test_ranks_that_begin_with_other_parameters_are_refused_on_all(self):
        # With init_sync all would have begun with rank 0's parameters.
        script = ELASTIC.replace("torch.manual_seed(1)", "torch.manual_seed(ord(SOCKET[-6]))")
        script = script.replace("arrays = [*model.parameters(), *model.buffers(), *", "arrays = [*")
        script = script.replace("while True:", """
for _ in range(2):
    try:
        model(torch.ones(2, 6)).sum().backward()
    except ringway.Mismatch as error:
        say("refused:", error)
with torch.no_grad():
    for p in model.parameters():
        p.fill_(1)
while True:""")
        trainers = [self.trainer(i, 2, f"ARGUMENTS = dict(find_unused_parameters=True)\n{script}") for i in range(2)]
        for trainer in trainers:
            self.assertIn("another a.weight", trainer.said("refused:", times=2))
            trainer.said(" world 2 used", times=2)
        self.assertEqual(*[trainer.said("step 2 ") for trainer in trainers])


class RankTaken:
    """A session that takes itself for another rank, as one whose view has changed."""

    def __init__(self, session, rank):
        self.rank, self.all_reduce, self.all_reduce_async = rank, session.all_reduce, session.all_reduce_async


@unittest.skipUnless(torch, "torch is not installed: RINGWAY_TEST_TORCH=1 installs it, 5.4 GB")
class PassAgreementTest(ClusterTest):
    def check(self, ranks):
        """Whoever takes itself for rank 0, all end with the buffers of the rank that is it, and know what any has used."""
        from ringway._ddp_agreement import PassAgreement

        def agree(session):
            buffers = [torch.tensor([session.rank + 1j, 0]), torch.tensor(session.rank == 0), torch.full((3,), session.rank + 0.1)]
            defined = [session.rank == 1, False, True]
            agreement = PassAgreement(RankTaken(session, ranks[session.rank]), {}, defined, buffers)
            agreement.finish()
            agreement.settle()
            agreement.adopt_buffers()
            return agreement.used(), buffers

        for used, buffers in together(*[lambda s=s: agree(s) for s in self.join(3)]):
            self.assertEqual(used, [0, 2])
            self.assertEqual([x.tolist() for x in buffers], [[1j, 0], True, torch.full((3,), 0.1).tolist()])

    def test_rank_0_sends_the_buffers(self):
        self.check([0, 1, 2])

    def test_lowest_rank_sends_the_buffers_when_nobody_has(self):
        self.check([1, 2, 3])

    def test_lowest_rank_sends_the_buffers_when_several_have(self):
        self.check([1, 0, 0])


@unittest.skipUnless(torch, "torch is not installed: RINGWAY_TEST_TORCH=1 installs it, 5.4 GB")
class DdpArgumentsTest(ClusterTest):
    DAEMONS = 1

    def setUp(self):
        super().setUp()
        torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
        self.addCleanup(torch.distributed.destroy_process_group)
        self.session, = self.join(1)
        self.layers = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3))

    def model(self, **arguments):
        return torch.nn.parallel.DistributedDataParallel(self.layers, **arguments)

    def check_refused(self, model, *words, kind=ringway.NotSupported):
        import ringway.torch

        with self.refused(kind, *words):
            ringway.torch.ddp_hook(model, self.session)

    def test_models_of_which_the_hook_would_break_a_promise_are_refused(self):
        from torch.distributed.optim import _apply_optimizer_in_backward

        named = list(self.layers.named_parameters())
        self.layers.frozen = torch.nn.Parameter(torch.ones(1), requires_grad=False)  # DDP delays all but not the last one
        for delayed in named[:1], named:
            self.check_refused(
                self.model(delay_all_reduce_named_params=delayed, param_to_hook_all_reduce=self.layers[1].weight),
                "delay_all_reduce_named_params")
        self.check_refused(self.model(skip_all_reduce_unused_params=True), "skip_all_reduce_unused_params")
        for attribute in "mixed_precision", "is_multi_device_module":  # which take a GPU
            model = self.model()
            setattr(model, attribute, True)
            self.check_refused(model)
        with torch._dynamo.config.patch(optimize_ddp="python_reducer"):
            self.check_refused(self.model(), "python_reducer")
        self.layers.append(torch.nn.Embedding(3, 3, sparse=True))
        self.check_refused(self.model(), "sparse")
        self.layers[2] = torch.nn.Linear(3, 3)
        model = self.model()
        self.layers[2] = torch.nn.SyncBatchNorm(3)  # which DDP takes with a GPU only
        self.check_refused(model, "SyncBatchNorm")
        self.layers[2] = torch.nn.Linear(3, 3)
        _apply_optimizer_in_backward(torch.optim.SGD, self.layers[2].parameters(), {"lr": 0.1})
        self.check_refused(self.model(), "optimizers in the backward pass")
        self.check_refused(self.layers, "Sequential", kind=ringway.InvalidArgument)

    def test_second_hook_is_refused(self):
        import ringway.torch

        model = self.model()
        ringway.torch.ddp_hook(model, self.session)  # which has called register_comm_hook
        self.check_refused(model, "communication hook already", kind=ringway.InvalidArgument)

    def test_uneven_inputs_are_refused_when_the_context_begins(self):
        import ringway.torch
        from torch.distributed.algorithms.join import Join

        model = self.model()
        ringway.torch.ddp_hook(model, self.session)
        with self.refused(ringway.NotSupported, "leaves the session"):
            model.join()
        with self.refused(ringway.NotSupported, "leaves the session"):
            Join([model])

    def test_bucket_that_the_gradients_do_not_cover_is_refused_after_the_pass(self):
        import ringway.torch
        from ringway import _ddp_model

        model = self.model()
        hook = ringway.torch.ddp_hook(model, self.session)
        cover = _ddp_model.gradients_of

        def of_a_longer_bucket(bucket):
            buffer = torch.cat([bucket.buffer(), torch.ones(1)])
            return cover(unittest.mock.Mock(buffer=lambda: buffer, parameters=bucket.parameters))

        with unittest.mock.patch.object(_ddp_model, "gradients_of", of_a_longer_bucket):
            with self.refused(ringway.NotSupported, "DDP's bucket"):
                model(torch.ones(4, 3)).sum().backward()
        self.assertIsNone(hook.result)
        model(torch.ones(4, 3)).sum().backward()
        self.assertEqual(hook.result.world_size, 1)

    def test_readme_has_a_row_for_each_argument_and_a_test_each_row(self):
        table = README.read_text().partition("| DistributedDataParallel |")[2].partition("\n\n")[0]
        rows = {word for row in table.splitlines() for word in re.findall(r"`(\w+)`", row.split("|")[1] if "|" in row else "")}
        arguments = set(inspect.signature(torch.nn.parallel.DistributedDataParallel.__init__).parameters)
        self.assertEqual(arguments - rows, {"self", "module"})
        text = pathlib.Path(__file__).read_text()
        self.assertEqual([word for word in rows if not re.search(rf"\b{word}\b", text)], [])
