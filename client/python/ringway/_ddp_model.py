"""What a DistributedDataParallel model keeps where, and what of it a communication hook cannot do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NoReturn

import torch
from torch.distributed import GradBucket  # type: ignore[attr-defined,unused-ignore]

from ringway import InvalidArgument, NotSupported

Model = torch.nn.parallel.DistributedDataParallel


def check(model: Model) -> None:
    """Raises NotSupported or InvalidArgument for a model of which DDP promises what the hook would not do."""
    if not isinstance(model, Model):
        raise InvalidArgument(f"the hook is for a DistributedDataParallel model, not for {type(model).__name__}")
    for is_refused, text in _unsupported(model):
        if is_refused:
            raise NotSupported(f"ddp_hook: {text}")
    if model.process_group.size() != 1:
        raise InvalidArgument(
            f"DDP's process group has {model.process_group.size()} ranks, whose gradients the hook would not average: "
            "make the DistributedDataParallel with a group of one rank"
        )
    if model._comm_hooks:
        raise InvalidArgument("the model has a communication hook already, and DDP takes one")


def _unsupported(model: Model) -> Iterator[tuple[object, str]]:
    """In this order: a model whose gradients are all delayed has no reducer."""
    yield (
        model._delay_all_reduce_params,
        "DDP averages the parameters of delay_all_reduce_named_params itself, over its own group",
    )
    yield model.mixed_precision, "mixed_precision has a communication hook of its own; use torch.autocast"
    yield model._use_python_reducer, "the python_reducer has no buckets: set torch._dynamo.config.optimize_ddp to another mode"
    yield (
        getattr(model, "skip_all_reduce_unused_params", False),
        "with skip_all_reduce_unused_params DDP does not call the hook for some gradients",
    )
    yield any(model._build_params_for_reducer()[1]), "sparse gradients: make the Embedding with sparse=False"
    yield model.is_multi_device_module, "the parameters are on several devices"
    yield (
        any(hasattr(p, "_in_backward_optimizers") for p in model.parameters()),
        "optimizers in the backward pass have a communication hook of their own",
    )
    yield (
        any(isinstance(module, torch.nn.SyncBatchNorm) for module in model.modules()),
        "SyncBatchNorm takes its statistics over DDP's own group, which has one rank: use BatchNorm",
    )


def refuse_join(model: Model) -> None:
    """Makes `model.join()`, and a Join with the model in it, raise: DDP's group has one rank, so that no others would be shadowed."""

    def refuse(*_: object, **__: object) -> NoReturn:
        raise NotSupported(
            "ddp_hook: a rank whose inputs are exhausted leaves the session, and the others go on without it; "
            "DDP's join() would not know of the others"
        )

    model.join = refuse  # type: ignore[method-assign]
    model.join_hook = refuse  # type: ignore[method-assign]


def reduced_parameters(model: Model) -> list[torch.nn.Parameter]:
    """Those whose gradients DDP averages, in the model's order."""
    parameters: list[torch.nn.Parameter] = model._build_params_for_reducer()[0]
    return parameters


def named_parameters(model: Model) -> list[tuple[str, torch.nn.Parameter]]:
    """All that DDP keeps alike, frozen ones, too."""
    return [(name, p) for name, p in model.module.named_parameters() if name not in model.parameters_to_ignore]


def synced_buffers(model: Model) -> list[torch.Tensor]:
    """Those that DDP broadcasts before a forward pass: looked up each time, as modules may assign others."""
    if not model.broadcast_buffers or hasattr(model, "buffer_hook"):
        return []
    return [x for name, x in model.module.named_buffers() if name not in model.parameters_to_ignore and x.numel() > 0]


def gradients_of(bucket: GradBucket) -> list[torch.Tensor]:
    """The gradients of bucket.parameters() as flat views of the bucket, which they cover exactly. Complex ones are pairs of reals:
    bucket.gradients() has half of each."""
    buffer, at, gradients = bucket.buffer(), 0, []
    for p in bucket.parameters():
        reals = 2 * p.numel() if p.is_complex() else p.numel()
        gradients.append(buffer[at : at + reals])
        at += reals
    if buffer.dim() != 1 or at != buffer.numel():
        raise NotSupported(f"DDP's bucket has shape {tuple(buffer.shape)}, and its parameters have {at} gradients")
    return gradients


def in_layout_of(p: torch.nn.Parameter, gradient: torch.Tensor) -> torch.Tensor:
    """A flat gradient of a bucket as a view that has the parameter's shape; DDP stores dense ones by the parameter's strides."""
    if p.is_complex():
        gradient = torch.view_as_complex(gradient.view(-1, 2))
    span = 1 + sum((length - 1) * stride for length, stride in zip(p.size(), p.stride()))
    return gradient.as_strided(p.size(), p.stride()) if span == p.numel() else gradient.view(p.size())
