"""Every misuse of `LSTMCell`, `Linear` and `Dropout` says what was given and what was expected."""

import re

import pytest
import torch
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

import sdrop

X = torch.zeros(5, 2, 3)
STEP = torch.zeros(2, 3)
STATE = torch.zeros(2, 4)
CONSTANT = sdrop.DropoutPattern(time="constant")


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ([torch.tensor(1.0)], ValueError, "expected a 1-D (unbatched) or 2-D input, got 0-D"),
        ([X], ValueError, "expected a 1-D (unbatched) or 2-D input, got 3-D: (5, 2, 3)"),
        ([[1.0]], TypeError, "expected a tensor, got list"),
        ([pack_padded_sequence(X, [5, 3])], TypeError, "got PackedSequence"),
        ([STATE], RuntimeError, "expected the input of shape (2, 3), got (2, 4)"),
        ([STEP.double()], ValueError, "the input is torch.float64, the weights are torch.float32"),
        ([STEP.to("meta")], RuntimeError, "the input is on meta, the weights on cpu"),
        ([STEP, STATE], TypeError, "expected hx to be a tuple (h, c), got Tensor"),
        ([STEP, (STATE,) * 3], TypeError, "expected hx to be a tuple (h, c), got tuple of 3"),
        ([STEP, (STATE, None)], TypeError, "expected c of hx=(h, c) to be a tensor, got NoneType"),
        ([STEP, (STATE[:1], STATE)], RuntimeError, "expected h of shape (2, 4), got (1, 4)"),
        ([STEP, (STATE, STATE.double())], ValueError, "c is torch.float64"),
        ([STEP[0], (STATE, STATE)], RuntimeError, "expected h of shape (1, 4), got (1, 2, 4)"),
    ],
)
def test_a_wrong_argument_of_a_cell_is_named(arguments, error, words):
    with pytest.raises(error, match=re.escape(words)):
        sdrop.LSTMCell(3, 4)(*arguments)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(
    ("input", "error", "words"),
    [
        (torch.zeros(5, 2, 4), RuntimeError, "expected 3 features .* got shape (5, 2, 4)"),
        ([1.0], TypeError, "expected a tensor or a PackedSequence, got list"),
        (X.double(), ValueError, "the input is torch.float64, the weights are torch.float32"),
        (X.long(), ValueError, "the input is torch.int64, the weights are torch.float32"),
        (X.to("meta"), RuntimeError, "the input is on meta, the weights on cpu"),
        (pack_padded_sequence(torch.zeros(5, 2, 4), [5, 3]), RuntimeError, "expected 3 features"),
        (
            PackedSequence(torch.zeros(8, 3), torch.tensor([2, 1])),
            RuntimeError,
            "add up to the 8 rows of the packed data, got [2, 1]",
        ),
    ],
)
def test_a_wrong_input_of_linear_is_named(input, error, words, training):
    pattern = ".*".join(re.escape(part) for part in words.split(".*"))
    with pytest.raises(error, match=pattern):
        sdrop.Linear(3, 4, dropout=0.5).train(training)(input)


@pytest.mark.parametrize("module", [sdrop.Linear(3, 4, dropout=0.5), sdrop.Dropout(0.5)])
@pytest.mark.parametrize(
    ("input", "words"),
    [
        (torch.zeros(3), "(batch, features) step, got 1 dimensions: (3,)"),
        (torch.zeros(2, 2, 2, 3), "(time, batch, features) sequence or .* got 4 dimensions"),
        (torch.zeros(0, 2, 3), "expected at least one step, got (0, 2, 3)"),
    ],
)
def test_dropout_wants_to_know_which_dimension_is_time(module, input, words):
    pattern = ".*".join(re.escape(part) for part in words.split(".*"))
    with pytest.raises(RuntimeError, match=pattern):
        module(input)


@pytest.mark.parametrize(
    ("module", "input"),
    [
        (sdrop.LSTMCell(3, 4, input_dropout=0.5, pattern=CONSTANT), STEP),
        (sdrop.Linear(3, 4, dropout=0.5, pattern=CONSTANT), STEP),
        (sdrop.Dropout(0.5, CONSTANT), STEP),
    ],
    ids=["LSTMCell", "Linear", "Dropout"],
)
def test_a_constant_pattern_called_step_by_step_outside_a_sequence_is_an_error(module, input):
    with pytest.raises(RuntimeError, match=r"with sdrop\.sequence\(\):"):
        module(input)
    with sdrop.sequence():
        module(input)
    module.eval()(input)


@pytest.mark.parametrize("make", [sdrop.LSTMCell, sdrop.Linear])
@pytest.mark.parametrize("position", [0, 1])
@pytest.mark.parametrize("size", [-3, 3.0, "3", True])
def test_a_size_that_is_none_is_an_error(make, position, size):
    sizes = [3, 3]
    sizes[position] = size
    words = rf"expected (input_size|hidden_size|\w+_features) to be .*, got {size!r}"
    with pytest.raises((TypeError, ValueError), match=words):
        make(*sizes)


@pytest.mark.parametrize("value", [1.0, -0.1, float("nan"), True, "0.5", None])
def test_a_rate_outside_0_to_1_is_told_with_its_name(value):
    for name, make in (
        ("input_dropout", lambda rate: sdrop.LSTMCell(3, 4, input_dropout=rate)),
        ("recurrent_dropout", lambda rate: sdrop.LSTMCell(3, 4, recurrent_dropout=rate)),
        ("dropout", lambda rate: sdrop.Linear(3, 4, dropout=rate)),
        ("p", lambda rate: sdrop.Dropout(rate)),
    ):
        with pytest.raises((TypeError, ValueError), match=f"{name}={value!r}: expected"):
            make(value)


def test_numbers_that_cannot_be_scaled_are_not_dropped():
    with pytest.raises(ValueError, match=r"expected floating-point numbers.* got torch\.int64"):
        sdrop.Dropout()(X.long())
