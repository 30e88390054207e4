"""The measure of error that the numeric tests of the modules share, and how they run an LSTM."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

Results = dict[str, Tensor]


def _relative_error(ours: Tensor, expected: Tensor) -> float:
    """max|a - b| / max|b|; infinite for another shape, NaN where either side has one."""
    if ours.shape != expected.shape:
        return float("inf")
    if expected.numel() == 0:
        return 0.0
    largest = expected.abs().max()
    return float((ours - expected).abs().max() / (largest if largest != 0 else 1.0))


@pytest.fixture(scope="session")
def assert_same() -> Callable[..., None]:
    """Compares two dictionaries of tensors by name: `assert_same(ours, expected, bound=1e-12)`."""

    def compare(ours: Results, expected: Results, bound: float = 1e-12) -> None:
        assert ours.keys() == expected.keys()
        errors = {name: _relative_error(ours[name], expected[name]) for name in expected}
        wrong = {name: error for name, error in errors.items() if not error <= bound}
        assert not wrong, f"relative errors above {bound}: {wrong}"

    return compare


@pytest.fixture(scope="session")
def run_lstm() -> Callable[..., Results]:
    """Runs a module forward and backward: outputs, states and the gradient of everything.

    `run_lstm(module, x, hx, to_input)` calls `module(to_input(x), hx)` and back-propagates fixed
    weights for the output and both states, so that no gradient is zero by accident.
    """

    def run(
        module: nn.Module,
        x: Tensor,
        hx: tuple[Tensor, Tensor] | None = None,
        to_input: Callable[[Tensor], Tensor | PackedSequence] = lambda x: x,
    ) -> Results:
        x = x.clone().requires_grad_()
        leaves = {"x": x} | dict(module.named_parameters())
        if hx is not None:
            hx = tuple(state.clone().requires_grad_() for state in hx)
            leaves |= {"h_0": hx[0], "c_0": hx[1]}
        output, (h_n, c_n) = module(to_input(x), hx)
        data = output.data if isinstance(output, PackedSequence) else output
        results = {"output": data, "h_n": h_n, "c_n": c_n}
        generator = torch.Generator().manual_seed(5)
        loss = sum(
            (torch.randn(value.shape, generator=generator, dtype=value.dtype) * value).sum()
            for value in results.values()
        )
        wanted = {name: leaf for name, leaf in leaves.items() if leaf.requires_grad}
        grads = torch.autograd.grad(loss, list(wanted.values()))
        results = {name: value.detach() for name, value in results.items()}
        return results | {f"grad {name}": g for name, g in zip(wanted, grads, strict=True)}

    return run
