"""Sequence parallel: tokens are sharded between the blocks; within a block, whose columns and rows are, they are gathered before
and, added up, scattered after. All gradients of a rank's columns and rows are whole: nothing is averaged."""

import torch
import torch.distributed as dist
from common import HIDDEN, STEPS, WIDTH, batch, end, mine, start
from torch import nn


class Gather(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        out = x.new_empty(dist.get_world_size() * x.shape[0], *x.shape[1:])
        dist.all_gather_into_tensor(out, x.contiguous())
        return out

    @staticmethod
    def backward(context, gradient):
        out = gradient.new_empty(gradient.shape[0] // dist.get_world_size(), *gradient.shape[1:])
        dist.reduce_scatter_tensor(out, gradient.contiguous())
        return out


class Scatter(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        out = x.new_empty(x.shape[0] // dist.get_world_size(), *x.shape[1:])
        dist.reduce_scatter_tensor(out, x.contiguous())
        return out

    @staticmethod
    def backward(context, gradient):
        out = gradient.new_empty(dist.get_world_size() * gradient.shape[0], *gradient.shape[1:])
        dist.all_gather_into_tensor(out, gradient.contiguous())
        return out


class Block(nn.Module):
    def __init__(self, rank, world):
        super().__init__()
        up, down = nn.Linear(WIDTH, HIDDEN, bias=False), nn.Linear(HIDDEN, WIDTH, bias=False)
        self.up = nn.Parameter(up.weight.detach().chunk(world)[rank].clone())
        self.down = nn.Parameter(down.weight.detach().chunk(world, 1)[rank].clone())

    def forward(self, x):
        return x + Scatter.apply(torch.tanh(Gather.apply(x) @ self.up.T) @ self.down.T)


rank, world = start()
model = nn.Sequential(Block(rank, world), Block(rank, world))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(STEPS):
    x, y = batch(step)
    optimizer.zero_grad()
    error = (model(mine(x, rank, world)) - mine(y, rank, world)).square()
    (error.sum() / x.numel()).backward()  # the mean over all tokens
    optimizer.step()
whole = {}
for name, p in model.state_dict().items():
    parts = [torch.empty_like(p) for _ in range(world)]
    dist.all_gather(parts, p)
    whole[name] = torch.cat(parts, 0 if name.endswith("up") else 1)
end(rank, whole)
