"""Weights under torch's shapes whose memory is K-major.

A weight is (N, K), outputs by inputs, as everywhere in torch. Its memory is that of a contiguous
(K, N): the row of an input neuron, which dropout keeps or skips as a whole, is then one piece.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn


def k_major(weight: Tensor) -> Tensor:
    """A copy of a (N, K) weight that is the transposed view of a contiguous (K, N)."""
    return weight.t().clone(memory_format=torch.contiguous_format).t()


def k_major_parameter(parameter: Tensor) -> nn.Parameter:
    """`parameter` with K-major memory."""
    return nn.Parameter(k_major(parameter.detach()), requires_grad=parameter.requires_grad)


def is_k_major(weight: Tensor) -> bool:
    """Whether the rows of input neurons are contiguous."""
    return weight.stride() == (1, weight.shape[0]) or weight.t().is_contiguous()


def fill_as_row_major(parameter: Tensor, fill: Callable[[Tensor], object]) -> None:
    """Fills a row-major stand-in in place and copies it: after the same `manual_seed` the values
    are those of the torch module, whose memory is row-major."""
    with torch.no_grad():
        drawn = torch.empty_like(parameter, memory_format=torch.contiguous_format)
        fill(drawn)
        parameter.copy_(drawn)


def laid_out(parameter: Tensor, backend: str) -> nn.Parameter:
    """`parameter` with the memory that a module's backend wants: K-major but for torch's own."""
    if backend == "torch":
        return nn.Parameter(parameter.detach(), requires_grad=parameter.requires_grad)
    return k_major_parameter(parameter)


def warn_if_not_k_major(module: nn.Module, weights: list[Tensor]) -> None:
    """Tells once a module that its weights came in another layout (`assign=True`, say)."""
    if getattr(module, "_told_layout", False) or all(is_k_major(w) for w in weights):
        return
    if getattr(module, "backend", None) == "torch":
        return
    module._told_layout = True  # type: ignore[assignment]
    warnings.warn(
        f"{type(module).__name__}: a weight is not K-major in memory, so training is right but "
        "slower. load_state_dict(assign=True), parametrisations and functional_call bring their "
        "own layout; a copying load_state_dict keeps it K-major",
        stacklevel=3,
    )


class _RowMajor(torch.autograd.Function):
    """A row-major copy of a weight, for torch's own LSTM, which is slow on K-major weights.

    Its gradient is K-major like the parameter: fused optimizers read both by the same strides.
    """

    generate_vmap_rule = True  # torch.func's transforms need it, and a separate setup_context

    @staticmethod
    def forward(weight: Tensor) -> Tensor:
        return weight.clone(memory_format=torch.contiguous_format)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad.t().contiguous().t()


def row_major(weight: Tensor) -> Tensor:
    """`weight`, unless it is so already copied into row-major memory, with a K-major gradient."""
    if weight.is_contiguous():
        return weight
    copy: Tensor = _RowMajor.apply(weight)  # type: ignore[no-untyped-call]
    return copy


class KMajorEmbedding(nn.Embedding):
    """`torch.nn.Embedding` over a K-major weight, as a decoder's that is tied to it.

    A word is then a column of the memory. Taken as such, its gradient is K-major too and adds to
    the decoder's in one pass; torch's is row-major, and the sum of both costs ten times as much.
    """

    def forward(self, input: Tensor) -> Tensor:
        if not is_k_major(self.weight):  # the decoder's backend is torch's own
            return super().forward(input)
        columns = self.weight.t().index_select(1, input.reshape(-1))
        return columns.t().reshape(*input.shape, self.embedding_dim)
