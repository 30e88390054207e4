"""Runs an op by the path that the table in `paths.py` names.

The compiled CPU kernels compute in float32. Of half-precision tensors they get float32 copies, and
only results are rounded: more exact than the reference, and far faster than processors without
instructions for bfloat16 are with it. Where a processor has those, bfloat16 weights stay as they
are, and the kernels round activations and gradients as they multiply them.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from sdrop.ops import linear as linear_reference
from sdrop.ops import linear_cpu, linear_cross_entropy_cuda, linear_cuda, native_cuda, recording
from sdrop.ops import linear_cross_entropy as loss
from sdrop.ops.lstm import cpu as lstm_cpu
from sdrop.ops.lstm import cuda as lstm_cuda
from sdrop.ops.lstm import lstm_equations
from sdrop.ops.lstm import op as lstm_reference
from sdrop.ops.masks import KEEP_ALL, Mask
from sdrop.ops.native import NATIVE
from sdrop.ops.paths import Call, Op, Path, Row, choose, dropped_of, multiplies_bfloat16

HALF = (torch.bfloat16, torch.float16)

_CPU_DTYPES = (torch.float32, *HALF)
_CPU_NAMES = "torch.float32, torch.bfloat16 or torch.float16"


def _transformed() -> bool:
    """Whether `torch.func.grad` or another of its transforms looks on: those see PyTorch's own ops
    alone, so that nothing but the equations can be differentiated."""
    if torch.compiler.is_compiling():
        return False
    active: bool = torch._C._are_functorch_transforms_active()
    return active


def _by_equations(path: Path) -> bool:
    return path == "torch" or (path == "reference" and _transformed())


_TRANSFORMED = "torch.func's transforms see PyTorch's own ops alone, no compiled kernels"


def why_not_cpu(*tensors: Tensor | None) -> str | None:
    """Why the compiled CPU kernels cannot take these tensors; None if they can."""
    if NATIVE.capability is None:
        return NATIVE.reason
    if _transformed():
        return _TRANSFORMED
    for tensor in tensors:
        if tensor is None or (tensor.is_cpu and tensor.dtype in _CPU_DTYPES):
            continue
        if not tensor.is_cpu:
            return f"the compiled CPU kernels need tensors on the CPU, got {tensor.device}"
        return f"the compiled CPU kernels need {_CPU_NAMES}, got {tensor.dtype}"
    if tensors[0] is not None and tensors[0].numel() == 0:
        return "the compiled CPU kernels need at least one element of input"
    return None


def why_not_cuda(op: str, *tensors: Tensor | None) -> str | None:
    """Why the compiled CUDA kernels cannot take these tensors; None if they can.

    Args:
        op: the operator, such as `"sdrop::lstm_cuda"`.
        tensors: its arguments, the input first.
    """
    first = tensors[0]
    assert first is not None
    if (reason := native_cuda.why_no_kernel(op, first.device)) is not None:
        return reason
    if _transformed():
        return _TRANSFORMED
    for tensor in tensors:
        if tensor is None:
            continue
        if tensor.device != first.device:
            return f"the compiled CUDA kernels need one device, got {first.device}, {tensor.device}"
        if tensor.dtype not in native_cuda.DTYPES:
            names = " or ".join(map(str, native_cuda.DTYPES))
            return f"the compiled CUDA kernels need {names}, got {tensor.dtype}"
    if first.numel() == 0:
        return "the compiled CUDA kernels need at least one element of input"
    return None


def choose_path(
    op: Op,
    backend: str,
    tensors: tuple[Tensor | None, ...],
    *,
    input: Mask,
    hidden: tuple[Mask, ...] = (KEEP_ALL,),
    hidden_size: int = 0,
    batch: int = 1,
    packed: bool = False,
    projection: bool = False,
) -> Row:
    """The table's row for a call; `sdrop.explain` hears of it.

    Args:
        tensors: of the call, its input first.
        hidden: of each direction; they drop the same way.
        hidden_size: the second of `Call.sizes`.
        the others: as in `Call`.
    """
    data = tensors[0]
    assert data is not None
    compiling, features = torch.compiler.is_compiling(), data.shape[-1]
    not_cuda: str | None = "the tensors are on the CPU"
    not_cpu = None
    if backend == "cuda" or not data.is_cpu:
        operator = "sdrop::linear_cuda" if op == "linear" else "sdrop::lstm_cuda"
        not_cuda = why_not_cuda(operator, *tensors, input.mask, hidden[0].mask)
    if backend != "reference":
        not_cpu = why_not_cpu(*tensors, input.mask, hidden[0].mask)
    if projection:
        not_cpu = not_cpu or "the compiled CPU kernels have no projection (proj_size)"
        not_cuda = not_cuda or "the compiled CUDA kernels have no projection (proj_size)"
    call = Call(
        op,
        backend,
        "cpu" if data.is_cpu else data.device.type,
        data.dtype,
        (features, hidden_size),
        data.numel() // max(1, features),
        batch,
        dropped_of(input),
        dropped_of(hidden[0]),
        data.dtype not in HALF or (data.dtype == torch.bfloat16 and NATIVE.bfloat16),
        torch.is_grad_enabled(),
        packed,
        projection,
        compiling,
        _transformed(),
        not_cpu,
        not_cuda,
    )
    row = choose(call)
    if recording.active is not None and not compiling:
        recording.active.add(call, row, input, hidden)
    return row


def _or_none_in_float32(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor.float()


def _weights(input: Tensor, size: int, *weights: Tensor) -> list[Tensor]:
    """Weights as the compiled CPU kernels get them beside an input in float32."""
    rows = input.numel() // max(1, input.shape[-1])
    types = [tensor.dtype for tensor in (input, *weights)]
    if NATIVE.bfloat16 and multiplies_bfloat16(types, size, rows):
        return list(weights)
    return [weight.float() for weight in weights]


def _mask_in_float32(mask: Mask) -> Mask:
    return mask if mask.mask is None else mask._replace(mask=mask.mask.float())


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
        RuntimeError: with a compiled backend that cannot take the arguments.
    """
    row = choose_path(
        "lstm",
        backend,
        (input, h_0, c_0, weight_ih, weight_hh, bias),
        input=input_mask,
        hidden=(hidden_mask,),
        hidden_size=weight_hh.shape[1],
        batch=h_0.shape[0],
        packed=options.get("batch_sizes") is not None,
        projection=weight_hr is not None,
    )
    arguments = (input, h_0, c_0, weight_ih, weight_hh, bias, weight_hr)
    return lstm_by(row.path, *arguments, input_mask=input_mask, hidden_mask=hidden_mask, **options)


def lstm_by(
    path: Path,
    input: Tensor,
    h_0: Tensor,
    c_0: Tensor,
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias: Tensor | None = None,
    weight_hr: Tensor | None = None,
    **options: Any,
) -> tuple[Tensor, Tensor, Tensor]:
    """`lstm` by a path that was chosen before."""
    arguments = (input, h_0, c_0, weight_ih, weight_hh, bias)
    if path == "cuda":
        return lstm_cuda.lstm(*arguments, **options)
    if _by_equations(path):
        return lstm_equations(*arguments, weight_hr, **options)
    if path != "cpu":
        return lstm_reference.lstm(*arguments, weight_hr, **options)
    if input.dtype == torch.float32:
        return lstm_cpu.lstm(*arguments, **options)
    masks = {name: _mask_in_float32(options[name]) for name in ("input_mask", "hidden_mask")}
    weight_ih, weight_hh = _weights(input, weight_hh.shape[1], weight_ih, weight_hh)
    floats = (input.float(), h_0.float(), c_0.float())
    output, h_n, c_n = lstm_cpu.lstm(
        *floats, weight_ih, weight_hh, _or_none_in_float32(bias), **options | masks
    )
    return output.to(input.dtype), h_n.to(input.dtype), c_n.to(input.dtype)


def _linear_path(
    backend: str,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    mask: Mask,
    batch_sizes: Tensor | None,
) -> Row:
    return choose_path(
        "linear",
        backend,
        (input, weight, bias),
        input=mask,
        hidden_size=weight.shape[0],
        batch=input.shape[-2] if batch_sizes is None else len(input) // max(1, len(batch_sizes)),
        packed=batch_sizes is not None,
    )


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
        RuntimeError: with a compiled backend that cannot take the arguments.
    """
    row = _linear_path(backend, input, weight, bias, mask, batch_sizes)
    if row.path == "cpu":
        bias, mask = _or_none_in_float32(bias), _mask_in_float32(mask)
        (weight,) = _weights(input, weight.shape[0], weight)
        output = linear_cpu.linear(input.float(), weight, bias, mask, batch_sizes)
        return output.to(input.dtype)
    if row.path == "cuda":
        return linear_cuda.linear(input, weight, bias, mask, batch_sizes)
    if _by_equations(row.path):
        return linear_reference.linear_equation(input, weight, bias, mask, batch_sizes)
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
        RuntimeError: with a compiled backend that cannot take the arguments.
    """
    row = _linear_path(backend, input, weight, bias, mask, batch_sizes)
    if row.path == "cuda":
        return linear_cross_entropy_cuda.linear_cross_entropy(
            input, weight, bias, target, mask, batch_sizes, ignore_index
        )
    if _by_equations(row.path):
        return loss.linear_cross_entropy_equation(
            input, weight, bias, target, mask, batch_sizes, ignore_index
        )
    compiled = row.path == "cpu"
    if compiled:
        (weight,) = _weights(input, weight.shape[0], weight)
        input, bias = input.float(), _or_none_in_float32(bias)
        mask = _mask_in_float32(mask)
    return loss.linear_cross_entropy(
        input, weight, bias, target, mask, batch_sizes, ignore_index, compiled=compiled
    )
