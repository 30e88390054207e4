"""`torch.ops.sdrop.lstm_cpu` against the equations in float64."""

import itertools

import pytest
import torch
from kernels_random import (
    PATTERNS,
    in_float64,
    random_layer,
    relative_error,
    relative_errors,
    run_layer,
)

from sdrop import functional
from sdrop.functional import Mask
from sdrop.ops.lstm import lstm_equations
from sdrop.ops.lstm.cpu import lstm

FORWARD, GRADIENT = 2e-6, 1e-5


def check(layer):
    errors = relative_errors(run_layer(layer, lstm), in_float64(layer))
    assert max(errors[:3]) < FORWARD, errors
    assert max(errors[3:]) < GRADIENT, errors


@pytest.mark.parametrize("steps", [1, 7, 63])
@pytest.mark.parametrize("batch", [1, 3, 20, 65])
@pytest.mark.parametrize("hidden_size", [17, 100])
def test_odd_sizes_agree_with_the_equations(steps, batch, hidden_size):
    index = steps + batch + hidden_size
    patterns = PATTERNS[index % 7], PATTERNS[(index // 2) % 7]
    check(random_layer(steps, batch, 1 + index % 40, hidden_size, patterns))


@pytest.mark.parametrize("batch", [2, 4, 5, 6, 8, 9, 10, 12, 13, 16, 22, 25, 42])
@pytest.mark.parametrize("hidden_size", [7, 90, 130])
def test_all_shares_of_a_vector_agree_with_the_equations(batch, hidden_size):
    # Columns of a small batch's gradients share vectors, and how many depends on the batch.
    patterns = PATTERNS[batch % 7], PATTERNS[(batch + hidden_size) % 7]
    check(random_layer(2, batch, 11, hidden_size, patterns))


@pytest.mark.parametrize("patterns", list(itertools.product(PATTERNS, repeat=2)))
def test_all_pairs_of_patterns_agree_with_the_equations(patterns):
    check(random_layer(5, 6, 23, 18, patterns))


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("reverse", [False, True])
def test_packed_rows_agree_with_the_equations(pattern, reverse):
    check(random_layer(9, 13, 20, 21, (pattern, pattern), packed=True, reverse=reverse))


@pytest.mark.parametrize(
    ("steps", "batch"),
    [(1, 1), (1, 4), (1, 16), (1, 17), (1, 31), (1, 32), (2, 3), (2, 8), (3, 10), (3, 11), (4, 2)],
)
@pytest.mark.parametrize("hidden_size", [8, 90, 530])
def test_few_rows_agree_with_the_equations(steps, batch, hidden_size):
    # Of one step the weights are read where they are, in stripes of up to 512 units.
    index = steps + batch + hidden_size
    for first in range(index, index + 2):
        patterns = PATTERNS[first % 7], PATTERNS[(first + batch) % 7]
        options = {"packed": steps > 1 and first % 2 == 0, "bias": batch % 3 > 0}
        check(random_layer(steps, batch, 1 + 5 * (first % 9), hidden_size, patterns, **options))


def test_a_reversed_padded_layer_without_bias_agrees_with_the_equations():
    check(random_layer(6, 5, 9, 33, ("III", "III"), reverse=True, bias=False))


def test_one_unit_agrees_with_the_equations():
    for steps, batch in ((1, 1), (7, 3), (63, 20)):
        layer = random_layer(steps, batch, 3, 1, ("all", "all"))
        found, expected = run_layer(layer, lstm), in_float64(layer)
        # A single unit may be small by chance, so the error is taken of all gradients together.
        scale = max(e.abs().max() for e in expected)
        assert (
            max((a - b).abs().max() / scale for a, b in zip(found, expected, strict=True)) < FORWARD
        )


def test_a_large_layer_is_as_near_to_float64_as_torchs_own():
    layer = random_layer(7, 20, 650, 650, ("all", "all"))
    torchs = torch.nn.LSTM(650, 650)
    torch.nn.init.zeros_(torchs.bias_hh_l0)
    for name, value in zip(("weight_ih", "weight_hh", "bias_ih"), layer.tensors[3:], strict=True):
        getattr(torchs, f"{name}_l0").data.copy_(value)
    x, h_0, c_0 = layer.tensors[:3]
    output, _ = torchs(x, (h_0[None], c_0[None]))
    expected = in_float64(layer)
    found = run_layer(layer, lstm)
    assert relative_error(found[0], expected[0]) < 2 * relative_error(output.detach(), expected[0])
    assert max(relative_errors(found, expected)) < GRADIENT


@pytest.mark.parametrize("kept", ["none", "all dropped"])
def test_masks_that_keep_nothing_and_masks_that_keep_all(kept):
    layer = random_layer(4, 3, 8, 10, ("all", "all"))
    value = 0.0 if kept == "none" else 1.0
    masks = {
        "input_mask": Mask(mask=torch.full((4, 1, 8), value)),
        "hidden_mask": Mask(mask=torch.full((1, 1, 10), value)),
    }
    check(layer._replace(options=layer.options | masks))


def test_weights_of_any_layout_give_the_same_bits():
    layer = random_layer(5, 4, 12, 16, ("III", "III"))
    tensors = list(layer.tensors)
    tensors[3:5] = [w.contiguous() for w in tensors[3:5]]
    other = run_layer(layer._replace(tensors=tensors), lstm)
    for a, b in zip(run_layer(layer, lstm), other, strict=True):
        assert torch.equal(a, b)


def test_gradients_of_weights_are_k_major():
    layer = random_layer(5, 4, 12, 16, ("III", "III"))
    for grad in run_layer(layer, lstm)[6:8]:
        assert grad.t().is_contiguous()


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("place", [0, 1, 2, 3, 4])
def test_nan_and_infinity_go_where_the_equations_put_them(value, place):
    layer = random_layer(5, 4, 9, 20, ("all", "all"))
    tensors = [t.clone(memory_format=torch.preserve_format) for t in layer.tensors]
    tensors[place][0, 0] = value
    layer = layer._replace(tensors=tuple(tensors))
    with torch.no_grad():
        found = lstm(*layer.tensors, **layer.options)
        expected = functional.lstm(
            tensors[0], tensors[1:3], *tensors[3:], **layer.options, backend="reference"
        )
    for a, b in zip(found, (expected[0], *expected[1]), strict=True):
        assert torch.equal(a.isnan(), b.isnan())
        torch.testing.assert_close(a, b, equal_nan=True)


def test_no_gradient_of_the_input_is_computed_where_nobody_wants_it():
    layer = random_layer(3, 2, 5, 6, ("III", "III"))
    x, h_0, c_0, *weights = layer.tensors
    weights = [w.requires_grad_() for w in weights]
    output, _, _ = lstm(x, h_0, c_0, *weights, **layer.options)
    output.sum().backward()
    assert x.grad is None
    assert all(w.grad is not None for w in weights)


def test_second_derivatives_are_those_of_the_equations():
    layer = random_layer(3, 2, 4, 5, ("III", "III"))
    tensors = [t.requires_grad_() for t in layer.tensors]
    found = []
    for op in (lstm, lstm_equations):
        output, _, _ = op(*tensors, **layer.options)
        (first,) = torch.autograd.grad(output.square().sum(), tensors[0], create_graph=True)
        found.append([first, *torch.autograd.grad(first.square().sum(), tensors)])
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_indices_out_of_range_are_refused():
    layer = random_layer(3, 2, 4, 5, ("all", "all"))
    options = layer.options | {"input_mask": Mask(kept=torch.tensor([[0, 4]]), scale=2.0)}
    with pytest.raises(RuntimeError, match="index 4 is out of range for 4 neurons"):
        lstm(*layer.tensors, **options)


def test_opcheck_accepts_the_operators():
    layer = random_layer(3, 2, 4, 5, ("III", "I"))
    tensors = [t.requires_grad_() for t in layer.tensors]
    masks = [layer.options["input_mask"], layer.options["hidden_mask"]]
    arguments = (*tensors, *masks[0], *masks[1], None, False)
    torch.library.opcheck(torch.ops.sdrop.lstm_cpu, arguments)
    with torch.no_grad():
        output, _, _, gates, cells = torch.ops.sdrop.lstm_cpu(*arguments)
        detached = [t.detach() for t in tensors]
        backward = (
            *layer.grads,
            *detached[:5],
            *masks[0],
            *masks[1],
            None,
            False,
            output,
            gates,
            cells,
        )
        torch.library.opcheck(torch.ops.sdrop.lstm_cpu_backward, (*backward, True))
