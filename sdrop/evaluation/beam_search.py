"""Batched beam search."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from sdrop.evaluation.decoding import Decodable, DecodingSettings, Ensemble, Hypothesis

_LEAST_COVERAGE = 1e-10  # a source word without attention would make a score minus infinity


def beam_search(
    models: Sequence[Decodable],
    source: Tensor,
    source_lengths: Tensor,
    *,
    begin: int,
    end: int,
    settings: DecodingSettings,
) -> list[list[Hypothesis]]:
    """The best translations of each sentence that a beam finds.

    At each step the `beam_size` likeliest continuations of a sentence's hypotheses are kept; one
    that ends is finished and leaves a beam that is narrower by one. So a beam of 1 is greedy
    decoding. A sentence is done when its beam is empty, or when nothing that could still come of it
    can score better than the `n_best` found. At the most words allowed, hypotheses are ended.

    Args:
        models: one, or several for an ensemble; in evaluation mode, called without gradients.
        source: (S, B) word ids, on the models' device.
        source_lengths: (B,), each 1 or more, on the same device.
        begin, end: ids of the marks of a sentence's beginning and end.
        settings: the search.

    Returns:
        for each sentence its hypotheses, best first, at most `n_best`.
    """
    search = _Search(models, source, source_lengths, begin, end, settings)
    while search.step():
        pass
    return [
        sorted(found, key=lambda each: each.score, reverse=True)[: settings.n_best]
        for found in search.finished
    ]


class _Search:
    """The state of a search; rows are hypotheses, `beam_size` for each sentence not yet done."""

    def __init__(
        self,
        models: Sequence[Decodable],
        source: Tensor,
        source_lengths: Tensor,
        begin: int,
        end: int,
        settings: DecodingSettings,
    ) -> None:
        self.end, self.settings, self.width = end, settings, settings.beam_size
        sentences = torch.arange(len(source_lengths), device=source.device)
        self.ensemble = Ensemble(models, source, source_lengths)
        self.ensemble.select(sentences.repeat_interleave(self.width))
        self.finished: list[list[Hypothesis]] = [[] for _ in sentences]
        self.sentences = sentences.tolist()  # those not yet done
        self.lengths = source_lengths
        self.limits = settings.max_lengths(source_lengths)
        rows = len(sentences) * self.width
        self.words = source.new_full((rows, 1), begin)  # shape: (rows, 1 + written)
        self.attended = source.new_zeros(rows, 0)
        self.coverage: Tensor | None = None  # shape: (rows, S)
        self.totals: Tensor | None = None  # shape: (sentences, width)

    def step(self) -> bool:
        """Writes one word in each hypothesis; whether there is one to go on with."""
        log_probabilities, weights = self.ensemble.step(self.words[:, -1])
        totals, parents, words = self._continuations(log_probabilities)
        parents = (torch.arange(len(parents), device=words.device) * self.width).unsqueeze(
            1
        ) + parents
        rows, words = parents.flatten(), words.flatten()
        covered = weights if self.coverage is None else self.coverage + weights
        self.coverage = covered.index_select(0, rows)
        positions = weights.argmax(dim=-1, keepdim=True).index_select(0, rows)
        self.attended = torch.cat([self.attended.index_select(0, rows), positions], dim=1)
        self.words = torch.cat([self.words.index_select(0, rows), words.unsqueeze(1)], dim=1)
        self.totals = self._finish(totals)
        return self._go_on(rows)

    def _continuations(self, log_probabilities: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The likeliest of each sentence: totals, parents, words. # shape: (n, width) each"""
        words = log_probabilities.shape[-1]
        scores = log_probabilities.view(-1, self.width, words)
        if self.totals is None:  # the hypotheses are still all the same: one counts
            self.totals = scores.new_full(scores.shape[:2], -torch.inf)
            self.totals[:, 0] = 0.0
        scores = scores + self.totals.unsqueeze(-1)
        ends = self.limits <= self.words.shape[1] - 1
        if ends.any():
            ended = torch.full_like(scores[ends], -torch.inf)
            ended[..., self.end] = scores[ends][..., self.end]
            scores[ends] = ended
        best, places = scores.flatten(1).topk(self.width, dim=1)
        room = torch.tensor(
            [self.width - len(self.finished[sentence]) for sentence in self.sentences],
            device=best.device,
        )
        beyond = torch.arange(self.width, device=best.device) >= room.unsqueeze(1)
        return best.masked_fill(beyond, -torch.inf), places // words, places % words

    def _finish(self, totals: Tensor) -> Tensor:
        """Takes finished hypotheses out of the beams."""
        ended = (self.words[:, -1] == self.end).view_as(totals) & totals.isfinite()
        for place, slot in ended.nonzero().tolist():
            self.finished[self.sentences[place]].append(
                self._hypothesis(place, place * self.width + slot, float(totals[place, slot]))
            )
        return totals.masked_fill(ended, -torch.inf)

    def _hypothesis(self, place: int, row: int, total: float) -> Hypothesis:
        words, attended = self.words[row, 1:-1].tolist(), self.attended[row, :-1].tolist()
        score = total / self.settings.normalizer(len(words))
        if self.settings.coverage_penalty:
            assert self.coverage is not None
            covered = self.coverage[row, : int(self.lengths[place])]
            left_out = covered.clamp(_LEAST_COVERAGE, 1.0).log().sum()
            score += self.settings.coverage_penalty * float(left_out)
        return Hypothesis(words, score, total, attended)

    def _go_on(self, rows: Tensor) -> bool:
        """Lets the sentences that are done go; whether one is left."""
        assert self.totals is not None
        best = self.totals.amax(dim=1).tolist()
        limits = self.limits.tolist()
        places = [
            place
            for place, sentence in enumerate(self.sentences)
            if self._may_improve(self.finished[sentence], best[place], limits[place])
        ]
        if len(places) == len(self.sentences):
            self.ensemble.select(rows, other_sentences=False)
            return True
        kept = torch.tensor(places, dtype=torch.int64, device=rows.device)
        slots = torch.arange(self.width, device=rows.device)
        mine = (kept.unsqueeze(1) * self.width + slots).flatten()
        self.sentences = [self.sentences[place] for place in places]
        self.lengths, self.limits, self.totals = (
            each.index_select(0, kept) for each in (self.lengths, self.limits, self.totals)
        )
        assert self.coverage is not None
        self.words, self.attended, self.coverage = (
            each.index_select(0, mine) for each in (self.words, self.attended, self.coverage)
        )
        self.ensemble.select(rows.index_select(0, mine))
        return bool(places)

    def _may_improve(self, found: list[Hypothesis], best: float, limit: int) -> bool:
        """Whether something that could still come of a beam would be among the best.

        A total can only fall, and is divided by most at the greatest length.
        """
        if best == -torch.inf:
            return False
        if len(found) < self.settings.n_best:
            return True
        worst = sorted((each.score for each in found), reverse=True)[self.settings.n_best - 1]
        return best / self.settings.normalizer(limit) > worst
