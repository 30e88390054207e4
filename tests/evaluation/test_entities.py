"""Entity scores against seqeval's own and small cases counted by hand."""

import random

import pytest
from seqeval import scheme as seqeval_schemes
from seqeval.metrics import classification_report, f1_score

from sdrop.data.tags import SCHEMES, Span, all_tags, tags_of
from sdrop.evaluation.entities import (
    confusion,
    confusion_table,
    entity_f1,
    entity_score,
)


def random_sentence(generator, scheme):
    """Legal tags, and others that are like them."""
    length, found, place = generator.randint(1, 9), [], 0
    while place < length:
        size = generator.randint(1, 3)
        if generator.random() < 0.6 and place + size <= length:
            found.append(Span(place, place + size, generator.choice(["PER", "LOC", "A-B"])))
        place += size
    return tags_of(found, length, scheme)


def random_files(scheme, *, legal, seed=0):
    generator = random.Random(seed)
    truth = [random_sentence(generator, scheme) for _ in range(60)]
    guess = []
    for tags in truth:
        other = random_sentence(generator, scheme)
        mixed = tags if generator.random() < 0.5 or len(other) != len(tags) else other
        if not legal:
            names = all_tags(["PER", "LOC", "A-B"], scheme)
            mixed = [generator.choice(names) if generator.random() < 0.2 else t for t in mixed]
        guess.append(mixed)
    return truth, guess


@pytest.mark.parametrize("legal", [True, False])
@pytest.mark.parametrize("mode", ["strict", "default"])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_scores_equal_seqevals_report(scheme, mode, legal):
    truth, guess = random_files(scheme, legal=legal)
    arguments = {"output_dict": True, "zero_division": 0}
    if mode == "strict":
        arguments |= {"mode": "strict", "scheme": getattr(seqeval_schemes, scheme.upper())}
    report = classification_report(truth, guess, **arguments)
    score = entity_score(truth, guess, scheme=scheme, mode=mode)
    total = report["micro avg"]
    assert (score.precision, score.recall, score.f1) == pytest.approx(
        (total["precision"], total["recall"], total["f1-score"])
    )
    assert score.per_type.keys() == {"PER", "LOC", "A-B"}
    for kind, row in score.per_type.items():
        assert row["f1"] == pytest.approx(report[kind]["f1-score"])
        assert row["support"] == report[kind]["support"]
    assert score.signature == f"seqeval, {mode}, {scheme.upper()}"


@pytest.mark.parametrize("scheme", SCHEMES)
def test_validation_counts_what_seqeval_counts_for_legal_tags(scheme):
    truth, guess = random_files(scheme, legal=True, seed=2)
    strict = {"mode": "strict", "scheme": getattr(seqeval_schemes, scheme.upper())}
    assert entity_f1(truth, guess, scheme) == pytest.approx(f1_score(truth, guess, **strict))
    assert entity_f1(truth, guess, scheme) == pytest.approx(f1_score(truth, guess))


def test_a_case_counted_by_hand():
    truth = [["B-PER", "I-PER", "O", "B-LOC"], ["O", "B-LOC", "I-LOC"]]
    guess = [["B-PER", "O", "O", "B-LOC"], ["B-PER", "B-LOC", "I-LOC"]]
    score = entity_score(truth, guess, scheme="iob2")
    # Of three entities two are found, among four.
    assert (score.precision, score.recall, score.f1) == pytest.approx((2 / 4, 2 / 3, 4 / 7))
    assert score.per_type["LOC"] == {"precision": 1, "recall": 1, "f1": 1, "support": 2}
    assert entity_f1(truth, guess, "iob2") == pytest.approx(4 / 7)
    assert str(score).splitlines()[0] == (
        "F1 0.5714  precision 0.5000  recall 0.6667  (seqeval, strict, IOB2; 3 entities)"
    )


def test_illegal_tags_make_an_entity_in_the_default_mode_only():
    truth, guess = [["B-PER", "I-PER"]], [["I-PER", "I-PER"]]
    assert entity_score(truth, guess, scheme="iob2", mode="default").f1 == 1
    assert entity_score(truth, guess, scheme="iob2", mode="strict").f1 == 0


def test_nothing_to_find_and_nothing_found_is_zero():
    assert entity_score([["O"]], [["O"]], scheme="iob2").f1 == 0
    assert entity_f1([["O"]], [["O"]], "iob2") == 0


def test_types_are_confused_where_both_ends_agree():
    truth = [["B-X", "I-X", "O", "B-Y", "O", "B-X"]]
    guess = [["B-Y", "I-Y", "O", "B-Y", "B-X", "O"]]
    counts = confusion(truth, guess, "iob2")
    assert counts == {("X", "Y"): 1, ("Y", "Y"): 1, ("-", "X"): 1, ("X", "-"): 1}
    rows = [line.split() for line in confusion_table(counts).splitlines()]
    assert rows == [["is", "X", "Y", "-"], ["X", "0", "1", "1"], ["Y", "0", "1", "0"],
                    ["-", "1", "0", "0"]]  # fmt: skip


@pytest.mark.parametrize(
    ("truth", "guess", "options", "wanted"),
    [
        ([["O"]], [["O", "O"]], {}, "sentence 1 has 1 tags, and 2 are predicted"),
        ([["O"]], [], {}, "1 sentences are there and 0"),
        ([["O"]], [["O"]], {"mode": "lenient"}, "expected strict or default"),
        ([["O"]], [["O"]], {"scheme": "iob"}, "expected one of iob1, iob2, iobes"),
    ],
)
def test_what_cannot_be_scored_is_refused(truth, guess, options, wanted):
    with pytest.raises(ValueError, match=wanted):
        entity_score(truth, guess, **{"scheme": "iob2"} | options)


def test_a_file_in_another_scheme_is_an_error_and_no_better_score():
    with pytest.raises(ValueError, match="S-PER"):
        entity_score([["S-PER"]], [["S-PER"]], scheme="iob2")
