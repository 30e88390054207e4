"""Lines to words and back, by Moses' rules (sacremoses)."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from typing import Any

from sdrop.data.errors import DataError

_SUBWORD_END = re.compile(r"@@( |$)")


class MosesText:
    """Parts the lines of one language into words and puts words together again.

    Args:
        language: a code such as `"de"`; its rules for abbreviations and quotes hold.
        tokenized: lines have their words and signs parted by spaces already, as in most prepared
            corpora; `&apos;` and its like in them become signs when words are put together.
        lowercase: make all words lower-cased.

    Raises:
        DataError: where sacremoses is not installed and is needed.
    """

    def __init__(self, language: str, *, tokenized: bool, lowercase: bool = False) -> None:
        self.language, self.tokenized, self.lowercase = language, tokenized, lowercase

    def tokenize(self, line: str) -> list[str]:
        """Words of a line; none of a blank one."""
        line = line.lower() if self.lowercase else line
        if self.tokenized:
            return line.split()
        words = _moses("MosesTokenizer", self.language).tokenize(line, escape=False)
        # A blank within a word, such as a no-break space, would part it when it is read back.
        return " ".join(words).split()

    def detokenize(self, words: Iterable[str]) -> str:
        """The line that people would write; BPE's `@@` marks are joined first."""
        joined = _SUBWORD_END.sub("", " ".join(words)).split()
        text = _moses("MosesDetokenizer", self.language).detokenize(joined)
        return " ".join(str(text).split())


@functools.cache
def _moses(name: str, language: str) -> Any:
    try:
        import sacremoses
    except ImportError:
        raise DataError(
            "sacremoses, which parts lines into words and joins them, is not installed: "
            "python -m pip install 'sdrop[translation]'"
        ) from None
    return getattr(sacremoses, name)(lang=language)
