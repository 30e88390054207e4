"""Word forms as numbers."""

import pytest

from sdrop.data import DataError
from sdrop.data.forms import CAPITALS, FormEncoder, written

SENTENCES = [("The", "cat", "saw", "IBM"), ("the", "cat", "in", "1996", "<unk>")]


def test_words_are_known_by_their_lower_case():
    encoder = FormEncoder.build(SENTENCES)
    assert encoder.words.tokens[0] == "<unk>"
    assert [encoder.word(form) for form in ("The", "THE", "cat", "dog")] == [
        *("the", "the", "cat", "<unk>")
    ]


def test_words_may_be_known_as_they_are_written_with_lower_case_to_fall_back_on():
    encoder = FormEncoder.build(SENTENCES, lower=False)
    assert [encoder.word(form) for form in ("The", "THE", "IBM", "Cat")] == [
        *("The", "the", "IBM", "cat")
    ]


def test_digits_fall_back_on_zeros():
    encoder = FormEncoder.build(SENTENCES, also=["0000"])
    assert [encoder.word(form) for form in ("1996", "1997", "19")] == ["1996", "0000", "<unk>"]


def test_rare_words_may_be_left_out_and_words_seen_once_are_marked():
    encoder = FormEncoder.build(SENTENCES, min_frequency=2)
    assert set(encoder.words.tokens) == {"<unk>", "the", "cat"}
    assert FormEncoder.build(SENTENCES)(["The", "saw", "dog"]).rare.tolist() == [False, True, False]


def test_the_table_holds_words_spelling_and_capitals():
    encoder = FormEncoder.build(SENTENCES)
    table = encoder(["cat", "Cats", "x"])
    assert encoder.words.decode(table.words) == ["cat", "<unk>", "<unk>"]
    assert table.lengths.tolist() == [3, 4, 1]
    assert encoder.characters.decode(table.characters[0]) == ["c", "a", "t", "<pad>"]
    assert encoder.characters.decode(table.characters[1]) == ["<unk>", "a", "t", "s"]
    assert [CAPITALS[i] for i in table.capitals] == ["lower", "first", "lower"]


def test_of_a_long_form_both_ends_are_looked_at():
    encoder = FormEncoder.build([("ab",)])
    table = encoder(["a" * 30 + "b" * 30])
    assert encoder.characters.decode(table.characters[0]) == ["a"] * 20 + ["b"] * 20


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("cat", "lower"),
        ("e-mail", "lower"),
        ("Cat", "first"),
        ("I", "first"),
        ("IBM", "all"),
        ("U.S.", "all"),
        ("McDonald", "some"),
        ("iPod", "some"),
        ("1,000", "digits"),
        ("F16", "letters and digits"),
        ("...", "other"),
    ],
)
def test_how_a_form_is_written(form, expected):
    assert written(form) == expected


def test_a_frequency_that_no_word_has_is_refused():
    with pytest.raises(DataError, match="min_frequency=99 leaves no word of the text"):
        FormEncoder.build(SENTENCES, min_frequency=99)
    assert "Rome" in FormEncoder.build(SENTENCES, min_frequency=99, also=["Rome"]).words
