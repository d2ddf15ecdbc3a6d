"""ZeRO, stage 3: parameters, too, are sharded: a layer's are gathered for its forward and backward pass, and freed after."""

import torch
import torch.distributed as dist
from common import STEPS, batch, end, layers, mine, start
from torch import nn


class Sharded:
    """One layer's parameters."""

    def __init__(self, layer, rank, world):
        self.parameters = list(layer.parameters())
        self.sizes = [p.numel() for p in self.parameters]
        flat = torch.cat([p.detach().reshape(-1) for p in self.parameters])
        self.length, self.world = -(-flat.numel() // world), world
        self.padding = self.length * world - flat.numel()
        flat = nn.functional.pad(flat, (0, self.padding))
        self.master = nn.Parameter(flat[rank * self.length : (rank + 1) * self.length].clone())
        self.free()
        layer.register_forward_pre_hook(lambda *_: self.gather())
        layer.register_forward_hook(lambda *_: self.free())
        layer.register_full_backward_pre_hook(lambda *_: self.gather())
        self.left = 0
        for p in self.parameters:
            p.register_post_accumulate_grad_hook(lambda _: self.on_gradient())

    def gather(self):
        whole = torch.empty(self.length * self.world)
        dist.all_gather_into_tensor(whole, self.master.detach())
        for p, part in zip(self.parameters, whole.split([*self.sizes, self.padding])):
            p.untyped_storage().resize_(p.numel() * p.element_size())
            p.data.copy_(part.view_as(p))
        self.left = len(self.parameters)

    def free(self):
        for p in self.parameters:
            p.untyped_storage().resize_(0)

    def on_gradient(self):
        self.left -= 1
        if self.left > 0:
            return
        gradients = torch.cat([p.grad.reshape(-1) for p in self.parameters])
        self.master.grad = torch.empty_like(self.master)
        dist.reduce_scatter_tensor(self.master.grad, nn.functional.pad(gradients, (0, self.padding)), dist.ReduceOp.AVG)
        for p in self.parameters:
            p.grad = None
        self.free()


rank, world = start()
model = layers()
sharded = [Sharded(layer, rank, world) for layer in model if isinstance(layer, nn.Linear)]
optimizer = torch.optim.Adam([each.master for each in sharded], lr=0.01)
for step in range(STEPS):
    x, y = batch(step)
    x = mine(x, rank, world).requires_grad_()  # so that the first layer's backward pass is announced
    (model(x) - mine(y, rank, world)).square().mean().backward()
    optimizer.step()
for each in sharded:
    each.gather()
end(rank, model.state_dict())
