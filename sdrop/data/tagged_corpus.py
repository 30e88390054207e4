"""A corpus of tagged sentences: three splits in one scheme, and the ways to get one by name."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from sdrop.data.columns import Sentence, read_columns
from sdrop.data.errors import DataError
from sdrop.data.gazetteer import read_gazetteer
from sdrop.data.splits import check_name, split_paths
from sdrop.data.tags import (
    OUTSIDE,
    Scheme,
    check_scheme,
    check_tags,
    convert,
    recognise_scheme,
    split_tag,
)

TAGGED_CORPORA = ("gazetteer", "conll2003", "columns")

_CONLL2003 = {"train": "eng.train", "valid": "eng.testa", "test": "eng.testb"}


@dataclass(frozen=True)
class TaggedCorpus:
    """Three splits of tagged sentences.

    Attributes:
        name: what it was loaded as.
        train, valid, test: the sentences, their tags in `scheme`.
        scheme: of the tags here.
        source_scheme: of the tags in the files.
        types: of the training entities, sorted.
        signature: a short hash of all splits: figures compare only within one.
    """

    name: str
    train: list[Sentence] = field(repr=False)
    valid: list[Sentence] = field(repr=False)
    test: list[Sentence] = field(repr=False)
    scheme: Scheme
    source_scheme: Scheme
    types: tuple[str, ...]
    signature: str


def load_tagged_corpus(
    name: str,
    *,
    scheme: str = "iob2",
    root: str | Path | None = None,
    files: Mapping[str, str | Path] | None = None,
    token_column: int = 0,
    tag_column: int = -1,
    source_scheme: str | None = None,
    keep_marks: bool = False,
) -> TaggedCorpus:
    """A corpus by name, in the scheme that is wanted.

    Args:
        name: "gazetteer", made from Babel's names, which needs no files; "conll2003", with
            eng.train, eng.testa and eng.testb in `root`; "columns", your own column files.
        scheme: "iob1", "iob2" or "iobes"; the tags are converted to it.
        root: folder of the files. "columns" takes relative `files` from there.
        files: for "columns": file of each of train, valid and test.
        token_column, tag_column: for "columns", from 0; negative ones count from the end.
        source_scheme: of the files, for "columns"; default: whichever fits all three.
        keep_marks: keep document marks as sentences of their own.

    Raises:
        DataError: an unknown name, a file that is missing or broken, tags that are illegal in
            their scheme, or a type of entity in valid or test that train never has (each with
            file and line).
        ValueError: a scheme that is none.
    """
    check_scheme(scheme)
    paths = _paths(name, root, files)
    if name == "gazetteer":
        splits = read_gazetteer()
    else:
        columns = {"token_column": token_column, "tag_column": tag_column}
        splits = {
            split: read_columns(path, **columns, keep_marks=keep_marks)
            for split, path in paths.items()
        }
    found = _common_scheme(splits, paths, source_scheme)
    types = _types(splits, paths)
    converted = {
        split: [replace(each, tags=tuple(convert(each.tags, found, scheme))) for each in sentences]
        for split, sentences in splits.items()
    }
    return TaggedCorpus(
        name,
        **converted,
        scheme=check_scheme(scheme),
        source_scheme=found,
        types=types,
        signature=_signature(converted),
    )


def _paths(
    name: str, root: str | Path | None, files: Mapping[str, str | Path] | None
) -> dict[str, Path]:
    check_name("tagged corpus", name, TAGGED_CORPORA, own="columns")
    if name == "gazetteer":
        return {}
    folder = Path() if root is None else Path(root).expanduser()
    if name == "conll2003":
        if root is None:
            raise DataError(
                "the corpus 'conll2003' needs `root`: the folder of eng.train, eng.testa and "
                "eng.testb. The texts are Reuters' and do not come with this package"
            )
        return {split: folder / file for split, file in _CONLL2003.items()}
    return split_paths(folder, files or {})


def _common_scheme(
    splits: Mapping[str, Sequence[Sentence]],
    paths: Mapping[str, Path],
    given: str | None,
) -> Scheme:
    """The scheme in which all splits are legal: a file alone may fit several."""
    if given is not None:
        for split, sentences in splits.items():
            check_tags(sentences, given, paths.get(split, split))
        return check_scheme(given)
    recognised = [recognise_scheme(s, paths.get(split, split)) for split, s in splits.items()]
    for scheme in dict.fromkeys(recognised):
        try:
            return _common_scheme(splits, paths, scheme)
        except DataError as error:
            told = error
    raise told


def _types(splits: Mapping[str, Sequence[Sentence]], paths: Mapping[str, Path]) -> tuple[str, ...]:
    types = {split_tag(tag)[1] for each in splits["train"] for tag in set(each.tags)} - {""}
    if not types:
        raise DataError(f"{paths.get('train', 'train')} has no entity: all its tags are {OUTSIDE}")
    for split, sentences in splits.items():
        for each in sentences:
            for place, tag in enumerate(each.tags):
                if tag != OUTSIDE and split_tag(tag)[1] not in types:
                    line = f", line {each.lines[place]}" if each.lines else ""
                    raise DataError(
                        f"{paths.get(split, split)}{line}: {tag} is of a type that the training "
                        f"set never has ({', '.join(sorted(types))}), so no model could find it; "
                        "correct the tag, or give its type an example in the training set"
                    )
    return tuple(sorted(types))


def _signature(splits: Mapping[str, Sequence[Sentence]]) -> str:
    digest = hashlib.sha256()
    for sentences in splits.values():
        for each in sentences:
            digest.update(f"{' '.join(each.tokens)}\t{' '.join(each.tags)}\n".encode())
        digest.update(b"\f")
    return digest.hexdigest()[:12]
