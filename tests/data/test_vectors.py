"""Pretrained word vectors from text files."""

import gzip
import ssl

import pytest
import torch
from torch import nn

from sdrop.data.errors import DataError
from sdrop.data.vectors import WordVectors

TEXT = "the 1 2 9\nCat 3 4 9\n0000 5 6 9\nça 7 8 9\n"


@pytest.fixture
def glove(tmp_path):
    path = tmp_path / "glove.txt"
    path.write_text(TEXT)
    return path


def test_words_fall_back_on_lower_case_and_zeros_and_coverage_is_told(glove):
    vectors = WordVectors(glove)
    words = ["<unk>", "the", "The", "Cat", "cat", "1996", "ça"]
    embedding = nn.Embedding(7, 3)
    before = embedding.weight.detach().clone()
    coverage = vectors.fill(embedding, words)
    assert (coverage.exact, coverage.lowered, coverage.zeros, coverage.missing) == (3, 1, 1, 2)
    expected = [None, [1, 2, 9], [1, 2, 9], [3, 4, 9], None, [5, 6, 9], [7, 8, 9]]
    for row, values in enumerate(expected):
        wanted = before[row] if values is None else torch.tensor(values).float()
        assert torch.equal(embedding.weight[row], wanted)
    assert str(coverage).startswith("vectors for 71.4% of 7 words: 3 as written, 1 in lower case")
    assert vectors.known(words) == ["the", "The", "Cat", "1996", "ça"]


def test_a_header_is_left_out_and_gz_is_unpacked(tmp_path):
    path = tmp_path / "fast.vec.gz"
    path.write_bytes(gzip.compress(("4 3\n" + TEXT).encode()))
    assert len(WordVectors(path)) == 4


def test_nothing_is_left_behind(glove, capsys):
    certificates = ssl._create_default_https_context
    WordVectors(glove)
    assert [path.name for path in glove.parent.iterdir()] == ["glove.txt"]
    assert ssl._create_default_https_context is certificates
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a 1 2 3\nb 1 2 3\nc 1\nd 1 2 3 4\n", r"line 4"),
        ("a 1 2 3\nb 1 2 x\n", r"line 2"),
        ("", "no word vector.*it is empty"),
        ("the 0.1 0.2\n", r"no word vector: expected .* three or more.*'the 0\.1 0\.2'"),
        ("the\t1\t2\t3\n", "parted by single blanks"),
    ],
)
def test_a_broken_file_is_named_with_its_line(text, wanted, tmp_path):
    path = tmp_path / "broken.txt"
    path.write_text(text)
    with pytest.raises(DataError, match=wanted) as error:
        WordVectors(path)
    assert "broken.txt" in str(error.value)


def test_a_cut_gz_is_told(tmp_path):
    path = tmp_path / "cut.vec.gz"
    path.write_bytes(gzip.compress(TEXT.encode() * 99)[:-20])
    with pytest.raises(DataError, match=r"cut\.vec\.gz cannot be read"):
        WordVectors(path)


def test_a_missing_file_and_another_size_are_told(glove, tmp_path):
    with pytest.raises(DataError, match=r"nowhere\.txt does not exist"):
        WordVectors(tmp_path / "nowhere.txt")
    with pytest.raises(DataError, match=r"set model\.embedding_dim=3"):
        WordVectors(glove).fill(nn.Embedding(1, 2), ["the"])
