"""What c10d calls a tensor or a reduction, in the session's words: elements it moves, numbers it adds, names of operations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Sequence

import torch
import torch.distributed as dist

import ringway

if TYPE_CHECKING:
    Tensors = Sequence[torch.Tensor]

OPS = {
    dist.ReduceOp.SUM: "sum",
    dist.ReduceOp.AVG: "avg",
    dist.ReduceOp.PRODUCT: "prod",
    dist.ReduceOp.MIN: "min",
    dist.ReduceOp.MAX: "max",
}
_UNSIGNED = {torch.uint16, torch.uint32, torch.uint64}
_INTEGERS = {torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, *_UNSIGNED}
# NumPy arrays are borrowed in half the time of tensors, which counts in small operations.
OF_NUMPY = {*_INTEGERS, torch.float16, torch.float32, torch.float64}
_NUMBERS = {*OF_NUMPY, torch.bfloat16}
_MOVED_AS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}  # what has no numbers, by its bytes


def elements_of(tensor: torch.Tensor) -> torch.Tensor:
    """The same memory as elements that Ringway moves, if it is dense."""
    if not tensor.is_cpu and not tensor.is_cuda:
        raise ringway.NotSupported(f"a tensor is on {tensor.device}: the backend takes those of the host and of CUDA")
    if tensor.is_sparse or tensor.is_quantized:
        raise ringway.NotSupported("a tensor is sparse or quantized: the backend takes dense ones")
    tensor = tensor.detach()
    if tensor.dtype in _NUMBERS:
        return tensor
    return torch.view_as_real(tensor) if tensor.dtype.is_complex else tensor.view(_MOVED_AS[tensor.itemsize])


def numbers_of(tensor: torch.Tensor) -> torch.Tensor:
    """The same memory as numbers that Ringway adds."""
    elements = elements_of(tensor)
    if tensor.dtype not in _NUMBERS and tensor.dtype != torch.bool and not tensor.dtype.is_complex:
        raise ringway.NotSupported(f"the backend moves {tensor.dtype}, and does not reduce it: convert it first")
    return elements


def bits_of(tensor: torch.Tensor) -> torch.Tensor:
    """The same memory as what bitwise reductions combine."""
    if tensor.dtype not in _INTEGERS and tensor.dtype != torch.bool:
        raise ringway.NotSupported(f"bitwise reductions are of integers and bool, not of {tensor.dtype}")
    return elements_of(tensor).view(_MOVED_AS[tensor.itemsize])  # torch combines no long unsigned ones


def is_dense(tensor: torch.Tensor) -> bool:
    """And in host memory."""
    return tensor.is_cpu and not tensor.is_sparse and tensor.is_contiguous()


class Place:
    """Where a result goes. The session reads and writes a contiguous tensor; `settle` divides the average of integers by
    `divisor`, and copies it to one with gaps."""

    def __init__(self, elements: torch.Tensor, divisor: int = 1) -> None:
        if any(stride == 0 and length > 1 for stride, length in zip(elements.stride(), elements.shape)):
            raise ringway.InvalidArgument("elements of a tensor that is written to share their memory: clone it")
        self._elements, self._divisor = elements, divisor
        self._dense = elements.contiguous()

    @property
    def lent(self) -> Any:
        """What the session borrows."""
        return self._dense.numpy() if self._dense.is_cpu and self._dense.dtype in OF_NUMPY else self._dense

    @property
    def is_settled(self) -> bool:
        return self._divisor == 1 and self._dense is self._elements

    def settle(self) -> None:
        divide(self._dense, self._divisor)
        if self._dense is not self._elements:
            self._elements.copy_(self._dense)


def settling(places: Sequence[Place]) -> Callable[[], None] | None:
    """What is left to do when the operation is over; None: nothing."""
    unsettled = [place for place in places if not place.is_settled]
    if not unsettled:
        return None

    def settle() -> None:
        for place in unsettled:
            place.settle()

    return settle


def listed(tensors: Any) -> Tensors:
    """Of calls of a group's own methods that name one tensor."""
    return [tensors] if isinstance(tensors, torch.Tensor) else tensors


def reduction_of(opts: Any) -> Any:
    """Of a collective's options, which may be the reduction itself, or None."""
    given = getattr(opts, "reduceOp", opts)
    return dist.ReduceOp.SUM if given is None else getattr(given, "op", given)


def name_of(op: Any, dtype: torch.dtype) -> str:
    """What the session calls it. Averages of integers are sums, which `divide` completes."""
    name = OPS.get(op)
    if name is None:
        raise ringway.NotSupported(f"the backend has no reduction {op} here")
    if dtype == torch.bool:  # as any and all
        name = {"sum": "max", "prod": "min"}.get(name, name)
        if name == "avg":
            raise ringway.NotSupported("avg of bool is not defined")
    if dtype.is_complex and name not in ("sum", "avg"):
        raise ringway.NotSupported(f"{name} of complex numbers is not defined")
    return "sum" if name == "avg" and dtype in _INTEGERS else name


def divisor_of(op: Any, dtype: torch.dtype, size: int) -> int:
    """What the sum that the session makes is to be divided by."""
    return size if op == dist.ReduceOp.AVG and dtype in _INTEGERS else 1


def divide(total: torch.Tensor, count: int) -> None:
    """Towards zero."""
    if count == 1:
        return
    if total.dtype not in _UNSIGNED:
        total.copy_(torch.div(total, count, rounding_mode="trunc"))
        return
    host = total.cpu()  # torch divides none of these
    host.numpy()[...] //= count
    total.copy_(host)


def check_alike(tensors: Tensors, one: torch.Tensor) -> None:
    """Else copying would repeat or convert them silently."""
    if any(tensor.shape != one.shape or tensor.dtype != one.dtype for tensor in tensors):
        those = {(tuple(tensor.shape), tensor.dtype) for tensor in tensors}
        raise ringway.InvalidArgument(f"parts of {those} and a tensor of {(tuple(one.shape), one.dtype)}: they have to be alike")
