"""`torch.ops.sdrop.linear_cpu` against the equation in float64."""

import pytest
import torch
from kernels_random import PATTERNS, draw, k_major, relative_errors, uniform

from sdrop.ops.linear import linear_equation
from sdrop.ops.linear_cpu import linear

GRADIENT = 1e-5


def check(x, features, pattern, batch_sizes=None, bias=True):
    size = x.shape[-1]
    steps, batch = x.shape[:2] if batch_sizes is None else (len(batch_sizes), batch_sizes[0])
    mask = draw(pattern, steps, int(batch), size)
    weight = k_major(uniform(size**-0.5, features, size))
    tensors = (x, weight, torch.randn(features) if bias else None)
    grad = torch.randn(*x.shape[:-1], features)

    def run(op, dtype):
        leaves = [t if t is None else t.detach().to(dtype).requires_grad_() for t in tensors]
        masks = mask if mask.mask is None else mask._replace(mask=mask.mask.to(dtype))
        output = op(*leaves, masks, batch_sizes)
        output.backward(grad.to(dtype))
        return [output.detach()] + [leaf.grad for leaf in leaves if leaf is not None]

    found, expected = run(linear, torch.float32), run(linear_equation, torch.float64)
    assert found[2].t().is_contiguous()
    assert max(relative_errors(found, expected)) < GRADIENT


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize(
    ("steps", "batch", "size", "features"),
    [(1, 1, 1, 1), (7, 3, 17, 33), (5, 20, 100, 257), (3, 65, 40, 31), (2, 1, 9, 130)],
)
def test_odd_sizes_agree_with_the_equation(steps, batch, size, features, pattern):
    check(torch.randn(steps, batch, size), features, pattern)


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize(
    ("steps", "batch"), [(1, 2), (1, 4), (3, 5), (1, 16), (2, 9), (1, 31), (1, 32)]
)
@pytest.mark.parametrize("features", [30, 64, 520, 1030])
def test_few_rows_agree_with_the_equation(steps, batch, features, pattern):
    check(torch.randn(steps, batch, 3 + 4 * batch), features, pattern)


@pytest.mark.parametrize("pattern", ["III", "IV"])
@pytest.mark.parametrize("features", [10_000, 50_000])
def test_a_large_vocabulary_agrees_with_the_equation(features, pattern):
    check(torch.randn(2, 3, 40), features, pattern)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_packed_rows_agree_with_the_equation(pattern):
    sizes = torch.tensor([6, 6, 3, 1])
    check(torch.randn(16, 30), 45, pattern, sizes, bias=False)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("pattern", ["all", "IV"])
def test_nan_and_infinity_go_where_the_equation_puts_them(pattern, value, place):
    mask = draw(pattern, 4, 3, 10)
    # At a neuron that no step drops: the equation multiplies what is dropped by 0, which makes NaN
    # of infinity, and the kernels skip it.
    kept = 0 if mask.kept is None else int(mask.kept[0, 0])
    tensors = [torch.randn(4, 3, 10), k_major(torch.randn(37, 10)), torch.randn(37)]
    tensors[place].view(-1, tensors[place].shape[-1])[0, kept] = value
    results = []
    for op in (linear, linear_equation):
        leaves = [t.detach().requires_grad_() for t in tensors]
        output = op(*leaves, mask)
        output.sum().backward()
        results.append([output.detach(), *(leaf.grad for leaf in leaves)])
    for found, expected in zip(*results, strict=True):
        torch.testing.assert_close(found, expected, equal_nan=True)


@pytest.mark.parametrize("features", [1, 2, 5, 17, 18, 19, 36])
@pytest.mark.parametrize("batch", [1, 3, 6, 10, 12, 19, 20, 34, 44])
def test_nothing_of_an_earlier_call_is_read(batch, features):
    # Columns of gradients can share vectors: the last may have fewer partners than the others.
    x = torch.randn(2, 40, 9, requires_grad=True)
    linear(x, k_major(torch.randn(64, 9)), None, draw("III", 2, 40, 9)).mul(
        torch.nan
    ).sum().backward()
    check(torch.randn(2, batch, 30), features, "III")


def test_second_derivatives_are_those_of_the_equation():
    mask = draw("III", 3, 2, 6)
    leaves = [torch.randn(3, 2, 6), k_major(torch.randn(5, 6)), torch.randn(5)]
    leaves = [leaf.requires_grad_() for leaf in leaves]
    found = []
    for op in (linear, linear_equation):
        loss = op(*leaves, mask).square().sum()
        first = torch.autograd.grad(loss, leaves, create_graph=True)
        second = torch.autograd.grad(sum(grad.square().sum() for grad in first), leaves)
        found.append([grad.detach() for grad in (*first, *second)])
    assert max(relative_errors(*found)) < GRADIENT


def test_opcheck_accepts_the_operators():
    mask = draw("III", 3, 2, 6)
    x, weight = torch.randn(3, 2, 6), k_major(torch.randn(5, 6))
    tensors = [x.requires_grad_(), weight.requires_grad_(), torch.randn(5).requires_grad_()]
    torch.library.opcheck(torch.ops.sdrop.linear_cpu, (*tensors, *mask, None))
    grad = torch.randn(3, 2, 5)
    backward = (grad, x.detach(), weight.detach(), *mask, None, True)
    torch.library.opcheck(torch.ops.sdrop.linear_cpu_backward, backward)
