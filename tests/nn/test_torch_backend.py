"""`backend="torch"`: torch's own kernels under sdrop's modules, to be compared with."""

import warnings

import pytest
import torch
from torch import nn

import sdrop
from sdrop.models import DropoutRates, LanguageModel

PATTERNS = [
    sdrop.DropoutPattern(space, time)
    for space in ("random", "structured")
    for time in ("varying", "constant")
]


def outputs_and_gradients(module, call):
    torch.manual_seed(3)
    found = call(module)
    sum(each.sin().sum() for each in found).backward()
    return [*found, *(parameter.grad for parameter in module.parameters())]


def check_agreement(make, call, tolerance=1e-12):
    """Of torch's kernels with the reference ops in float64, from the same weights and masks."""
    own, reference = make("torch").double(), make("reference").double()
    reference.load_state_dict(own.state_dict())
    pairs = zip(
        outputs_and_gradients(own, call), outputs_and_gradients(reference, call), strict=True
    )
    for found, expected in pairs:
        torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda each: each.case)
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("proj_size", [0, 2])
def test_a_layer_agrees_with_the_reference(pattern, bidirectional, proj_size):
    x = torch.randn(5, 3, 7, dtype=torch.float64)

    def make(backend):
        options = {"input_dropout": 0.5, "dropout": 0.3, "pattern": pattern, "backend": backend}
        return sdrop.LSTM(7, 9, 2, bidirectional=bidirectional, proj_size=proj_size, **options)

    def call(lstm):
        output, (h, c) = lstm(x)
        return output, h, c

    check_agreement(make, call)


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda each: each.case)
def test_a_linear_layer_and_its_loss_agree_with_the_reference(pattern):
    x = torch.randn(5, 3, 7, dtype=torch.float64)
    target = torch.randint(9, (5, 3))

    def make(backend):
        return sdrop.Linear(7, 9, dropout=0.5, pattern=pattern, backend=backend)

    check_agreement(make, lambda linear: (linear(x), linear.cross_entropy(x, target)))


def test_a_cell_agrees_with_the_reference_dropout_in_the_recurrence_included():
    x, state = torch.randn(3, 7, dtype=torch.float64), torch.randn(2, 3, 9, dtype=torch.float64)

    def make(backend):
        return sdrop.LSTMCell(7, 9, input_dropout=0.5, recurrent_dropout=0.5, backend=backend)

    check_agreement(make, lambda cell: cell(x, tuple(state)))


@pytest.mark.parametrize("train", [True, False])
def test_without_dropout_the_bits_are_those_of_torch(train):
    theirs = nn.LSTM(33, 40, 2).train(train)
    own = sdrop.LSTM(33, 40, 2, backend="torch").train(train)
    own.load_state_dict(theirs.state_dict())
    x = torch.randn(6, 5, 33)
    with torch.set_grad_enabled(train):
        (found, found_state), (expected, expected_state) = own(x), theirs(x)
    for a, b in zip((found, *found_state), (expected, *expected_state), strict=True):
        assert torch.equal(a, b)


def test_weights_and_gradients_have_torchs_layout_and_nobody_is_warned():
    rates = DropoutRates(input=0.5, between=0.5, output=0.5)
    model = LanguageModel(
        11, embedding_dim=8, hidden_size=8, tie_weights=True, rates=rates, backend="torch"
    )
    words = torch.randint(11, (4, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model(words, words)[0].backward()
    for parameter in model.parameters():
        assert parameter.is_contiguous()
        assert parameter.grad.is_contiguous()


def test_dropout_in_the_recurrence_is_refused():
    with pytest.raises(
        ValueError, match=r"no dropout in the recurrence, got recurrent_dropout=0\.5"
    ):
        sdrop.LSTM(4, 5, recurrent_dropout=0.5, backend="torch")
    lstm = sdrop.LSTM(4, 5, backend="torch")
    lstm.recurrent_dropout = 0.5
    with pytest.raises(RuntimeError, match='backend="torch": torch\'s LSTM has no dropout'):
        lstm(torch.randn(3, 2, 4))


def test_explain_says_so():
    lstm = sdrop.LSTM(4, 5, input_dropout=0.5, backend="torch")
    linear = sdrop.Linear(5, 6, dropout=0.5, backend="torch")
    for module, size in ((lstm, 4), (linear, 5)):
        (told,) = sdrop.explain(module, torch.randn(3, 2, size))
        assert told.path == "torch"
        assert 'backend="torch" was asked for' in told.why
