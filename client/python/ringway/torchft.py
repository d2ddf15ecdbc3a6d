"""torchft: the collectives of its Manager by Ringway, between replicas in different datacenters.

    group = ringway.torchft.ProcessGroupRingway(timeout=timedelta(seconds=60))
    manager = torchft.Manager(pg=group, min_replica_size=2, load_state_dict=.., state_dict=..)
    model = ringway.torchft.DistributedDataParallel(manager, model)
    optimizer = torchft.Optimizer(manager, optimizer)

torchft's lighthouse says who takes part in a step, and the Manager divides by how many those are. So an operation that loses a
rank fails on all others; the Manager leaves the step out, and configures the group anew with those who are left.
`ringway.torch.ddp_hook` goes on within the step, and needs no lighthouse.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torchft
from torchft.process_group import ProcessGroup, ProcessGroupWrapper

from ringway._c10d import RingwayProcessGroup

if TYPE_CHECKING:
    import torch.distributed as dist

# torchft 0.2 tells a process group its new ranks by `configure`; what comes after it by handles of its own and `reconfigure`.
# Both make the group by `_create_pg`.
_IS_KNOWN = hasattr(ProcessGroup, "configure") or hasattr(ProcessGroup, "set_rank_info")
if not _IS_KNOWN or not hasattr(ProcessGroupWrapper, "_create_pg"):
    raise ImportError(
        "this version of torchft makes its process groups neither as 0.2 does nor as torchft-nightly of October 2026: "
        "pip install torchft==0.2.0, or use torch.distributed's reconfiguration of the backend ringway"
    )


class ProcessGroupRingway(ProcessGroupWrapper):
    """torchft's reconfigurable process group: each quorum is a group of Ringway, by the backend of `ringway.torch`.

    timeout: of joining a quorum's group, and of each operation.

    The daemon's socket and the beginning of the groups' names are from RINGWAY_SOCKET and RINGWAY_GROUP. Threads: the Manager's
    one configures, others submit, any aborts.
    """

    def _create_pg(self, store: dist.Store, rank: int, world_size: int) -> RingwayProcessGroup:
        return RingwayProcessGroup(store, rank, world_size, self._timeout)

    def errored(self) -> Exception | None:
        """What an operation of this quorum failed with; the Manager asks before it commits a step."""
        group = self._pg
        return group.error if isinstance(group, RingwayProcessGroup) else None

    def shutdown(self) -> None:
        """Leaves the group when what is running is over."""
        group, self._pg = self._pg, None
        if group is not None:
            group.shutdown()

    def getBackendName(self) -> str:
        return "torchft-ringway"


class DistributedDataParallel(torchft.DistributedDataParallel):
    """torchft's, but for its hook: that of torchft 0.2 raises when an operation fails, as by Gloo, or is left out after that."""

    @staticmethod
    def _comm_hook(state, bucket):  # type: ignore[no-untyped-def]  # DDP compares annotations, if there are any
        state.allreduce(bucket.buffer()).wait()  # what it fails with the Manager keeps
        done: torch.futures.Future[torch.Tensor] = torch.futures.Future()
        done.set_result(bucket.buffer())
        return done
