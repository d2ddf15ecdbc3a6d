"""The leaves of a state: arrays, numbers and constants, by name, in nested mappings, sequences, modules and optimizers.

A leaf's name is its path, such as `optimizer.state.0.exp_avg`; that of a child of the outermost mapping is its key.
"""

from __future__ import annotations

import functools
import hashlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, MutableSequence, Set
from typing import Any, Union

from ringway._ringway import InvalidArgument

Put = Union[Callable[[Any], object], None]
"""Replaces a number in what contains it. None: that cannot be changed."""


class Leaf:
    """One entry of the state. `array` has its bytes: those of an array where they are, those of a number in a copy."""

    __slots__ = ("_bytes_before", "_put", "array", "name", "value", "watched")

    def __init__(self, name: str, value: Any, put: Put, watched: bool) -> None:
        self.name, self.value, self._put = name, value, put
        self.watched = watched
        """Whether it is of a module's state_dict(), whose tensors are not the module's own, but share their memory."""
        self.array: Any = None

    @property
    def identity(self) -> tuple[Any, ...]:
        """What has to stay as it is while the state is shared; cheap."""
        x = self.value
        if is_tensor(x):
            return (self.name, x.data_ptr(), x.dtype, x.shape, x.stride())
        if _is_array(x):
            return (self.name, x.ctypes.data, x.dtype, x.shape, x.strides)
        return (self.name, type(x), x if _is_constant(x) else None)

    def describe(self) -> str:
        """What all ranks must have alike beside the name: dtype and shape of an array."""
        x = self.value
        if _is_constant(x):
            text = "None" if x is None else f"{type(x).__name__} {ascii(x)}"
            return text if len(text) <= 500 else f"{text[:400]}.. {hashlib.sha256(text.encode()).hexdigest()}"
        if not is_tensor(x) and not _is_array(x):
            return type(x).__name__
        dtype = str(x.dtype).partition(".")[2] if is_tensor(x) else str(x.dtype)
        order = [] if 0 in x.shape else [axis for axis in _memory_order(x) if x.shape[axis] > 1]
        return f"{dtype}{list(x.shape)}" + ("" if order == sorted(order) else f" with axes {order} in memory")

    def expose(self) -> Any:
        """Makes `array` that of the bytes as they are now, and returns it."""
        import numpy

        if is_tensor(self.value):
            self.array = _bytes_of_tensor(self.name, self.value)
        elif _is_array(self.value):
            self.array = _bytes_of_array(self.name, self.value)
        elif _is_constant(self.value):
            self.array = numpy.empty(0, "uint8")
        else:
            if self._put is None:
                raise TypeError(f'"{self.name}" of the shared state is a {type(self.value).__name__}, which cannot be '
                                "replaced where it is: pass an array of it, or a dict or list that it is in")
            self.array = self._number().reshape(-1).view("uint8")
            self._bytes_before = self.array.tobytes()
        return self.array

    def replace(self, old: Leaf) -> None:
        """Goes on with the memory of the leaf that this was before: that of a number gets the bytes of this one."""
        self.array = old.array
        if self._is_number():
            self.array[:] = self._number().reshape(-1).view("uint8")
            self._bytes_before = self.array.tobytes()

    def put_back(self) -> None:
        """Replaces a number whose bytes have been changed."""
        if self._is_number() and self._put is not None and self.array.tobytes() != self._bytes_before:
            number = self.array.view(self._number().dtype)[0]
            self.value = number if _is_scalar(self.value) else type(self.value)(number.item())
            self._bytes_before = self.array.tobytes()
            self._put(self.value)

    def _is_number(self) -> bool:
        return not (is_tensor(self.value) or _is_array(self.value) or _is_constant(self.value))

    def _number(self) -> Any:
        import numpy

        if _is_scalar(self.value):
            return numpy.asarray(self.value)
        try:
            return numpy.array(self.value, _NUMBERS[type(self.value)])
        except OverflowError:
            raise InvalidArgument(f'"{self.name}" of the shared state is {self.value}, which has more than 64 bits') from None


_NUMBERS = {bool: "bool", int: "int64", float: "float64", complex: "complex128"}


def leaves(state: Any) -> list[Leaf]:
    """All of them, in an order that is the same on all ranks which have the same names."""
    return list(_walk("", state, None, False))


def is_tensor(x: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def _is_array(x: Any) -> bool:
    import numpy

    return isinstance(x, numpy.ndarray)


def _is_scalar(x: Any) -> bool:
    import numpy

    return isinstance(x, numpy.generic)


def _is_constant(x: Any) -> bool:
    return x is None or type(x) in (str, bytes)


def _walk(name: str, node: Any, put: Put, watched: bool) -> Iterator[Leaf]:
    def child(key: Any) -> str:
        return f"{name}.{key}" if name else str(key)

    torch: Any = sys.modules.get("torch")
    if is_tensor(node) or _is_array(node) or _is_scalar(node) or _is_constant(node) or type(node) in _NUMBERS:
        yield Leaf(name, node, put, watched)
    elif torch is not None and isinstance(node, torch.nn.Module):
        for key, value in sorted(node.state_dict(keep_vars=True).items()):
            yield from _walk(child(key), value, None, False)
    elif torch is not None and isinstance(node, torch.optim.Optimizer):
        parameters = [x for group in node.param_groups for x in group["params"]]
        for index, parameter in enumerate(parameters):
            if parameter in node.state:  # which is a defaultdict
                yield from _walk(child(f"state.{index}"), node.state[parameter], None, False)
        for index, group in enumerate(node.param_groups):
            for key in sorted(group.keys() - {"params"}):
                put_child = functools.partial(group.__setitem__, key)
                yield from _walk(child(f"param_groups.{index}.{key}"), group[key], put_child, False)
    elif isinstance(node, Mapping):
        watched = watched or hasattr(node, "_metadata")  # which module.state_dict() sets
        for key in sorted(node, key=str):
            if not isinstance(key, (str, int)):
                raise TypeError(f"a key of the shared state, {child(key)}, is a {type(key).__name__}; keys are str or int")
            put_child = functools.partial(node.__setitem__, key) if isinstance(node, MutableMapping) else None
            yield from _walk(child(key), node[key], put_child, watched)
    elif isinstance(node, Iterable) and not isinstance(node, Set) and not hasattr(node, "__dlpack__"):
        put_item = _putter(node, put)
        for index, value in enumerate(node):
            yield from _walk(child(index), value, put_item and functools.partial(put_item, index), watched)
    elif callable(node):
        yield from _walk(name, node(), None, watched)
    else:
        what = f'"{name}" of the shared state' if name else "the shared state"
        raise TypeError(f"{what} is a {type(node).__name__}; it may have arrays of NumPy and torch, numbers, str, bytes "
                        "and None, in dicts, lists, tuples, modules and optimizers")


def _putter(node: Any, put: Put) -> Callable[[int, Any], object] | None:
    """Replaces an item of a sequence; one of a tuple by another tuple, in what contains it."""
    if isinstance(node, MutableSequence):
        return node.__setitem__
    if not isinstance(node, tuple) or put is None:
        return None
    items = list(node)

    def put_item(index: int, value: Any) -> None:
        items[index] = value
        put(type(node)(*items) if hasattr(node, "_fields") else type(node)(items))

    return put_item


def _memory_order(x: Any) -> list[int]:
    """The axes of an array or a tensor from the outermost to the innermost."""
    strides = x.stride() if is_tensor(x) else x.strides
    return sorted(range(x.ndim), key=lambda axis: -strides[axis])


def _refuse_gaps(name: str) -> InvalidArgument:
    return InvalidArgument(f'"{name}" of the shared state has gaps or repeats elements: pass a contiguous copy')


def _bytes_of_tensor(name: str, tensor: Any) -> Any:
    """A flat array of the bytes of a tensor without gaps, in its memory. What a GPU's current stream does to it has ended."""
    import torch

    is_lazy = tensor.is_conj() or tensor.is_neg()
    if tensor.layout != torch.strided or tensor.is_meta or is_lazy or hasattr(tensor, "to_local"):
        raise InvalidArgument(f'"{name}" of the shared state, a {type(tensor).__name__} of layout {tensor.layout} on '
                              f"{tensor.device}, is not a plain tensor of this process: pass one, such as x.to_local()")
    permuted = tensor.detach().permute(_memory_order(tensor))
    if not permuted.is_contiguous():
        raise _refuse_gaps(name)
    flat = permuted.reshape(-1).view(torch.uint8)
    if flat.is_cuda:
        torch.cuda.current_stream(flat.device).synchronize()
    return flat.numpy() if flat.is_cpu else flat


def _bytes_of_array(name: str, array: Any) -> Any:
    import numpy

    if array.dtype.hasobject:
        raise InvalidArgument(f'"{name}" of the shared state has elements of {array.dtype}, which are of this process')
    permuted = array.transpose(_memory_order(array))
    if not permuted.flags.c_contiguous:
        raise _refuse_gaps(name)
    return permuted.reshape(-1).view(numpy.uint8)
