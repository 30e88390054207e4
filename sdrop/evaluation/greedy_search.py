"""Greedy decoding: the likeliest word at each step."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from sdrop.evaluation.decoding import Decodable, DecodingSettings, Ensemble, Hypothesis


def greedy_search(
    models: Sequence[Decodable],
    source: Tensor,
    source_lengths: Tensor,
    *,
    begin: int,
    end: int,
    settings: DecodingSettings,
) -> list[Hypothesis]:
    """The translation of each sentence; scored by the mean log-probability as in `settings`.

    Arguments as for `beam_search`. Of `settings` the lengths and `length_penalty` count; there is
    no coverage penalty, which chooses between hypotheses.
    """
    ensemble = Ensemble(models, source, source_lengths)
    limits = settings.max_lengths(source_lengths)
    words = torch.full_like(source_lengths, begin)
    totals: Tensor | None = None
    going = torch.ones_like(words, dtype=torch.bool)
    written, attended = [], []
    for length in range(int(limits.max()) + 1):
        log_probabilities, weights = ensemble.step(words)
        words = torch.where(limits <= length, end, log_probabilities.argmax(dim=-1))
        words = torch.where(going, words, end)
        gained = log_probabilities.gather(1, words.unsqueeze(1)).squeeze(1) * going
        totals = gained if totals is None else totals + gained
        written.append(words)
        attended.append(weights.argmax(dim=-1))
        going = going & (words != end)
        if not going.any():
            break
    assert totals is not None
    columns = zip(*(torch.stack(each, dim=1).tolist() for each in (written, attended)), strict=True)
    found = []
    for (ids, positions), total in zip(columns, totals.tolist(), strict=True):
        length = ids.index(end)
        score = total / settings.normalizer(length)
        found.append(Hypothesis(ids[:length], score, total, positions[:length]))
    return found
