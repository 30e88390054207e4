"""A corpus: three splits of tokens, and the ways to get one by name."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sdrop.data.errors import DataError
from sdrop.data.ptb import read_ptb
from sdrop.data.pydoc import read_pydoc
from sdrop.data.splits import check_name
from sdrop.data.text import read_text

CORPORA = ("ptb", "pydoc", "text")


@dataclass(frozen=True)
class Corpus:
    """Tokens of a corpus for language modelling, each line closed by `<eos>`.

    `signature` is a short hash of all three splits: perplexities compare only within one.
    """

    name: str
    train: list[str] = field(repr=False)
    valid: list[str] = field(repr=False)
    test: list[str] = field(repr=False)
    signature: str


def load_corpus(
    name: str,
    *,
    root: str | Path | None = None,
    download: bool = False,
    files: Mapping[str, str | Path] | None = None,
) -> Corpus:
    """A corpus by name.

    Args:
        name: "ptb", the Penn Treebank as Mikolov prepared it (files ptb.{train,valid,test}.txt in
            `root`); "pydoc", the documentation topics inside every Python, which needs no files;
            "text", your own plain-text files.
        root: folder of the files. "text" takes relative `files` from there.
        download: fetch the missing files of "ptb" into `root`, checked by MD5.
        files: for "text": file of each split; default train.txt, valid.txt and test.txt in `root`.

    Raises:
        DataError: an unknown name, an argument that has no meaning for this corpus, or a file that
            is missing, empty, not UTF-8 or (ptb) not the expected one.
    """
    _check_arguments(name, root=root, download=download, files=files)
    folder = None if root is None else Path(root).expanduser()
    if name == "ptb":
        splits = read_ptb(folder, download=download)
    elif name == "pydoc":
        splits = read_pydoc()
    else:
        splits = read_text(folder, files)
    return Corpus(name, **splits, signature=_signature(splits))


def _check_arguments(
    name: str, *, root: object, download: bool, files: Mapping[str, str | Path] | None
) -> None:
    check_name("corpus", name, CORPORA, own="text")
    given = {"root": root is not None, "download": download, "files": files is not None}
    allowed = {"ptb": ("root", "download"), "pydoc": (), "text": ("root", "files")}[name]
    for argument, is_given in given.items():
        if is_given and argument not in allowed:
            raise DataError(
                f"`{argument}` has no meaning for the corpus {name!r}, which takes "
                f"{' and '.join(allowed) or 'neither files nor folder'}; "
                f"leave it out, or choose the corpus that it is meant for"
            )


def _signature(splits: Mapping[str, Sequence[str]]) -> str:
    digest = hashlib.sha256()
    for tokens in splits.values():
        digest.update(f"{' '.join(tokens)}\n".encode())
    return digest.hexdigest()[:12]
