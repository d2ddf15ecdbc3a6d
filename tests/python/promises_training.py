"""Rows of promises.py: what DDP, FSDP2 and compiled programs call, and trainings by them."""
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
import torch.distributed.fsdp as fsdp
import torch.distributed.nn.functional as differentiable
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict, set_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.distributed_c10d import ReduceOp

from promises_table import BACKEND, RANK, WORLD, mine, reduced, row, rows

# ------------------------------------------------------------------------------------------------------ coalesced and functional


def coalesced(call, *operations):
    with dist.distributed_c10d._coalescing_manager(async_ops=True) as manager:
        for output, *arguments in operations:
            call(output, *arguments)
    manager.wait()
    return [output for output, *_ in operations]


rows(
    coalescing_all_reduce=lambda: coalesced(dist.all_reduce, [mine(5)], [mine(3, of=RANK + 1)]),
    coalescing_all_gather=lambda: coalesced(
        dist.all_gather_into_tensor, [torch.zeros(5 * WORLD), mine(5)], [torch.zeros(3 * WORLD), mine(3)]),
    coalescing_reduce_scatter=lambda: coalesced(
        dist.reduce_scatter_tensor, [torch.zeros(5), mine(5 * WORLD)], [torch.zeros(3), mine(3 * WORLD)]),
    coalescing_of_several_dtypes=lambda: coalesced(
        dist.all_reduce, [mine(5)], [mine(3, dtype=torch.int32)]) if BACKEND == "ringway" else [
            reduced(dist.all_reduce, mine(5)), reduced(dist.all_reduce, mine(3, dtype=torch.int32))],
    coalescing_reduce_scatter_of_several_dtypes=lambda: coalesced(
        dist.reduce_scatter_tensor, [torch.zeros(3, dtype=torch.int32), mine(3 * WORLD, dtype=torch.int32), ReduceOp.AVG],
        [torch.zeros(5), mine(5 * WORLD), ReduceOp.AVG]) if BACKEND == "ringway" else [
            reduced(dist.reduce_scatter_tensor, torch.zeros(3, dtype=torch.int32), mine(3 * WORLD, dtype=torch.int32),
                    op=ReduceOp.AVG),
            reduced(dist.reduce_scatter_tensor, torch.zeros(5), mine(5 * WORLD), op=ReduceOp.AVG)],
    functional_all_reduce=lambda: functional.all_reduce(mine(5), "sum", dist.group.WORLD) + 0,
    functional_all_reduce_avg=lambda: functional.all_reduce(mine(5), "avg", dist.group.WORLD) + 0,
    functional_all_reduce_coalesced=lambda: [
        x + 0 for x in functional.all_reduce_coalesced([mine(5), mine(3)], "max", dist.group.WORLD)],
    functional_all_gather_tensor=lambda: functional.all_gather_tensor(mine(2, 3), 1, dist.group.WORLD) + 0,
    functional_reduce_scatter_tensor=lambda: functional.reduce_scatter_tensor(
        mine(2, 3 * WORLD), "sum", 1, dist.group.WORLD) + 0,
    functional_all_to_all_single=lambda: functional.all_to_all_single(
        mine(3), [(RANK + i) % 3 for i in range(WORLD)], [(RANK + i) % 3 for i in range(WORLD)], dist.group.WORLD) + 0,
    functional_broadcast=lambda: functional.broadcast(mine(5), 1, dist.group.WORLD) + 0,
    functional_permute_tensor=lambda: functional.permute_tensor(mine(5), [1, 2, 0], dist.group.WORLD) + 0,
)


def with_gradient(call):
    x = mine(4, 3).requires_grad_()
    out = call(x)
    out = torch.stack(list(out)) if isinstance(out, (list, tuple)) else out
    (out * (RANK + 1)).sum().backward()
    return out.detach(), x.grad


rows(
    gradient_of_all_reduce=lambda: with_gradient(differentiable.all_reduce),
    gradient_of_all_gather=lambda: with_gradient(differentiable.all_gather),
    gradient_of_broadcast=lambda: with_gradient(lambda x: differentiable.broadcast(x, 1)),
    gradient_of_functional_all_gather=lambda: with_gradient(
        lambda x: functional.all_gather_tensor_autograd(x, 0, dist.group.WORLD) + 0),
    gradient_of_functional_reduce_scatter=lambda: with_gradient(
        lambda x: functional.reduce_scatter_tensor_autograd(x.repeat(WORLD, 1), "sum", 0, dist.group.WORLD) + 0),
)

# ------------------------------------------------------------------------------------------------------ shards


def network():
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(6, 20), torch.nn.ReLU(), torch.nn.Linear(20, 1))


def trained(model, steps=5, passes=1):
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for step in range(steps):
        optimizer.zero_grad()
        for part in range(passes):
            if passes > 1:
                model.set_requires_gradient_sync(part == passes - 1)
            model(mine(8, 6, of=RANK + step + part) / 8).square().mean().backward()
        optimizer.step()
    return model


@row
def ddp():
    model = torch.nn.parallel.DistributedDataParallel(network())
    return [p.detach() for p in trained(model).parameters()]


def sharded(passes=1, prepare=lambda model: None, **arguments):
    model = network()
    for layer in (model[0], model[2], model):
        fsdp.fully_shard(layer, **arguments)
    prepare(model)
    trained(model, passes=passes)
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1).full_tensor()
    return [p.full_tensor().detach() for p in model.parameters()], norm


rows(
    fsdp2=sharded,
    fsdp2_that_keeps_parameters=lambda: sharded(reshard_after_forward=False),
    fsdp2_in_bf16=lambda: sharded(mp_policy=fsdp.MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)),
    fsdp2_that_accumulates=lambda: sharded(passes=3),
    fsdp2_with_sums=lambda: sharded(prepare=lambda model: model.set_force_sum_reduction_for_comms(True)),
    fsdp2_divided=lambda: sharded(prepare=lambda model: model.set_gradient_divide_factor(2.0)),
    fsdp2_of_a_mesh=lambda: sharded(mesh=init_device_mesh("cpu", (WORLD,))),
    fsdp2_of_replicas=lambda: sharded(mesh=init_device_mesh("cpu", (WORLD, 1), mesh_dim_names=("replicate", "shard"))),
)


@row
def fsdp2_state_dict():
    model = fsdp.fully_shard(network())
    whole = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
    changed = {name: value + 1 for name, value in network().state_dict().items()}
    set_model_state_dict(model, changed, options=StateDictOptions(full_state_dict=True, broadcast_from_rank0=True))
    return whole, [p.full_tensor().detach() for p in model.parameters()]
