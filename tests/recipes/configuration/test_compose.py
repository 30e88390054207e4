"""What the YAML files in conf/ compose to."""

import functools
import re

import pytest
from omegaconf import OmegaConf

from recipes.configuration import as_options, compose, find_mistakes
from recipes.configuration.compose import CONF, groups

SITES = ("input", "between", "recurrent", "output")
PATTERNS = {
    "none": ("random", "varying"),
    "standard": ("random", "varying"),
    "variational": ("random", "constant"),
    "structured": ("structured", "varying"),
    "structured_nr": ("structured", "varying"),
    "structured_constant": ("structured", "constant"),
}
SITES_ON = {
    "none": set(),
    "standard": {"input", "between", "output"},
    "variational": set(SITES),
    "structured": set(SITES),
    "structured_nr": {"input", "between", "output"},
    "structured_constant": set(SITES),
}
PUBLISHED_RATES = {
    "none": dict.fromkeys(SITES, 0.5),
    "zaremba_small": {"input": 0.0, "between": 0.0, "recurrent": 0.25, "output": 0.0},
    "zaremba_medium": {"input": 0.5, "between": 0.5, "recurrent": 0.25, "output": 0.5},
    "zaremba_large": {"input": 0.65, "between": 0.65, "recurrent": 0.25, "output": 0.65},
}


@functools.cache
def options(*overrides):
    return as_options(compose("ptb", overrides))


@pytest.mark.parametrize("experiment", PUBLISHED_RATES)
@pytest.mark.parametrize("preset", PATTERNS)
def test_a_preset_sets_pattern_and_sites_and_the_experiment_the_rates(experiment, preset):
    dropout = options(f"experiment={experiment}", f"dropout={preset}").dropout
    expected = {
        site: rate if site in SITES_ON[preset] else 0.0
        for site, rate in PUBLISHED_RATES[experiment].items()
    }
    assert {site: getattr(dropout, site) for site in SITES} == expected
    assert (dropout.pattern.space, dropout.pattern.time) == PATTERNS[preset]
    assert dropout.pattern.keep == "count"


def test_the_order_of_preset_and_experiment_on_the_command_line_is_of_no_account():
    first = options("experiment=zaremba_large", "dropout=structured")
    second = options("dropout=structured", "experiment=zaremba_large")
    assert first == second


@pytest.mark.parametrize("preset", PATTERNS)
def test_a_rate_on_the_command_line_wins_over_experiment_and_preset(preset):
    dropout = options(
        "experiment=zaremba_medium", f"dropout={preset}", "dropout.recurrent=0.125"
    ).dropout
    assert dropout.recurrent == 0.125


def test_published_presets_are_taken_where_none_is_named():
    assert options().dropout.pattern.space == "structured"
    for size in ("small", "medium", "large"):
        dropout = options(f"experiment=zaremba_{size}", "data.root=x").dropout
        assert (dropout.pattern.space, dropout.recurrent) == ("random", 0.0)


# hidden size, dropout, initial range, epochs at the full rate, divisor, epochs, window, clipping.
# The full rate's last epoch is one more than `max_epoch` of the original script, which divides at
# the end of an epoch e with e > max_epoch.
ZAREMBA = {
    "small": (200, 0.0, 0.1, 5, 2.0, 13, 20, 5.0),
    "medium": (650, 0.5, 0.05, 7, 1.2, 39, 35, 5.0),
    "large": (1500, 0.65, 0.04, 15, 1.15, 55, 35, 10.0),
}


@pytest.mark.parametrize("size", ZAREMBA)
def test_zaremba_experiments_are_as_published(size):
    given = options(f"experiment=zaremba_{size}", "data.root=x")
    hidden, rate, init, flat, divisor, epochs, bptt, clip = ZAREMBA[size]
    model, trainer, schedule, data = given.model, given.trainer, given.schedule, given.data
    assert (model.hidden_size, model.embedding_dim, model.num_layers) == (hidden, hidden, 2)
    assert (model.init_range, model.tie_weights) == (init, False)
    assert [getattr(given.dropout, site) for site in SITES] == [rate, rate, 0.0, rate]
    assert (given.optimizer.name, given.optimizer.lr, given.optimizer.momentum) == ("sgd", 1.0, 0.0)
    assert (schedule.flat_epochs, schedule.divide_by) == (flat, divisor)
    assert (trainer.max_epochs, trainer.max_grad_norm) == (epochs, clip)
    assert trainer.loss_normalization == "sequence"
    assert (data.name, data.batch_size, data.bptt, data.test_batch_size) == ("ptb", 20, bptt, 1)
    assert (data.max_vocabulary, data.min_frequency) == (None, 1)
    assert given.experiment == f"zaremba_{size}"


@pytest.mark.parametrize("schedule", groups("ptb")["schedule"])
def test_optimizer_and_schedule_after_an_experiment_bring_their_own_settings(schedule):
    optimizer = "adam" if schedule.startswith("zaremba") else "adamw"
    chosen = (f"optimizer={optimizer}", f"schedule={schedule}")
    alone, after = options(*chosen), options("experiment=zaremba_medium", "data.root=x", *chosen)
    assert (after.optimizer, after.schedule) == (alone.optimizer, alone.schedule)


@pytest.mark.parametrize("data", groups("ptb")["data"])
def test_every_corpus_goes_with_an_experiment(data):
    given = compose("ptb", ["experiment=zaremba_large", f"data={data}"])
    assert given.data.name == data


@pytest.mark.parametrize("debug", groups("ptb")["debug"])
def test_every_debug_choice_composes_without_a_mistake(debug):
    assert find_mistakes("ptb", [f"debug={debug}", "experiment=zaremba_small", "data.root=x"]) == []


def test_overfitting_drops_nothing_whatever_the_preset():
    dropout = options("debug=overfit", "dropout=variational").dropout
    assert [getattr(dropout, site) for site in SITES] == [0.0] * 4


@pytest.mark.parametrize("file", sorted(CONF.rglob("*.yaml")), ids=lambda file: file.stem)
def test_each_yaml_file_is_short_and_begins_with_its_run_command(file):
    lines = file.read_text().splitlines()
    if lines[0] == "# @package _global_":  # Hydra wants this in front of any other comment
        lines = lines[1:]
    assert len(lines) <= 50
    assert re.match(r"# python -m recipes\.\w+", lines[0])
    assert max(map(len, lines)) <= 100


@pytest.mark.parametrize("group", groups())
def test_the_run_command_of_each_choice_names_the_choice(group):
    for choice in groups()[group]:
        text = (CONF / group / f"{choice}.yaml").read_text()
        command = next(line for line in text.splitlines() if line.startswith("# python"))
        named = f"{group}={choice}" in command or group in ("model", "trainer")
        assert named or f"experiment={choice}" in command


def test_composition_has_no_open_value():
    given = compose("ptb")
    assert OmegaConf.missing_keys(given) == set()
    OmegaConf.to_container(given, resolve=True, throw_on_missing=True)
