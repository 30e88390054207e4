"""Settings are checked where they are made, by name."""

import math

import pytest

from sdrop.training import TrainerSettings


def test_the_defaults_are_sound():
    assert TrainerSettings().loss_normalization == "token"


@pytest.mark.parametrize(
    ("options", "error", "told"),
    [
        ({"max_epochs": 0}, ValueError, "max_epochs=0: expected a whole number of 1 or more"),
        ({"max_steps": 0}, ValueError, "max_steps=0: expected a whole number of 1 or more or None"),
        ({"max_epochs": None}, TypeError, "max_epochs=None: expected a whole number of 1 or more"),
        ({"keep_checkpoints": 1.5}, TypeError, "keep_checkpoints=1.5: expected a whole number"),
        ({"log_every_steps": True}, TypeError, "log_every_steps=True: expected a whole number"),
        (
            {"max_grad_norm": 0.0},
            ValueError,
            "max_grad_norm=0.0: expected a number above 0",
        ),
        (
            {"max_grad_norm": math.nan},
            ValueError,
            "max_grad_norm=nan: expected a number above 0",
        ),
        ({"loss_normalization": "tokens"}, ValueError, "'tokens': expected 'token' or 'sequence'"),
    ],
)
def test_a_bad_value_is_told_with_what_was_expected(options, error, told):
    with pytest.raises(error, match=told):
        TrainerSettings(**options)
