"""PyTorch: DistributedDataParallel whose gradients Ringway averages, over deaths and newcomers.

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)  # DDP asks for one; nothing goes over it
    model = DistributedDataParallel(model)
    hook = ringway.torch.ddp_hook(model, session)
    for batch in batches:
        optimizer.zero_grad()
        loss(model(batch)).backward()   # the gradients are now the averages over those who took part
        optimizer.step()
        if hook.take_update():          # the same on all ranks
            session.update_view()       # lets newcomers in: share the state with them

DDP's own process group has one rank, so it does not broadcast the parameters: start all ranks with the same ones, or share them
first. The first pass of a rank compares them, and raises Mismatch on all. Tensors are in host memory or a GPU's, which is staged
through the host.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import ringway._c10d  # registers the backend
import torch
import torch.distributed
from ringway._ddp import DdpHook as DdpHook
from ringway._c10d_join import GroupOptions as GroupOptions
from ringway._ddp import _ChunkAverage as _ChunkAverage
from ringway._diloco import DiLoCo as DiLoCo

if TYPE_CHECKING:
    from datetime import timedelta

    from typing_extensions import Unpack

    from ringway import Options, Session


def ddp_hook(
    model: torch.nn.parallel.DistributedDataParallel,
    session: Session,
    *,
    overlap_mb: float | None = None,
    skip_nonfinite: bool = False,
    **options: Unpack[Options],
) -> DdpHook:
    """Registers the communication hook of a model whose gradients `session` averages from now on.

    overlap_mb: chunks of so many megabytes (25 is DDP's own size) travel while the backward pass goes on. A peer that dies in
        the middle then has a part in some chunks and not in others. None: the gradients of a dtype are one operation at the end
        of the pass, all averages over the same contributors.
    skip_nonfinite: the same on all ranks. A rank whose gradients have an infinity or a NaN is left out of the average, chunk by
        chunk: `hook.results` have the others as `contributors`; `hook.left_out` counts on that rank, whose log says so. If nobody
        is left the gradients are 0. It takes one small operation a chunk more. False: one such rank makes all averages NaN.
    options: of each operation, as codec="int8"; of `error_feedback` each chunk adds its number to the name. `quorum`, `grace`
        and `late`: passes go on without late ranks, each chunk as the average over its own contributors, which may differ from
        chunk to chunk (`hook.results`); "all" and None: all ranks', whatever the group's. `weight`: the averages are weighted,
        as by `hook.weight`, which may be set before each pass.
    """
    hook = DdpHook(model, session, options, overlap_mb, skip_nonfinite)
    model.register_comm_hook(None, hook._average)
    return hook


def reconfigurable_group(timeout: timedelta) -> torch.distributed.ProcessGroup:
    """A process group beside the default one, which needs none: without members before its first reconfiguration.

    torch.distributed's `_get_reconfigure_handle`, `_reconfigure` and collectives take it by `group=`; a root is named by its rank in
    it, as `group_src=`. It ends with `destroy_process_group`, of all groups or of this one. torch makes the default group so, by `init_process_group("ringway", enable_reconfigure=True)`.
    timeout: of operations that name none, and of reconfigurations.
    """
    store, name = torch.distributed.HashStore(), f"ringway:{uuid.uuid4().hex}"
    group = ringway._c10d.RingwayProcessGroup(store, 0, 1, timeout, title=name, enable_reconfigure=True)
    torch.distributed.distributed_c10d._register_pg_in_world(group, "ringway", store, name, "cpu:ringway,cuda:ringway", {})
    group._tell_torch()
    return group


def lost_ranks(group: torch.distributed.ProcessGroup | None = None) -> list[int]:
    """Ranks of a process group of the backend "ringway" that are lost, as far as this rank knows.

    When an operation has raised PeerLost or WorldTooSmall there is one at least. Survivors may learn of a second loss at different
    times: who waits for something of another rank asks again. Of a group that can be reconfigured they are ranks of the last
    configuration that succeeded, and none before the first; of others global ranks.
    group: None: the default one.
    """
    group = torch.distributed.group.WORLD if group is None else group
    if not isinstance(group, ringway._c10d.RingwayProcessGroup):
        raise ringway.InvalidArgument(f"{group!r} is no process group of the backend ringway")
    return group.lost_ranks()
