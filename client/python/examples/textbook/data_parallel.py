"""Data parallel: every rank has all parameters and its part of the batch; gradients are averaged."""

import torch
import torch.distributed as dist
from common import STEPS, batch, end, layers, mine, start

rank, world = start()
model = layers()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(STEPS):
    x, y = batch(step)
    optimizer.zero_grad()
    loss = (model(mine(x, rank, world)) - mine(y, rank, world)).square().mean()
    loss.backward()
    for p in model.parameters():
        dist.all_reduce(p.grad, op=dist.ReduceOp.AVG)
    optimizer.step()
end(rank, model.state_dict())
