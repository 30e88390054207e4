"""Learning-rate schedules and early stopping are functions of epoch and history."""

import pytest
import torch
from tiny_run import exact_figures, run

from sdrop.training import (
    BLEU,
    F1,
    LOSS,
    PERPLEXITY,
    Metric,
    constant,
    decay_after,
    decay_inverse_time,
    decay_on_plateau,
    sgd,
)
from sdrop.training.early_stopping import has_stalled
from sdrop.training.schedules import set_learning_rate


def factors(schedule, epochs, history=()):
    return [schedule(epoch, history[: epoch - 1]) for epoch in range(1, epochs + 1)]


def test_constant_stays():
    assert factors(constant(), 3) == [1.0, 1.0, 1.0]


@pytest.mark.parametrize(
    ("epoch", "factor", "expected"),
    [
        (4, 0.5, {1: 1.0, 4: 1.0, 5: 0.5, 6: 0.25, 13: 0.5**9}),  # halved each epoch after 4
        (6, 1 / 1.2, {6: 1.0, 7: 1 / 1.2, 39: 1.2**-33}),
        (14, 1 / 1.15, {14: 1.0, 15: 1 / 1.15, 55: 1.15**-41}),
        (0, 0.5, {1: 0.5, 2: 0.25}),
    ],
)
def test_decay_after_begins_in_the_epoch_after(epoch, factor, expected):
    found = factors(decay_after(epoch, factor), 55)
    for number, value in expected.items():
        assert found[number - 1] == pytest.approx(value)


@pytest.mark.parametrize(
    ("metric", "history"), [(PERPLEXITY, (9, 8, 8, 7, 7, 8)), (BLEU, (1, 2, 2, 3, 3, 2))]
)
def test_decay_on_plateau_follows_the_metric_in_its_direction(metric, history):
    assert factors(decay_on_plateau(metric), 7, history) == [1, 1, 1, 0.5, 0.5, 0.25, 0.125]
    patient = decay_on_plateau(metric, factor=0.1, patience=1)
    assert factors(patient, 7, history) == [1, 1, 1, 1, 1, 1, 0.1]


def test_a_validation_that_is_not_a_number_counts_as_no_improvement():
    assert decay_on_plateau(LOSS)(3, (1.0, float("nan"))) == 0.5
    assert has_stalled(LOSS, (float("nan"),), 1)


def test_set_learning_rate_scales_what_each_group_began_with():
    groups = [torch.nn.Parameter(torch.ones(1)) for _ in range(2)]
    optimizer = sgd(groups, 1.0)
    optimizer.param_groups[0]["lr"] = 4.0
    for factor in (0.5, 0.25):
        set_learning_rate(optimizer, factor)
        assert optimizer.param_groups[0]["lr"] == 4.0 * factor


@pytest.mark.parametrize("make", [lambda f: decay_after(1, f), lambda f: decay_on_plateau(LOSS, f)])
@pytest.mark.parametrize("factor", [0.0, 1.2, -0.5])
def test_a_factor_out_of_range_is_an_error(make, factor):
    with pytest.raises(ValueError, match=r"expected a factor in \(0, 1\], such as 1 / 1.2"):
        make(factor)


def test_a_negative_epoch_or_patience_is_an_error():
    with pytest.raises(ValueError, match="epoch=-1"):
        decay_after(-1, 0.5)
    with pytest.raises(ValueError, match="patience=-1"):
        decay_on_plateau(LOSS, patience=-1)


@pytest.mark.parametrize("metric", [PERPLEXITY, LOSS, BLEU, F1])
def test_early_stopping_knows_the_direction_of_each_metric(metric):
    falling, rising = (3, 2, 1), (1, 2, 3)
    better, worse = (falling, rising) if metric in (PERPLEXITY, LOSS) else (rising, falling)
    assert not has_stalled(metric, better, 1)
    assert has_stalled(metric, worse, 2)
    assert not has_stalled(metric, worse, 3)
    assert not has_stalled(metric, worse, None)


def test_an_equal_value_is_no_improvement():
    assert has_stalled(LOSS, (2.0, 2.0, 2.0), 2)
    assert LOSS.best((2.0, 2.0)) == 0


def test_a_mode_other_than_min_and_max_is_an_error():
    with pytest.raises(ValueError, match=r"Metric\(mode='up'\): expected 'min' or 'max'"):
        Metric("bleu", "up")


@pytest.mark.usefixtures("no_curves")
def test_a_run_stops_early_and_resumed_stays_stopped(tmp_path):
    # At a rate this high the perplexity rises from epoch to epoch.
    options = {"max_epochs": 9, "early_stopping_patience": 2, "max_grad_norm": 50.0}
    stopped, _ = run(tmp_path, **options)
    values = [r["perplexity"] for r in exact_figures(tmp_path) if r["split"] == "valid"]
    assert (stopped.stopped, stopped.epochs) == ("early_stopping", len(values))
    assert values.index(min(values)) == len(values) - 3
    assert (stopped.best, stopped.last) == (min(values), values[-1])
    again, _ = run(tmp_path, resume="auto", **options)
    assert (again.stopped, again.steps) == ("early_stopping", stopped.steps)


def test_inverse_time_divides_by_one_more_decay_each_epoch():
    schedule = decay_inverse_time(0.05)
    assert [schedule(epoch, []) for epoch in (1, 2, 21)] == pytest.approx([1, 1 / 1.05, 1 / 2])
    with pytest.raises(ValueError, match="decay=-1"):
        decay_inverse_time(-1)
