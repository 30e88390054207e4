import os
import subprocess
import sys

import pytest

from sdrop.data import DataError, Vocabulary, load_corpus, tokenize


@pytest.fixture(scope="module")
def corpus():
    return load_corpus("pydoc")


def lines(tokens):
    """The lines of a split, as tuples of words."""
    text = " ".join(tokens)
    return [line.strip() for line in text.split("<eos>")[:-1]]


def test_it_is_the_same_each_time_and_in_another_process(corpus):
    assert load_corpus("pydoc") == corpus
    program = "import sdrop.data; print(sdrop.data.load_corpus('pydoc').signature)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONHASHSEED": "1"},
    )
    assert done.stdout.strip() == corpus.signature


def test_no_line_stands_twice(corpus):
    everything = [
        line for split in (corpus.train, corpus.valid, corpus.test) for line in lines(split)
    ]
    assert len(everything) > 1000
    assert len(set(everything)) == len(everything)


def test_the_splits_are_about_80_10_and_10_percent(corpus):
    sizes = [len(split) for split in (corpus.train, corpus.valid, corpus.test)]
    shares = [size / sum(sizes) for size in sizes]
    assert shares == pytest.approx([0.8, 0.1, 0.1], abs=0.03)
    assert sum(sizes) > 50_000


def test_the_splits_come_from_one_distribution(corpus):
    vocabulary = Vocabulary.build(corpus.train, min_frequency=2)
    assert 1000 < len(vocabulary) < 10_000
    for split in (corpus.valid, corpus.test):
        unknown = (vocabulary.encode(split) == vocabulary.encode(["<unk>"])).double().mean()
        assert unknown < 0.08


def test_every_split_ends_with_a_closed_line(corpus):
    assert all(split[-1] == "<eos>" for split in (corpus.train, corpus.valid, corpus.test))


def test_words_are_lower_case_and_hold_no_white_space(corpus):
    words = set(corpus.train)
    assert all(word == word.lower() and len(word.split()) == 1 for word in words)


def test_rules_under_headings_and_in_tables_are_no_words(corpus):
    words = {*corpus.train, *corpus.valid, *corpus.test}
    assert not [word for word in words if len(word) > 3 and not any(map(str.isalnum, word))]


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("The *assert* Statement.", ["the", "*", "assert", "*", "statement", "."]),
        ("x**2 != __debug__", ["x", "**", "2", "!", "=", "__debug__"]),
        ("it's 3.11, isn’t it", ["it", "'s", "3.11", ",", "isn", "'t", "it"]),
        ('a ::= "b"...', ["a", "::=", '"', "b", '"', "..."]),
        ("naïve\n\tfoo_1", ["naïve", "foo_1"]),
        ("", []),
    ],
)
def test_tokens_are_words_numbers_and_signs(text, tokens):
    assert tokenize(text) == tokens


def test_a_python_without_its_documentation_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "pydoc_data.topics", None)
    with pytest.raises(
        DataError, match="this Python comes without its documentation topics"
    ) as error:
        load_corpus("pydoc")
    assert error.value.__suppress_context__
