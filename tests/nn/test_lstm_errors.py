"""Every misuse of `sdrop.LSTM` says what was given and what was expected."""

import re

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

import sdrop

X = torch.zeros(5, 2, 3)
STATE = torch.zeros(1, 2, 4)


def packed(rows, sizes):
    return PackedSequence(torch.zeros(*rows), torch.tensor(sizes, dtype=torch.int64))


@pytest.mark.parametrize(
    ("input", "error", "words"),
    [
        (torch.zeros(5, 2, 4), RuntimeError, "expected 3 features .* got 4 in shape (5, 2, 4)"),
        (torch.zeros(3), ValueError, "expected a 2-D (unbatched) or 3-D input, got 1-D: (3,)"),
        (torch.zeros(1, 5, 2, 3), ValueError, "got 4-D: (1, 5, 2, 3)"),
        (torch.zeros(0, 2, 3), RuntimeError, "at least one step, got shape (0, 2, 3)"),
        (torch.zeros(0, 3), RuntimeError, "at least one step, got shape (0, 3)"),
        ([[1.0]], TypeError, "expected a tensor or a PackedSequence, got list"),
        (None, TypeError, "got NoneType"),
        (X.double(), ValueError, "the input is torch.float64, the weights are torch.float32"),
        (X.half(), ValueError, "torch.float16, .* torch.float32.*or use torch.autocast"),
        (X.long(), ValueError, "the input is torch.int64, the weights are torch.float32"),
        (X.to("meta"), RuntimeError, "the input is on meta, the weights on cpu: move one"),
        (packed((8, 4), [2, 2, 2, 2]), RuntimeError, "expected 3 features .* got 4"),
        (packed((8, 2, 3), [2, 2, 2, 2]), RuntimeError, "2 dimensions .* got (8, 2, 3)"),
        (packed((8, 3), [2, 1]), RuntimeError, "add up to the 8 rows .* got [2, 1]"),
        (packed((3, 3), [1, 2]), RuntimeError, "do not grow .* got [1, 2]"),
        (packed((0, 3), []), RuntimeError, "at least one step, got empty batch_sizes"),
    ],
)
def test_a_wrong_input_is_named(input, error, words):
    with pytest.raises(error, match=escaped(words)):
        sdrop.LSTM(3, 4)(input)


def escaped(words):
    """`words` as a pattern in which only `.*` is special."""
    return ".*".join(re.escape(part) for part in words.split(".*"))


@pytest.mark.parametrize(
    ("hx", "error", "words"),
    [
        (STATE, TypeError, "expected hx to be a tuple (h_0, c_0), got Tensor"),
        ((STATE,) * 3, TypeError, "expected hx to be a tuple (h_0, c_0), got tuple of 3"),
        ((None, None), TypeError, "expected h_0 of hx=(h_0, c_0) to be a tensor, got NoneType"),
        ((STATE, 0.0), TypeError, "expected c_0 of hx=(h_0, c_0) to be a tensor, got float"),
        ((STATE[0], STATE[0]), RuntimeError, "expected h_0 of shape (1, 2, 4), got (2, 4)"),
        ((STATE[:, :1], STATE), RuntimeError, "expected h_0 of shape (1, 2, 4), got (1, 1, 4)"),
        ((STATE, STATE[..., :2]), RuntimeError, "expected c_0 of shape (1, 2, 4), got (1, 2, 2)"),
        (
            (STATE.double(), STATE),
            ValueError,
            "h_0 is torch.float64, the weights are torch.float32",
        ),
        ((STATE, STATE.to("meta")), RuntimeError, "c_0 is on meta, the weights on cpu"),
    ],
)
@pytest.mark.parametrize("form", ["padded", "packed"])
def test_a_wrong_initial_state_is_named(form, hx, error, words):
    input = X if form == "padded" else pack_padded_sequence(X, [2, 5], enforce_sorted=False)
    with pytest.raises(error, match=escaped(words)):
        sdrop.LSTM(3, 4)(input, hx)


def test_unbatched_input_wants_unbatched_states():
    with pytest.raises(RuntimeError, match=escaped("h_0 of shape (1, 4), got (1, 2, 4)")):
        sdrop.LSTM(3, 4)(X[:, 0], (STATE, STATE))


def test_an_empty_batch_first_sequence_is_told_with_the_dimension_of_time():
    with pytest.raises(RuntimeError, match=r"got shape \(2, 0, 3\) with time in dimension 1"):
        sdrop.LSTM(3, 4, batch_first=True)(torch.zeros(2, 0, 3))


@pytest.mark.parametrize(
    "options",
    [
        {"hidden_size": 0},
        {"hidden_size": -4},
        {"hidden_size": 4.0},
        {"input_size": 0},
        {"input_size": "3"},
        {"num_layers": 0},
        {"num_layers": 1.5},
        {"proj_size": -1},
        {"proj_size": 4},
        {"bias": 1},
        {"batch_first": None},
    ],
    ids=str,
)
def test_a_wrong_constructor_argument_is_torchs_error_with_what_was_given(options):
    arguments = {"input_size": 3, "hidden_size": 4} | options
    with pytest.raises((TypeError, ValueError)) as theirs:
        nn.LSTM(**arguments)
    with pytest.raises(theirs.type, match=re.escape(str(theirs.value))) as ours:
        sdrop.LSTM(**arguments)
    (name, value), *_ = options.items()
    assert f"{name}={value!r}" in str(ours.value)


@pytest.mark.parametrize("rate", ["dropout", "input_dropout", "recurrent_dropout"])
@pytest.mark.parametrize(
    "value", [1.0, 1, -0.1, 2.0, float("nan"), float("inf"), True, "0.5", None]
)
def test_a_rate_outside_0_to_1_is_told_with_its_name(rate, value):
    with pytest.raises((TypeError, ValueError), match=re.escape(f"{rate}={value!r}: expected")):
        sdrop.LSTM(3, 4, 2, **{rate: value})


@pytest.mark.parametrize("pattern", ["structured", "III", 3, {}, False, sdrop.DropoutPattern])
@pytest.mark.parametrize(
    "make",
    [
        lambda pattern: sdrop.LSTM(3, 4, pattern=pattern),
        lambda pattern: sdrop.LSTMCell(3, 4, pattern=pattern),
        lambda pattern: sdrop.Linear(3, 4, pattern=pattern),
        lambda pattern: sdrop.Dropout(0.5, pattern),
    ],
    ids=["LSTM", "LSTMCell", "Linear", "Dropout"],
)
def test_a_pattern_of_another_kind_is_an_error_at_once(make, pattern):
    with pytest.raises(TypeError, match=r"expected pattern to be a sdrop\.DropoutPattern, got"):
        make(pattern)


@pytest.mark.parametrize("module", [sdrop.LSTM, sdrop.LSTMCell, sdrop.Linear])
def test_an_unknown_or_missing_backend_is_named(module):
    with pytest.raises(ValueError, match="backend='gpu': expected one of 'auto', 'reference'"):
        module(3, 4, backend="gpu")
    for name, status in sdrop.backends().items():
        if status.startswith("available"):
            continue
        said = re.escape(f"backend='{name}' is {status}; use backend=\"auto\"")
        with pytest.raises(RuntimeError, match=said):
            module(3, 4, backend=name)


def test_a_mask_key_without_named_sites_says_what_to_call():
    lstm = sdrop.LSTM(3, 4, recurrent_dropout=0.5)
    with sdrop.mask_key(0, 0), pytest.raises(RuntimeError, match=r"sdrop\.name_sites\(model\)"):
        lstm(X)


def test_dropout_with_one_layer_warns_in_torchs_words():
    told = []
    for module in (nn.LSTM, sdrop.LSTM):
        with pytest.warns(UserWarning, match="num_layers greater than 1") as warned:
            module(3, 4, dropout=0.5)
        told.append([str(warning.message) for warning in warned])
    assert told[0] == told[1]
