"""`torch.ops.sdrop.linear_cuda` against the equation in float64, in each thread order."""

import pytest
import torch
from kernels_random import PATTERNS, draw, k_major, relative_errors, uniform

from sdrop.ops.linear import linear_equation
from sdrop.ops.linear_cuda import linear

TOLERANCES = {"float32": 1e-5, "tf32": 2e-3, "bfloat16": 2e-2}
SKIPPING = ("III", "III bernoulli", "IV bernoulli")


@pytest.fixture
def check(device, in_each_order):
    """A function that compares outputs and gradients of one random layer."""

    def compare(x, features, pattern, precision, batch_sizes=None, bias=True):
        dtype = torch.bfloat16 if precision == "bfloat16" else torch.float32
        size = x.shape[-1]
        steps, batch = x.shape[:2] if batch_sizes is None else (len(batch_sizes), batch_sizes[0])
        mask = draw(pattern, steps, int(batch), size)
        # Rounded first, so that the errors are those of the kernels alone.
        mask = mask._replace(mask=None if mask.mask is None else mask.mask.to(dtype))
        weight = k_major(uniform(size**-0.5, features, size).to(dtype))
        tensors = [x.to(dtype), weight, torch.randn(features).to(dtype) if bias else None]
        grad = torch.randn(*x.shape[:-1], features).to(dtype)

        def run(op, dtype, device, **options):
            leaves = [
                t if t is None else t.detach().to(device, dtype).requires_grad_() for t in tensors
            ]
            on_device = mask._replace(
                kept=None if mask.kept is None else mask.kept.to(device),
                mask=None if mask.mask is None else mask.mask.to(device, dtype),
            )
            output = op(*leaves, on_device, batch_sizes, **options)
            output.backward(grad.to(device, dtype))
            return [output.detach()] + [leaf.grad for leaf in leaves if leaf is not None]

        found = in_each_order(lambda: run(linear, dtype, device, tf32=precision == "tf32"))
        assert found[2].t().is_contiguous()
        found = [tensor.cpu().double() for tensor in found]
        expected = run(linear_equation, torch.float64, "cpu")
        assert max(relative_errors(found, expected)) < TOLERANCES[precision]

    return compare


@pytest.mark.parametrize("precision", TOLERANCES)
@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize(
    ("steps", "batch", "size", "features"),
    [(1, 1, 1, 1), (7, 3, 17, 33), (3, 20, 100, 260), (2, 65, 100, 132)],
)
def test_odd_sizes_agree_with_the_equation(check, steps, batch, size, features, pattern, precision):
    check(torch.randn(steps, batch, size), features, pattern, precision)


@pytest.mark.parametrize("precision", TOLERANCES)
@pytest.mark.parametrize("pattern", SKIPPING)
@pytest.mark.parametrize(("steps", "batch"), [(63, 1), (2, 130)])
def test_many_steps_and_wide_batches_agree_with_the_equation(
    check, steps, batch, pattern, precision
):
    check(torch.randn(steps, batch, 70), 40, pattern, precision)


def test_a_layer_of_ptb_agrees_with_the_equation(check):
    check(torch.randn(2, 20, 650), 650, "III", "float32")


@pytest.mark.parametrize("precision", TOLERANCES)
@pytest.mark.parametrize("pattern", PATTERNS)
def test_packed_rows_agree_with_the_equation(check, pattern, precision):
    sizes = torch.tensor([70, 66, 9, 1])
    check(torch.randn(146, 30), 45, pattern, precision, sizes, bias=False)


def test_more_steps_than_a_launch_carries_agree_with_the_equation(check):
    sizes = torch.tensor([2] + [1] * 600)
    check(torch.randn(602, 6), 5, "III", "float32", sizes)
