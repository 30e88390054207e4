"""`torch.ops.sdrop.linear_cuda` against the equation in float64, in each thread order."""

import os

import pytest
import torch
from kernels_random import PATTERNS, draw, k_major, relative_errors, uniform

from sdrop.ops.linear import linear_equation
from sdrop.ops.linear_cuda import allows_tf32, linear
from sdrop.ops.masks import KEEP_ALL, Mask

ON_GPU = os.environ.get("SDROP_TEST_DEVICE") == "cuda"
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


@pytest.mark.parametrize("precision", TOLERANCES)
@pytest.mark.parametrize("steps", [1, 3])
def test_a_draw_that_keeps_nothing_gives_the_bias_and_no_gradient(device, steps, precision):
    dtype = torch.bfloat16 if precision == "bfloat16" else torch.float32
    mask = Mask(mask=torch.zeros(steps, 1, 9, dtype=dtype, device=device))
    x = torch.randn(3, 70, 9, dtype=dtype, device=device, requires_grad=True)
    weight = torch.randn(5, 9, dtype=dtype, device=device, requires_grad=True)
    bias = torch.randn(5, dtype=dtype, device=device)
    output = linear(x, weight, bias, mask, tf32=precision == "tf32")
    assert torch.equal(output, bias.expand_as(output))
    output.sum().backward()
    assert not x.grad.any()
    assert not weight.grad.any()


@pytest.mark.parametrize("pattern", ["all", "III", "IV"])
def test_row_major_weights_give_the_same_and_k_major_gradients(device, pattern):
    mask = draw(pattern, 4, 3, 10)
    mask = mask._replace(kept=None if mask.kept is None else mask.kept.to(device))
    x, tied = torch.randn(4, 3, 10, device=device), torch.randn(37, 10, device=device)
    results = []
    for weight in (tied.clone(), k_major(tied)):
        leaf = weight.requires_grad_()
        output = linear(x, leaf, None, mask)
        results.append((output, *torch.autograd.grad(output.square().sum(), leaf)))
    for found, expected in zip(*results, strict=True):
        assert torch.equal(found, expected)
    assert results[0][1].t().is_contiguous()


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("pattern", ["all", "III", "IV"])
def test_nan_and_infinity_go_where_the_equation_puts_them(device, pattern, value):
    mask = draw(pattern, 2, 3, 10)
    neuron = 0 if mask.kept is None else int(mask.kept[0, 0])
    x, weight = torch.randn(2, 3, 10), k_major(torch.randn(37, 10))
    x[0, 1, neuron] = value
    kept = mask._replace(kept=None if mask.kept is None else mask.kept.to(device))
    found = linear(x.to(device), weight.to(device), None, kept)
    torch.testing.assert_close(found.cpu(), linear_equation(x, weight, None, mask), equal_nan=True)


def test_opcheck_accepts_the_operators(device):
    mask = draw("III", 3, 2, 6)
    mask = mask._replace(kept=mask.kept.to(device))
    x, weight = torch.randn(3, 2, 6, device=device), k_major(torch.randn(5, 6, device=device))
    bias = torch.randn(5, device=device)
    tensors = [t.requires_grad_() for t in (x, weight, bias)]
    torch.library.opcheck(torch.ops.sdrop.linear_cuda, (*tensors, *mask, None, False))
    grad = torch.randn(3, 2, 5, device=device)
    backward = (grad, x.detach(), weight.detach(), *mask, None, True, False)
    torch.library.opcheck(torch.ops.sdrop.linear_cuda_backward, backward)


def test_without_a_wanted_input_gradient_the_others_are_the_same(device):
    mask = draw("III", 3, 2, 6)
    mask = mask._replace(kept=mask.kept.to(device))
    x, weight = torch.randn(3, 2, 6, device=device), k_major(torch.randn(5, 6, device=device))
    grads = [
        torch.ops.sdrop.linear_cuda_backward(
            torch.ones(3, 2, 5, device=device), x, weight, *mask, None, wanted, False
        )
        for wanted in (True, False)
    ]
    assert grads[1][0].numel() == 0
    assert torch.equal(grads[0][1], grads[1][1])
    assert torch.equal(grads[0][2], grads[1][2])


def test_second_derivatives_are_those_of_the_equation(device):
    mask = draw("III", 3, 2, 6)
    mask = mask._replace(kept=mask.kept.to(device))
    leaves = [torch.randn(3, 2, 6), k_major(torch.randn(5, 6)), torch.randn(5)]
    leaves = [leaf.to(device).requires_grad_() for leaf in leaves]
    found = []
    for op in (linear, linear_equation):
        loss = op(*leaves, mask).square().sum()
        first = torch.autograd.grad(loss, leaves, create_graph=True)
        second = torch.autograd.grad(sum(grad.square().sum() for grad in first), leaves)
        found.append([grad.detach() for grad in (*first, *second)])
    assert max(relative_errors(*found)) < TOLERANCES["float32"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((torch.randn(2, 3, 4), torch.randn(5, 7)), "input: unexpected shape"),
        ((torch.randn(2, 3, 4), torch.randn(5, 4).double()), "need float32 or bfloat16"),
        ((torch.randn(2, 3, 4).bfloat16(), torch.randn(5, 4)), "input: expected another type"),
        ((torch.randn(2, 4), torch.randn(5, 4)), r"input: expected \(T, B, features\)"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(device, arguments, message):
    with pytest.raises(RuntimeError, match=message):
        linear(*(tensor.to(device) for tensor in arguments), None, KEEP_ALL)


@pytest.mark.skipif(ON_GPU, reason="on a GPU a failed check ends the process's CUDA context")
@pytest.mark.parametrize(
    ("kept", "message"), [([0, 4], "an index is out of range"), ([2, 1], "are not ascending")]
)
@pytest.mark.parametrize("sets", [1, 2])
def test_kept_indices_that_make_no_sense_end_the_launch(device, sets, kept, message):
    mask = Mask(kept=torch.tensor([kept] * sets), scale=2.0)
    with pytest.raises(RuntimeError, match=message):
        linear(torch.randn(2, 3, 4), torch.randn(5, 4), None, mask)


def test_tf32_is_never_for_tensors_on_a_cpu():
    torch.set_float32_matmul_precision("high")
    try:
        assert not allows_tf32(torch.randn(1))
    finally:
        torch.set_float32_matmul_precision("highest")
