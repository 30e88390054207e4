"""What `sdrop.explain` says is what runs."""

import pytest
import torch
from torch import nn

import sdrop
from sdrop.models import DropoutRates, LanguageModel
from sdrop.ops.native import NATIVE

needs_kernels = pytest.mark.skipif(NATIVE.capability is None, reason=str(NATIVE.reason))
STEPS, BATCH, SIZE = 7, 5, 6


def lines(module, *inputs):
    return [(each.name, each.path, each.dropped) for each in sdrop.explain(module, *inputs)]


@needs_kernels
def test_a_language_model_is_told_layer_by_layer():
    rates = DropoutRates(input=0.5, between=0.5, recurrent=0.25, output=0.5)
    model = LanguageModel(9, embedding_dim=8, hidden_size=8, rates=rates)
    words = torch.randint(9, (STEPS, BATCH))
    x, h = "x: 4 of 8 neurons, anew each step", "h: 6 of 8 neurons, anew each step"
    assert lines(model, words, words) == [
        ("lstm, layer 0", "cpu", f"{x}, {h}"),
        ("lstm, layer 1", "cpu", f"{x}, {h}"),
        ("decoder", "cpu", x),
    ]


@needs_kernels
def test_directions_and_patterns_are_told():
    pattern = sdrop.DropoutPattern("random", "constant")
    lstm = sdrop.LSTM(SIZE, 4, bidirectional=True, recurrent_dropout=0.5, pattern=pattern)
    dropped = "h: neurons drawn for each sequence, once"
    assert lines(lstm, torch.randn(STEPS, BATCH, SIZE)) == [
        ("LSTM, layer 0", "cpu", dropped),
        ("LSTM, layer 0, reverse", "cpu", dropped),
    ]


def test_torchs_own_kernel_is_told_once_a_layer_and_is_what_runs(monkeypatch):
    calls = []

    def counted(*arguments, original=torch._VF.lstm):
        calls.append(arguments)
        return original(*arguments)

    monkeypatch.setattr(torch._VF, "lstm", counted)
    monkeypatch.setattr("sdrop.ops.paths._known", {})
    monkeypatch.setattr("sdrop.ops.paths.WIDE_BATCH", BATCH)
    monkeypatch.setattr("sdrop.ops.paths.MANY_ROWS", 1)
    lstm = sdrop.LSTM(SIZE, SIZE, num_layers=2, bidirectional=True)
    found = lines(lstm, torch.randn(STEPS, BATCH, SIZE))
    assert [path for _, path, _ in found] == ["torch", "torch"]
    assert len(calls) == 2


def test_what_the_kernels_cannot_take_is_told_with_the_reason():
    cell = sdrop.LSTMCell(3, 4, dtype=torch.float64)
    (cell_line,) = sdrop.explain(cell, torch.randn(2, 3, dtype=torch.float64))
    assert (cell_line.name, cell_line.path) == ("LSTMCell", "reference")
    assert cell_line.why == NATIVE.reason or cell_line.why.endswith("got torch.float64")
    projected = sdrop.explain(sdrop.LSTM(3, 4, proj_size=2), torch.randn(2, 2, 3))
    assert "projection" in str(projected) or str(NATIVE.reason) in str(projected)


def test_of_a_projected_layer_h_has_the_projections_neurons():
    lstm = sdrop.LSTM(8, 12, proj_size=4, recurrent_dropout=0.5)
    (line,) = sdrop.explain(lstm, torch.randn(3, 2, 8))
    assert line.dropped == "h: 2 of 4 neurons, anew each step"


@pytest.mark.parametrize(
    ("given", "words"), [(3, "got int"), (sdrop.LSTM, "got the class LSTM"), (None, "got NoneType")]
)
def test_what_is_no_module_is_told(given, words):
    with pytest.raises(TypeError, match=f"explain: expected a torch.nn.Module .*{words}"):
        sdrop.explain(given, torch.randn(2, 2, 3))


def test_a_linear_layer_without_dropout_is_torchs():
    linear = sdrop.Linear(3, 4, dropout=0.5).eval()
    (line,) = sdrop.explain(linear, torch.randn(2, 3))
    assert (line.path, line.why) == ("torch", "without dropout it is torch.nn.Linear")


def test_asking_draws_nothing_and_computes_no_gradient():
    torch.manual_seed(3)
    expected = torch.rand(2)
    lstm = sdrop.LSTM(3, 4, input_dropout=0.5)
    torch.manual_seed(3)
    sdrop.explain(lstm, torch.randn(2, 2, 3, generator=torch.Generator()))
    assert torch.equal(torch.rand(2), expected)
    assert all(parameter.grad is None for parameter in lstm.parameters())


def test_a_module_of_torchs_alone_has_nothing_to_tell():
    explanation = sdrop.explain(nn.LSTM(3, 4), torch.randn(2, 2, 3))
    assert len(explanation) == 0
    assert str(explanation) == "nothing of sdrop's was called"


def test_nobody_listens_after_an_error():
    from sdrop.ops import recording

    with pytest.raises(RuntimeError):
        sdrop.explain(sdrop.LSTM(3, 4), torch.randn(2, 2, 5))
    assert recording.active is None
