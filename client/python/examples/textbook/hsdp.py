"""HSDP: FSDP2 within each site, over Gloo, and between the sites replicas whose gradients Ringway averages.

hsdp.py RANK WORLD STORE OUT [SITES]. Rank r is of site r // (WORLD / SITES).
"""

import sys

import torch
from common import STEPS, batch, end, layers, mine, start
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

rank, world = start()
sites = int(sys.argv[5]) if world > 1 else 1
model = layers()
mesh = init_device_mesh(
    "cpu",
    (sites, world // sites),
    mesh_dim_names=("replicate", "shard"),
    backend_override={"replicate": "ringway", "shard": "gloo"},
)
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
