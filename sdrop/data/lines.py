"""Reading text files: what is harmless is read as meant, anything else is named with its line."""

import codecs
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from sdrop.data.errors import DataError

_MARKS = (
    (codecs.BOM_UTF32_LE, "UTF-32"),  # begins as that of UTF-16 does
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)


def exists(path: Path) -> bool:
    """Whether there is such a file; DataError where the folder may not be looked into."""
    try:
        return path.exists()
    except OSError as error:
        raise _unreadable(path, error) from None


def read_bytes(path: Path) -> bytes:
    """Content of a file; DataError where it is missing, a folder, or not readable."""
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise DataError(
            f"{path.name} is missing: {path.absolute()} does not exist; expected a text file there"
        ) from None
    except IsADirectoryError:
        raise DataError(f"{path.absolute()} is a folder; expected a text file") from None
    except OSError as error:
        raise _unreadable(path, error) from None


def read_lines(path: Path) -> list[str]:
    """Lines of a UTF-8 text file, without their ends.

    A byte order mark, CRLF or CR line ends and a missing last newline are read as meant. Only line
    ends part lines: U+2028 and its like do not.

    Raises:
        DataError: no such file, a folder, not readable, not UTF-8 or a NUL character (with line).
    """
    text = _decode(read_bytes(path), path)
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if lines[-1] == "":
        lines.pop()
    return lines


def stream_lines(stream: BinaryIO, name: str) -> Iterator[str]:
    """Lines of a stream of UTF-8 text, without their ends, read no further than needed.

    A byte order mark, CRLF line ends and a missing last newline are read as meant.

    Args:
        stream: of bytes.
        name: of it, for errors.

    Raises:
        DataError: for bytes that are not UTF-8, or a NUL character (with line).
    """
    for number, line in enumerate(stream, start=1):
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise _no_text(name, "it", number, line, error.start) from None
        if "\0" in text:
            raise _no_text(name, "it", number, line, line.index(0))
        yield text.rstrip("\r\n")


def _decode(content: bytes, path: Path) -> str:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _no_text_in(path, error.object, error.start) from None
    if "\0" in text:
        raise _no_text_in(path, content, content.index(0))
    return text


def _no_text_in(path: Path, content: bytes, position: int) -> DataError:
    line = content.count(b"\n", 0, position) + 1
    return _no_text(str(path), path.name, line, content, position)


def _no_text(name: str, file: str, line: int, content: bytes, position: int) -> DataError:
    """What is wrong with a byte, and what may help.

    Args:
        name: of the text.
        file: its short name; "it" for a stream.
        line: where the byte stands, from 1.
        content: the bytes from the text's begin or the line's.
        position: the byte's in `content`.
    """
    byte = f"{name}, line {line}: byte 0x{content[position]:02x}"
    marks = [encoding for mark, encoding in _MARKS if line == 1 and content.startswith(mark)]
    if content[position] == 0 and not marks:
        return DataError(
            f"{byte} is a NUL character, which no text has: expected UTF-8, got a binary file, or "
            "text in another encoding such as UTF-16"
        )
    encoding = marks[0] if marks else "LATIN1"
    looks = f": it looks like {encoding}" if marks else ""
    command = f"iconv -f {encoding} -t UTF-8"
    how = f"it, for example with {command}"
    if file != "it":
        how = f"the file, for example: {command} {file} > converted.txt"
    return DataError(f"{byte} is not UTF-8 text{looks}; convert {how}")


def _unreadable(path: Path, error: OSError) -> DataError:
    return DataError(f"{path.absolute()} cannot be read: {error.strerror}; check its permissions")
