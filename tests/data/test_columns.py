"""CoNLL column files: what is read as meant, and what is refused with its line."""

import pytest

from sdrop.data.columns import read_columns
from sdrop.data.errors import DataError

FOUR = "-DOCSTART- -X- O O\n\nEU NNP I-NP I-ORG\nrejects VBZ I-VP O\n\nPeter NNP I-NP I-PER\n"


def write(folder, text):
    path = folder / "some.conll"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def tokens(sentences):
    return [list(each.tokens) for each in sentences]


def test_four_columns_give_tokens_tags_and_lines(tmp_path):
    first, second = read_columns(write(tmp_path, FOUR))
    assert (first.tokens, first.tags, first.lines) == (("EU", "rejects"), ("I-ORG", "O"), (3, 4))
    assert (second.tokens, second.tags, second.lines) == (("Peter",), ("I-PER",), (6,))


def test_other_columns_may_be_asked_for(tmp_path):
    sentences = read_columns(write(tmp_path, FOUR), token_column=1, tag_column=2)
    assert sentences[0].tokens == ("NNP", "VBZ")
    assert sentences[0].tags == ("I-NP", "I-VP")


@pytest.mark.parametrize(
    "text",
    [
        "a O\nb B-X\n\nc O\n",
        "a O\nb B-X\n\nc O",  # no last newline
        "a O\r\nb B-X\r\n\r\nc O\r\n",
        "a\tO\nb \t B-X\n\nc   O\n",  # tabs and blanks
        " a O \nb B-X\t\n\nc O\n",
        "\n\na O\nb B-X\n \n\t\n\nc O\n\n\n",
        "\ufeffa O\nb B-X\n\nc O\n",
        "-DOCSTART- O\na O\nb B-X\n-DOCSTART-\nc O\n",  # marks with no blank line about them
        "a O\nb B-X\n\nc O\n-DOCSTART- -X- O O\n",
        "-DOCSTART-\n\n-DOCSTART-\n\na O\nb B-X\n\n-DOCSTART-\n\nc O\n",
    ],
)
def test_what_is_harmless_is_read_as_meant(text, tmp_path):
    sentences = read_columns(write(tmp_path, text))
    assert [(each.tokens, each.tags) for each in sentences] == [
        (("a", "b"), ("O", "B-X")),
        (("c",), ("O",)),
    ]


def test_marks_are_kept_on_request(tmp_path):
    kept = read_columns(write(tmp_path, FOUR + "-DOCSTART-\n"), keep_marks=True)
    assert [each.is_mark for each in kept] == [True, False, False, True]
    assert tokens(kept)[0] == ["-DOCSTART-"]


def test_a_no_break_space_is_part_of_a_token(tmp_path):
    (sentence,) = read_columns(write(tmp_path, "10\u00a0000 O\nx\u2028y O\n"))
    assert sentence.tokens == ("10\u00a0000", "x\u2028y")


@pytest.mark.parametrize(
    ("text", "options", "wanted"),
    [
        ("a X O\nb X O\n\nc O\n", {}, "line 4: 2 columns, expected 3 as in line 1"),
        ("a O\nb\n", {}, "line 2: 1 column, expected 2"),
        ("a\nb\n", {}, "line 1: 1 column, and token_column=0 is the same as tag_column=-1"),
        ("a O\n", {"tag_column": 3}, "line 1: 2 columns, so tag_column=3 is none of them"),
        ("a O\n", {"token_column": -3}, "token_column=-3 is none of them; expected .* -2 to 1"),
        ("\n\n-DOCSTART- O\n\n", {}, "holds no sentence"),
        (b"a O\ncaf\xe9 O\n", {}, "line 2: byte 0xe9"),
    ],
)
def test_what_is_broken_is_refused_with_file_and_line(text, options, wanted, tmp_path):
    with pytest.raises(DataError, match=wanted) as error:
        read_columns(write(tmp_path, text), **options)
    assert "some.conll" in str(error.value)


def test_the_files_of_conll_2003_have_their_published_sizes(conll2003_folder):
    sizes = {}
    for split in ("train", "testa", "testb"):
        sentences = read_columns(conll2003_folder / f"eng.{split}")
        sizes[split] = len(sentences), sum(map(len, sentences))
    assert sizes == {"train": (14041, 203621), "testa": (3250, 51362), "testb": (3453, 46435)}
