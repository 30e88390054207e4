"""Files that are there whole or not at all."""

import os
import threading

import pytest

from sdrop.training.atomic import written_whole


def test_a_file_gets_its_name_when_it_is_whole(tmp_path):
    path = tmp_path / "out.txt"
    with written_whole(path) as file:
        file.write("ä\n")
        assert not path.exists()
    assert path.read_bytes() == "ä\n".encode()
    assert os.listdir(tmp_path) == ["out.txt"]


def test_an_error_leaves_the_file_from_before_and_nothing_else(tmp_path):
    path = tmp_path / "out.txt"
    path.write_text("before")

    def fail():
        with written_whole(path) as file:
            file.write("half")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert path.read_text() == "before"
    assert os.listdir(tmp_path) == ["out.txt"]


def test_a_file_may_be_read_while_it_is_rewritten(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("a\nb\n")
    with path.open() as source, written_whole(path) as target:
        for line in source:
            target.write(line.upper())
    assert path.read_text() == "A\nB\n"


def test_a_pipe_is_written_at_once(tmp_path):
    path, read = tmp_path / "pipe", []
    os.mkfifo(path)
    reader = threading.Thread(target=lambda: read.append(path.read_text()))
    reader.start()
    with written_whole(path) as file:
        file.write("line\n")
    reader.join()
    assert read == ["line\n"]
