"""torch.distributed by the backend "ringway": the same program by Gloo gives the same, element for element."""
import os
import sys
import unittest

from cluster import ClusterTest, Process

try:
    import torch
except ImportError:
    torch = None

WORLD = 3

# Everything that the backend has, in the textbook's words; the outcome of every call, in one file a rank.
PROGRAM = """
import sys, time, torch
from datetime import timedelta
import torch.distributed as dist
from torch.distributed.optim import ZeroRedundancyOptimizer
import ringway.torch
backend, store, rank, out, device = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4], sys.argv[5]
torch.set_default_device(device)
WORLD = 3
dist.init_process_group(backend, init_method="file://" + store, rank=rank, world_size=WORLD)
said = []
def say(*tensors):
    said.extend(tensor.cpu().clone() for tensor in tensors)
def mine(*shape, dtype=torch.float32, of=rank):
    count = torch.Size(shape).numel()
    return ((torch.arange(count) * 7 + of * 5) % 11 + 1).to(dtype).view(shape)

for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int32, torch.int64):
    for op in (dist.ReduceOp.SUM, dist.ReduceOp.PRODUCT, dist.ReduceOp.MIN, dist.ReduceOp.MAX):
        x = mine(5, 3, dtype=dtype)
        dist.all_reduce(x, op)
        say(x)
for op in (dist.ReduceOp.BAND, dist.ReduceOp.BOR, dist.ReduceOp.BXOR):
    x = mine(40, dtype=torch.int32)
    dist.all_reduce(x, op)
    say(x)
x = mine(6, 4).t()  # not contiguous
dist.all_reduce(x)
say(x)
for root in range(WORLD):
    x = mine(9)
    dist.broadcast(x, root)
    say(x)
    x = mine(9)
    dist.reduce(x, root)
    if rank == root:
        say(x)
    parts = [torch.zeros(4) for _ in range(WORLD)] if rank == root else None
    dist.gather(mine(4), parts, dst=root)
    if rank == root:
        say(*parts)
    x = torch.zeros(4)
    dist.scatter(x, [mine(4, of=root + i) for i in range(WORLD)] if rank == root else None, src=root)
    say(x)
parts = [torch.zeros(2, 3) for _ in range(WORLD)]
dist.all_gather(parts, mine(2, 3))
say(*parts)
whole = torch.zeros(2 * WORLD, 3)
dist.all_gather_into_tensor(whole, mine(2, 3))
say(whole)
x = torch.zeros(4)
dist.reduce_scatter(x, [mine(4, of=rank + i) for i in range(WORLD)])
say(x)
x = torch.zeros(4)
dist.reduce_scatter_tensor(x, mine(4 * WORLD))
say(x)
parts = [torch.zeros(3) for _ in range(WORLD)]
dist.all_to_all(parts, [mine(3, of=10 * rank + i) for i in range(WORLD)])
say(*parts)
x = torch.zeros(2 * WORLD)
dist.all_to_all_single(x, mine(2 * WORLD))
say(x)
sizes = [(rank + i) % 3 for i in range(WORLD)]  # symmetric
x = torch.zeros(sum(sizes))
dist.all_to_all_single(x, mine(sum(sizes)), sizes, sizes)
say(x)
to, source = (rank + 1) % WORLD, (rank - 1) % WORLD
for tag, dtype in enumerate((torch.float32, torch.bfloat16, torch.bool, torch.complex64)):
    x, y = mine(6, 4).to(dtype), torch.zeros(6, 4, dtype=dtype)
    work = dist.isend(x, to, tag=tag)
    dist.recv(y, source, tag=tag)
    work.wait()
    say(y)
received = [torch.zeros(100_000), torch.zeros(3)]
sent = [mine(100_000), mine(3)]
for work in dist.batch_isend_irecv([*[dist.P2POp(dist.isend, x, to) for x in sent],
                                    *[dist.P2POp(dist.irecv, x, source) for x in received]]):
    work.wait()
say(*received)
works = [dist.all_reduce(x, async_op=True) for x in [mine(1000, of=rank + i) for i in range(20)]]
for work in works:
    assert work.wait()
    say(work.result()[0])
late = dist.isend(mine(3), to, tag=99)  # received after all that follows
if backend == "ringway":
    del late  # and nobody waits for it, where Gloo would
x, y, z = mine(7), mine(8), mine(9)
future = dist.all_reduce(x, async_op=True).get_future()
work = dist.all_reduce(y, async_op=True)
dist.all_reduce(z, async_op=True)  # which nobody waits for
future.wait()
while not work.is_completed() or not torch.equal(z, sum(mine(9, of=i) for i in range(WORLD))):
    time.sleep(0.001)
say(x, y, z)
x = torch.zeros(3)
dist.recv(x, source, tag=99)
say(x)
x = torch.sparse_coo_tensor([[rank, 4]], mine(2), (6,))
dist.all_reduce(x)
say(x.to_dense())
many = [mine(3, of=rank + i) for i in range(300)]  # more than a session takes at once
works = [dist.all_reduce(x, async_op=True) for x in many]
for work in works:
    work.wait()
say(*many)
weights = [torch.nn.Parameter(torch.full((2,), float(i))) for i in range(600)]
optimizer = ZeroRedundancyOptimizer(weights, optimizer_class=torch.optim.SGD, lr=0.1)
for weight in weights:
    weight.grad = mine(2, of=0)
optimizer.step()
say(torch.stack([weight.detach() for weight in weights]))
group, x, y, z = dist.group.WORLD, mine(7), mine(8), mine(9)
parts = [torch.zeros(2) for _ in range(WORLD)]
group.allreduce(x, dist.ReduceOp.MAX).wait()
group.broadcast(y, 1).wait()
group.reduce(z, 2).wait()
group.allgather(parts, mine(2)).wait()
say(x, y, *parts, *([z] if rank == 2 else []))
dist.barrier()
dist.monitored_barrier()
everything = [None] * WORLD
dist.all_gather_object(everything, {"rank": rank, "text": "x" * (rank + 1)})
assert everything == [{"rank": i, "text": "x" * (i + 1)} for i in range(WORLD)]
some = [{"of": rank}]
dist.broadcast_object_list(some, src=1)
assert some == [{"of": 1}]
objects = [None] * WORLD if rank == 1 else None
dist.gather_object({"rank": rank}, objects, dst=1)
assert rank != 1 or objects == [{"rank": i} for i in range(WORLD)]
some = [None]
dist.scatter_object_list(some, [f"to {i}" for i in range(WORLD)] if rank == 2 else None, src=2)
assert some == [f"to {rank}"]
if rank == 0:
    dist.send_object_list(["message", 7], dst=1)
if rank == 1:
    some = [None, None]
    dist.recv_object_list(some, src=0)
    assert some == ["message", 7]
x = mine(6)
dist.reduce(y := mine(6).to(torch.int32), 1, dist.ReduceOp.BXOR)
with dist.distributed_c10d._coalescing_manager():
    dist.all_reduce(x)
    dist.all_reduce(z := mine(4))
say(x, z, *([y] if rank == 1 else []))
dist.set_timeout(timedelta(seconds=240))
dist.barrier(timeout=timedelta(seconds=120))
assert dist.get_backend() == backend and dist.is_backend_available(backend)
half = dist.split_group(split_ranks=[[2, 0]], timeout=timedelta(seconds=240))
if rank != 1:
    x = mine(7)
    dist.broadcast(x, group_src=0, group=half)
    say(x)
alone, _ = dist.new_subgroups(1)
dist.all_reduce(x := mine(3), group=alone)
say(x)
pair = dist.new_group([0, 2])
if rank != 1:
    x = mine(7)
    dist.all_reduce(x, group=pair)
    say(x)
torch.manual_seed(3)
with torch.device("cpu"):
    model = torch.nn.Sequential(torch.nn.Linear(6, 20), torch.nn.ReLU(), torch.nn.Linear(20, 1))
model = torch.nn.parallel.DistributedDataParallel(model.to(device))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(5):
    optimizer.zero_grad()
    model(mine(8, 6)).square().mean().backward()
    optimizer.step()
say(*[parameter.detach() for parameter in model.parameters()])
dist.destroy_process_group()
torch.save(said, out)
"""

LOST = """
import os, signal, sys, torch
import torch.distributed as dist
import ringway.torch
store, rank = sys.argv[1], int(sys.argv[2])
dist.init_process_group("ringway", init_method="file://" + store, rank=rank, world_size=3)
if sys.argv[3] == "ddp":
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(50, 50))
def step():
    if sys.argv[3] == "ddp":  # whose reducer, in C++, waits for futures
        model(torch.ones(50)).sum().backward()
    else:
        dist.all_reduce(torch.ones(3))
for _ in range(3):  # DDP has made its buckets then
    step()
if rank == 1:
    os.kill(os.getpid(), signal.SIGKILL)
try:
    for _ in range(1000):
        step()
except Exception as error:
    print("raised", type(error).__name__, error, flush=True)
else:
    print("raised nothing", flush=True)
"""


# Messages that nobody sends and nobody receives are on their way when the group ends, and when the interpreter does.
END = """
import sys, torch
import torch.distributed as dist
import ringway.torch
store, rank = sys.argv[1], int(sys.argv[2])
def begin(name):
    dist.init_process_group("ringway", init_method="file://" + store + name, rank=rank, world_size=3)
    x = torch.ones(3)
    dist.all_reduce(x)
    assert x.tolist() == [3, 3, 3]
    for _ in range(3):
        dist.isend(torch.ones(1_000_000), (rank + 1) % 3, tag=7)
        dist.irecv(torch.ones(5), (rank + 1) % 3, tag=8)
    future = dist.irecv(torch.ones(5), (rank + 1) % 3, tag=9).get_future()
    dist.barrier()  # nobody leaves while others begin
    return future
begin("1")
dist.destroy_process_group()
future = begin("2")
print("ended", flush=True)
"""


# Futures that have callbacks are open when the interpreter ends; those of one rank's never complete by themselves.
EXIT = """
import sys, torch
import torch.distributed as dist
import ringway.torch
store, rank = sys.argv[1], int(sys.argv[2])
dist.init_process_group("ringway", init_method="file://" + store, rank=rank, world_size=3)
futures, ended = [], 0
def callback(future):
    global ended
    ended += 1
    if ended == 60:
        print("all callbacks ran", flush=True)
for tag in range(30):
    futures.append(dist.irecv(torch.ones(5), (rank + 1) % 3, tag=tag).get_future().then(callback))
    futures.append(dist.irecv(torch.ones(5), (rank + 2) % 3, tag=tag).get_future().then(callback))
many = [dist.irecv(torch.ones(5), (rank + 1) % 3, tag=tag) for tag in range(100, 500)]
dist.barrier(async_op=True).get_future().then(callback)
dist.monitored_barrier()
"""


@unittest.skipUnless(torch, "torch is not installed: RINGWAY_TEST_TORCH=1 installs it, 5.4 GB")
class C10dTest(ClusterTest):
    def processes(self, program, *words):
        out = []
        for rank in range(WORLD):
            path = self.cluster.directory / f"{self.group}.{words[0].rpartition('/')[2]}.{rank}"
            argv = [sys.executable, "-B", "-c", program, *[x.format(rank=rank, path=path) for x in words]]
            environment = {**os.environ, "RINGWAY_SOCKET": self.cluster.sockets[rank], "OMP_NUM_THREADS": "1"}
            out.append(Process(f"{path}.log", argv, env=environment))
            self.addCleanup(out[-1].kill)
        return out

    def test_program_gives_what_gloo_gives(self):
        results = {}
        on_gpu = [("ringway", "cuda")] if torch.cuda.is_available() else []
        for backend, device in [("gloo", "cpu"), ("ringway", "cpu"), *on_gpu]:
            store = str(self.cluster.directory / f"store-{backend}-{device}")
            results[backend, device] = []
            for process in self.processes(PROGRAM, backend, store, "{rank}", "{path}.pt", device):
                self.assertEqual(process.end(), 0, process.text())
                results[backend, device].append(torch.load(str(process.log).removesuffix(".log") + ".pt"))
        gloo = results.pop(("gloo", "cpu"))
        for ours in results.values():
            self.check_equal(gloo, ours)

    def check_equal(self, theirs, ours):
        for rank, (gloo, ours) in enumerate(zip(theirs, ours)):
            self.assertEqual(len(gloo), len(ours))
            for place, (a, b) in enumerate(zip(gloo, ours)):
                torch.testing.assert_close(b, a, rtol=2e-2 if a.dtype == torch.bfloat16 else 1e-5, atol=1e-6,
                                           msg=lambda text: f"rank {rank}, result {place}: {text}")

    def test_loss_of_a_rank_is_an_error_on_the_others(self):
        for how in ("alone", "ddp"):
            with self.subTest(how=how):
                self.group = f"{self.group}-{how}"
                processes = self.processes(LOST, str(self.cluster.directory / f"store-{how}"), "{rank}", how)
                for rank in (0, 2):
                    said = processes[rank].said("raised")
                    self.assertRegex(said, "raised .*(PeerLost|WorldTooSmall).*rank 1.* lost")

    def test_group_and_interpreter_end_whatever_is_on_its_way(self):
        for process in self.processes(END, str(self.cluster.directory / "store-end"), "{rank}"):
            self.assertEqual(process.end(), 0, process.text())
            self.assertIn("ended", process.text())

    def test_interpreter_ends_quietly_with_futures_that_have_callbacks(self):
        for process in self.processes(EXIT, str(self.cluster.directory / "store-exit"), "{rank}"):
            self.assertEqual((process.end(), process.text()), (0, "all callbacks ran\n"))
