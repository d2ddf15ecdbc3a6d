"""Every step has a whole batch, however many ranks there are: constant_batch.py SOCKET WORLD [STEPS].

Ranks share out the batch's examples, and average their gradients weighted by how many each has taken. Of a rank that dies in the
middle the result lacks the examples, so the others share those out as well before they take the step. The gradient is that of one
process with the whole batch.
"""

import hashlib
import sys

import ringway.torch
import torch
import torch.distributed as dist

BATCH = 60


def share_of(examples, rank, world):
    """How many of them this rank takes. At least one, as a weight must be positive."""
    return max(1, examples // world + (1 if rank < examples % world else 0))


def loss_of(model, examples):
    x = torch.randn(examples, 16)
    return ((model(x) - x.sum(1, keepdim=True)) ** 2).mean()


def main(socket, world, steps="100"):
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    with ringway.join("constant-batch", socket=socket, wait_world=int(world)) as session:
        torch.manual_seed(1 + session.rank)
        hook = ringway.torch.ddp_hook(model, session, weight=1.0)
        for step in range(int(steps)):
            total, examples = [torch.zeros_like(p) for p in model.parameters()], 0
            while examples < BATCH:
                share = share_of(BATCH - examples, session.rank, session.world_size)
                hook.weight = share
                optimizer.zero_grad()
                loss = loss_of(model, share)
                loss.backward()
                # What those have taken whose gradients are in: the same on all ranks. Where fewer examples are missing than there
                # are ranks, each takes one, and their average counts as the missing ones.
                part = min(int(hook.result.weight), BATCH - examples)
                examples += part
                for sum_, p in zip(total, model.parameters()):
                    sum_.add_(p.grad, alpha=part)
            for sum_, p in zip(total, model.parameters()):
                p.grad = sum_ / examples
            optimizer.step()
            print(f"step {step} examples {examples} world {hook.result.world_size} loss {loss.item():.4f}", flush=True)
    weights = b"".join(p.detach().numpy().tobytes() for p in model.parameters())
    print(f"weights {hashlib.sha256(weights).hexdigest()[:16]}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
