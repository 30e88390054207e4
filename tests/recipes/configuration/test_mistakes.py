"""What is said of a mistyped command line."""

import shutil
import sys

import pytest
import yaml
from omegaconf import OmegaConf

from recipes.configuration import compose, find_mistakes
from recipes.configuration.compose import groups
from recipes.configuration.mistakes import _leaves, check

TEXT = ["data=text", "data.train=a", "data.valid=b", "data.test=c"]
CORPORA = {"pydoc": [], "ptb": ["data=ptb", "data.root=x"], "text": TEXT}
CHOICES = [["optimizer=adam"], ["schedule=plateau"], TEXT, CORPORA["ptb"]]


def keys_with_their_choices():
    """Every option that there is, with the choices under which it is there."""
    found = {}
    for choices in [[], *CHOICES]:
        for key in _leaves(compose("ptb", choices)):
            found.setdefault(key, choices)
    return found


@pytest.fixture(scope="module")
def defaults():
    return compose("ptb")


KEYS = keys_with_their_choices()
CHOSEN_BY_GROUP = {f"{group}.name" for group in groups("ptb")} | {"experiment"}


def mistypings(key):
    """Slips of the finger in the last part of a key: two letters swapped, lost, doubled."""
    parent, dot, name = key.rpartition(".")
    middle = len(name) // 2
    slips = {
        name[: middle - 1] + name[middle] + name[middle - 1] + name[middle + 1 :],
        name[:middle] + name[middle + 1 :],
        name[:middle] + name[middle] + name[middle:],
    }
    return [parent + dot + slip for slip in slips - {name}]


def one_mistake(overrides, **keywords):
    (mistake,) = find_mistakes("ptb", overrides, **keywords)
    assert len(mistake.splitlines()) <= 3
    assert "Traceback" not in mistake
    return mistake


@pytest.mark.parametrize(
    "choices", [[], *CHOICES], ids=lambda choices: choices[0] if choices else ""
)
def test_each_mistyped_option_is_refused_with_the_right_one_named(choices):
    slips = [
        (wrong, key)
        for key, where in KEYS.items()
        if where == choices and key not in CHOSEN_BY_GROUP
        for wrong in mistypings(key)
        if wrong not in KEYS  # where one letter makes another option of it
    ]
    mistakes = find_mistakes("ptb", [*choices, *(f"{wrong}=1" for wrong, _ in slips)])
    for (wrong, key), mistake in zip(slips, mistakes, strict=True):
        assert mistake.startswith(f"{wrong}=1: there is no such option. Did you mean {key}?")


def test_each_mistyped_choice_is_refused_with_the_right_one_named():
    slips = [
        (group, choice, wrong)
        for group, choices in groups("ptb").items()
        for choice in choices
        for wrong in mistypings(choice)
        if wrong not in choices
    ]
    mistakes = find_mistakes("ptb", [f"{group}={wrong}" for group, _, wrong in slips])
    for (group, choice, wrong), mistake in zip(slips, mistakes, strict=True):
        assert mistake.startswith(
            f"{group}={wrong}: no such choice. Did you mean {group}={choice}?"
        )


def test_each_mistyped_group_is_refused_with_the_right_one_named():
    slips = [(wrong, group) for group in groups("ptb") for wrong in mistypings(group)]
    mistakes = find_mistakes("ptb", [f"{wrong}=x" for wrong, _ in slips])
    for (_, group), mistake in zip(slips, mistakes, strict=True):
        assert f"Did you mean {group}?" in mistake


MISPLACED = [
    ("hidden_size=3", "model.hidden_size"),
    ("data.hidden_size=3", "model.hidden_size"),
    ("lr=3", "optimizer.lr"),
    ("trainer.lr=3", "optimizer.lr"),
    ("dropout.patern.space=random", "dropout.pattern.space"),
    ("dropout.rate.input=0.5", "dropout.rates.input"),
    ("max_epoch=3", "trainer.max_epochs"),
    ("download=true", "data.download"),
    ("seed.x=3", "seed"),
    ("hydra.run.dri=x", "hydra.run.dir"),
    ("+trainer.max_stps=3", "trainer.max_steps"),
    ("++trainer.max_stps=3", "trainer.max_steps"),
]


def test_an_option_in_the_wrong_place_is_found():
    mistakes = find_mistakes("ptb", [*CORPORA["ptb"], *(given for given, _ in MISPLACED)])
    for (given, meant), mistake in zip(MISPLACED, mistakes, strict=True):
        assert mistake.startswith(f"{given}: there is no such option. Did you mean {meant}?")


WRONG_TYPES = [
    ("model.hidden_size=abc", "a whole number"),
    ("model.hidden_size=2.5", "a whole number"),
    ("model.hidden_size=null", "a whole number"),
    ("seed=[1]", "a whole number"),
    ("seed=", "a whole number"),
    ("trainer.max_steps=soon", "a whole number, or null"),
    ("optimizer.lr=fast", "a number"),
    ("model.tie_weights=maybe", "true or false"),
    ("dropout.pattern=random", "this has parts; set one of them"),
]


def test_a_wrong_type_is_told_with_the_right_one():
    mistakes = find_mistakes("ptb", [given for given, _ in WRONG_TYPES])
    for (given, wanted), mistake in zip(WRONG_TYPES, mistakes, strict=True):
        assert mistake.startswith(given.partition("=")[0])
        assert wanted in mistake


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("dropout.input=1.0", "at least 0 and below 1"),
        ("dropout.input=-0.1", "at least 0 and below 1"),
        ("dropout.rates.between=1", "at least 0 and below 1"),
        ("dropout.input=.nan", "a finite number"),
        ("optimizer.lr=.inf", "a finite number"),
        ("optimizer.lr=0", "more than 0"),
        ("model.hidden_size=0", "at least 1"),
        ("seed=-1", "at least 0"),
        ("trainer.max_steps=0", "at least 1"),
        ("schedule.divide_by=0.5", "at least 1"),
        ("dropout.pattern.space=randm", "Did you mean dropout.pattern.space=random?"),
        ("trainer.precision='32'", "Did you mean trainer.precision=32-true?"),
        ("backend=cudaa", "Did you mean backend=cuda?"),
        ("mode=evaluat", "Did you mean mode=evaluate?"),
        ("device=gpu", "Did you mean device=cpu?"),
        ("device=cuda:x", "There are: auto, cpu, cuda"),
    ],
)
def test_a_value_out_of_range_is_told_with_the_range(given, wanted, defaults):
    key, _, value = given.partition("=")
    config = defaults.copy()
    OmegaConf.update(config, key, yaml.safe_load(value))
    mistake = check(config)[-1]
    assert mistake.startswith(key)
    assert wanted in mistake


def test_ranges_are_checked_on_the_command_line():
    assert "at least 0 and below 1" in one_mistake(["dropout.input=1.0"])


def test_an_option_of_another_choice_is_told_where_it_belongs():
    assert "It belongs to data=ptb or data=text" in one_mistake(["data.root=x"])
    mistake = one_mistake(["schedule=constant", "schedule.flat_epochs=3"])
    assert "It belongs to schedule=decay, and schedule=constant is chosen" in mistake
    assert "write optimizer=adam" in one_mistake(["optimizer.name=adam"])


def test_every_mandatory_option_left_out_is_named():
    mistakes = find_mistakes("ptb", ["data=text", "data.valid=x"])
    assert [each.partition(" ")[0] for each in mistakes] == ["data.test", "data.train"]
    assert "add data.root=DIR" in one_mistake(["data=ptb"])
    assert "needs checkpoint=DIR" in one_mistake(["mode=evaluate"])


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (["+seed=3"], "leave out the +"),
        (["~seed"], "cannot be taken away"),
        (["+experiment=zaremba_small"], "write experiment=zaremba_small"),
        (["~experiment"], "write experiment="),
        (["data=null"], "There are: ptb, pydoc, text"),
        (["experiment=null"], "Did you mean experiment=none?"),
        (["data=[ptb,pydoc]"], "one choice is wanted"),
        (["data@model=ptb"], "one choice is wanted"),
        (["seed@model=ptb"], "there is no such option"),
        (["seed"], "Options are written key=value"),
        (["prompt='a"], "cannot be read"),
        (["seed=1,2"], "Add -m"),
        (["dropout.input=${nowhere}"], "nowhere"),
        (["hydra/launcher=rocket"], "rocket"),
        (["dropout.pattern={spce:random}"], "Did you mean dropout.pattern.space?"),
        (["dropout.pattern={space:rand}"], "Did you mean dropout.pattern.space=random?"),
        (["checkpoint=x"], "write resume="),
        (["mode=evaluate", "checkpoint=x", "resume=y"], "write checkpoint=DIR"),
        (["model.tie_weights=true", "model.embedding_dim=5"], "needs equal sizes"),
        (["optimizer=sgd", "optimizer.nesterov=true"], "add optimizer.momentum=0.9"),
    ],
)
def test_what_cannot_be_meant_is_told_with_what_to_write(given, wanted):
    assert wanted in one_mistake(given)


@pytest.mark.parametrize(
    "given",
    [
        [],
        ["++seed=3"],
        ["experiment=none"],
        ["hydra.run.dir=x"],
        ["+hydra.job.env_set.A=b"],
        ["seed=1", "seed=2"],
        ["data=text", "data.train=a", "data.valid=a", "data.test=a", "data.root=null"],
        ["device=cuda:3"],
        ["dropout.pattern={space:random,time:constant}"],
    ],
)
def test_a_right_command_line_is_let_through(given):
    assert find_mistakes("ptb", given) == []


def test_a_bound_is_told_with_all_its_digits():
    (told,) = find_mistakes("ptb", ["seed=-1"])
    assert told == "seed=-1: out of range. It must be at least 0 and at most 4294967295."
    (told,) = find_mistakes("ptb", ["dropout.input=1.5"])
    assert told.endswith("at least 0 and below 1.")


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("dropout=none,standrd", "Did you mean dropout=standard?"),
        ("data.bptt=10,x", "data.bptt=x: wrong type"),
        ("dropout.input=choice(0.1,1.5)", "dropout.input=1.5: out of range"),
        ("trainer.max_stps=1,2", "Did you mean trainer.max_steps?"),
    ],
)
def test_every_value_of_a_sweep_is_checked(given, wanted):
    assert wanted in "\n".join(find_mistakes("ptb", [given], sweep=True))


@pytest.mark.parametrize(
    "given",
    ["dropout=none,standard", "seed=range(1,4)", "dropout=glob(structured*)", "seed=interval(1,9)"],
)
def test_a_right_sweep_is_let_through(given):
    assert find_mistakes("ptb", [given], sweep=True) == []


def test_several_mistakes_are_told_together():
    mistakes = find_mistakes("ptb", ["trainer.max_stps=3", "sed=1", "model.hidden_size=x"])
    assert len(mistakes) == 3


def test_a_mistake_in_a_yaml_file_is_told_with_the_file(monkeypatch, tmp_path):
    composing = sys.modules["recipes.configuration.compose"]
    shutil.copytree(composing.CONF, tmp_path / "conf")
    monkeypatch.setattr(composing, "CONF", tmp_path / "conf")
    wrong = "defaults:\n  - trainer_options\nmax_epoch: 3\n"
    (tmp_path / "conf/trainer/default.yaml").write_text(wrong)
    mistake = "\n".join(find_mistakes("ptb", []))
    assert "trainer/default" in mistake
    assert "max_epoch" in mistake


def test_looking_for_mistakes_writes_nothing(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    find_mistakes("ptb", ["experiment=zaremba_small", "hydra.run.dir=x", "sed=1"])
    assert list(tmp_path.iterdir()) == []
