"""`compare` on a user's own model."""

import math

import pytest
import torch
from torch import nn

import sdrop
from sdrop.benchmark import compare


class Tagger(nn.Module):
    """Eight tags for each word."""

    def __init__(self, dropout):
        super().__init__()
        if dropout == "standard":
            self.lstm = nn.LSTM(6, 8)
            self.drop = nn.Dropout(0.5)
        else:
            self.lstm = sdrop.LSTM(6, 8, input_dropout=0.5, recurrent_dropout=0.5)
            self.drop = nn.Identity()

    def forward(self, input, target):
        output, _ = self.lstm(self.drop(input))
        return nn.functional.cross_entropy(output.flatten(0, 1), target.flatten()), output


def batch():
    return torch.randn(5, 3, 6), torch.randint(8, (5, 3))


def test_it_prints_and_returns_a_row_for_each_dropout_but_the_first(capsys):
    threads = torch.get_num_threads()
    rows = compare(Tagger, batch, dropout=["standard", "structured"], rounds=2)
    (row,) = rows
    assert (row.suite, row.shape, row.baseline) == ("compare", "Tagger", "standard")
    assert (row.variant, row.rounds, row.dtype) == ("structured", 2, "float32")
    assert row.ratio > 0
    assert row.flop_limit is None
    out = capsys.readouterr().out
    assert "structured" in out
    assert f"{row.ratio:.2f}" in out
    assert torch.get_num_threads() == threads


def test_an_optimizer_is_part_of_the_step_and_gradients_do_not_add_up():
    calls = []

    class Sum(nn.Module):
        def __init__(self, dropout):
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(3))
            self.dropout = dropout

        def forward(self, input):
            calls.append((self.dropout, self.weight.tolist()))
            return (self.weight * input).sum()

    def optimizer(model):
        return torch.optim.SGD(model.parameters(), lr=1.0)

    compare(Sum, lambda: (torch.ones(3),), [0, 1], make_optimizer=optimizer, rounds=2)
    for dropout in (0, 1):
        weights = [weight for name, weight in calls if name == dropout]
        assert weights == [[-float(step)] * 3 for step in range(len(weights))]


@pytest.mark.parametrize("dropout", [[], ["standard"], ["standard", "standard"], [1, "1"]])
def test_two_different_dropouts_are_needed(dropout):
    with pytest.raises(ValueError, match="expected two or more different dropouts"):
        compare(Tagger, batch, dropout)


def test_a_model_that_gives_no_loss_is_told():
    with pytest.raises(ValueError, match=r"must return its loss.*a tensor of shape \(4, 3\)"):
        compare(lambda dropout: nn.Linear(3, 3), lambda: (torch.ones(4, 3),), ["a", "b"])


def test_a_model_with_nothing_to_train_is_told():
    def frozen(dropout):
        return Tagger(dropout).requires_grad_(False)

    with pytest.raises(ValueError, match="no gradient: 0 of its 4 parameters want one"):
        compare(frozen, batch, ["standard", "structured"], rounds=1)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"dropout": "none"}, TypeError, "expected a list of dropouts, got the string 'none'"),
        ({"seconds": -1}, ValueError, "seconds above 0"),
        ({"rounds": 0}, ValueError, "rounds of 1 or more"),
        ({"seconds": math.nan}, ValueError, "seconds=nan"),
        ({"seconds": math.inf}, ValueError, "seconds=inf"),
        ({"seconds": "1"}, ValueError, "seconds='1'"),
        ({"rounds": 1.5}, ValueError, "rounds=1.5.*a whole number"),
        ({"threads": 0}, ValueError, "threads=0.*expected a whole number of 1 or more"),
        ({"threads": 1.0}, ValueError, "threads=1.0.*expected a whole number of 1 or more"),
        ({"threads": 10_000}, ValueError, r"threads=10000: this process may use \d+ cores"),
        ({"make_model": lambda dropout: None}, TypeError, "a torch.nn.Module .* got NoneType"),
        ({"make_batch": lambda: torch.zeros(1, 2)}, TypeError, r"a tuple.*shape \(1, 2\)"),
        ({"make_batch": lambda: [torch.zeros(1, 2)]}, TypeError, "a tuple.*got list"),
        ({"make_batch": (torch.zeros(1, 2),)}, TypeError, "make_batch must be a function"),
        ({"make_optimizer": 3}, TypeError, "make_optimizer must be a function, got 3"),
        ({"make_optimizer": lambda model: model}, TypeError, "an optimizer .* got Linear"),
    ],
)
def test_arguments_that_make_no_comparison_are_told(options, error, words):
    arguments = {
        "make_model": lambda dropout: torch.nn.Linear(2, 2),
        "make_batch": lambda: (torch.zeros(1, 2),),
        "dropout": ["none", "some"],
    }
    with pytest.raises(error, match=words):
        compare(**arguments | options)
