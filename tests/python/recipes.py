"""What users of torch.distributed run, by one backend: recipes.py BACKEND STORE RANK WORLD OUT. Keeps what each recipe ends with."""

import os
import pathlib
import sys

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B
from torch.nn.parallel import DistributedDataParallel

backend, store, rank, world, out = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
WIDTH, ROWS = 8, 8


def layers(count=2):
    """The same on all ranks."""
    torch.manual_seed(1)
    return [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()) for _ in range(count)]


def data(step, of=rank):
    generator = torch.Generator().manual_seed(100 * step + of)
    return torch.randn(ROWS, WIDTH, generator=generator), torch.randn(ROWS, WIDTH, generator=generator)


def whole(model):
    """Its parameters, on all ranks."""
    return [p.full_tensor() if hasattr(p, "full_tensor") else p.detach().clone() for p in model.parameters()]


def train(model, optimizer, steps=3):
    for step in range(steps):
        x, y = data(step)
        optimizer.zero_grad()
        (model(x) - y).square().mean().backward()
        optimizer.step()


def nanogpt():
    """Its loop: accumulation, a scaler of gradients, clipping, and the mean loss of all ranks."""
    model = DistributedDataParallel(nn.Sequential(*layers()))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    losses = []
    for step in range(4):
        for micro in range(2):
            model.require_backward_grad_sync = micro == 1
            x, y = data(2 * step + micro)
            loss = (model(x) - y).square().mean() / 2
            if step == 2 and micro == 1:
                loss = loss * (float("inf") if rank == 1 else 1.0)  # one rank's overflow: all leave that step out
            scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
        mean = loss.detach().nan_to_num(posinf=7.0)
        dist.all_reduce(mean)
        losses += [mean / world, norm.nan_to_num(nan=-1.0, posinf=-1.0)]
    return [*whole(model), *losses, torch.tensor(scaler.get_scale())]


def zero():
    model = DistributedDataParallel(nn.Sequential(*layers()))
    optimizer = ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.Adam, lr=0.01)
    train(model, optimizer)
    optimizer.consolidate_state_dict(to=0)
    kept = optimizer.state_dict()["state"] if rank == 0 else {}
    return [*whole(model), *[kept[i]["exp_avg"] for i in sorted(kept)]]


def sharded(mesh):
    model = nn.Sequential(*layers())
    for layer in model:
        fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def hsdp():
    model = sharded(init_device_mesh("cpu", (2, world // 2), mesh_dim_names=("replicate", "shard")))
    train(model, torch.optim.Adam(model.parameters(), lr=0.01))
    return whole(model)


def checkpoint():
    """DCP: a training that goes on from a checkpoint ends where one ends that went on."""
    mesh = init_device_mesh("cpu", (world,))
    place = pathlib.Path(store).parent / f"checkpoint-{backend}"
    model = sharded(mesh)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    train(model, optimizer)
    model_state, optimizer_state = get_state_dict(model, optimizer)
    dcp.save({"model": model_state, "optimizer": optimizer_state}, checkpoint_id=place)
    train(model, optimizer)
    other = sharded(mesh)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.zero_()
    its_optimizer = torch.optim.Adam(other.parameters(), lr=0.01)
    model_state, optimizer_state = get_state_dict(other, its_optimizer)
    state = {"model": model_state, "optimizer": optimizer_state}
    dcp.load(state, checkpoint_id=place)
    set_state_dict(other, its_optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    train(other, its_optimizer)
    for went_on, came_back in zip(whole(model), whole(other)):
        torch.testing.assert_close(came_back, went_on)
    return whole(other)


def accelerate_state():
    """accelerate's save_state and load_state: a training that goes on from them ends where one ends that went on."""
    from accelerate import Accelerator

    ranks = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": world, "LOCAL_WORLD_SIZE": world}
    os.environ |= {name: str(value) for name, value in ranks.items()}  # as a launcher sets them
    accelerator = Accelerator(cpu=True)
    assert accelerator.num_processes == world
    place = pathlib.Path(store).parent / f"accelerate-{backend}"
    inner = nn.Sequential(*layers())
    model, optimizer = accelerator.prepare(inner, torch.optim.Adam(inner.parameters(), lr=0.01))
    train(model, optimizer)
    accelerator.save_state(place)
    train(model, optimizer)
    went_on = whole(model)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    accelerator.wait_for_everyone()  # the first has written it
    accelerator.load_state(place)
    train(model, optimizer)
    torch.testing.assert_close(whole(model), went_on)
    return whole(model)


def pipeline(kind, stages_of_a_rank):
    """Rank 0 has the inputs, the last stage's rank the targets."""
    count = world * stages_of_a_rank
    modules = layers(count)
    places = range(rank, count, world)
    stages = [PipelineStage(modules[place], place, count, torch.device("cpu")) for place in places]
    schedule = kind(stages if stages_of_a_rank > 1 else stages[0], n_microbatches=4, loss_fn=nn.functional.mse_loss)
    x, y = data(0, of=0)
    losses = []
    is_last = count - 1 in places
    schedule.step(*([x] if rank == 0 else []), **({"target": y, "losses": losses} if is_last else {}))
    return [*[p.grad for place in places for p in modules[place].parameters()], *losses]


RECIPES = {
    "nanogpt": nanogpt,
    "zero": zero,
    "hsdp": hsdp,
    "checkpoint": checkpoint,
    "accelerate's state": accelerate_state,
    "gpipe": lambda: pipeline(ScheduleGPipe, 1),
    "1f1b": lambda: pipeline(Schedule1F1B, 1),
    "interleaved": lambda: pipeline(ScheduleInterleaved1F1B, 2),
}

if __name__ == "__main__":
    dist.init_process_group(backend, init_method=f"file://{store}", rank=rank, world_size=world)
    ends = {}
    for name, recipe in RECIPES.items():
        ends[name] = [x.detach().cpu() for x in recipe()]
        dist.barrier()
        print("did", name, flush=True)
    torch.save(ends, out)
    dist.destroy_process_group()
