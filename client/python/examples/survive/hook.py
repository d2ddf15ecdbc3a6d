"""Trains on while ranks die, by the hook: the operation that loses a rank is the average of the others.

    ringway run --nproc 4 --daemons 4 --keep-going hook.py 1000    # then kill -9 a process that it names
"""

import hashlib
import os
import sys

import ringway.torch
import torch
import torch.distributed as dist

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)  # DDP asks for one; nothing goes over it
torch.manual_seed(1)
model = torch.nn.Linear(256, 256)
ddp = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
with ringway.join("survive", wait_world=int(os.environ["WORLD_SIZE"])) as session:
    hook = ringway.torch.ddp_hook(ddp, session)
    for step in range(int(sys.argv[1])):
        optimizer.zero_grad()
        ddp(torch.randn(8, 256)).square().mean().backward()
        optimizer.step()
        print(f"step {step} world {hook.result.world_size} process {os.getpid()}", flush=True)
print("weights", hashlib.sha256(model.weight.detach().numpy().tobytes()).hexdigest()[:16], flush=True)
