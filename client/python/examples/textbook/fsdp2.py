"""FSDP2: torch's own sharding of parameters, gradients and state, over Ringway."""

import torch
from common import STEPS, batch, end, layers, mine, start
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

rank, world = start()
model = layers()
mesh = init_device_mesh("cpu", (world,))
for layer in model:
    if isinstance(layer, nn.Linear):
        fully_shard(layer, mesh=mesh)
fully_shard(model, mesh=mesh)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(STEPS):
    x, y = batch(step)
    optimizer.zero_grad()
    (model(mine(x, rank, world)) - mine(y, rank, world)).square().mean().backward()
    optimizer.step()
end(rank, {name: p.full_tensor() for name, p in model.state_dict().items()})
