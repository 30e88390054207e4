"""Which implementation of an op runs: the compiled one where it fits, or the reference.

The compiled CPU kernels compute in float32. Of half-precision tensors they get float32 copies, and
only results are rounded: more exact than the reference, and far faster than processors without
instructions for bfloat16 are with it.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from sdrop.ops import linear as linear_reference
from sdrop.ops import linear_cpu
from sdrop.ops import linear_cross_entropy as loss
from sdrop.ops.lstm import cpu as lstm_cpu
from sdrop.ops.lstm import op as lstm_reference
from sdrop.ops.masks import Mask
from sdrop.ops.native import NATIVE

HALF = (torch.bfloat16, torch.float16)


def why_not_cpu(*tensors: Tensor | None) -> str | None:
    """Why the compiled kernels cannot take these tensors; None if they can."""
    if NATIVE.capability is None:
        return NATIVE.reason
    for tensor in tensors:
        if tensor is None:
            continue
        if tensor.device.type != "cpu":
            return f"the compiled CPU kernels need tensors on the CPU, got {tensor.device}"
        if tensor.dtype != torch.float32 and tensor.dtype not in HALF:
            return (
                "the compiled CPU kernels need torch.float32, torch.bfloat16 or torch.float16, "
                f"got {tensor.dtype}"
            )
    if tensors[0] is not None and tensors[0].numel() == 0:
        return "the compiled CPU kernels need at least one element of input"
    return None


def _or_none_in_float32(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor.float()


def _mask_in_float32(mask: Mask) -> Mask:
    return mask if mask.mask is None else mask._replace(mask=mask.mask.float())


def _takes_cpu(backend: str, against: str | None) -> bool:
    if backend == "cpu" and against is not None:
        raise RuntimeError(f'backend="cpu": {against}; use backend="auto"')
    return against is None


def lstm(
    input: Tensor,
    h_0: Tensor,
    c_0: Tensor,
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias: Tensor | None = None,
    weight_hr: Tensor | None = None,
    *,
    input_mask: Mask,
    hidden_mask: Mask,
    backend: str = "auto",
    **options: Any,
) -> tuple[Tensor, Tensor, Tensor]:
    """Arguments and results as in `lstm_equations`.

    Raises:
        RuntimeError: with `backend="cpu"`, where the compiled kernels cannot take the arguments.
    """
    options |= {"input_mask": input_mask, "hidden_mask": hidden_mask}
    arguments = (input, h_0, c_0, weight_ih, weight_hh, bias)
    if backend != "reference":
        against = why_not_cpu(*arguments, input_mask.mask, hidden_mask.mask)
        if weight_hr is not None:
            against = against or "the compiled CPU kernels have no projection (proj_size)"
        if _takes_cpu(backend, against):
            options |= {
                "input_mask": _mask_in_float32(input_mask),
                "hidden_mask": _mask_in_float32(hidden_mask),
            }
            output, h_n, c_n = lstm_cpu.lstm(
                input.float(),
                h_0.float(),
                c_0.float(),
                weight_ih.float(),
                weight_hh.float(),
                _or_none_in_float32(bias),
                **options,
            )
            return output.to(input.dtype), h_n.to(input.dtype), c_n.to(input.dtype)
    return lstm_reference.lstm(*arguments, weight_hr, **options)


def linear(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    mask: Mask,
    batch_sizes: Tensor | None = None,
    backend: str = "auto",
) -> Tensor:
    """Arguments and result as in `linear_equation`.

    Raises:
        RuntimeError: with `backend="cpu"`, where the compiled kernels cannot take the arguments.
    """
    if _linear_on_cpu(input, weight, bias, mask, backend):
        bias, mask = _or_none_in_float32(bias), _mask_in_float32(mask)
        output = linear_cpu.linear(input.float(), weight.float(), bias, mask, batch_sizes)
        return output.to(input.dtype)
    return linear_reference.linear(input, weight, bias, mask, batch_sizes)


def linear_cross_entropy(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    target: Tensor,
    mask: Mask,
    batch_sizes: Tensor | None = None,
    ignore_index: int = -100,
    backend: str = "auto",
) -> Tensor:
    """Arguments and result as in `linear_cross_entropy_equation`.

    Raises:
        RuntimeError: with `backend="cpu"`, where the compiled kernels cannot take the arguments.
    """
    compiled = _linear_on_cpu(input, weight, bias, mask, backend)
    if compiled:
        input, weight, bias = input.float(), weight.float(), _or_none_in_float32(bias)
        mask = _mask_in_float32(mask)
    return loss.linear_cross_entropy(
        input, weight, bias, target, mask, batch_sizes, ignore_index, compiled=compiled
    )


def _linear_on_cpu(
    input: Tensor, weight: Tensor, bias: Tensor | None, mask: Mask, backend: str
) -> bool:
    if backend == "reference":
        return False
    return _takes_cpu(backend, why_not_cpu(input, weight, bias, mask.mask))
