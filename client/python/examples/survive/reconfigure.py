"""Trains on while ranks die, by torch's reconfiguration: the step that loses a rank raises, and the others do it again.

    ringway run --nproc 4 --daemons 4 --keep-going reconfigure.py 1000    # then kill -9 a process that it names

Handles are exchanged by a TCPStore of rank 0, so that rank has to live; a launcher that outlives all ranks would keep
the store.
"""

import datetime
import hashlib
import os
import sys

import ringway.torch
import torch
import torch.distributed as dist

me, members = int(os.environ["RANK"]), list(range(int(os.environ["WORLD_SIZE"])))
address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
store = dist.TCPStore(address, port, is_master=me == 0, wait_for_workers=False)
turn = 0


def reconfigure():
    """Those of `members` that live become the process group, in that order."""
    global turn, members
    turn += 1
    store.set(f"{turn}/{me}", dist._get_reconfigure_handle())
    while True:
        lost = ringway.torch.lost_ranks()  # by their numbers in the last configuration
        living = [number for rank, number in enumerate(members) if rank not in lost]
        try:
            store.wait([f"{turn}/{number}" for number in living], datetime.timedelta(seconds=1))
            break
        except dist.DistStoreError:  # one of them is slow, or lost by now
            continue
    dist._reconfigure(turn, [store.get(f"{turn}/{number}").decode() for number in living])
    members = living


dist.init_process_group("ringway", store=dist.HashStore(), rank=0, world_size=1, enable_reconfigure=True)
torch.manual_seed(1)
model = torch.nn.Linear(256, 256)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
ddp, step = None, 0
while step < int(sys.argv[1]):
    try:
        if ddp is None:
            reconfigure()
            ddp = torch.nn.parallel.DistributedDataParallel(model)
        optimizer.zero_grad()
        ddp(torch.randn(8, 256)).square().mean().backward()
    except RuntimeError:
        if not ringway.torch.lost_ranks():  # no death is its cause
            raise
        ddp = None
        continue
    optimizer.step()
    print(f"step {step} world {len(members)} process {os.getpid()}", flush=True)
    step += 1
print("weights", hashlib.sha256(model.weight.detach().numpy().tobytes()).hexdigest()[:16], flush=True)
dist.barrier()  # rank 0 has the store
dist.destroy_process_group()
