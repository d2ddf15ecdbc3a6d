"""What the textbook programs share: PROGRAM RANK WORLD STORE OUT trains five steps and leaves rank 0's parameters in OUT.

With a world of 1 each is the same training in one process: of the whole batch, with whole parameters.
"""

import sys

import ringway.torch  # registers the backend
import torch
import torch.distributed as dist
from torch import nn

STEPS, BATCH, WIDTH, HIDDEN = 5, 24, 16, 48


def start():
    """Joins the group; rank and world size."""
    rank, world, store = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    torch.set_num_threads(1)
    torch.manual_seed(1)  # all begin with the same parameters
    dist.init_process_group("ringway", init_method=f"file://{store}", rank=rank, world_size=world)
    return rank, world


def layers():
    """Of a small network."""
    return nn.Sequential(nn.Linear(WIDTH, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, WIDTH))


def batch(step):
    """All ranks' inputs and targets."""
    generator = torch.Generator().manual_seed(step)
    x = torch.randn(BATCH, WIDTH, generator=generator)
    return x, x.roll(1, 1).sin()


def mine(tensor, rank, world):
    """A rank's rows."""
    return tensor.chunk(world)[rank]


def end(rank, parameters):
    """Leaves the group; `parameters`: the whole ones, by name."""
    if rank == 0:
        torch.save({name: p.detach().clone() for name, p in parameters.items()}, sys.argv[4])
    dist.barrier()
    dist.destroy_process_group()
