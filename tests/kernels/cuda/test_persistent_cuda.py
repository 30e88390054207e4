"""The persistent recurrence: several directions in one launch, barriers, what it is planned for."""

import ctypes
from pathlib import Path

import pytest
import torch
from cuda_recurrence import multiprocessors, on
from kernels_random import PATTERNS, draw, random_layer, relative_errors

import sdrop
from sdrop.ops.lstm import lstm_equations
from sdrop.ops.lstm.cuda import lstm, lstm_directions
from sdrop.ops.lstm.l2_cache import keep_weights_in_l2
from sdrop.ops.native_cuda import MODES, recurrence_mode


def both_directions(steps, batch, input_size, hidden_size, pattern, packed):
    """Two layers with the same input: tensors and options of a forward and a reverse direction."""
    first = random_layer(
        steps, batch, input_size, hidden_size, (pattern, pattern), packed=packed, reverse=False
    )
    second = random_layer(steps, batch, input_size, hidden_size, (pattern, pattern), reverse=True)
    second = second._replace(
        tensors=(first.tensors[0], *second.tensors[1:]),
        options=first.options
        | {"hidden_mask": draw(pattern, steps, batch, hidden_size), "reverse": True},
        grads=(torch.randn_like(first.grads[0]), *second.grads[1:]),
    )
    return first, second


def results_of(layers, run, dtype=torch.float32, device="cpu"):
    """Outputs, then gradients of the shared input and of each direction's tensors."""
    layers = [on(layer, device) for layer in layers]
    x = layers[0].tensors[0].detach().to(dtype).requires_grad_()
    own = [[t.detach().to(dtype).requires_grad_() for t in each.tensors[1:]] for each in layers]
    outputs = [result for each in run(x, own, layers) for result in each]
    grads = [grad.to(dtype) for each in layers for grad in each.grads]
    torch.autograd.backward(outputs, grads)
    return [o.detach() for o in outputs] + [x.grad, *(t.grad for each in own for t in each)]


def by_equations(x, own, layers):
    def in_double(mask):
        return mask._replace(mask=None if mask.mask is None else mask.mask.double())

    for tensors, layer in zip(own, layers, strict=True):
        masks = {name: in_double(layer.options[name]) for name in ("input_mask", "hidden_mask")}
        yield lstm_equations(x, *tensors, **layer.options | masks)


def together(x, own, layers):
    return lstm_directions(
        x,
        *zip(*own, strict=True),
        input_mask=layers[0].options["input_mask"],
        hidden_masks=[layer.options["hidden_mask"] for layer in layers],
        batch_sizes=layers[0].options["batch_sizes"],
    )


def one_by_one(x, own, layers):
    for tensors, layer in zip(own, layers, strict=True):
        yield lstm(x, *tensors, **layer.options)


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("packed", [False, True])
def test_two_directions_in_one_launch_agree_with_the_equations(
    device, in_each_order, monkeypatch, pattern, packed
):
    monkeypatch.setenv("SDROP_CUDA_RECURRENCE", MODES[PATTERNS.index(pattern) % 3])
    layers = both_directions(5, 7, 9, 20, pattern, packed)
    found = in_each_order(lambda: results_of(layers, together, device=device))
    expected = results_of(layers, by_equations, torch.float64)
    assert max(relative_errors([each.cpu().double() for each in found], expected)) < 1e-5


def test_two_directions_in_one_launch_give_the_bits_of_two_launches(device):
    layers = both_directions(6, 20, 12, 16, "III", False)
    found = [results_of(layers, run, device=device) for run in (together, one_by_one)]
    for a, b in zip(*found, strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("mode", MODES)
def test_a_layer_takes_the_mode_that_is_asked_for(request, device, monkeypatch, mode):
    if device.type == "cuda":
        pytest.skip("asks the emulated library")
    monkeypatch.setenv("SDROP_CUDA_RECURRENCE", mode)
    library = Path(request.getfixturevalue("emulated_library")._name)
    assert recurrence_mode(0, 20, 100, 1, torch.float32, library) == mode


def test_a_layer_with_more_units_than_blocks_can_own_is_run_by_step(request, device):
    if device.type == "cuda":
        pytest.skip("asks the emulated library")
    library = Path(request.getfixturevalue("emulated_library")._name)
    shapes = [(112, 1), (113, 1), (48, 2), (49, 2)]
    with multiprocessors(request, device, 7):
        modes = [recurrence_mode(0, 20, *shape, torch.float32, library) for shape in shapes]
    assert modes == ["resident", "by_step"] * 2


def test_explain_tells_the_products_and_the_recurrence(device):
    lstm = sdrop.LSTM(5, 4, input_dropout=0.5, bidirectional=True, backend="cuda").to(device)
    (told,) = sdrop.explain(lstm, torch.randn(3, 2, 5, device=device))
    assert told.path == "cuda"
    assert "products with x: " in told.why
    mode = "resident (docs/cuda.md)" if device.type == "cuda" else "by the emulation"
    assert told.why.endswith(f"; recurrence: {mode}")


def test_the_second_level_cache_is_set_aside_on_request_alone(request, device):
    if device.type == "cuda":
        pytest.skip("asks the emulated library")
    keep = request.getfixturevalue("emulated_library").sdrop_keep_weights_in_l2
    keep.argtypes, keep.restype = (ctypes.c_int, ctypes.c_longlong), ctypes.c_longlong
    layer = random_layer(3, 2, 4, 5, ("III", "III"))
    plain = [each.clone() for each in lstm(*layer.tensors, **layer.options)]
    assert keep(0, 1 << 20) == 1 << 20
    windowed = lstm(*layer.tensors, **layer.options)
    assert keep(0, 0) == 0
    assert all(torch.equal(a, b) for a, b in zip(plain, windowed, strict=True))


def test_a_request_for_cache_that_cannot_be_met_is_told_why():
    with pytest.raises(ValueError, match=r"keep_weights_in_l2\(-1\): expected a number of bytes"):
        keep_weights_in_l2(-1)
    if not torch.cuda.is_available():
        with pytest.raises(RuntimeError, match="keep_weights_in_l2: the CUDA kernels are"):
            keep_weights_in_l2(1)
