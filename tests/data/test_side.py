"""Lines, words, pieces and numbers of one language."""

import pytest

from sdrop.data import MARKS, DataError, MosesText, Side, build_vocabulary, load_vocabulary
from sdrop.data.subwords import (
    BytePairs,
    SentencePieces,
    load_subwords,
    make_subwords,
    save_subwords,
)

LINES = ["das haus ist alt", "das alte haus", "ein haus am see ist ein haus", "der see ist alt"] * 5


@pytest.mark.parametrize(
    ("language", "line"),
    [
        ("de", "Er sagte: „Das ist es (nicht).“ Und ging."),
        ("en", "It's Mr. Smith's dog, isn't it?"),
        ("vi", "Thứ Bảy, 3 tháng 4, 2021"),
    ],
)
def test_lines_are_parted_and_put_together_again(language, line):
    text = MosesText(language, tokenized=False)
    words = text.tokenize(line)
    assert len(words) > len(line.split())
    assert text.detokenize(words) == line


def test_tokenized_lines_keep_their_words_and_lose_their_codes_when_put_together():
    text = MosesText("en", tokenized=True)
    words = text.tokenize("it &apos;s  Mom &apos;s &amp; dad &apos;s .\u00a0")
    assert words == ["it", "&apos;s", "Mom", "&apos;s", "&amp;", "dad", "&apos;s", "."]
    assert text.detokenize(words) == "it's Mom's & dad's."
    assert MosesText("en", tokenized=True, lowercase=True).tokenize("A b") == ["a", "b"]
    assert text.tokenize(" \t") == []
    assert text.detokenize(["a@@", "b", "c@@"]) == "ab c"


def test_numbers_are_those_of_the_words_and_unknown_ones_have_one_too():
    vocabulary = build_vocabulary([line.split() for line in LINES], max_size=6, min_frequency=1)
    assert vocabulary.tokens[:3] == MARKS
    side = Side(MosesText("de", tokenized=True), vocabulary)
    assert side.numbers("das haus brennt").tolist()[2] == side.mark("<unk>")
    assert side.words(["das", "haus"]) == ["das", "haus"]
    assert len(side.numbers("")) == 0


def test_a_given_vocabulary_wants_the_marks(tmp_path):
    path = tmp_path / "vocab.de"
    path.write_text("<unk>\n<s>\nhaus\n")
    with pytest.raises(DataError, match=r"vocab\.de lacks </s>: expected the marks"):
        load_vocabulary(path)
    path.write_text("<unk>\n<s>\n</s>\nhaus\n")
    assert len(load_vocabulary(path)) == 4


def test_prepared_vocabularies_are_taken(shared_data):
    for language, words in (("en", 17_191), ("vi", 7_709)):
        assert len(load_vocabulary(shared_data / "iwslt15_envi" / f"vocab.{language}")) == words


def test_merges_are_made_in_their_order_and_undone(tmp_path):
    path = tmp_path / "codes.de"
    path.write_text("#version: 0.2\nh a\nu s</w>\nha us</w>\na l\nal t</w>\n")
    pieces = BytePairs.load(path)
    assert pieces.split(["haus", "alt", "alte", "ha"]) == [
        *("haus", "alt", "al@@", "t@@", "e", "h@@", "a"),
    ]
    assert pieces.join(pieces.split(["haus", "alte", "see"])) == ["haus", "alte", "see"]
    save_subwords(pieces, tmp_path / "kept")
    assert load_subwords("bpe", tmp_path / "kept").split(["haus"]) == ["haus"]


def test_a_line_of_merges_that_is_no_pair_is_named(tmp_path):
    path = tmp_path / "codes.de"
    path.write_text("h a\nhau s </w>\n")
    with pytest.raises(DataError, match=r"codes\.de, line 2: expected two pieces"):
        BytePairs.load(path)


def test_sentencepieces_are_trained_kept_and_joined(tmp_path):
    pieces = SentencePieces.train(LINES, 30)
    words = ["das", "alte", "haus", "am", "see"]
    assert pieces.join(pieces.split(words)) == words
    assert len(pieces.split(words)) > len(words)
    save_subwords(pieces, tmp_path / "kept")
    assert load_subwords("sentencepiece", tmp_path / "kept").split(words) == pieces.split(words)


def test_no_subwords_and_lost_ones(tmp_path):
    assert make_subwords("none", LINES, size=10, codes=None) is None
    assert load_subwords("none", tmp_path / "x") is None
    with pytest.raises(DataError, match="x is missing: expected the bpe model of the run"):
        load_subwords("bpe", tmp_path / "x")
