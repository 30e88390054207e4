"""Half precision: under `torch.autocast`, and in modules converted to it."""

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

import sdrop
from sdrop import DropoutPattern

HALVES = [torch.bfloat16, torch.float16]
half = pytest.mark.parametrize("dtype", HALVES, ids=str)
RATES = {"input_dropout": 0.5, "recurrent_dropout": 0.5}
SETTINGS = {
    "no dropout, auto": {},
    "no dropout, reference": {"backend": "reference"},
    "NR, case IV": {"input_dropout": 0.5, "pattern": DropoutPattern(time="constant")},
    "NR and RH, case I": RATES | {"pattern": DropoutPattern("random")},
    "NR and RH, case III": RATES,
    "NR and RH, case IV, projected": RATES
    | {"pattern": DropoutPattern(time="constant"), "proj_size": 8, "bidirectional": True},
}


def error(ours, expected):
    ours, expected = ours.detach().float(), expected.detach().float()
    return float((ours - expected).abs().max() / expected.abs().max())


def run(lstm, x, dtype=None):
    """The outputs, and the gradients of input and parameters."""
    x = x.clone().requires_grad_()
    with sdrop.mask_key(0, 1), torch.autocast("cpu", dtype=dtype, enabled=dtype is not None):
        output, states = lstm(x)
    results = [output, *states]
    loss = sum(value.float().square().mean() for value in results)
    return results, torch.autograd.grad(loss, [x, *lstm.parameters()])


@half
@pytest.mark.parametrize("setting", SETTINGS)
def test_autocast_gives_half_precision_results_and_float32_gradients(setting, dtype):
    lstm = sdrop.name_sites(sdrop.LSTM(12, 16, **SETTINGS[setting]))
    x = torch.randn(20, 4, 12)
    expected, expected_grads = run(lstm, x)
    ours, grads = run(lstm, x, dtype)
    assert {value.dtype for value in ours} == {dtype}
    assert {grad.dtype for grad in grads} == {torch.float32}
    pairs = zip([*ours, *grads], [*expected, *expected_grads], strict=True)
    assert max(error(a, b) for a, b in pairs) <= 2e-2
    for grad in grads[1:]:
        assert grad.dim() == 1 or grad.t().is_contiguous()


@half
def test_autocast_runs_packed_sequences_and_carries_its_state_on(dtype):
    lstm = sdrop.LSTM(12, 16, **RATES)
    packed = pack_padded_sequence(torch.randn(20, 3, 12), [4, 20, 9], enforce_sorted=False)
    with torch.autocast("cpu", dtype=dtype):
        output, state = lstm(packed)
        output, state = lstm(packed, state)
    assert {output.data.dtype, state[0].dtype, state[1].dtype} == {dtype}


@half
def test_autocast_runs_cell_linear_and_dropout(dtype):
    cell, linear = sdrop.LSTMCell(12, 16, **RATES), sdrop.Linear(16, 8, dropout=0.5)
    with torch.autocast("cpu", dtype=dtype):
        h = None
        for x in torch.randn(3, 4, 12):
            h = cell(x, h)
        output = linear(sdrop.Dropout()(h[0]))
    assert output.dtype == dtype
    output.float().square().sum().backward()
    parameters = [*cell.parameters(), *linear.parameters()]
    assert {p.grad.dtype for p in parameters} == {torch.float32}


@half
@pytest.mark.parametrize("space", ["random", "structured"])
def test_autocast_of_a_dropping_linear_layer_is_near_float32(space, dtype):
    linear = sdrop.Linear(12, 8, dropout=0.5, pattern=DropoutPattern(space))
    sdrop.name_sites(linear)
    x = torch.randn(5, 4, 12)
    with sdrop.mask_key(0, 1):
        expected = linear(x)
        with torch.autocast("cpu", dtype=dtype):
            ours = linear(x)
            loss = linear.cross_entropy(x, torch.zeros(5, 4, dtype=torch.int64))
    assert ours.dtype == dtype
    assert error(ours, expected) <= 2e-2
    loss.backward()
    assert linear.weight.grad.dtype == torch.float32


def test_cells_of_half_precision_inputs_are_kept_in_float32():
    lstm = sdrop.LSTM(4, 4, backend="reference")
    with torch.no_grad():
        for name, parameter in lstm.named_parameters():
            parameter.fill_(0.0 if "weight" in name else 5.0)  # c grows by almost 1 a step
    x = torch.zeros(400, 1, 4)
    expected, _ = run(lstm, x)
    ours, _ = run(lstm.bfloat16(), x.bfloat16())
    assert error(ours[2], expected[2]) <= 2e-2  # in bfloat16 it stops growing at 256


@half
def test_autocast_of_a_linear_layer_is_as_near_as_torchs(dtype):
    theirs, ours = nn.Linear(12, 8), sdrop.Linear(12, 8, dropout=0.5)
    ours.load_state_dict(theirs.state_dict())
    x = torch.randn(5, 4, 12)
    with torch.autocast("cpu", dtype=dtype):
        assert torch.equal(ours.eval()(x), theirs(x))


@half
@pytest.mark.parametrize("setting", SETTINGS)
def test_a_converted_module_computes_in_half_precision(setting, dtype):
    lstm = sdrop.name_sites(sdrop.LSTM(12, 16, **SETTINGS[setting]))
    x = torch.randn(20, 4, 12)
    expected, _ = run(lstm, x)
    ours, grads = run(lstm.to(dtype), x.to(dtype))
    assert {value.dtype for value in [*ours, *grads]} == {dtype}
    assert max(error(a, b) for a, b in zip(ours, expected, strict=True)) <= 2e-2
    assert all(grad.isfinite().all() for grad in grads)


@half
def test_dtypes_of_a_converted_module_are_torchs(dtype):
    found = []
    for module in (nn.LSTM(12, 16, dtype=dtype), sdrop.LSTM(12, 16, dtype=dtype)):
        x = torch.randn(20, 4, 12, dtype=dtype, requires_grad=True)
        output, states = module(x)
        output.sum().backward()
        grads = [p.grad for p in module.parameters()]
        found.append([value.dtype for value in (output, *states, x.grad, *grads)])
    assert found[0] == found[1]


def test_float64_stays_float64_under_autocast():
    lstm = sdrop.LSTM(12, 16, **RATES, dtype=torch.float64)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output, states = lstm(torch.randn(3, 2, 12, dtype=torch.float64))
    assert {output.dtype, states[0].dtype, states[1].dtype} == {torch.float64}


@pytest.mark.parametrize("dtype", [torch.float64, torch.int64])
def test_autocast_refuses_what_it_does_not_convert(dtype):
    with (
        torch.autocast("cpu", dtype=torch.bfloat16),
        pytest.raises(ValueError, match=f"the input is {dtype}, the weights are torch.float32"),
    ):
        sdrop.LSTM(12, 16)(torch.zeros(3, 2, 12, dtype=dtype))


def test_a_module_converted_in_part_is_told():
    cell, linear = sdrop.LSTMCell(4, 6), sdrop.Linear(4, 6)
    cell.weight_hh.data = cell.weight_hh.data.bfloat16()
    linear.bias.data = linear.bias.data.bfloat16()
    for module, name in ((cell, "LSTMCell: weight_hh"), (linear, "Linear: the bias")):
        with pytest.raises(ValueError, match=f"{name} is torch.bfloat16, the weights are torch.fl"):
            module(torch.randn(3, 4))
