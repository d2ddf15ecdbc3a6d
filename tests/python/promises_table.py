"""What the rows of promises.py and promises_training.py are made of: the table that they are added to, what each may raise, and
tensors that differ on each rank."""
import fnmatch
import sys
import warnings
from datetime import timedelta

import torch
from torch.distributed.distributed_c10d import ReduceOp

warnings.simplefilter("ignore")
BACKEND, STORE, RANK, WORLD, OUT = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
NEXT, LAST = (RANK + 1) % WORLD, (RANK - 1) % WORLD
LONG = timedelta(seconds=120)
ROWS = {}
# The errors that Ringway raises for a row, by patterns of names. Gloo does not run these: it does something, or waits for ever.
REFUSED = {
    "NotSupported": ["* premul_sum *", "reduce_scatter* b* *", "* b* f*", "* b* bf16", "all_reduce * f8", "all_reduce avg bool",
                     "all_reduce_meta", "recv_from_any_rank", "new_group_with_options"],
    "InvalidArgument": ["*_no_rank", "*_a_negative_rank", "*_negative_tag", "*_too_few", "*_too_many", "*_other_shapes", "*_another_size",
                        "reduce_scatter_tensor_of_another_dtype", "all_reduce_expanded", "*_not_divisible", "recv_from_itself"],
    # torch raises these, with any backend:
    "ValueError": ["all_reduce max complex64", "all_reduce band complex64", "broadcast_without_root", "all_gather_another_dtype",
                   "all_to_all_of_several_dtypes", "send_to_itself"],
    "TypeError": ["all_reduce_of_list", "all_reduce_bad_op", "shrink_group"],
    "RuntimeError": ["all_reduce_conjugated"],
}


def refusal(name):
    """The class of what the row raises; None: it returns something."""
    return next((kind for kind, patterns in REFUSED.items() if any(fnmatch.fnmatch(name, each) for each in patterns)), None)


def row(function):
    ROWS[function.__name__] = function
    return function


def rows(**functions):
    ROWS.update(functions)


def mine(*shape, dtype=torch.float32, of=RANK):
    """Other elements on each rank, small and exact in every dtype."""
    count = torch.Size(shape).numel()
    return ((torch.arange(count) * 7 + of * 5) % 11 + 1).to(dtype).view(shape)


def parts(*shape, dtype=torch.float32):
    return [mine(*shape, dtype=dtype, of=RANK + i) for i in range(WORLD)]


def zeros(*shape, dtype=torch.float32):
    return [torch.zeros(shape, dtype=dtype) for _ in range(WORLD)]


def after(work, *tensors):
    work.wait()
    return tensors


def beyond_gloo(ours, by_gloo):
    """What Gloo refuses, and the words for it that Gloo takes."""
    return ours if BACKEND == "ringway" else by_gloo


def strided(x):
    """A tensor with gaps, which Gloo takes for one without."""
    return beyond_gloo(x, x.contiguous())


def reduced(call, x, *arguments, op=ReduceOp.SUM, root=None, **options):
    """What ranks other than a root have is unspecified."""
    dtype = (x[0] if isinstance(x, list) else x).dtype
    by_sum = BACKEND == "gloo" and op == ReduceOp.AVG and not dtype.is_floating_point and not dtype.is_complex
    call(x, *arguments, op=ReduceOp.SUM if by_sum else op, **options)
    for each in (x if isinstance(x, list) else [x]) if by_sum else ():
        each.copy_(each.div(WORLD, rounding_mode="trunc"))
    return x if root in (None, RANK) else None
