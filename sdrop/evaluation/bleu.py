"""BLEU and chrF by sacrebleu, with the signatures that make figures comparable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class TranslationScores:
    """What a text of translations is worth.

    Attributes:
        bleu, chrf: of the text that people read, by sacrebleu's defaults, in percent.
        tokenized_bleu: of the words as the model wrote them, which older papers report.
        bleu_signature, chrf_signature, tokenized_bleu_signature: how each was computed.
    """

    bleu: float
    chrf: float
    tokenized_bleu: float
    bleu_signature: str
    chrf_signature: str
    tokenized_bleu_signature: str

    def __str__(self) -> str:
        return (
            f"BLEU {self.bleu:.2f} ({self.bleu_signature})\n"
            f"chrF {self.chrf:.2f} ({self.chrf_signature})\n"
            f"BLEU on tokens {self.tokenized_bleu:.2f} ({self.tokenized_bleu_signature})"
        )


def translation_scores(
    hypotheses: Sequence[str],
    references: Sequence[str],
    tokenized_hypotheses: Sequence[str],
    tokenized_references: Sequence[str],
) -> TranslationScores:
    """Scores of lines against one reference each, as `sacrebleu REFERENCE -i FILE -m bleu chrf`.

    Args:
        hypotheses, references: detokenised lines.
        tokenized_hypotheses, tokenized_references: the same lines as words parted by blanks.

    Raises:
        ValueError: for no line, or numbers of lines that differ.
        ImportError: where sacrebleu is not installed, with the way to install it.
    """
    numbers = {len(each) for each in (hypotheses, references)} | {
        len(each) for each in (tokenized_hypotheses, tokenized_references)
    }
    if len(numbers) > 1 or 0 in numbers:
        raise ValueError(
            f"translation_scores: expected as many hypotheses as references, one or more, got "
            f"{len(hypotheses)} and {len(references)}, and {len(tokenized_hypotheses)} and "
            f"{len(tokenized_references)} tokenized"
        )
    metrics = _sacrebleu()
    bleu, chrf = metrics.BLEU(), metrics.CHRF()
    on_tokens = metrics.BLEU(tokenize="none", force=True)  # force: no warning that it is tokenized
    return TranslationScores(
        bleu=bleu.corpus_score(hypotheses, [references]).score,
        chrf=chrf.corpus_score(hypotheses, [references]).score,
        tokenized_bleu=on_tokens.corpus_score(tokenized_hypotheses, [tokenized_references]).score,
        bleu_signature=str(bleu.get_signature()),
        chrf_signature=str(chrf.get_signature()),
        tokenized_bleu_signature=str(on_tokens.get_signature()),
    )


def _sacrebleu() -> Any:
    try:
        from sacrebleu import metrics
    except ImportError:
        raise ImportError(
            "BLEU needs sacrebleu, which is not installed: "
            "python -m pip install 'sdrop[translation]'"
        ) from None
    return metrics
