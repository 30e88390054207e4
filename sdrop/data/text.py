"""The user's own plain text: one sentence or paragraph a line, words parted by white space."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from sdrop.data.errors import DataError
from sdrop.data.lines import read_lines
from sdrop.data.splits import SPLITS, split_paths

END_OF_LINE = "<eos>"


def read_text(root: Path | None, files: Mapping[str, str | Path] | None) -> dict[str, list[str]]:
    """Tokens of each split from plain-text files; blank lines hold nothing and are left out."""
    return {split: read_tokens(path) for split, path in _paths(root, files).items()}


def read_tokens(path: Path) -> list[str]:
    """Words of a file in order, `<eos>` after each line; DataError where there is no word."""
    tokens = close_lines(line.split() for line in read_lines(path))
    if not tokens:
        raise DataError(f"{path} is empty: expected at least one line of words")
    return tokens


def close_lines(lines: Iterable[list[str]]) -> list[str]:
    """All words in one list, `<eos>` after those of each line that has any."""
    return [word for words in lines if words for word in (*words, END_OF_LINE)]


def _paths(root: Path | None, files: Mapping[str, str | Path] | None) -> dict[str, Path]:
    if files is None and root is None:
        raise DataError(
            "the corpus 'text' needs your files: give `root`, a folder with train.txt, valid.txt "
            "and test.txt, or `files`, one file for each of train, valid and test"
        )
    files = {split: f"{split}.txt" for split in SPLITS} if files is None else files
    return split_paths(root or Path(), files)
