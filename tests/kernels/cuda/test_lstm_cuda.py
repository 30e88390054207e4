"""`torch.ops.sdrop.lstm_cuda` against the equations in float64, in each mode and thread order."""

import itertools

import pytest
import torch
from cuda_recurrence import TOLERANCES, multiprocessors, on, rounded, run_on
from kernels_random import PATTERNS, in_float64, random_layer, relative_errors

from sdrop import functional
from sdrop.functional import Mask
from sdrop.ops.lstm import lstm_equations
from sdrop.ops.lstm.cuda import lstm
from sdrop.ops.native_cuda import MODES


@pytest.fixture
def check(device, in_each_order):
    """A function that holds results and all gradients of the kernels against float64."""

    def compare(layer, dtype=torch.float32):
        layer = rounded(layer, dtype)
        found = in_each_order(lambda: run_on(layer, device, dtype))
        errors = relative_errors([each.cpu().double() for each in found], in_float64(layer))
        assert max(errors) < TOLERANCES[dtype], errors

    return compare


@pytest.fixture(params=MODES)
def mode(request, monkeypatch):
    """Each mode in turn; a layer that is too large for it runs in a lower one."""
    monkeypatch.setenv("SDROP_CUDA_RECURRENCE", request.param)
    return request.param


@pytest.mark.parametrize(
    ("steps", "batch", "hidden_size"),
    [(1, 1, 17), (7, 3, 100), (63, 3, 17), (7, 20, 17), (2, 65, 100), (3, 130, 17)],
)
def test_odd_sizes_agree_with_the_equations(check, mode, steps, batch, hidden_size):
    index = steps + batch + hidden_size + MODES.index(mode)
    patterns = PATTERNS[index % 7], PATTERNS[(index // 2) % 7]
    check(random_layer(steps, batch, 1 + index % 40, hidden_size, patterns))


@pytest.mark.parametrize("patterns", list(itertools.product(PATTERNS, repeat=2)))
def test_all_pairs_of_patterns_agree_with_the_equations(check, monkeypatch, patterns):
    turn = PATTERNS.index(patterns[0]) + PATTERNS.index(patterns[1])
    monkeypatch.setenv("SDROP_CUDA_RECURRENCE", MODES[turn % 3])
    check(random_layer(3, 6, 11, 18, patterns))


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("reverse", [False, True])
def test_packed_rows_agree_with_the_equations(check, monkeypatch, pattern, reverse):
    monkeypatch.setenv("SDROP_CUDA_RECURRENCE", MODES[PATTERNS.index(pattern) % 3])
    check(random_layer(9, 13, 10, 21, (pattern, pattern), packed=True, reverse=reverse))


def test_a_reversed_padded_layer_without_bias_agrees_with_the_equations(check, mode):
    check(random_layer(6, 5, 9, 33, ("III", "III"), reverse=True, bias=False))


def test_more_steps_than_one_launch_can_carry_sizes_of_agree_with_the_equations(check):
    check(random_layer(520, 2, 3, 5, ("III", "III"), packed=True))


@pytest.mark.parametrize(("steps", "batch"), [(1, 1), (7, 3), (63, 20)])
def test_one_unit_agrees_with_the_equations(device, mode, steps, batch):
    layer = random_layer(steps, batch, 3, 1, ("all", "all"))
    found, expected = run_on(layer, device), in_float64(layer)
    # A single unit may be small by chance, so the error is taken of all gradients together.
    scale = max(each.abs().max() for each in expected)
    for a, b in zip(found, expected, strict=True):
        assert (a.cpu() - b).abs().max() / scale < TOLERANCES[torch.float32]


@pytest.mark.parametrize("count", [8, 48])
def test_a_layer_of_650_units_agrees_with_the_equations(check, device, request, count):
    with multiprocessors(request, device, count):
        check(random_layer(2, 20, 17, 650, ("IV", "III")))


@pytest.mark.parametrize("pattern", ["all", "I", "III", "IV", "III bernoulli"])
def test_bfloat16_agrees_with_the_equations_on_rounded_numbers(check, mode, pattern):
    # An odd number of units in blocks of an odd number (13): no multiple of 16 bytes anywhere.
    check(random_layer(7, 20, 16, 101, (pattern, pattern)), torch.bfloat16)


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_masks_that_keep_nothing_and_masks_that_keep_all(check, mode, value):
    layer = random_layer(4, 3, 8, 10, ("all", "all"))
    masks = {
        "input_mask": Mask(mask=torch.full((4, 1, 8), value)),
        "hidden_mask": Mask(mask=torch.full((1, 1, 10), value)),
    }
    check(layer._replace(options=layer.options | masks))


def test_all_modes_give_the_same_bits_where_they_divide_the_layer_alike(device, monkeypatch):
    layer = random_layer(5, 20, 12, 60, ("III", "III"))
    found = []
    for mode in MODES:
        monkeypatch.setenv("SDROP_CUDA_RECURRENCE", mode)
        found.append(run_on(layer, device))
    for others in found[1:]:
        assert all(torch.equal(a, b) for a, b in zip(found[0], others, strict=True))


def test_weights_of_any_layout_give_the_same_bits(device):
    layer = random_layer(5, 4, 12, 16, ("III", "III"))
    tensors = list(layer.tensors)
    tensors[3:5] = [weight.contiguous() for weight in tensors[3:5]]
    other = run_on(layer._replace(tensors=tuple(tensors)), device)
    for a, b in zip(run_on(layer, device), other, strict=True):
        assert torch.equal(a, b)


def test_gradients_of_weights_are_k_major(device):
    layer = random_layer(5, 4, 12, 16, ("III", "III"))
    for grad in run_on(layer, device)[6:8]:
        assert grad.t().is_contiguous()


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("place", [0, 1, 2, 3, 4])
def test_nan_and_infinity_go_where_the_equations_put_them(device, value, place):
    layer = random_layer(5, 4, 9, 20, ("all", "all"))
    tensors = [t.clone(memory_format=torch.preserve_format) for t in layer.tensors]
    tensors[place][0, 0] = value
    layer = layer._replace(tensors=tuple(tensors))
    here = on(layer, device)
    with torch.no_grad():
        found = lstm(*here.tensors, **here.options)
        expected = functional.lstm(
            tensors[0], tensors[1:3], *tensors[3:], **layer.options, backend="reference"
        )
    for a, b in zip(found, (expected[0], *expected[1]), strict=True):
        assert torch.equal(a.cpu().isnan(), b.isnan())
        torch.testing.assert_close(a.cpu(), b, equal_nan=True)


def test_no_gradient_of_the_input_is_computed_where_nobody_wants_it(device):
    layer = on(random_layer(3, 2, 5, 6, ("III", "III")), device)
    x, h_0, c_0, *weights = layer.tensors
    weights = [weight.requires_grad_() for weight in weights]
    output, _, _ = lstm(x, h_0, c_0, *weights, **layer.options)
    output.sum().backward()
    assert x.grad is None
    assert all(weight.grad is not None for weight in weights)


def test_second_derivatives_are_those_of_the_equations(device):
    layer = on(random_layer(3, 2, 4, 5, ("III", "III")), device)
    found = []
    for op in (lstm, lstm_equations):
        tensors = [t.detach().clone().requires_grad_() for t in layer.tensors]
        output, _, _ = op(*tensors, **layer.options)
        (first,) = torch.autograd.grad(output.square().sum(), tensors[0], create_graph=True)
        first.square().sum().backward()
        found.append([t.grad for t in tensors])
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b)


def test_indices_out_of_range_are_refused(device):
    if device.type == "cuda":
        pytest.skip("a trap on the device ends this process's use of it")
    layer = random_layer(3, 2, 4, 5, ("all", "all"))
    for site in ("input_mask", "hidden_mask"):
        options = layer.options | {site: Mask(kept=torch.tensor([[0, 5]]), scale=2.0)}
        with pytest.raises(RuntimeError, match="kept: an index is out of range"):
            lstm(*layer.tensors, **options)


def test_an_unknown_mode_is_refused(device, monkeypatch):
    monkeypatch.setenv("SDROP_CUDA_RECURRENCE", "fast")
    layer = on(random_layer(3, 2, 4, 5, ("all", "all")), device)
    with pytest.raises(RuntimeError, match="fast: expected resident, streamed or by_step"):
        lstm(*layer.tensors, **layer.options)
