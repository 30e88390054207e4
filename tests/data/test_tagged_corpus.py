"""Tagged corpora by name, in the scheme that is wanted."""

import pytest

from sdrop.data.errors import DataError
from sdrop.data.tagged_corpus import load_tagged_corpus


@pytest.fixture
def files(tmp_path):
    """Writes three files and returns the arguments that name them."""

    def write(train, valid="a O\n", test="a O\n"):
        texts = {"train": train, "valid": valid, "test": test}
        for split, text in texts.items():
            (tmp_path / f"{split}.conll").write_text(text)
        return {"root": tmp_path, "files": {split: f"{split}.conll" for split in texts}}

    return write


def test_the_gazetteer_needs_no_files():
    corpus = load_tagged_corpus("gazetteer", scheme="iobes")
    assert (corpus.scheme, corpus.source_scheme) == ("iobes", "iob2")
    assert corpus.types == ("CURRENCY", "LANGUAGE", "PLACE", "TEAM")
    assert any(tag.startswith("S-") for each in corpus.train for tag in each.tags)


def test_files_are_converted_and_their_scheme_is_said(files):
    corpus = load_tagged_corpus("columns", **files("a I-X\nb B-X\nc I-Y\n"), scheme="iob2")
    assert corpus.train[0].tags == ("B-X", "B-X", "B-Y")
    assert (corpus.source_scheme, corpus.scheme) == ("iob1", "iob2")
    assert corpus.types == ("X", "Y")


def test_one_scheme_holds_for_all_files(files):
    # Train alone could be IOB2 as well: only test tells.
    corpus = load_tagged_corpus("columns", **files("a I-X\nb B-X\n", test="a I-X\n"))
    assert corpus.source_scheme == "iob1"
    with pytest.raises(DataError, match=r"(test|train)\.conll, line 1: .* is illegal in IOB"):
        load_tagged_corpus("columns", **files("a B-X\n", test="a I-X\n"))


def test_a_scheme_that_was_said_is_checked(files):
    with pytest.raises(DataError, match=r"train\.conll, line 1: I-X at the start .* IOB2"):
        load_tagged_corpus("columns", **files("a I-X\n"), source_scheme="iob2")


def test_a_type_that_the_training_set_never_had_is_named_with_its_line(files):
    with pytest.raises(DataError, match=r"test\.conll, line 2: B-Z is of a type .* \(X\)"):
        load_tagged_corpus("columns", **files("a B-X\n", test="a O\nb B-Z\n"))


def test_a_training_set_without_entities_is_refused(files):
    with pytest.raises(DataError, match=r"train\.conll has no entity"):
        load_tagged_corpus("columns", **files("a O\n"))


def test_the_signature_tells_texts_and_schemes_apart(files):
    arguments = files("a B-X\n")
    first = load_tagged_corpus("columns", **arguments).signature
    assert load_tagged_corpus("columns", **arguments).signature == first
    assert load_tagged_corpus("columns", **arguments, scheme="iobes").signature != first
    assert load_tagged_corpus("columns", **files("b B-X\n")).signature != first


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (("gazeteer",), "Did you mean 'gazetteer'"),
        (("conll2003",), "needs `root`"),
        (("columns",), "expected one file for each of train, valid, test"),
    ],
)
def test_a_corpus_that_cannot_be_had_is_explained(arguments, wanted):
    with pytest.raises(DataError, match=wanted):
        load_tagged_corpus(*arguments)


def test_a_missing_file_of_conll_2003_is_named(tmp_path):
    with pytest.raises(DataError, match=r"eng\.train is missing"):
        load_tagged_corpus("conll2003", root=tmp_path)
