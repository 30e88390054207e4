"""The embedded tagging corpus: the same each time, legal, and hard for a table of names."""

import builtins

import pytest

from sdrop.data.errors import DataError
from sdrop.data.gazetteer import SIZES, read_gazetteer
from sdrop.data.gazetteer_patterns import RULES
from sdrop.data.tags import check_tags, spans


@pytest.fixture(scope="module")
def splits():
    return read_gazetteer()


def names(sentences, *, kinds=("PLACE", "LANGUAGE", "CURRENCY", "TEAM")):
    return [
        (" ".join(each.tokens[span.start : span.end]), span.type)
        for each in sentences
        for span in spans(each.tags, "iob2")
        if span.type in kinds
    ]


def test_it_is_the_same_each_time(splits):
    assert read_gazetteer() == splits
    assert {split: len(sentences) for split, sentences in splits.items()} == SIZES


def test_its_tags_are_legal_and_of_four_kinds(splits):
    for sentences in splits.values():
        check_tags(sentences, "iob2")
        assert {kind for _, kind in names(sentences)} == {"PLACE", "LANGUAGE", "CURRENCY", "TEAM"}


def test_a_good_part_of_the_names_in_test_never_comes_in_train(splits):
    known = {name for name, _ in names(splits["train"])}
    found = [name for name, _ in names(splits["test"])]
    assert 0.3 < sum(name not in known for name in found) / len(found) < 0.6


def test_names_held_out_for_valid_and_test_differ(splits):
    train, valid, test = ({name for name, _ in names(each)} for each in splits.values())
    assert not (valid - train) & (test - train)


def test_a_name_may_be_a_place_a_team_or_neither(splits):
    places = {name for name, _ in names(splits["train"], kinds=("PLACE",))}
    teams = {name for name, _ in names(splits["train"], kinds=("TEAM",))}
    assert len(places & teams) > 100
    outside = {
        token
        for each in splits["train"]
        for token, tag in zip(each.tokens, each.tags, strict=True)
        if tag == "O"
    }
    assert len(places & outside) > 50


def test_every_rule_that_is_named_is_there_and_used():
    named = {part.split(">")[0].split(" ")[0] for all_of in RULES.values() for text in all_of
             for part in text.split("<")[1:]}  # fmt: skip
    assert named | {"sentence"} == set(RULES)


def test_without_babel_it_says_what_to_install(monkeypatch):
    real = builtins.__import__

    def missing(name, *arguments, **options):
        if name == "babel":
            raise ImportError(name)
        return real(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(DataError, match="pip install babel"):
        read_gazetteer()
