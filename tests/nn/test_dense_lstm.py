"""Which kernel `backend="auto"` takes where nothing is skipped, and that both give the same."""

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

import sdrop
from sdrop import DropoutPattern
from sdrop.ops.native import NATIVE

STEPS, BATCH, SIZE = 7, 5, 6

needs_kernels = pytest.mark.skipif(NATIVE.capability is None, reason=str(NATIVE.reason))


@pytest.fixture
def torchs_calls(monkeypatch):
    """The list of calls of torch's own LSTM kernel; here it fits already from 5 sequences on."""
    calls = []

    def counted(*arguments, original=torch._VF.lstm):
        calls.append(arguments)
        return original(*arguments)

    monkeypatch.setattr(torch._VF, "lstm", counted)
    monkeypatch.setattr("sdrop.ops.paths._known", {})
    monkeypatch.setattr("sdrop.ops.paths.FEW_ROWS", 1)
    monkeypatch.setattr("sdrop.ops.paths.WIDE_BATCH", BATCH)
    monkeypatch.setattr("sdrop.ops.paths.MANY_ROWS", STEPS * BATCH)
    return calls


def run(module, x, factor):
    output, (h_n, c_n) = module(x)
    output = output if isinstance(output, torch.Tensor) else output.data
    leaves = list(module.parameters())
    loss = (output * factor).sum() + h_n.sum() + c_n.square().sum()
    return [output, h_n, c_n, *torch.autograd.grad(loss, leaves)]


@needs_kernels
@pytest.mark.parametrize("options", [{}, {"bidirectional": True, "num_layers": 2}], ids=str)
@pytest.mark.parametrize("batch", [BATCH, BATCH - 1])
def test_wide_batches_go_to_torchs_kernel_with_its_results(torchs_calls, options, batch):
    theirs, ours = nn.LSTM(SIZE, SIZE, **options), sdrop.LSTM(SIZE, SIZE, **options)
    ours.load_state_dict(theirs.state_dict())
    x = torch.randn(STEPS, batch, SIZE)
    factor = torch.randn(STEPS, batch, SIZE * (2 if options else 1))
    expected = run(theirs, x, factor)
    torchs_calls.clear()
    found = run(ours, x, factor)
    layers = options.get("num_layers", 1)
    assert len(torchs_calls) == (layers if batch == BATCH else 0)
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)
    weights = [p for p in ours.parameters() if p.dim() == 2]
    gradients = [g for g in found[3:] if g.dim() == 2]
    assert all(g.stride() == w.stride() for g, w in zip(gradients, weights, strict=True))


@needs_kernels
@pytest.mark.parametrize(
    ("pattern", "packs"),
    [
        (DropoutPattern(), True),
        (DropoutPattern(keep="bernoulli"), True),
        (DropoutPattern(time="constant"), True),
        (DropoutPattern("random"), False),
    ],
    ids=str,
)
def test_an_input_of_which_rows_are_skipped_stays_with_the_compiled_kernel(
    torchs_calls, pattern, packs
):
    lstm = sdrop.LSTM(SIZE, SIZE, input_dropout=0.5, pattern=pattern)
    lstm(torch.randn(STEPS, BATCH, SIZE))
    assert len(torchs_calls) == (0 if packs else 1)


@needs_kernels
def test_packed_sequences_stay_with_the_compiled_kernel(torchs_calls):
    packed = pack_padded_sequence(torch.randn(STEPS, BATCH, SIZE), [STEPS] * BATCH)
    sdrop.LSTM(SIZE, SIZE)(packed)
    assert not torchs_calls


def test_without_a_compiled_kernel_torchs_takes_all_but_few_rows(torchs_calls, monkeypatch):
    monkeypatch.setattr("sdrop.ops.choice.why_not_cpu", lambda *tensors: "no compiler")
    lstm = sdrop.LSTM(SIZE, SIZE)
    lstm(torch.randn(1, 2, SIZE))
    assert len(torchs_calls) == 1
    monkeypatch.setattr("sdrop.ops.paths.FEW_ROWS", 3)
    lstm(torch.randn(1, 1, SIZE))
    assert len(torchs_calls) == 1


@pytest.mark.parametrize(
    ("dtype", "options"),
    [(torch.float64, {}), (torch.float64, {"proj_size": 4}), (torch.float32, {"proj_size": 4})],
    ids=str,
)
def test_torchs_own_gemms_take_the_weights_as_they_are(torchs_calls, dtype, options):
    lstm = sdrop.LSTM(SIZE, SIZE, dtype=dtype, **options)
    with torch.no_grad():
        output, _ = lstm(torch.randn(1, 1, SIZE, dtype=dtype))
    flat = torchs_calls[0][2]
    assert flat[1] is lstm.weight_hh_l0
    assert flat[-1] is (lstm.weight_hr_l0 if options else lstm.bias_hh_l0)
    assert output.shape[-1] == (4 if options else SIZE)


def test_a_layer_with_recurrent_dropout_never_goes_to_torchs_kernel(torchs_calls):
    for dtype in (torch.float32, torch.float64):
        lstm = sdrop.LSTM(SIZE, SIZE, recurrent_dropout=0.5, dtype=dtype)
        lstm(torch.randn(STEPS, BATCH, SIZE, dtype=dtype))
    assert not torchs_calls
