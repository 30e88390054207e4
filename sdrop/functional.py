"""The ops under the modules, each taking explicitly what is kept.

kept = torch.randperm(650)[:325].sort().values           # one set of neurons for all steps
mask = sdrop.functional.Mask(kept=kept[None], scale=2.0)
logits = sdrop.functional.linear(hidden, weight, bias, mask)
"""

from __future__ import annotations

import torch
from torch import Tensor

from sdrop.ops import choice
from sdrop.ops.masks import KEEP_ALL, Mask, draw_mask

__all__ = ["KEEP_ALL", "Mask", "draw_mask", "linear", "linear_cross_entropy", "lstm"]


def lstm(
    input: Tensor,
    hx: tuple[Tensor, Tensor],
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias: Tensor | None = None,
    weight_hr: Tensor | None = None,
    *,
    input_mask: Mask = KEEP_ALL,
    hidden_mask: Mask = KEEP_ALL,
    batch_sizes: Tensor | None = None,
    reverse: bool = False,
    backend: str = "auto",
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """One LSTM layer in one direction, with dropout in front of its two GEMMs.

    Args:
        input: (T, B, input_size), or with `batch_sizes` the packed rows (N, input_size).
        hx: h_0 (B, P) and c_0 (B, H); P is H without a projection.
        weight_ih: (4H, input_size), gates in the order i, f, g, o as in `torch.nn.LSTM`.
        weight_hh: (4H, P).
        bias: (4H,), the sum of torch's two biases.
        weight_hr: (P, H), the projection.
        input_mask: what is kept of x_t.
        hidden_mask: what is kept of h_{t-1} on its way into the gates.
        batch_sizes: (T,) int64 on the CPU, as in `PackedSequence`.
        reverse: run from the last step to the first.
        backend: "auto", "reference", "torch", "cpu" or "cuda"; see `sdrop.backends()`.

    Returns:
        output, shaped as the input with P features, and (h_n (B, P), c_n (B, H)).

    Raises:
        ValueError: where a mask does not fit its activation.
        RuntimeError: where a compiled backend that was asked for cannot take the arguments.
    """
    steps = input.shape[0] if batch_sizes is None else batch_sizes.shape[0]
    batch = hx[0].shape[0]
    _check_mask("input_mask", input_mask, steps, batch, weight_ih.shape[1])
    _check_mask("hidden_mask", hidden_mask, steps, batch, weight_hh.shape[1])
    output, h_n, c_n = choice.lstm(
        input,
        *hx,
        weight_ih,
        weight_hh,
        bias,
        weight_hr,
        input_mask=input_mask,
        hidden_mask=hidden_mask,
        batch_sizes=batch_sizes,
        reverse=reverse,
        backend=backend,
    )
    return output, (h_n, c_n)


def linear(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    mask: Mask = KEEP_ALL,
    *,
    batch_sizes: Tensor | None = None,
    backend: str = "auto",
) -> Tensor:
    """`drop(input) weight^T + bias`.

    Args:
        input: (T, B, in_features), or with `batch_sizes` the packed rows (N, in_features).
        weight: (out_features, in_features).
        bias: (out_features,).
        mask: what is kept of the input.
        batch_sizes: (T,) int64 on the CPU, as in `PackedSequence`.
        backend: "auto", "reference", "torch", "cpu" or "cuda"; see `sdrop.backends()`.

    Returns:
        the input's shape with `out_features` features.

    Raises:
        ValueError: where the mask does not fit the input.
        RuntimeError: where a compiled backend that was asked for cannot take the arguments.
    """
    steps = input.shape[0] if batch_sizes is None else batch_sizes.shape[0]
    batch = input.shape[1] if batch_sizes is None else None
    _check_mask("mask", mask, steps, batch, weight.shape[1])
    return choice.linear(input, weight, bias, mask, batch_sizes, backend)


def linear_cross_entropy(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    target: Tensor,
    mask: Mask = KEEP_ALL,
    *,
    batch_sizes: Tensor | None = None,
    ignore_index: int = -100,
    backend: str = "auto",
) -> Tensor:
    """The mean cross-entropy of `drop(input) weight^T + bias`, whose scores are written once.

    Args:
        input, weight, bias, mask, batch_sizes, backend: as for `linear`.
        target: (T, B), or with `batch_sizes` (N,), int64 class ids.
        ignore_index: a target that is not counted.

    Returns:
        0-dim, in float32 where the input is of half precision; NaN if no target is counted.

    Raises:
        ValueError: where mask or target do not fit the input.
        IndexError: for a target that is no class, on a CPU.
    """
    steps = input.shape[0] if batch_sizes is None else batch_sizes.shape[0]
    batch = input.shape[1] if batch_sizes is None else None
    _check_mask("mask", mask, steps, batch, weight.shape[1])
    if target.shape != input.shape[:-1]:
        raise ValueError(
            f"target: expected shape {tuple(input.shape[:-1])}, got {tuple(target.shape)}"
        )
    return choice.linear_cross_entropy(
        input, weight, bias, target, mask, batch_sizes, ignore_index, backend
    )


def _check_mask(name: str, mask: Mask, steps: int, batch: int | None, size: int) -> None:
    """Shapes only: to look at the indices would wait for the device."""
    if mask.kept is not None and mask.mask is not None:
        raise ValueError(f"{name}: expected either kept or mask, got both")
    if mask.kept is not None:
        kept = tuple(mask.kept.shape)
        if len(kept) != 2 or kept[0] not in (1, steps) or kept[1] > size:
            raise ValueError(
                f"{name}.kept: expected (1 or {steps}, at most {size}) indices, got shape {kept}"
            )
        if mask.kept.dtype != torch.int64:
            raise ValueError(f"{name}.kept: expected torch.int64, got {mask.kept.dtype}")
    if mask.mask is not None:
        shape = tuple(mask.mask.shape)
        fits_batch = len(shape) == 3 and (batch is None or shape[1] in (1, batch))
        if not fits_batch or shape[0] not in (1, steps) or shape[2] != size:
            columns = "1 or B" if batch is None else f"1 or {batch}"
            raise ValueError(
                f"{name}.mask: expected (1 or {steps}, {columns}, {size}), got shape {shape}"
            )
