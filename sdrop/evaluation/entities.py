"""Entities found against those that are there: one counts only with both ends and its type."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from sdrop.data.tags import Span, check_scheme, spans

TagLists = Sequence[Sequence[str]]

NOTHING = "-"
"""In a confusion of types: no entity there."""


@dataclass(frozen=True)
class EntityScore:
    """Precision, recall and F1 in one mode of seqeval, and what they rest on.

    Attributes:
        mode: "strict", where tags that are illegal in the scheme make no entity, or "default",
            conlleval's reading of them.
        scheme: of the tags.
        precision, recall, f1: over all entities (micro average).
        support: number of entities that are there.
        per_type: the same four by type.
    """

    mode: str
    scheme: str
    precision: float
    recall: float
    f1: float
    support: int
    per_type: dict[str, dict[str, float]]

    @property
    def signature(self) -> str:
        """How it was measured, in a few words."""
        return f"seqeval, {self.mode}, {self.scheme.upper()}"

    def __str__(self) -> str:
        lines = [
            f"F1 {self.f1:.4f}  precision {self.precision:.4f}  recall {self.recall:.4f}  "
            f"({self.signature}; {self.support:,} entities)"
        ]
        for kind, row in self.per_type.items():
            lines.append(
                f"  {kind:<12} F1 {row['f1']:.4f}  precision {row['precision']:.4f}  "
                f"recall {row['recall']:.4f}  ({row['support']:,.0f})"
            )
        return "\n".join(lines)


def entity_score(
    truth: TagLists, predicted: TagLists, *, scheme: str, mode: str = "strict"
) -> EntityScore:
    """seqeval's figures (Nakayama 2018) for tags in one scheme.

    Args:
        truth, predicted: tags of each sentence.
        scheme: of both.
        mode: "strict" or "default".

    Raises:
        ValueError: for a mode or scheme that is none, or sentences of different lengths.
        ImportError: where seqeval is not installed.
    """
    check_scheme(scheme)
    if mode not in ("strict", "default"):
        raise ValueError(f"mode={mode!r}: expected strict or default")
    _check_lengths(truth, predicted)
    report = _seqeval_report(truth, predicted, scheme, mode)
    rows = {kind: _row(row) for kind, row in report.items() if not kind.endswith(" avg")}
    total = _row(report["micro avg"])
    return EntityScore(
        mode,
        scheme,
        total["precision"],
        total["recall"],
        total["f1"],
        int(total["support"]),
        rows,
    )


def entity_f1(truth: TagLists, predicted: TagLists, scheme: str) -> float:
    """F1 over all entities, for legal tags the same in both modes: what training is judged by.

    seqeval takes a minute to import and to count what this counts in a second.
    """
    _check_lengths(truth, predicted)
    right = found = there = 0
    for tags, guess in zip(truth, predicted, strict=True):
        expected, given = set(spans(tags, scheme)), set(spans(guess, scheme))
        right += len(expected & given)
        found, there = found + len(given), there + len(expected)
    return 2 * right / (found + there) if found + there else 0.0


def confusion(truth: TagLists, predicted: TagLists, scheme: str) -> Counter[tuple[str, str]]:
    """How often an entity of one type (first) was found as another (second).

    Entities are compared where both ends agree; one that has no partner stands against `NOTHING`.
    """
    _check_lengths(truth, predicted)
    counts: Counter[tuple[str, str]] = Counter()
    for tags, guess in zip(truth, predicted, strict=True):
        expected, given = _by_ends(spans(tags, scheme)), _by_ends(spans(guess, scheme))
        for ends in expected.keys() | given.keys():
            counts[expected.get(ends, NOTHING), given.get(ends, NOTHING)] += 1
    return counts


def confusion_table(counts: Counter[tuple[str, str]]) -> str:
    """A row for each type that is there, a column for each that was found."""
    kinds = [*sorted({kind for pair in counts for kind in pair} - {NOTHING}), NOTHING]
    width = max(8, *(len(kind) for kind in kinds)) + 1
    lines = ["".join(f"{kind:>{width}}" for kind in ("is", *kinds))]
    for kind in kinds:
        cells = "".join(f"{counts[kind, other]:>{width}}" for other in kinds)
        lines.append(f"{kind:>{width}}{cells}")
    return "\n".join(lines)


def _seqeval_report(truth: TagLists, predicted: TagLists, scheme: str, mode: str) -> Any:
    if find_spec("seqeval") is None:
        raise ImportError(
            "entity F1 is counted by seqeval: python -m pip install setuptools-scm, then "
            "python -m pip install --no-build-isolation seqeval"
        )
    from seqeval import scheme as schemes  # slow to import
    from seqeval.metrics import classification_report

    arguments: dict[str, Any] = {"output_dict": True, "zero_division": 0}
    if mode == "strict":
        arguments |= {"mode": "strict", "scheme": getattr(schemes, scheme.upper())}
    sequences = [list(tags) for tags in truth], [list(tags) for tags in predicted]
    if not any(spans(tags, scheme) for each in sequences for tags in each):
        return {"micro avg": {"precision": 0, "recall": 0, "f1-score": 0, "support": 0}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its own use of numpy
        return classification_report(*sequences, **arguments)


def _row(row: Any) -> dict[str, float]:
    names = {"precision": "precision", "recall": "recall", "f1-score": "f1", "support": "support"}
    return {ours: float(row[theirs]) for theirs, ours in names.items()}


def _by_ends(found: Sequence[Span]) -> dict[tuple[int, int], str]:
    return {(span.start, span.end): span.type for span in found}


def _check_lengths(truth: TagLists, predicted: TagLists) -> None:
    lengths = [[len(tags) for tags in each] for each in (truth, predicted)]
    if len(lengths[0]) != len(lengths[1]):
        raise ValueError(f"{len(truth)} sentences are there and {len(predicted)} are predicted")
    for number, (one, other) in enumerate(zip(*lengths, strict=True), start=1):
        if one != other:
            raise ValueError(f"sentence {number} has {one} tags, and {other} are predicted")
