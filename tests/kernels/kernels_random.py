"""Random layers for the compiled kernels, and float64 references to hold them against."""

from typing import NamedTuple

import torch
from torch import Tensor

from sdrop.functional import Mask
from sdrop.ops.lstm import lstm_equations

PATTERNS = ("all", "I", "II", "III", "IV", "III bernoulli", "IV bernoulli")


def draw(pattern: str, steps: int, batch: int, size: int, rate: float = 0.5) -> Mask:
    """A mask of one of PATTERNS, drawn by torch's generator."""
    case = pattern.split()[0]
    steps = steps if case in ("I", "III") else 1
    if pattern == "all":
        return Mask()
    if pattern in ("III", "IV"):
        kept = max(1, round(size * (1 - rate)))
        rows = [torch.randperm(size)[:kept].sort().values for _ in range(steps)]
        return Mask(kept=torch.stack(rows), scale=size / kept)
    columns = batch if case in ("I", "II") else 1
    return Mask(mask=(torch.rand(steps, columns, size) >= rate).float() / (1 - rate))


def k_major(weight: Tensor) -> Tensor:
    return weight.t().contiguous().t()


def uniform(bound: float, *shape: int) -> Tensor:
    return torch.empty(shape).uniform_(-bound, bound)


class Layer(NamedTuple):
    """The arguments of one LSTM op, and gradients of its results."""

    tensors: tuple[Tensor | None, ...]
    options: dict
    grads: tuple[Tensor, ...]


def random_layer(
    steps, batch, input_size, hidden_size, patterns, *, packed=False, reverse=False, bias=True
) -> Layer:
    bound = hidden_size**-0.5
    x, sizes = torch.randn(steps, batch, input_size), None
    if packed:
        lengths = torch.randint(1, steps + 1, (batch,)).sort(descending=True).values
        lengths[0] = steps
        sizes = torch.tensor([int((lengths > t).sum()) for t in range(steps)])
        x = torch.randn(int(sizes.sum()), input_size)
    tensors = (
        x,
        torch.randn(batch, hidden_size),
        torch.randn(batch, hidden_size),
        k_major(uniform(bound, 4 * hidden_size, input_size)),
        k_major(uniform(bound, 4 * hidden_size, hidden_size)),
        uniform(bound, 4 * hidden_size) if bias else None,
    )
    options = {
        "input_mask": draw(patterns[0], steps, batch, input_size),
        "hidden_mask": draw(patterns[1], steps, batch, hidden_size),
        "batch_sizes": sizes,
        "reverse": reverse,
    }
    grads = (torch.randn(*x.shape[:-1], hidden_size), *torch.randn(2, batch, hidden_size))
    return Layer(tensors, options, grads)


def run_layer(layer: Layer, op, dtype=torch.float32) -> list[Tensor]:
    """output, h_n, c_n, then the gradients of the tensors."""
    leaves = [t if t is None else t.detach().to(dtype).requires_grad_() for t in layer.tensors]
    options = {
        name: value._replace(mask=value.mask.to(dtype))
        if isinstance(value, Mask) and value.mask is not None
        else value
        for name, value in layer.options.items()
    }
    results = op(*leaves, **options)
    torch.autograd.backward(results, [grad.to(dtype) for grad in layer.grads])
    return [r.detach() for r in results] + [leaf.grad for leaf in leaves if leaf is not None]


def in_float64(layer: Layer) -> list[Tensor]:
    return run_layer(layer, lstm_equations, torch.float64)


def relative_error(found: Tensor, expected: Tensor) -> float:
    """max|a - b| / max|b|; NaN counts as infinitely wrong."""
    largest = expected.abs().max()
    error = float((found - expected).abs().max() / (largest if largest != 0 else 1.0))
    return error if error == error else float("inf")


def relative_errors(found: list[Tensor], expected: list[Tensor]) -> list[float]:
    return [relative_error(a, b) for a, b in zip(found, expected, strict=False)]
