"""Trainings whose ranks change by torch's reconfiguration: reconfigure_training.py DIRECTORY SOCKET...

    ddp     DistributedDataParallel over the default group
    fsdp2   fully_shard over the default group
    hsdp    fully_shard within sites of two over Gloo; between the sites an all-reduce hook, over a group beside the default one

In each the last rank (the last site) dies in the middle of a step, which the others do again without it; two steps later another
comes in its place. Rank r leaves its parameters in DIRECTORY/KIND.r.pt; alone.pt has those of one process that saw no death.
The processes are forked from this one, so that torch is imported once.
"""

import datetime
import os
import pathlib
import sys
import traceback

import ringway.torch  # registers the backend
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

DIRECTORY, SOCKETS = pathlib.Path(sys.argv[1]), sys.argv[2:]
LONG = datetime.timedelta(seconds=120)
DIES_AT, COMES_AT, STEPS, BATCH, WIDTH = 2, 4, 6, 12, 8
FIRST, SECOND, THIRD = 1, 2, 3  # configurations


def layers():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(WIDTH, 16), nn.Tanh(), nn.Linear(16, WIDTH))


def loss_of(model, step, place, world):
    """Of this rank's part of a batch."""
    x = torch.randn(BATCH, WIDTH, generator=torch.Generator().manual_seed(step))
    return (model(x.chunk(world)[place]) - x.roll(1, 1).sin().chunk(world)[place]).square().mean()


def configure(name, number, group, place, world):
    """By files, as a launcher or a lighthouse would pass the handles on."""
    store = dist.FileStore(str(DIRECTORY / f"{name}.{number}"), world)
    store.set_timeout(LONG)
    store.set(f"handle{place}", dist._get_reconfigure_handle(group))
    handles = [store.get(f"handle{i}").decode() for i in range(world)]
    dist._reconfigure(number, handles, group=group, timeout=LONG).wait()
    assert (group.rank(), group.size()) == (place, world)


class Ddp:
    """Rebuilt for each configuration: DDP then broadcasts rank 0's parameters."""

    def __init__(self):
        self.module = layers()

    def adopt(self, world):
        self.model = DistributedDataParallel(self.module)

    def after_step(self):
        pass

    def parameters(self):
        return self.module.state_dict()


class Fsdp2:
    """Each rank keeps the whole parameters after each step: a dead rank's shards are nowhere else."""

    def __init__(self):
        self.whole = layers().state_dict()

    def adopt(self, world):
        for tensor in self.whole.values():
            dist.broadcast(tensor, group_src=0)
        self.model = layers()
        self.model.load_state_dict(self.whole)
        for layer in self.model:
            if isinstance(layer, nn.Linear):
                fully_shard(layer, mesh=init_device_mesh("cpu", (world,)))
        fully_shard(self.model, mesh=init_device_mesh("cpu", (world,)))

    def after_step(self):
        self.whole = {name: p.full_tensor() for name, p in self.model.state_dict().items()}

    def parameters(self):
        return self.whole


def train_world(kind, make, place, comes, dies):
    """ddp and fsdp2: three ranks, which are all of torch.distributed."""
    dist.init_process_group("ringway", store=dist.HashStore(), rank=0, world_size=1, timeout=LONG, enable_reconfigure=True)
    world, step = 3, COMES_AT if comes else 0
    training = make()
    configure(kind, THIRD if comes else FIRST, dist.group.WORLD, place, world)
    training.adopt(world)
    while step < STEPS:
        if step == COMES_AT and world == 2:
            world = 3
            configure(kind, THIRD, dist.group.WORLD, place, world)
            training.adopt(world)
        optimizer = torch.optim.SGD(training.model.parameters(), lr=0.1)
        loss = loss_of(training.model, step, place, world)
        if dies and step == DIES_AT:
            os._exit(0)
        optimizer.zero_grad()  # what a step that failed has left
        try:
            loss.backward()
        except RuntimeError as error:
            assert step == DIES_AT and world == 3 and "rank 2 is lost" in str(error), error
            world = 2
            configure(kind, SECOND, dist.group.WORLD, place, world)
            training.adopt(world)
            continue
        optimizer.step()
        training.after_step()
        step += 1
    return training.parameters()


def train_sites(name, site, place, comes, dies):
    """hsdp: two sites of two ranks."""
    store = dist.FileStore(str(DIRECTORY / f"{name}.site{site}{'.new' * comes}"), 2)
    dist.init_process_group("gloo", store=store, rank=place, world_size=2, timeout=LONG)
    replicas = ringway.torch.reconfigurable_group(LONG)
    failures = []

    def average(gradients):
        try:
            dist.all_reduce(gradients, dist.ReduceOp.AVG, group=replicas)
        except ringway.Error as error:  # raised in the middle of FSDP's backward pass, it would leave that half done
            failures.append(error)

    model = layers()
    for module in (model[0], model[2], model):
        fully_shard(module, mesh=init_device_mesh("cpu", (2,))).set_all_reduce_hook(average)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    sites, step = 2, COMES_AT if comes else 0
    configure(f"{name}.replica{place}", THIRD if comes else FIRST, replicas, site, sites)
    while step < STEPS:
        if step == COMES_AT:
            if not comes:
                configure(f"{name}.replica{place}", THIRD, replicas, site, 2)
            sites = 2
            for p in model.parameters():
                dist.broadcast(p.to_local(), group=replicas, group_src=0)
        loss = loss_of(model, step, 2 * site + place, 2 * sites)
        if dies and step == DIES_AT:
            os._exit(0)
        loss.backward()
        has_failed = torch.tensor(float(len(failures)))
        dist.all_reduce(has_failed)  # within the site: all do the step again, or none
        if has_failed > 0:
            assert step == DIES_AT and all("rank 1 is lost" in str(error) for error in failures), failures
            optimizer.zero_grad()
            failures.clear()
            sites = 1
            configure(f"{name}.replica{place}", SECOND, replicas, site, sites)
            continue
        optimizer.step()
        optimizer.zero_grad()
        step += 1
    return {key: p.full_tensor() for key, p in model.state_dict().items()}


def start(kind, number, socket, train, *words):
    """Forks a rank; its process id."""
    if pid := os.fork():
        return pid
    try:
        os.environ["RINGWAY_SOCKET"] = socket
        torch.set_num_threads(1)
        torch.save(train(*words), DIRECTORY / f"{kind}.{number}.pt")
        dist.barrier()
        dist.destroy_process_group()
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def main():
    ranks = []
    for kind, make in (("ddp", Ddp), ("fsdp2", Fsdp2)):
        for number in range(4):  # the last comes in the place of the third
            words = (kind, make, min(number, 2), number == 3, number == 2)
            ranks.append(start(kind, number, SOCKETS[number % len(SOCKETS)], train_world, *words))
    for number in range(6):
        site, place = divmod(number, 2)
        words = ("hsdp", min(site, 1), place, site == 2, site == 1)
        ranks.append(start("hsdp", number, SOCKETS[number % len(SOCKETS)], train_sites, *words))
    model = layers()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(STEPS):
        optimizer.zero_grad()
        loss_of(model, step, 0, 1).backward()
        optimizer.step()
    torch.save(model.state_dict(), DIRECTORY / "alone.pt")
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in ranks]
    sys.exit(0 if not any(codes) else f"the ranks ended with {codes}")


main()
