"""ZeRO, stages 1 and 2: the optimizer's state, and the gradients, are sharded; every rank updates its shard, and all gather.

zero.py RANK WORLD STORE OUT STAGE. In stage 2 a layer's gradients are reduced as soon as the backward pass has them.
"""

import sys

import torch
import torch.distributed as dist
from common import STEPS, batch, end, layers, mine, start


class Shard:
    """A rank's part of a parameter, padded to as much for each."""

    def __init__(self, p, rank, world):
        self.p, self.world = p, world
        self.length = -(-p.numel() // world)
        self.master = torch.nn.Parameter(self.flat(p.detach())[rank * self.length : (rank + 1) * self.length].clone())

    def flat(self, tensor):
        return torch.nn.functional.pad(tensor.reshape(-1), (0, self.length * self.world - tensor.numel()))

    def reduce_scatter(self):
        self.master.grad = torch.empty_like(self.master)
        work = dist.reduce_scatter_tensor(self.master.grad, self.flat(self.p.grad), dist.ReduceOp.AVG, async_op=True)
        self.p.grad = None
        return work

    def take_reduced(self, rank):
        self.master.grad = self.flat(self.p.grad)[rank * self.length : (rank + 1) * self.length].clone()

    @torch.no_grad()
    def all_gather(self):
        whole = torch.empty(self.length * self.world)
        dist.all_gather_into_tensor(whole, self.master.detach())
        self.p.copy_(whole[: self.p.numel()].view_as(self.p))


rank, world = start()
stage = int(sys.argv[5])
model = layers()
shards = [Shard(p, rank, world) for p in model.parameters()]
optimizer = torch.optim.Adam([shard.master for shard in shards], lr=0.01)
works = []
if stage == 2:
    for shard in shards:
        shard.p.register_post_accumulate_grad_hook(lambda _, shard=shard: works.append(shard.reduce_scatter()))
for step in range(STEPS):
    x, y = batch(step)
    loss = (model(mine(x, rank, world)) - mine(y, rank, world)).square().mean()
    model.zero_grad()
    loss.backward()
    while works:
        works.pop().wait()
    for shard in shards:
        if stage == 1:
            dist.all_reduce(shard.p.grad, op=dist.ReduceOp.AVG)
            shard.take_reduced(rank)
    optimizer.step()
    for shard in shards:
        shard.all_gather()
end(rank, model.state_dict())
