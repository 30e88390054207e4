"""Options of a run that goes on, or is looked at again."""

from pathlib import Path

import pytest

from recipes.configuration import Mistake, as_options, compose
from recipes.configuration.recall import changes, run_folder_of, with_recalled, write_config


@pytest.fixture
def started(tmp_path):
    """A run folder that was started with some options."""

    def started(*overrides):
        folder = tmp_path / "a run, with a comma"
        folder.mkdir()
        options = as_options(compose("ptb", overrides))
        write_config(options, overrides, folder / "config.yaml")
        return folder

    return started


def test_a_named_run_brings_its_options_and_its_folder(started):
    folder = started("model.hidden_size=7", "dropout=standard")
    overrides = with_recalled("ptb", [f"resume='{folder}'", "optimizer.lr=0.5"])
    assert overrides[:3] == ["model.hidden_size=7", "dropout=standard", f"resume='{folder}'"]
    config = compose("ptb", overrides, with_hydra=True)
    assert (config.model.hidden_size, config.optimizer.lr) == (7, 0.5)
    assert Path(config.hydra.run.dir) == folder


def test_auto_takes_the_run_folder_and_needs_one(started):
    folder = started("model.hidden_size=7")
    overrides = with_recalled("ptb", ["resume=auto", f"hydra.run.dir='{folder}'"])
    assert "model.hidden_size=7" in overrides
    with pytest.raises(Mistake, match=r"add hydra\.run\.dir=DIR"):
        with_recalled("ptb", ["resume=auto"])


def test_auto_starts_anew_where_there_is_no_run_yet(tmp_path):
    overrides = ["resume=auto", f"hydra.run.dir={tmp_path}/none", "seed=2"]
    assert with_recalled("ptb", overrides) == overrides


def test_a_given_option_and_a_given_choice_win_over_what_is_recalled(started):
    folder = started("data=text", "data.train=a", "data.valid=b", "data.test=c", "seed=3")
    overrides = with_recalled("ptb", [f"checkpoint='{folder}'", "data=pydoc", "seed=4"])
    given = as_options(compose("ptb", overrides))
    assert (given.data.name, given.seed) == ("pydoc", 4)


def test_where_to_stop_and_what_to_do_are_not_recalled(started):
    folder = started("trainer.max_steps=5", "mode=train", "resume=auto", "seed=3")
    assert with_recalled("ptb", [f"resume='{folder}'"])[:-1] == ["seed=3", f"resume='{folder}'"]


def test_a_smaller_run_to_debug_is_evaluated_on_all(started):
    folder = started("debug=limit", "debug.evaluation_batches=3", "seed=3")
    assert with_recalled("ptb", [f"checkpoint='{folder}'"])[0] == "seed=3"
    assert with_recalled("ptb", [f"resume='{folder}'"])[0] == "debug=limit"
    few = [f"checkpoint='{folder}'", "debug.evaluation_batches=5"]
    assert with_recalled("ptb", few) == ["seed=3", *few]


@pytest.mark.parametrize("option", ["checkpoint", "resume"])
def test_a_run_of_another_recipe_is_named(started, option):
    folder = started("seed=3")
    with pytest.raises(Mistake, match=r"a run of the recipe ptb, and this is conll"):
        with_recalled("conll", [f"{option}='{folder}'"])


def test_relative_paths_are_recalled_absolute(started, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = started("data=ptb", "data.root=some where")
    overrides = with_recalled("ptb", [f"checkpoint='{folder}'"])
    monkeypatch.chdir("/")
    assert as_options(compose("ptb", overrides)).data.root == str(tmp_path / "some where")


def test_a_broken_config_is_told(started):
    folder = started("seed=3")
    (folder / "config.yaml").write_text("a: [1")
    with pytest.raises(Mistake, match="cannot be read as the options of a run"):
        with_recalled("ptb", [f"resume='{folder}'"])


def test_a_run_folder_is_known_by_its_checkpoints():
    for name in ("r", "r/checkpoints", "r/checkpoints/step-00000012"):
        assert run_folder_of(name) == Path("r")


def test_changed_options_are_named_with_both_values():
    before = {"seed": 1, "optimizer": {"lr": 1.0, "name": "sgd"}, "mode": "train"}
    after = {"seed": 1, "optimizer": {"lr": 0.5, "name": "sgd"}, "mode": "evaluate", "new": 2}
    assert changes(before, after) == ["optimizer.lr: 1.0 -> 0.5", "new: None -> 2"]
