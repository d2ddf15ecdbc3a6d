"""Pipeline parallel: each rank has some of the layers; micro-batches go forward from stage to stage, then their gradients back."""

import torch
import torch.distributed as dist
from common import BATCH, HIDDEN, STEPS, batch, end, layers, start

MICRO_BATCHES = 4

rank, world = start()
model = layers()
cuts = [len(model) * r // world for r in range(world + 1)]
stages = [model[cuts[r] : cuts[r + 1]] for r in range(world)]
is_first, is_last = rank == 0, rank == world - 1
optimizer = torch.optim.Adam(stages[rank].parameters(), lr=0.01)
for step in range(STEPS):
    x, y = batch(step)
    optimizer.zero_grad()
    sent, inputs, outputs = [], list(x.chunk(MICRO_BATCHES)), []
    for micro in range(MICRO_BATCHES):
        if not is_first:
            inputs[micro] = torch.empty(BATCH // MICRO_BATCHES, HIDDEN)
            dist.recv(inputs[micro], rank - 1)
            inputs[micro].requires_grad_()
        outputs.append(stages[rank](inputs[micro]))
        if not is_last:
            sent.append(dist.isend(outputs[micro].detach(), rank + 1))
    for micro, target in enumerate(y.chunk(MICRO_BATCHES)):
        if is_last:
            ((outputs[micro] - target).square().sum() / y.numel()).backward()  # the mean over the whole batch
        else:
            gradient = torch.empty_like(outputs[micro])
            dist.recv(gradient, rank + 1)
            outputs[micro].backward(gradient)
        if not is_first:
            sent.append(dist.isend(inputs[micro].grad, rank - 1))
    for work in sent:
        work.wait()
    optimizer.step()
for r in range(1, world):
    for p in stages[r].parameters():
        if rank == r:
            dist.send(p, 0)
        elif rank == 0:
            dist.recv(p, r)
end(rank, model.state_dict())
