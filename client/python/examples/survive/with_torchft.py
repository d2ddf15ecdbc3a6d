"""Trains on while ranks die, by torchft: its Manager leaves the step that loses a rank out on all others.

    torchft_lighthouse --min_replicas 2 --bind 127.0.0.1:29510 &
    export TORCHFT_LIGHTHOUSE=http://127.0.0.1:29510
    ringway run --nproc 4 --daemons 4 --keep-going with_torchft.py 1000    # then kill -9 a process that it names
"""

import datetime
import hashlib
import os
import sys

import ringway.torchft
import torch
import torchft

torch.manual_seed(1)
model = torch.nn.Linear(256, 256)
store = torch.distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
manager = torchft.Manager(
    pg=ringway.torchft.ProcessGroupRingway(timeout=datetime.timedelta(seconds=60)),
    min_replica_size=2,
    use_async_quorum=False,
    state_dict=model.state_dict,
    load_state_dict=model.load_state_dict,
    rank=0,  # each process is a replica, of one rank
    world_size=1,
    store_addr="127.0.0.1",
    store_port=store.port,
    hostname="127.0.0.1",
)
ddp = ringway.torchft.DistributedDataParallel(manager, model)
optimizer = torchft.Optimizer(manager, torch.optim.SGD(model.parameters(), lr=0.1))
while (step := manager.current_step()) < int(sys.argv[1]):
    optimizer.zero_grad()  # agrees on who takes part
    ddp(torch.randn(8, 256)).square().mean().backward()
    optimizer.step()
    if manager.current_step() > step:
        print(f"step {step} world {manager.num_participants()} process {os.getpid()}", flush=True)
print("weights", hashlib.sha256(model.weight.detach().numpy().tobytes()).hexdigest()[:16], flush=True)
manager.shutdown(wait=False)
