"""Tag schemes: recognised, checked, converted, and what may follow what."""

import random
from itertools import pairwise, product

import pytest

from sdrop.data.columns import Sentence, read_columns
from sdrop.data.errors import DataError
from sdrop.data.tags import (
    SCHEMES,
    Span,
    all_tags,
    check_tags,
    constraints,
    convert,
    recognise_scheme,
    spans,
    tags_of,
)

SENTENCE = [Span(0, 1, "PER"), Span(1, 3, "PER"), Span(3, 4, "LOC"), Span(5, 8, "LOC")]
WRITTEN = {
    "iob1": "I-PER B-PER I-PER I-LOC O I-LOC I-LOC I-LOC O",
    "iob2": "B-PER B-PER I-PER B-LOC O B-LOC I-LOC I-LOC O",
    "iobes": "S-PER B-PER E-PER S-LOC O B-LOC I-LOC E-LOC O",
}


def sentence(tags):
    tags = tags.split()
    return Sentence(("w",) * len(tags), tuple(tags), range(5, 5 + len(tags)))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_sentence_written_by_hand_is_read_and_written_so(scheme):
    tags = WRITTEN[scheme].split()
    assert spans(tags, scheme) == SENTENCE
    assert tags_of(SENTENCE, 9, scheme) == tags


def random_spans(length, generator):
    found, place = [], 0
    while place < length:
        size = generator.randint(1, 3)
        if generator.random() < 0.7 and place + size <= length:
            found.append(Span(place, place + size, generator.choice("XY")))
            place += size
        else:
            place += 1
    return found


def test_every_conversion_there_and_back_gives_the_same():
    generator = random.Random(1)
    for _ in range(300):
        length = generator.randint(1, 9)
        found = random_spans(length, generator)
        for one, other in product(SCHEMES, SCHEMES):
            tags = tags_of(found, length, one)
            there = convert(tags, one, other)
            assert spans(there, other) == found
            assert convert(there, other, one) == tags
            check_tags([Sentence(("w",) * length, tuple(tags))], one)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_scheme_is_recognised(scheme):
    assert recognise_scheme([sentence("O O"), sentence(WRITTEN[scheme])]) == scheme


def test_a_scheme_that_cannot_be_told_is_iob2():
    assert recognise_scheme([sentence("O O")]) == "iob2"


@pytest.mark.parametrize(
    ("scheme", "tags", "wanted"),
    [
        ("iob1", "O B-X", "line 6: B-X after O is illegal in IOB1"),
        ("iob1", "B-X", "line 5: B-X at the start of a sentence"),
        ("iob1", "I-X B-Y", "line 6: B-Y after I-X"),
        ("iob2", "I-X", "line 5: I-X at the start of a sentence is illegal in IOB2"),
        ("iob2", "B-X O I-X", "line 7: I-X after O"),
        ("iob2", "B-X I-Y", "line 6: I-Y after B-X"),
        ("iob2", "S-X", "line 5: S-X"),
        ("iobes", "O B-X", "line 6: B-X at the end of a sentence is illegal in IOBES"),
        ("iobes", "B-X O", "line 6: O after B-X"),
        ("iobes", "S-X I-X E-X", "line 6: I-X after S-X"),
        ("iobes", "B-X E-Y", "line 6: E-Y after B-X"),
        ("iobes", "O E-X", "line 6: E-X after O"),
    ],
)
def test_illegal_tags_are_named_with_file_and_line(scheme, tags, wanted):
    with pytest.raises(DataError, match=wanted) as error:
        check_tags([sentence("O"), sentence(tags)], scheme, "some.conll")
    assert str(error.value).startswith("some.conll, line ")


@pytest.mark.parametrize("tag", ["B", "B-", "-X", "X-PER", "b-PER", "o", "U-PER"])
def test_what_is_no_tag_is_named_with_its_line(tag):
    with pytest.raises(DataError, match=rf"some, line 6: '{tag}' is no tag"):
        recognise_scheme([sentence(f"O {tag}")], "some")


def test_tags_that_fit_no_scheme_are_told_in_the_one_that_fits_best(tmp_path):
    (tmp_path / "f").write_text("a B-X\nb I-X\n\nc B-Y\nd O\ne I-X\n")
    with pytest.raises(
        DataError, match=r"f, line 6: I-X after O is illegal in IOB2\. .* IOB2 best"
    ):
        recognise_scheme(read_columns(tmp_path / "f"), tmp_path / "f")


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_constraints_allow_exactly_what_encodes_some_entities(scheme):
    tags = all_tags(["Y", "X"], scheme)
    assert tags[0] == "O"
    start, transitions, end = constraints(tags, scheme)
    for length in (1, 2, 3):
        for path in product(range(len(tags)), repeat=length):
            names = [tags[i] for i in path]
            legal = bool(start[path[0]] & end[path[-1]]) and all(
                transitions[a, b] for a, b in pairwise(path)
            )
            assert legal == (tags_of(spans(names, scheme), length, scheme) == names), names


def test_illegal_tags_are_read_as_conlleval_reads_them():
    assert spans(["I-X", "I-X", "I-Y", "O", "I-Y"], "iob2") == [
        Span(0, 2, "X"), Span(2, 3, "Y"), Span(4, 5, "Y"),
    ]  # fmt: skip
    assert spans(["E-X", "I-X", "B-X", "O"], "iobes") == [
        Span(0, 1, "X"), Span(1, 2, "X"), Span(2, 3, "X"),
    ]  # fmt: skip


@pytest.mark.parametrize("found", [[Span(0, 3, "X"), Span(2, 4, "X")], [Span(3, 6, "X")]])
def test_entities_that_overlap_or_stand_outside_are_refused(found):
    with pytest.raises(ValueError, match="do not overlap"):
        tags_of(found, 5, "iob2")


def test_conll_2003_is_iob1_with_its_published_number_of_entities(conll2003_folder):
    sentences = read_columns(conll2003_folder / "eng.testb")
    assert recognise_scheme(sentences) == "iob1"
    assert sum(len(spans(each.tags, "iob1")) for each in sentences) == 5648
