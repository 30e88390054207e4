"""Files in place of the standard streams, and these in UTF-8."""

import io
import os
import sys

import pytest

from recipes.configuration import Mistake
from recipes.streams import STANDARD_STREAM, input_from, output_to


def test_standard_output_is_utf8_whatever_the_locale(monkeypatch):
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii"))
    with output_to(STANDARD_STREAM) as target:
        target.write("Hündin\n")
    assert written.getvalue() == "Hündin\n".encode()


def test_output_that_is_no_file_of_the_system_is_written_as_it_is(monkeypatch):
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    with output_to(STANDARD_STREAM) as target:
        target.write("ü")
    assert sys.stdout.getvalue() == "ü"


@pytest.mark.parametrize("to_file", [True, False])
def test_a_reader_that_has_seen_enough_ends_the_writing(to_file, monkeypatch, tmp_path):
    read, write = os.pipe()
    name = STANDARD_STREAM
    if to_file:
        name = str(tmp_path / "pipe")
        os.symlink(f"/dev/fd/{write}", name)
    stream = os.fdopen(write, "w")
    monkeypatch.setattr(sys, "stdout", stream)
    os.close(read)
    with output_to(name) as target:
        for _ in range(1000):
            target.write("a line that nobody reads\n")
    stream.close()


def test_a_file_is_in_utf8_and_gets_its_name_at_the_end(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    with output_to("~/out") as target:
        target.write("ü\n")
        assert not (tmp_path / "out").exists()
    with input_from("~/out") as source:
        assert source.read() == "ü\n".encode()


def test_files_that_cannot_be_opened_are_named_with_the_reason(tmp_path):
    def write(name):
        with output_to(name) as target:
            target.write("lost")

    def read(name):
        with input_from(name):
            pass

    missing = tmp_path / "nowhere" / "file"
    with pytest.raises(Mistake, match=rf"output={missing}: cannot be written: No such file"):
        write(str(missing))
    with pytest.raises(Mistake, match=rf"input={missing}: cannot be read: No such file"):
        read(str(missing))
