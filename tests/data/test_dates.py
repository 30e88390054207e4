"""The embedded parallel corpus: dates written out."""

import pytest

from sdrop.data import DataError, load_parallel
from sdrop.data.dates import _FORMATS, _plain_formats, read_dates


@pytest.mark.parametrize(("source", "target"), [("de", "en"), ("en", "vi")])
def test_splits_share_no_line_and_no_source_has_two_translations(source, target):
    corpus = load_parallel("dates", source=source, target=target, train_pairs=800)
    texts = (corpus.train, corpus.valid, corpus.test)
    assert [len(text) for text in texts] == [800, 500, 500]
    lines = [line for text in texts for line in text.source]
    assert len(set(lines)) == 1800
    assert not corpus.tokenized
    assert not corpus.notes


def test_what_is_measured_does_not_change_with_the_number_to_train_on():
    few, many = read_dates("de", "en", 10), read_dates("de", "en", 20)
    assert (few["valid"], few["test"]) == (many["valid"], many["test"])
    assert few["train"][0] == many["train"][0][:10]


def test_dates_read_as_people_write_them():
    days = read_dates("de", "en", 2000)["train"]
    pairs = dict(zip(*days, strict=True))
    long = next(line for line in pairs if line.startswith("Samstag") and "April" in line)
    assert pairs[long].startswith("Saturday, April ")
    assert any(line.endswith("n. Chr.") and pairs[line].endswith("AD") for line in pairs)


def test_formats_that_could_be_written_in_two_ways_are_not_taken():
    may, april = _plain_formats(5, 0, "en", "vi"), _plain_formats(4, 0, "en", "vi")
    assert "long" not in may  # May is its own abbreviation, but tháng is not
    assert "yMMMd" not in may
    assert april == list(_FORMATS)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("de", "fr", 10), "written in de, en, vi, not in 'fr'"),
        (("de", "de", 10), "expected two languages, got 'de' twice"),
        (("de", "en", 0), "expected 1 to 35,525 training pairs, got 0"),
        (("de", "en", 40_000), "expected 1 to 35,525 training pairs, got 40,000"),
    ],
)
def test_what_there_is_not_is_refused(arguments, words):
    with pytest.raises(DataError, match=words):
        read_dates(*arguments)
