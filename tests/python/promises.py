"""promises.py BACKEND STORE RANK WORLD OUT: calls each function of torch.distributed, and saves what came of each call by its name.

A row returns what Gloo returns, or raises what REFUSED says: before anything is sent, on all ranks that call, so that the rows after
it are in step. `promises_test.py` runs it by both.
"""
import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import ReduceOp

import promises_training  # noqa: F401  # its rows
import ringway.torch  # noqa: F401  # the backend
from promises_table import (BACKEND, LAST, LONG, NEXT, OUT, RANK, ROWS, STORE, WORLD, after, beyond_gloo, mine, parts, reduced, refusal,
                            row, rows, strided, zeros)

# ------------------------------------------------------------------------------------------------------ reductions

REDUCTIONS = {"sum": ReduceOp.SUM, "product": ReduceOp.PRODUCT, "min": ReduceOp.MIN, "max": ReduceOp.MAX, "avg": ReduceOp.AVG,
              "band": ReduceOp.BAND, "bor": ReduceOp.BOR, "bxor": ReduceOp.BXOR,
              "premul_sum": dist._make_nccl_premul_sum(2.0)}
DTYPES = {"f32": torch.float32, "f64": torch.float64, "f16": torch.float16, "bf16": torch.bfloat16, "i8": torch.int8,
          "u8": torch.uint8, "i32": torch.int32, "i64": torch.int64, "bool": torch.bool, "complex64": torch.complex64,
          "f8": torch.float8_e4m3fn}


for op_name, op in REDUCTIONS.items():
    for dtype_name, dtype in DTYPES.items():
        if dtype_name in ("f32", "i32") or op_name in ("sum", "max", "avg", "band"):
            rows(**{f"all_reduce {op_name} {dtype_name}": lambda op=op, dtype=dtype: reduced(
                dist.all_reduce, mine(5, 3, dtype=dtype), op=op)})
    for dtype_name in ("f32", "i32"):
        dtype = DTYPES[dtype_name]
        rows(**{
            f"reduce {op_name} {dtype_name}": lambda op=op, dtype=dtype: reduced(
                dist.reduce, mine(5, dtype=dtype), 1, op=op, root=1),
            f"reduce_scatter {op_name} {dtype_name}": lambda op=op, dtype=dtype: reduced(
                dist.reduce_scatter, torch.zeros(4, dtype=dtype), parts(4, dtype=dtype), op=op),
            f"reduce_scatter_tensor {op_name} {dtype_name}": lambda op=op, dtype=dtype: reduced(
                dist.reduce_scatter_tensor, torch.zeros(4, dtype=dtype), mine(4 * WORLD, dtype=dtype), op=op),
            f"all_reduce_coalesced {op_name} {dtype_name}": lambda op=op, dtype=dtype: reduced(
                dist.all_reduce_coalesced, [mine(3, dtype=dtype), mine(2, dtype=dtype)], op=op),
        })


@row
def all_reduce_async():
    x = mine(7)
    work = dist.all_reduce(x, async_op=True)
    return after(work, x), work.is_completed(), work.is_success(), work.exception()


@row
def all_reduce_future():
    x = mine(7)
    value = dist.all_reduce(x, async_op=True).get_future().then(lambda future: future.value()[0] * 2).wait()
    return x, value


rows(
    all_reduce_of_gaps=lambda: reduced(dist.all_reduce, strided(mine(6, 4)[:, ::2])),
    all_reduce_transposed=lambda: reduced(dist.all_reduce, mine(6, 4).t()),
    all_reduce_channels_last=lambda: reduced(dist.all_reduce, mine(2, 3, 4, 5).to(memory_format=torch.channels_last)),
    all_reduce_expanded=lambda: reduced(dist.all_reduce, mine(1, 3).expand(4, 3)),
    all_reduce_conjugated=lambda: reduced(dist.all_reduce, torch.complex(mine(3), mine(3, of=1)).conj()),
    all_reduce_negative_view=lambda: reduced(
        dist.all_reduce, strided(torch.complex(mine(3), mine(3, of=1)).conj().imag)),
    all_reduce_nothing=lambda: reduced(dist.all_reduce, torch.zeros(0)),
    all_reduce_scalar=lambda: reduced(dist.all_reduce, torch.tensor(float(RANK))),
    all_reduce_of_parameter=lambda: reduced(dist.all_reduce, torch.nn.Parameter(mine(3))).detach(),
    all_reduce_meta=lambda: reduced(dist.all_reduce, torch.zeros(3, device="meta")),
    all_reduce_sparse=lambda: reduced(dist.all_reduce, torch.sparse_coo_tensor([[RANK, 4]], mine(2), (6,))).to_dense(),
    all_reduce_of_list=lambda: reduced(dist.all_reduce, [mine(3)]),
    all_reduce_bad_op=lambda: reduced(dist.all_reduce, mine(3), op="sum"),
    reduce_by_group_root=lambda: reduced(dist.reduce, mine(5), group_dst=2, root=2),
    reduce_gaps=lambda: reduced(dist.reduce, strided(mine(6, 4)[:, ::2]), 0, root=0),
    reduce_to_no_rank=lambda: reduced(dist.reduce, mine(3), WORLD),
    reduce_bits_to_no_rank=lambda: reduced(dist.reduce, mine(3, dtype=torch.int32), WORLD, op=ReduceOp.BOR),
    reduce_scatter_stacked=lambda: reduced(
        dist.reduce_scatter_tensor, torch.zeros(4), beyond_gloo(mine(WORLD, 4), mine(WORLD * 4))),
    reduce_scatter_single=lambda: reduced(dist.reduce_scatter_single, torch.zeros(4), mine(4 * WORLD)),
    reduce_scatter_gaps=lambda: reduced(dist.reduce_scatter, strided(mine(8)[::2]), parts(4)),
    reduce_scatter_of_too_few=lambda: reduced(dist.reduce_scatter, torch.zeros(4), parts(4)[1:]),
    reduce_scatter_of_other_shapes=lambda: reduced(dist.reduce_scatter, torch.zeros(4), parts(5)),
    reduce_scatter_tensor_of_another_size=lambda: reduced(dist.reduce_scatter_tensor, torch.zeros(4), mine(4 * WORLD + 1)),
    reduce_scatter_tensor_of_another_dtype=lambda: reduced(
        dist.reduce_scatter_tensor, torch.zeros(4), mine(4 * WORLD, dtype=torch.float64)),
)

# ------------------------------------------------------------------------------------------------------ what is moved


def filled(call, output, *arguments, root=None, **options):
    call(output, *arguments, **options)
    return output if root in (None, RANK) else None


def gathered_whole(call, root):
    if BACKEND == "ringway":
        return gathered(call, mine(4), make=lambda: torch.zeros(4 * WORLD), dst=root, root=root)
    out = gathered(dist.gather, mine(4), make=lambda: zeros(4), dst=root, root=root)
    return torch.cat(out) if out else None


def all_to_all_uneven():
    sizes = [1 + (RANK + i) % 3 for i in range(WORLD)]
    sent = [mine(size) for size in sizes]
    if BACKEND == "ringway":
        return filled(dist.all_to_all, [torch.zeros(size) for size in sizes], sent)
    return list(filled(dist.all_to_all_single, torch.zeros(sum(sizes)), torch.cat(sent), sizes, sizes).split(sizes))


def gathered(call, x, *arguments, make, root, **options):
    out = make() if RANK == root else None
    call(x, out, *arguments, **options)
    return out


def moved(dtype, call, output, *arguments):
    """As one of that dtype; Gloo moves none of 8 bits, but their bytes."""
    def as_taken(x):
        return [as_taken(each) for each in x] if isinstance(x, list) else x if takes else x.view(torch.uint8)

    takes = BACKEND == "ringway" or dtype != torch.float8_e4m3fn
    call(as_taken(output), *[as_taken(x) if isinstance(x, torch.Tensor) else x for x in arguments])
    return output


for dtype_name, dtype in DTYPES.items():
    rows(**{
        f"broadcast {dtype_name}": lambda dtype=dtype: moved(dtype, dist.broadcast, mine(9, dtype=dtype), 1),
        f"all_gather {dtype_name}": lambda dtype=dtype: moved(
            dtype, dist.all_gather, zeros(2, 3, dtype=dtype), mine(2, 3, dtype=dtype)),
        f"all_to_all_single {dtype_name}": lambda dtype=dtype: moved(
            dtype, dist.all_to_all_single, torch.zeros(2 * WORLD, dtype=dtype), mine(2 * WORLD, dtype=dtype)),
    })

rows(
    broadcast_by_group_root=lambda: filled(dist.broadcast, mine(4), group_src=2),
    broadcast_gaps=lambda: filled(dist.broadcast, strided(mine(6, 4)[:, ::2]), 0),
    broadcast_nothing=lambda: filled(dist.broadcast, torch.zeros(0), 0),
    broadcast_without_root=lambda: filled(dist.broadcast, mine(3)),
    broadcast_from_no_rank=lambda: filled(dist.broadcast, mine(3), WORLD),
    broadcast_from_a_negative_rank=lambda: filled(dist.broadcast, mine(3), group_src=-1),
    all_gather_gaps=lambda: filled(dist.all_gather, [x[::2] for x in zeros(8)], mine(8)[::2]),
    all_gather_into_tensor=lambda: filled(dist.all_gather_into_tensor, torch.zeros(2 * WORLD, 3), mine(2, 3)),
    all_gather_stacked=lambda: filled(
        dist.all_gather_into_tensor, torch.zeros(WORLD, 2, 3), mine(2, 3)) if BACKEND == "ringway" else torch.stack(
            filled(dist.all_gather, zeros(2, 3), mine(2, 3))),
    all_gather_single=lambda: filled(dist.all_gather_single, torch.zeros(2 * WORLD, 3), mine(2, 3)),
    all_gather_too_few=lambda: filled(dist.all_gather, zeros(3)[1:], mine(3)),
    all_gather_too_many=lambda: filled(dist.all_gather, zeros(3) + zeros(3), mine(3)),
    all_gather_other_shapes=lambda: filled(dist.all_gather, zeros(4), mine(3)),
    all_gather_another_dtype=lambda: filled(dist.all_gather, zeros(3, dtype=torch.float64), mine(3)),
    all_gather_into_another_size=lambda: filled(dist.all_gather_into_tensor, torch.zeros(2 * WORLD + 1), mine(2)),
    all_gather_coalesced=lambda: filled(
        dist.all_gather_coalesced, [[torch.zeros(2), torch.zeros(3)] for _ in range(WORLD)], [mine(2), mine(3)]),
    gather=lambda: gathered(dist.gather, mine(4), make=lambda: zeros(4), dst=1, root=1),
    gather_by_group_root=lambda: gathered(dist.gather, mine(4), make=lambda: zeros(4), group_dst=1, root=1),
    gather_without_root=lambda: gathered(dist.gather, mine(4), make=lambda: zeros(4), root=0),
    gather_single=lambda: gathered_whole(dist.gather_single, 1),
    gather_into_tensor=lambda: gathered_whole(dist.gather_into_tensor, 2),
    gather_too_few=lambda: gathered(dist.gather, mine(4), make=lambda: zeros(4)[1:], dst=1, root=1) if RANK == 1 else None,
    scatter=lambda: filled(dist.scatter, torch.zeros(4), parts(4) if RANK == 2 else None, src=2),
    scatter_gaps=lambda: filled(dist.scatter, strided(torch.zeros(8)[::2]), parts(4) if RANK == 2 else None, group_src=2),
    scatter_too_few=lambda: filled(dist.scatter, torch.zeros(4), parts(4)[1:], src=2) if RANK == 2 else None,
    all_to_all=lambda: filled(dist.all_to_all, zeros(3), parts(3)),
    all_to_all_uneven=lambda: all_to_all_uneven(),
    all_to_all_single_uneven=lambda: filled(
        dist.all_to_all_single, torch.zeros(3, 2), mine(3, 2), [(RANK + i) % 3 for i in range(WORLD)],
        [(RANK + i) % 3 for i in range(WORLD)]),
    all_to_all_single_gaps=lambda: filled(
        dist.all_to_all_single, strided(torch.zeros(2 * WORLD, 2)[:, 0]), strided(mine(2 * WORLD, 2)[:, 1])),
    all_to_all_single_not_divisible=lambda: filled(dist.all_to_all_single, torch.zeros(2 * WORLD + 1), mine(2 * WORLD + 1)),
    all_to_all_single_of_too_few=lambda: filled(
        dist.all_to_all_single, torch.zeros(2 * WORLD), mine(2 * WORLD), [1] * WORLD, [1] * WORLD),
    all_to_all_too_few=lambda: filled(dist.all_to_all, zeros(3)[1:], parts(3)[1:]),
    all_to_all_of_several_dtypes=lambda: filled(dist.all_to_all, zeros(3, dtype=torch.float64), parts(3)),
)


@row
def all_gather_object():
    objects = [None] * WORLD
    dist.all_gather_object(objects, {"rank": RANK, "text": "x" * RANK})
    return objects


@row
def gather_object():
    objects = [None] * WORLD if RANK == 1 else None
    dist.gather_object({"rank": RANK}, objects, dst=1)
    return objects


@row
def broadcast_object_list():
    objects = [{"of": RANK}, RANK]
    dist.broadcast_object_list(objects, src=1)
    return objects


@row
def scatter_object_list():
    objects = [None]
    dist.scatter_object_list(objects, [f"to {i}" for i in range(WORLD)] if RANK == 2 else None, src=2)
    return objects


@row
def send_object_list():
    objects = [None, None]
    if RANK == 0:
        dist.send_object_list(["message", 7], dst=1)
    if RANK == 1:
        dist.recv_object_list(objects, src=0)
    return objects


# ------------------------------------------------------------------------------------------------------ messages


@row
def send_recv():
    x, y = mine(5), torch.zeros(5)
    if RANK == 0:
        dist.send(x, NEXT)
        return y, dist.recv(y, LAST)
    source = dist.recv(y, LAST)
    dist.send(x, NEXT)
    return y, source


@row
def isend_irecv_by_tag():
    ys = zeros(5)
    works = [dist.irecv(ys[tag], LAST, tag=tag) for tag in reversed(range(3))]
    works += [dist.isend(mine(5, of=RANK + tag), NEXT, tag=tag) for tag in range(3)]
    for work in works:
        work.wait()
    return ys


@row
def batch_isend_irecv():
    y = torch.zeros(5)
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, mine(5), NEXT), dist.P2POp(dist.irecv, y, LAST)]):
        work.wait()
    return y


@row
def recv_gaps():
    y = strided(torch.zeros(6, 2)[:, 0])
    work = dist.isend(strided(mine(6, 2)[:, 1]), NEXT)
    dist.recv(y, LAST)
    return after(work, y)


@row
def recv_from_any_rank():
    dist.recv(torch.zeros(5))


rows(
    send_to_itself=lambda: dist.send(mine(3), RANK),
    recv_from_itself=lambda: dist.recv(mine(3), RANK),
    send_to_a_negative_rank=lambda: dist.send(mine(3), group_dst=-1),
    send_with_negative_tag=lambda: dist.send(mine(3), NEXT, tag=-1),
    send_to_no_rank=lambda: dist.send(mine(3), WORLD),
)

# ------------------------------------------------------------------------------------------------------ groups and barriers

@row
def record_comm():
    with dist.distributed_c10d.record_comm("a name"):
        return reduced(dist.all_reduce, mine(3))


rows(
    barrier=dist.barrier,
    barrier_async=lambda: after(dist.barrier(async_op=True)),
    barrier_with_timeout=lambda: dist.barrier(timeout=LONG),
    barrier_on_devices=lambda: dist.barrier(device_ids=[0]),
    monitored_barrier=dist.monitored_barrier,
    monitored_barrier_of_all=lambda: dist.monitored_barrier(timeout=LONG, wait_all_ranks=True),
    set_timeout=lambda: dist.set_timeout(LONG),
    get_rank=lambda: (dist.get_rank(), dist.get_world_size(), dist.get_group_rank(dist.group.WORLD, 1),
                      dist.get_global_rank(dist.group.WORLD, 1), dist.get_process_group_ranks(None)),
    get_node_local_rank=lambda: dist.get_node_local_rank(fallback_rank=7),
    get_backend=lambda: dist.get_backend() == BACKEND and dist.is_backend_available(BACKEND),
    get_backend_config=lambda: dist.get_backend_config().replace(BACKEND, "backend"),
    get_default_backend_for_device=lambda: dist.get_default_backend_for_device("cpu"),
    get_pg_count=lambda: dist.get_pg_count() > 0,
    get_debug_level=lambda: dist.get_debug_level() is not None,
    get_backend_impl=lambda: dist.distributed_c10d.get_backend_impl(device=torch.device("cpu")).size(),
    supports_complex=lambda: [dist.distributed_c10d.supports_complex(op) for op in (ReduceOp.SUM, ReduceOp.MAX)],
    is_initialized=lambda: (dist.is_initialized(), dist.is_available(), dist.is_torchelastic_launched()),
    is_gloo_available=lambda: [
        getattr(dist, f"is_{each}_available")() for each in ("gloo", "mpi", "nccl", "ucc", "xccl")],
    shrink_group=lambda: dist.shrink_group([1]),
)


def in_group(make):
    """What a collective, a root and the ranks are there."""
    group = make()
    if group is None or group == dist.GroupMember.NON_GROUP_MEMBER:
        return "none"
    x, y, objects = mine(5), mine(5), [RANK]
    dist.all_reduce(x, group=group)
    dist.broadcast(y, group_src=dist.get_world_size(group) - 1, group=group)
    dist.broadcast_object_list(objects, src=dist.get_global_rank(group, 0), group=group)
    dist.monitored_barrier(group)
    seen = dist.get_process_group_ranks(group), dist.get_rank(group), dist.get_world_size(group)
    dist.barrier(group)
    dist.destroy_process_group(group)
    return x, y, objects, seen


rows(
    new_group=lambda: in_group(lambda: dist.new_group([0, 2])),
    new_group_unsorted=lambda: in_group(lambda: dist.new_group([2, 0], sort_ranks=False)),
    new_group_of_all=lambda: in_group(lambda: dist.new_group(timeout=LONG, group_desc="all")),
    new_group_by_its_members=lambda: in_group(lambda: dist.new_group([2, 1, 0], use_local_synchronization=True)),
    new_group_of_backend=lambda: in_group(lambda: dist.new_group([0, 1], backend=BACKEND)),
    new_group_of_gloo=lambda: in_group(lambda: dist.new_group([0, 1], backend="gloo")),
    new_group_with_options=lambda: in_group(lambda: dist.new_group([0, 1, 2], pg_options=object())),
    new_subgroups=lambda: in_group(lambda: dist.new_subgroups(1)[0]),
    new_subgroups_by_enumeration=lambda: in_group(lambda: dist.new_subgroups_by_enumeration([[2, 1], [0]])[0]),
    split_group=lambda: in_group(lambda: dist.split_group(split_ranks=[[2, 0]], timeout=LONG)),
)


@row
def destroy_and_begin_again():
    dist.destroy_process_group()
    dist.init_process_group(BACKEND, init_method="file://" + STORE + ".again", rank=RANK, world_size=WORLD, timeout=LONG)
    x = mine(5)
    dist.all_reduce(x)
    return x


def plain(x):
    """What a file has of it."""
    if isinstance(x, torch.Tensor):
        return x.detach().clone()
    if isinstance(x, dict):
        return {name: plain(value) for name, value in x.items()}
    return [plain(value) for value in x] if isinstance(x, (list, tuple)) else x


def main():
    torch.set_num_threads(1)
    dist.init_process_group(BACKEND, init_method="file://" + STORE, rank=RANK, world_size=WORLD, timeout=LONG)
    said = {}
    for name, call in ROWS.items():
        if BACKEND == "gloo" and refusal(name):
            continue
        print(name, flush=True)
        try:
            said[name] = refusal(name), "returns", plain(call())
        except Exception as error:
            said[name] = refusal(name), "raises", type(error).__name__
            print(f"{name} raises {type(error).__name__}: {error}", flush=True)
    dist.barrier()
    dist.destroy_process_group()
    torch.save(said, OUT)


if __name__ == "__main__":
    main()
