import codecs
import io

import pytest

from sdrop.data import DataError
from sdrop.data.lines import read_lines, stream_lines


def written(tmp_path, content):
    path = tmp_path / "text.txt"
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    "content",
    [
        b"one\ntwo\n",
        b"one\ntwo",
        b"one\r\ntwo\r\n",
        b"one\rtwo\r",
        b"\xef\xbb\xbfone\ntwo\n",
        b"\xef\xbb\xbfone\r\ntwo",
    ],
)
def test_line_ends_and_byte_order_mark_are_read_as_meant(tmp_path, content):
    assert read_lines(written(tmp_path, content)) == ["one", "two"]


def test_only_line_ends_part_lines(tmp_path):
    content = "one\u2028still one\x0cand\x85here\n"
    assert read_lines(written(tmp_path, content.encode())) == [content[:-1]]


def test_blank_lines_are_kept(tmp_path):
    assert read_lines(written(tmp_path, b"\none\n\n")) == ["", "one", ""]


def test_an_empty_file_has_no_lines(tmp_path):
    assert read_lines(written(tmp_path, b"")) == []
    assert read_lines(written(tmp_path, b"\xef\xbb\xbf")) == []


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_bad_utf8_is_named_with_file_line_and_byte(tmp_path, mark):
    path = written(tmp_path, mark + b"one\ntwo\nthr\xe9e\n")
    with pytest.raises(DataError, match=r"text.txt, line 3: byte 0xe9 is not UTF-8.*iconv"):
        read_lines(path)


@pytest.mark.parametrize(
    ("mark", "encoding", "name"),
    [
        (codecs.BOM_UTF16_LE, "utf-16-le", "UTF-16"),
        (codecs.BOM_UTF16_BE, "utf-16-be", "UTF-16"),
        (codecs.BOM_UTF32_LE, "utf-32-le", "UTF-32"),
        (codecs.BOM_UTF32_BE, "utf-32-be", "UTF-32"),
    ],
)
def test_another_encodings_mark_is_told_with_how_to_convert_it(mark, encoding, name, tmp_path):
    path = written(tmp_path, mark + "one\ntwo\n".encode(encoding))
    told = f"line 1: byte 0x.. is not UTF-8 text: it looks like {name}; .*iconv -f {name} -t UTF-8"
    with pytest.raises(DataError, match=f"{told} text.txt > converted"):
        read_lines(path)
    with pytest.raises(DataError, match=f"stdin, {told}"):
        list(stream_lines(io.BytesIO(path.read_bytes()), "stdin"))


@pytest.mark.parametrize("content", ["one\n".encode("utf-16-le"), b"o\0ne\n"])
def test_a_nul_character_is_told_as_such(content, tmp_path):
    told = "line 2: byte 0x00 is a NUL character.*expected UTF-8, got a binary file"
    with pytest.raises(DataError, match=told) as caught:
        read_lines(written(tmp_path, b"text\n" + content))
    assert "LATIN1" not in str(caught.value)
    with pytest.raises(DataError, match=f"stdin, {told}"):
        list(stream_lines(io.BytesIO(b"text\n" + content), "stdin"))


def test_a_missing_file_is_told_with_its_full_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match="gone.txt is missing") as caught:
        read_lines(tmp_path.joinpath("gone.txt").relative_to(tmp_path))
    assert str(tmp_path / "gone.txt") in str(caught.value)


def test_a_folder_in_place_of_a_file_is_told(tmp_path):
    with pytest.raises(DataError, match="is a folder; expected a text file"):
        read_lines(tmp_path)


def test_a_file_without_read_permission_is_told(no_rights):
    with pytest.raises(DataError, match="text.txt cannot be read: Permission denied"):
        read_lines(no_rights / "text.txt")


def test_a_file_in_place_of_a_folder_is_told(tmp_path):
    with pytest.raises(DataError, match="more.txt is missing"):
        read_lines(written(tmp_path, b"one") / "more.txt")
