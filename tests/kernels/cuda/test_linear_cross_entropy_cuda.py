"""`torch.ops.sdrop.linear_cross_entropy_cuda` against its equation in float64."""

import math
import os

import pytest
import torch
from kernels_random import draw, k_major, relative_errors, uniform

from sdrop.ops.linear_cross_entropy import linear_cross_entropy_equation
from sdrop.ops.linear_cross_entropy_cuda import linear_cross_entropy
from sdrop.ops.masks import KEEP_ALL

ON_GPU = os.environ.get("SDROP_TEST_DEVICE") == "cuda"
TOLERANCES = {"float32": 1e-5, "tf32": 2e-3, "bfloat16": 2e-2}


def random_decoder(steps, batch, size, classes, bias=True):
    """Input, weight, bias and targets of which some are ignored."""
    target = torch.randint(classes, (steps, batch))
    target[steps // 2, 1:] = -100
    weight = k_major(uniform(size**-0.5, classes, size))
    return torch.randn(steps, batch, size), weight, torch.randn(classes) if bias else None, target


def on(device, dtype, *tensors):
    return [t if t is None else t.detach().to(device, dtype).requires_grad_() for t in tensors]


def results(loss, leaves):
    """The loss and the gradients of three times it."""
    grads = torch.autograd.grad(3.0 * loss, [leaf for leaf in leaves if leaf is not None])
    return [loss.detach(), *grads]


@pytest.fixture
def check(device, in_each_order):
    """A function that compares the loss and gradients of one random decoder."""

    def compare(tensors, target, mask, precision, batch_sizes=None):
        dtype = torch.bfloat16 if precision == "bfloat16" else torch.float32
        tensors = [t if t is None else t.to(dtype) for t in tensors]

        def run():
            leaves = on(device, dtype, *tensors)
            kept = mask._replace(kept=None if mask.kept is None else mask.kept.to(device))
            loss = linear_cross_entropy(
                *leaves, target.to(device), kept, batch_sizes, tf32=precision == "tf32"
            )
            assert loss.dtype == torch.float32
            return results(loss, leaves)

        found = [tensor.cpu().double() for tensor in in_each_order(run)]
        leaves = on("cpu", torch.float64, *tensors)
        exact = linear_cross_entropy_equation(*leaves, target, mask, batch_sizes)
        assert max(relative_errors(found, results(exact, leaves))) < TOLERANCES[precision]

    return compare


@pytest.mark.parametrize("precision", TOLERANCES)
@pytest.mark.parametrize("pattern", ["all", "III", "IV"])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("sizes", [(7, 3, 17, 63), (1, 1, 5, 100), (3, 65, 33, 20)])
def test_loss_and_gradients_are_the_equations(check, sizes, bias, pattern, precision):
    *tensors, target = random_decoder(*sizes, bias)
    check(tensors, target, draw(pattern, *sizes[:3]), precision)


def test_a_vocabulary_of_ten_thousand_agrees_with_the_equation(check):
    *tensors, target = random_decoder(2, 3, 20, 10_000)
    check(tensors, target, draw("III", 2, 3, 20), "float32")


def test_packed_rows_agree_with_the_equation(check):
    (x, weight, bias), target = random_decoder(1, 11, 20, 30)[:3], torch.randint(30, (11,))
    target[4] = -100
    check(
        (x[0], weight, bias), target, draw("III", 4, 5, 20), "float32", torch.tensor([5, 3, 2, 1])
    )


def test_logits_far_from_zero_neither_overflow_nor_cancel(check):
    x, weight, bias, target = random_decoder(2, 3, 8, 40)
    check((x, 60.0 * weight, 1000.0 + bias), target, KEEP_ALL, "float32")


def test_classes_that_are_ruled_out_get_probability_zero(device):
    x, weight, bias, target = random_decoder(2, 3, 8, 300)
    bias[:7] = bias[250:] = -math.inf
    target.fill_(9)
    leaves = on(device, torch.float32, x, weight, bias)
    loss, *grads = results(linear_cross_entropy(*leaves, target.to(device), KEEP_ALL), leaves)
    exact = linear_cross_entropy_equation(x, weight, bias, target, KEEP_ALL)
    torch.testing.assert_close(loss.cpu(), exact)
    assert all(bool(grad.isfinite().all()) for grad in grads)
    assert bool((grads[1][:7] == 0).all())


def test_without_gradients_the_loss_is_the_same(device):
    x, weight, bias, target = random_decoder(2, 3, 8, 40)
    leaves = on(device, torch.float32, x, weight, bias)
    loss = linear_cross_entropy(*leaves, target.to(device), KEEP_ALL)
    with torch.no_grad():
        assert torch.equal(linear_cross_entropy(*leaves, target.to(device), KEEP_ALL), loss)


def test_with_no_target_the_loss_is_nan_and_gradients_are_zero(device):
    x, weight, bias, target = random_decoder(2, 3, 8, 40)
    leaves = on(device, torch.float32, x, weight, bias)
    target.fill_(-100)
    loss = linear_cross_entropy(*leaves, target.to(device), KEEP_ALL)
    assert bool(loss.isnan())
    assert not any(bool(grad.any()) for grad in torch.autograd.grad(loss, leaves))


def test_second_derivatives_are_the_equations(device):
    x, weight, bias, target = random_decoder(2, 3, 5, 7)
    mask = draw("IV", 2, 3, 5)
    found = []
    for op, target_device in (
        (linear_cross_entropy, device),
        (linear_cross_entropy_equation, "cpu"),
    ):
        leaves = on(target_device, torch.float32, x, weight, bias)
        kept = mask._replace(kept=mask.kept.to(target_device))
        loss = op(*leaves, target.to(target_device), kept)
        (grad,) = torch.autograd.grad(loss, leaves[0], create_graph=True)
        found.append([t.cpu() for t in torch.autograd.grad(grad.square().sum(), leaves)])
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_opcheck_accepts_the_operator(device):
    x, weight, bias, target = random_decoder(2, 3, 6, 5)
    mask = draw("III", 2, 3, 6)
    leaves = on(device, torch.float32, x, weight, bias)
    arguments = (target.to(device), mask.kept.to(device), None, mask.scale, None, -100, True, False)
    # Its gradient is taken by the first result alone; the second is for its own formula.
    tests = ("test_schema", "test_autograd_registration", "test_faketensor")
    operator = torch.ops.sdrop.linear_cross_entropy_cuda
    torch.library.opcheck(operator, (*leaves, *arguments), test_utils=tests)


@pytest.mark.skipif(ON_GPU, reason="on a GPU a failed check ends the process's CUDA context")
def test_a_class_that_is_none_ends_the_launch(device):
    x, weight, bias, target = random_decoder(2, 3, 6, 5)
    target[0, 0] = 5
    with pytest.raises(RuntimeError, match="target: a class is out of range"):
        linear_cross_entropy(x, weight, bias, target, KEEP_ALL)
