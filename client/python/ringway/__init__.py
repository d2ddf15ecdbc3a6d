"""Collectives between trainers in different datacenters, over a local daemon that survives the loss of peers.

    import ringway

    with ringway.join("job", wait_world=4) as session:
        gradient = session.empty(1000, "float32")       # shared memory: no copies
        result = session.all_reduce(gradient, "avg")    # result.world_size ranks took part: the same bytes on all

Every failure is a subclass of `Error`, whose docstring says what it means and what to do: `help(ringway.Mismatch)`.
"""

from importlib.metadata import version as _version

from ringway._local import LocalCluster as LocalCluster
from ringway._local import local as local
from ringway._ringway import *  # the errors, Work, Result, Member
from ringway._session import Options as Options
from ringway._session import Session as Session
from ringway._session import join as join
from ringway._shared_state import SharedState as SharedState
from ringway._shared_state import sync_shared_state as sync_shared_state

__version__ = _version(__name__)

for _public in list(vars().values()):  # of this package, wherever they are defined
    if getattr(_public, "__module__", "").startswith("ringway."):
        _public.__module__ = __name__
del _public
