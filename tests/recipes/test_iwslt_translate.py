"""The iwslt recipe: a user's lines translated, from files and from standard input."""

import io
import sys

import pytest
from tiny_iwslt import recalled

from recipes.iwslt import translate_lines
from sdrop.data import DataError


def translation_of(trained, tmp_path, text, *overrides):
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(text if isinstance(text, bytes) else text.encode())
    files = (f"input='{source}'", f"output='{target}'")
    translate_lines(
        recalled("mode=translate", f"checkpoint='{trained.folder}'", *files, *overrides)
    )
    return target.read_text().split("\n")[:-1]


def test_each_line_has_its_translation_in_its_place_empty_ones_too(trained, tmp_path, monkeypatch):
    monkeypatch.setattr("recipes.texts.LINES_AT_A_TIME", 4)
    lines = ["ein Hund", "", "das Haus ist alt .", " ", "ein alter Hund", "", "ein Hund"] * 2
    found = translation_of(trained, tmp_path, "\n".join(lines))
    assert len(found) == len(lines)
    assert [bool(line) for line in found] == [bool(line.strip()) for line in lines]
    alone = {line: translation_of(trained, tmp_path, f"{line}\n")[0] for line in set(lines)}
    assert found == [alone[line] for line in lines]


def test_unknown_words_are_copied_and_lines_written_as_people_write_them(trained, tmp_path):
    command = ("das Haus ist alt .", "decoding.beam_size=3")
    assert translation_of(trained, tmp_path, *command) == ["the house is old."]
    (words,) = translation_of(trained, tmp_path, *command, "detokenize=false")
    assert words == "the house is old ."
    (line,) = translation_of(trained, tmp_path, "Xylo Xylo Xylo Xylo", "decoding.beam_size=1")
    assert "<unk>" not in line


def test_n_best_lists_have_number_translation_and_falling_score(trained, tmp_path):
    found = translation_of(trained, tmp_path, "ein Hund\n\ndas Haus\n", "decoding.n_best=3")
    parts = [line.split(" ||| ") for line in found]
    assert [number for number, _, _ in parts] == ["0", "0", "0", "1", "2", "2", "2"]
    assert float(parts[0][2]) >= float(parts[1][2]) >= float(parts[2][2])


def test_standard_input_is_translated_to_standard_output(trained, monkeypatch, capsys):
    class Input:
        buffer = io.BytesIO(b"\xef\xbb\xbfdas Haus ist alt .\r\n\r\nein Hund")

    monkeypatch.setattr(sys, "stdin", Input)
    translate_lines(recalled("mode=translate", f"checkpoint='{trained.folder}'"))
    lines = capsys.readouterr().out.split("\n")
    assert (lines[:2], len(lines)) == (["the house is old.", ""], 4)
    Input.buffer = io.BytesIO(b"ein\nH\xfcnd\n")
    with pytest.raises(DataError, match="standard input, line 2: byte 0xfc is not UTF-8"):
        translate_lines(recalled("mode=translate", f"checkpoint='{trained.folder}'"))


def test_a_file_that_is_not_utf8_is_named_with_its_line(trained, tmp_path):
    with pytest.raises(DataError, match="source, line 2: byte 0xfc is not UTF-8"):
        translation_of(trained, tmp_path, b"ein\nH\xfcnd\n")


def test_a_line_of_five_thousand_words_is_translated(trained, tmp_path):
    (found,) = translation_of(
        trained, tmp_path, "Haus " * 5000, "decoding.max_length_ratio=0.01", "decoding.beam_size=2"
    )
    assert len(found.split()) <= 60


def test_words_of_a_dictionary_stand_for_unknown_ones(trained, tmp_path):
    words = tmp_path / "words"
    words.write_text("Hund\thound\nXylo\txylophone\n")
    monkey = ("decoding.beam_size=1", f"decoding.dictionary='{words}'")
    translation_of(trained, tmp_path, "Xylo", *monkey)
    words.write_text("Hund hound\n")
    with pytest.raises(DataError, match="words, line 1: expected a word, a tab"):
        translation_of(trained, tmp_path, "Xylo", *monkey)
