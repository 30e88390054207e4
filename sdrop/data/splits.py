"""What every corpus has: a name, and three splits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path

from sdrop.data.errors import DataError

SPLITS = ("train", "valid", "test")


def check_name(kind: str, name: str, known: Sequence[str], own: str) -> None:
    """Refuses what is no corpus.

    Args:
        kind: such as "tagged corpus".
        name: what was asked for.
        known: the names there are.
        own: the one among them that the user's own files go by.

    Raises:
        DataError: for another name, with the nearest right one.
    """
    if name not in known:
        nearest = get_close_matches(str(name), known, n=1, cutoff=0.0)[0]
        raise DataError(
            f"unknown {kind} {name!r}; expected one of {', '.join(known)}. Did you mean "
            f"{nearest!r}? Your own files go by the name {own!r}"
        )


def split_paths(folder: Path, files: Mapping[str, str | Path]) -> dict[str, Path]:
    """The path of each split's file, in `folder` where it is relative.

    Raises:
        DataError: unless there is one file for each split.
    """
    if sorted(files) != sorted(SPLITS):
        raise DataError(
            f"`files` names {', '.join(sorted(files)) or 'nothing'}; expected one file for each of "
            f"{', '.join(SPLITS)}"
        )
    return {split: folder / Path(files[split]).expanduser() for split in SPLITS}
