"""Sentences read from a stream and written to one."""

import io
import json

import pytest

from sdrop.data.errors import DataError
from sdrop.data.token_streams import (
    read_sentences,
    scored_sentences,
    split_tokens,
    written_sentence,
)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("U.S. President Obama left.", "U.S. President Obama left ."),
        ("He doesn't like John's e-mails", "He does n't like John 's e-mails"),
        ("don’t", "do n't"),
        ("(or $12.50), 3,000", "( or $ 12.50 ) , 3,000"),
        ("on 1996-08-22 at 10:30", "on 1996-08-22 at 10:30"),
        ('"AT&T fell 2-1..."', '" AT&T fell 2-1 ... "'),
        ("São Tomé -- Reuters", "São Tomé -- Reuters"),
        ("  ", ""),
    ],
)
def test_raw_text_is_parted_into_tokens(text, tokens):
    assert split_tokens(text) == tokens.split()


def test_no_sign_of_raw_text_is_lost():
    text = "a_b *c* \u2014 §5 'tis O'Neill n't x'y 5th F-16 ??"
    assert "".join(split_tokens(text)) == text.replace(" ", "")


def read(content, text):
    return list(read_sentences(io.BytesIO(content), text, "standard input"))


def test_each_line_is_a_sentence_also_an_empty_one():
    assert read(b"\xef\xbb\xbfA b.\r\n\r\nc", "raw") == [["A", "b", "."], [], ["c"]]
    assert read(b"A b.\n\n  c\td \n", "tokens") == [["A", "b."], [], ["c", "d"]]


def test_columns_end_at_blank_lines_and_document_marks():
    content = b"-DOCSTART- O\n\na X O\nb X O\n\n\n-DOCSTART-\nc\n"
    assert read(content, "columns") == [["-DOCSTART-"], ["a", "b"], ["-DOCSTART-"], ["c"]]


def test_what_is_no_utf8_is_named_with_its_line():
    with pytest.raises(DataError, match="standard input, line 2: byte 0xe9"):
        read(b"a\ncaf\xe9\n", "raw")
    with pytest.raises(ValueError, match="expected one of raw, tokens, columns"):
        read(b"a", "xml")


def test_a_stream_is_read_no_further_than_needed():
    class Endless(io.RawIOBase):
        def readable(self):
            return True

        def readinto(self, buffer):
            buffer[:2] = b"a\n"
            return 2

    sentences = read_sentences(io.BufferedReader(Endless(), 2), "raw", "endless")
    assert [next(sentences) for _ in range(3)] == [["a"]] * 3


def test_sentences_are_written_as_columns_or_as_objects():
    tokens, tags = ["In", "New", "York"], ["O", "B-LOC", "I-LOC"]
    assert written_sentence(tokens, tags, "iob2", "conll") == "In O\nNew B-LOC\nYork I-LOC\n\n"
    assert written_sentence([], [], "iob2", "conll") == "\n"
    found = json.loads(written_sentence(tokens, tags, "iob2", "jsonl"))
    entities = [{"start": 1, "end": 3, "type": "LOC", "text": "New York"}]
    assert found == {"tokens": tokens, "tags": tags, "entities": entities}


def test_predictions_stand_beside_what_is_right():
    lines = scored_sentences([["a", "b"], ["c"]], [["O", "B-X"], ["O"]], [["O", "O"], ["B-X"]])
    assert "".join(lines) == "a O O\nb B-X O\n\nc O B-X\n\n"
