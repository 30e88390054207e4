"""Reading text files: what is harmless is read as meant, anything else is named with its line."""

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from sdrop.data.errors import DataError


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
        DataError: for bytes that are not UTF-8 (with line).
    """
    for number, line in enumerate(stream, start=1):
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise DataError(
                f"{name}, line {number}: byte 0x{line[error.start]:02x} is not UTF-8 text; convert "
                "it, for example with iconv -f LATIN1 -t UTF-8"
            ) from None
        yield text.rstrip("\r\n")


def _decode(content: bytes, path: Path) -> str:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _not_utf8(path, error.object, error.start) from None
    if "\0" in text:
        raise _not_utf8(path, content, content.index(0))
    return text


def _not_utf8(path: Path, content: bytes, position: int) -> DataError:
    line = content.count(b"\n", 0, position) + 1
    return DataError(
        f"{path}, line {line}: byte 0x{content[position]:02x} is not UTF-8 text; convert the file, "
        f"for example: iconv -f LATIN1 -t UTF-8 {path.name} > converted.txt"
    )


def _unreadable(path: Path, error: OSError) -> DataError:
    return DataError(f"{path.absolute()} cannot be read: {error.strerror}; check its permissions")
