"""Sentences translated in batches, in their order, and unknown words replaced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from sdrop.evaluation.beam_search import beam_search
from sdrop.evaluation.decoding import DecodingSettings, Hypothesis
from sdrop.evaluation.evaluation import evaluating
from sdrop.evaluation.greedy_search import greedy_search

_NOTHING = Hypothesis([], 0.0, 0.0, [])


def translate(
    models: Sequence[nn.Module],
    sentences: Sequence[Tensor],
    *,
    begin: int,
    end: int,
    settings: DecodingSettings,
    batch_size: int = 32,
    device: torch.device | str = "cpu",
) -> list[list[Hypothesis]]:
    """The best translations of each sentence, in the order of the sentences.

    Args:
        models: one, or several whose probabilities are averaged; each is put into evaluation mode
            and gets its modes back.
        sentences: source word ids, int64 (S,) each; one without words has the empty translation.
        begin, end: ids of the target's marks.
        settings: the search; a beam of 1 is decoded greedily.
        batch_size: sentences at a time, those of similar length together.
        device: where the models are.

    Returns:
        for each sentence up to `n_best` hypotheses, best first.
    """
    found: list[list[Hypothesis]] = [[_NOTHING] for _ in sentences]
    order = sorted(
        (number for number, sentence in enumerate(sentences) if len(sentence)),
        key=lambda number: len(sentences[number]),
    )
    search = _greedy if settings.beam_size == 1 else beam_search
    with ExitStack() as stack:
        for model in models:
            stack.enter_context(evaluating(model))
        for first in range(0, len(order), batch_size):
            numbers = order[first : first + batch_size]
            source = pad_sequence([sentences[n] for n in numbers], padding_value=end)
            lengths = torch.tensor([len(sentences[number]) for number in numbers])
            best = search(
                models,  # type: ignore[arg-type]
                source.to(device),
                lengths.to(device),
                begin=begin,
                end=end,
                settings=settings,
            )
            for number, hypotheses in zip(numbers, best, strict=True):
                found[number] = hypotheses
    return found


def _greedy(*arguments: Any, **options: Any) -> list[list[Hypothesis]]:
    return [[hypothesis] for hypothesis in greedy_search(*arguments, **options)]


def replaced_unknown(
    words: Sequence[str],
    attended: Sequence[int],
    source: Sequence[str],
    unknown: str,
    dictionary: Mapping[str, str] | None = None,
) -> list[str]:
    """`words` with each unknown one replaced by what its source word is in the dictionary.

    Where the dictionary has none, the source word is copied, as suits names (Luong et al. 2015).

    Args:
        words: of a hypothesis.
        attended: for each the source position with the most attention.
        source: words of the source sentence.
        unknown: the mark that stands for an unknown word.
        dictionary: translations of source words.
    """
    known = dictionary or {}
    return [
        known.get(source[position], source[position]) if word == unknown else word
        for word, position in zip(words, attended, strict=True)
    ]
