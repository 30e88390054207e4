"""Files and folders that are there whole or not at all, also after a power cut."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO


def write_atomically(path: Path, content: str | bytes) -> None:
    """Writes a file under a temporary name, syncs it, and renames it to `path`."""
    temporary = path.with_name(f".{path.name}.partial")
    temporary.write_bytes(content.encode() if isinstance(content, str) else content)
    sync(temporary)
    temporary.replace(path)
    sync(path.parent)


@contextmanager
def written_whole(path: Path) -> Iterator[TextIO]:
    """A text file to fill in pieces, which gets its name when all went well.

    Until then a file of that name stays as it is, and may even be read. What is no file, such as
    a pipe, is written at once.
    """
    if path.exists() and not path.is_file():
        with path.open("w", encoding="utf-8", newline="\n") as file:
            yield file
        return
    temporary = path.with_name(f".{path.name}.partial")
    try:
        with temporary.open("w", encoding="utf-8", newline="\n") as file:
            yield file
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def publish_folder(temporary: Path, final: Path) -> None:
    """Syncs a folder and the files in it and renames it to `final`, replacing what is there.

    A folder cannot replace another in one step: the old one is put aside first. Where the
    process dies between the two renames, `recover_folders` brings it back.
    """
    for file in temporary.iterdir():
        sync(file)
    sync(temporary)
    old = _aside(final)
    shutil.rmtree(old, ignore_errors=True)
    if final.exists():
        final.rename(old)
    temporary.rename(final)
    sync(final.parent)
    shutil.rmtree(old, ignore_errors=True)


def recover_folders(parent: Path) -> None:
    """Removes what an interrupted `publish_folder` left, and brings back what it put aside."""
    for old in parent.glob(".*.old"):
        final = parent / old.name.removeprefix(".").removesuffix(".old")
        if final.exists():
            shutil.rmtree(old)
        else:
            old.rename(final)
    for temporary in parent.glob(".*.partial"):
        shutil.rmtree(temporary)


def partial_folder(final: Path) -> Path:
    """An empty folder beside `final` to fill and then publish."""
    temporary = final.with_name(f".{final.name}.partial")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    return temporary


def sync(path: Path) -> None:
    """Makes the content of a file, or the names in a folder, durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _aside(final: Path) -> Path:
    return final.with_name(f".{final.name}.old")
