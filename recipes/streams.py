"""What is read from and written to: files, or the standard streams in UTF-8."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import BinaryIO, TextIO

from sdrop.training.atomic import written_whole

from .configuration import Mistake

STANDARD_STREAM = "-"  # in place of a file's name


@contextmanager
def input_from(name: str) -> Iterator[BinaryIO]:
    """The file of that name, or standard input.

    Raises:
        Mistake: for a file that cannot be opened.
    """
    if name == STANDARD_STREAM:
        yield sys.stdin.buffer
        return
    try:
        file = Path(name).expanduser().open("rb")
    except OSError as error:
        raise Mistake(f"input={name}: cannot be read: {error.strerror}.") from error
    with file:
        yield file


@contextmanager
def output_to(name: str) -> Iterator[TextIO]:
    """The file of that name, which gets it once all is written, or standard output.

    Where whoever reads a pipe has seen enough, what is left of the block is skipped.

    Raises:
        Mistake: for a file that cannot be written.
    """
    try:
        with _opened_to_write(name) as target:
            try:
                yield target
                target.flush()
            except BrokenPipeError:  # closing it would write what is left once more
                os.dup2(os.open(os.devnull, os.O_WRONLY), target.fileno())
    except OSError as error:
        raise Mistake(f"output={name}: cannot be written: {error.strerror}.") from error


def _opened_to_write(name: str) -> AbstractContextManager[TextIO]:
    if name != STANDARD_STREAM:
        return written_whole(Path(name).expanduser())
    if isinstance(sys.stdout, io.TextIOWrapper):  # a notebook's output is none
        sys.stdout.reconfigure(encoding="utf-8")
    return nullcontext(sys.stdout)
