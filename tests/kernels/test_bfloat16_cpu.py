"""The compiled kernels with bfloat16 weights against equations that round where the kernels do.

Where the processor has no instructions for it, the kernels' portable code runs here.
"""

import math

import pytest
import torch
from kernels_random import (
    PATTERNS,
    draw,
    k_major,
    random_layer,
    relative_errors,
    run_layer,
    uniform,
)
from torch import Tensor

from sdrop.functional import KEEP_ALL, Mask
from sdrop.ops.linear_cpu import linear
from sdrop.ops.lstm.cpu import lstm
from sdrop.ops.masks import dense_mask

WHOLE = 2e-2  # against equations that round nothing
# Sums that differ in their last bits are rounded apart now and then.
FORWARD, GRADIENT = 5e-4, 3e-3
WEIGHT = 5e-3  # and these gradients are rounded in the end


def round_to_bfloat16(tensor: Tensor) -> Tensor:
    return tensor.float().bfloat16().to(tensor.dtype)


def rounded(tensor: Tensor) -> Tensor:
    """The rounded tensor, whose gradient is that of the tensor."""
    return tensor + (round_to_bfloat16(tensor.detach()) - tensor.detach())


def with_rounded_gradient(tensor: Tensor) -> Tensor:
    tensor.register_hook(round_to_bfloat16)
    return tensor


def factors(mask: Mask, size: int) -> Tensor:
    dense = dense_mask(mask, size, torch.float64)
    return torch.ones(1, 1, size, dtype=torch.float64) if dense is None else dense


def lstm_of_rounded(
    x, h, c, weight_ih, weight_hh, bias=None, *, input_mask, hidden_mask, batch_sizes, reverse
):
    """`lstm_equations` for sequences of one length, with what is multiplied rounded."""
    assert batch_sizes is None
    dropped = rounded(x * factors(input_mask, x.shape[2]))
    hidden_factors = factors(hidden_mask, h.shape[1])
    outputs = {}
    for t in reversed(range(len(x))) if reverse else range(len(x)):
        h = rounded(h * hidden_factors[min(t, len(hidden_factors) - 1)])
        gates = with_rounded_gradient(dropped[t] @ weight_ih.t() + h @ weight_hh.t())
        i, f, g, o = (gates if bias is None else gates + bias).chunk(4, dim=1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = outputs[t] = o.sigmoid() * c.tanh()
    return torch.stack([outputs[t] for t in range(len(x))]), h, c


def of_bfloat16(layer):
    """The layer with weights that are bfloat16 numbers, and itself in float32."""
    tensors = list(layer.tensors)
    tensors[3:5] = [k_major(weight.bfloat16()) for weight in tensors[3:5]]
    as_floats = [*tensors[:3], *(k_major(weight.float()) for weight in tensors[3:5]), tensors[5]]
    return layer._replace(tensors=tuple(tensors)), layer._replace(tensors=tuple(as_floats))


def run_lstm(layer):
    """`run_layer` with each tensor in its own type."""
    leaves = [t if t is None else t.detach().requires_grad_() for t in layer.tensors]
    results = lstm(*leaves, **layer.options)
    torch.autograd.backward(results, layer.grads)
    assert leaves[3].grad.dtype == leaves[4].grad.dtype == torch.bfloat16
    assert leaves[3].grad.t().is_contiguous()
    return [r.detach() for r in results] + [leaf.grad for leaf in leaves if leaf is not None]


def check_lstm(layer):
    layer, as_floats = of_bfloat16(layer)
    found, expected = run_lstm(layer), run_layer(as_floats, lstm_of_rounded, torch.float64)
    errors = relative_errors([each.double() for each in found], expected)
    assert max(errors[6:8]) < WEIGHT, errors
    assert max(errors[:3]) < FORWARD, errors
    assert max(errors[3:6] + errors[8:]) < GRADIENT, errors


@pytest.mark.parametrize("steps", [1, 2, 7])
@pytest.mark.parametrize("batch", [1, 2, 3, 6, 9, 12, 20, 22, 25, 33, 65])
@pytest.mark.parametrize("hidden_size", [2, 18, 100])
def test_odd_sizes_agree_with_the_rounded_equations(steps, batch, hidden_size):
    index = steps + batch + hidden_size
    patterns = PATTERNS[index % 7], PATTERNS[(index // 2) % 7]
    options = {"bias": index % 3 > 0, "reverse": index % 5 == 0}
    check_lstm(random_layer(steps, batch, 1 + index % 40, hidden_size, patterns, **options))


@pytest.mark.parametrize("pattern", PATTERNS)
def test_each_pattern_agrees_with_the_rounded_equations(pattern):
    check_lstm(random_layer(5, 20, 131, 90, (pattern, pattern)))


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("reverse", [False, True])
def test_packed_rows_are_near_those_in_float32(pattern, reverse):
    layer = random_layer(9, 13, 20, 22, (pattern, pattern), packed=True, reverse=reverse)
    layer, as_floats = of_bfloat16(layer)
    found = [each.float() for each in run_lstm(layer)]
    assert max(relative_errors(found, run_layer(as_floats, lstm))) < WHOLE


def linear_of_rounded(x, weight, bias, mask):
    output = with_rounded_gradient(rounded(x * factors(mask, x.shape[2])) @ weight.t())
    return output if bias is None else output + bias


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize(
    ("steps", "batch", "size", "features"),
    [(1, 1, 1, 2), (7, 3, 17, 34), (5, 20, 100, 258), (3, 65, 40, 30), (2, 1, 9, 130)],
)
def test_a_linear_layer_agrees_with_the_rounded_equation(steps, batch, size, features, pattern):
    x, grad = torch.randn(steps, batch, size), torch.randn(steps, batch, features)
    weight = k_major(uniform(size**-0.5, features, size).bfloat16())
    bias = torch.randn(features) if steps % 2 else None
    mask = draw(pattern, steps, batch, size)
    results = []
    for op, dtypes in (
        (linear, (torch.float32, torch.bfloat16)),
        (linear_of_rounded, (torch.float64, torch.float64)),
    ):
        leaves = [x.to(dtypes[0]), k_major(weight.to(dtypes[1]))]
        leaves += [] if bias is None else [bias.to(dtypes[0])]
        leaves = [leaf.detach().requires_grad_() for leaf in leaves]
        output = op(*leaves, *[None] * (bias is None), mask)
        output.backward(grad.to(output.dtype))
        results.append([output.detach().double(), *(leaf.grad.double() for leaf in leaves)])
    errors = relative_errors(*results)
    assert errors.pop(2) < WEIGHT
    assert errors.pop(0) < FORWARD
    assert max(errors) < GRADIENT


def test_nan_and_infinity_go_to_their_rows_alone():
    for value in (float("nan"), float("inf")):
        layer, _ = of_bfloat16(random_layer(3, 20, 10, 18, ("III", "III")))
        layer.tensors[1][4, :] = value
        output = lstm(*layer.tensors, **layer.options)[0]
        finite = output.isfinite().all(2).all(0)
        assert finite[[i for i in range(20) if i != 4]].all()
        assert math.isinf(value) or not finite[4]  # infinite sums are sigmoids of 0 and 1


def test_weights_of_dropped_neurons_are_not_read():
    # An odd number is kept, so that a kept row is alone at the end; the first of the other step,
    # which is next in memory, is no partner for it.
    mask = Mask(kept=torch.tensor([[0, 1, 2, 4, 7], [5, 6, 7, 8, 9]]), scale=2.0)
    layer, _ = of_bfloat16(random_layer(2, 20, 10, 10, ("all", "all")))
    layer = layer._replace(options=layer.options | {"input_mask": mask, "hidden_mask": mask})
    x, h, c, *weights, bias = layer.tensors
    for weight in weights:
        weight[:, [3, 5]] = float("nan")
    assert lstm(x, h, c, *weights, bias, **layer.options)[0][0].isfinite().all()
    assert linear(x, weights[0], None, mask)[0].isfinite().all()
    for weight in weights:
        weight[:, 5] = 0.0  # of the 10 neurons now only one has no step that keeps it
    assert all(each.isfinite().all() for each in run_lstm(layer))


def test_the_result_is_differentiable_twice():
    layer, _ = of_bfloat16(random_layer(2, 3, 4, 6, ("III", "III")))
    leaves = [t.detach().requires_grad_() for t in layer.tensors]
    output = lstm(*leaves, **layer.options)[0]
    (grad,) = torch.autograd.grad(output.sum(), leaves[3], create_graph=True)
    grad.float().square().sum().backward()
    assert leaves[3].grad.dtype == torch.bfloat16
    x, weight = torch.randn(2, 3, 4, requires_grad=True), k_major(torch.randn(6, 4).bfloat16())
    (grad,) = torch.autograd.grad(
        linear(x, weight.requires_grad_(), None, KEEP_ALL).square().sum(), x, create_graph=True
    )
    grad.sum().backward()
    assert weight.grad.dtype == torch.bfloat16


def test_the_operators_are_as_torch_wants_them():
    layer, _ = of_bfloat16(random_layer(2, 3, 4, 6, ("III", "IV")))
    leaves = [t.detach().requires_grad_() for t in layer.tensors]
    kept = [layer.options[name].kept for name in ("input_mask", "hidden_mask")]
    masks = (kept[0], None, 2.0, kept[1], None, 2.0, None, False)
    torch.library.opcheck(torch.ops.sdrop.lstm_cpu, (*leaves, *masks))
    arguments = (leaves[0], leaves[3], None, kept[0], None, 2.0, None)
    torch.library.opcheck(torch.ops.sdrop.linear_cpu, arguments)


def test_sizes_and_types_that_do_not_fit_are_told():
    x, h = torch.randn(2, 3, 4), torch.zeros(3, 5)
    weights = [k_major(torch.randn(20, size).bfloat16()) for size in (4, 5)]
    masks = {"input_mask": KEEP_ALL, "hidden_mask": KEEP_ALL}
    with pytest.raises(RuntimeError, match="bfloat16 weights: expected an even size, got 5"):
        lstm(x, h, h, *weights, **masks)
    with pytest.raises(RuntimeError, match="weights: expected two of one type"):
        lstm(x, h, h, weights[0], weights[1].float(), **masks)
    with pytest.raises(RuntimeError, match="weight: expected a float32 or bfloat16 tensor"):
        linear(x, weights[0].half(), None, KEEP_ALL)
    with pytest.raises(RuntimeError, match="expected an even size, got 7"):
        linear(x, torch.randn(7, 4).bfloat16(), None, KEEP_ALL)
