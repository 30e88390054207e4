"""The embedded corpus: the documentation topics that every Python carries in `pydoc_data`.

About 80,000 words of English prose and code; no download and no licence to agree to. It changes
with Python's version, so perplexities on it compare only within one `Corpus.signature`.
"""

import re
from collections.abc import Iterator

from sdrop.data.errors import DataError
from sdrop.data.splits import SPLITS
from sdrop.data.text import close_lines

# Words (identifiers stay whole), endings of contractions, numbers, runs of one sign (`**`, `...`).
_TOKEN = re.compile(r"[^\W\d]\w*|'(?:s|t|re|ll|ve)\b|\d+(?:\.\d+)*|::=|([^\w\s])\1*")
_RULE = re.compile(r"([^\w\s])\1{3,}")  # under headings and in tables
_BETWEEN_PARAGRAPHS = re.compile(r"\n\s*\n")


def read_pydoc() -> dict[str, list[str]]:
    """Tokens of each split, about 80/10/10, the same for one Python version.

    A line is a paragraph of a topic, lower-cased. Topics quote each other, so a paragraph counts
    once only, and no line stands in two splits. Of ten paragraphs in a row the ninth goes to valid
    and the tenth to test: all three come from the same distribution.

    Raises:
        DataError: a Python without `pydoc_data`.
    """
    splits: dict[str, list[list[str]]] = {split: [] for split in SPLITS}
    for number, words in enumerate(_distinct_paragraphs()):
        splits[{8: "valid", 9: "test"}.get(number % 10, "train")].append(list(words))
    return {split: close_lines(lines) for split, lines in splits.items()}


def tokenize(text: str) -> list[str]:
    """Lower-cased words, numbers and signs of English prose or code."""
    text = text.lower().replace("’", "'")
    return [match.group() for match in _TOKEN.finditer(text)]


def _distinct_paragraphs() -> dict[tuple[str, ...], None]:
    paragraphs = (tuple(tokenize(paragraph)) for paragraph in _paragraphs())
    return dict.fromkeys(words for words in paragraphs if words)


def _paragraphs() -> Iterator[str]:
    for _, text in sorted(_topics().items()):
        yield from _BETWEEN_PARAGRAPHS.split(_RULE.sub(" ", text))


def _topics() -> dict[str, str]:
    try:
        from pydoc_data.topics import topics
    except ImportError:
        raise DataError(
            "this Python comes without its documentation topics (the module pydoc_data.topics), "
            "which the corpus 'pydoc' is made of; use a complete Python, or the corpus 'text' with "
            "files of your own"
        ) from None
    return dict(topics)
