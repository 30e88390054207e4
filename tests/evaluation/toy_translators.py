"""Toy models to decode, and the search that leaves nothing out."""

from itertools import product
from typing import NamedTuple

import torch

from sdrop.models import Translator, TranslatorSizes

BEGIN, END = 1, 2


def toy_translator(seed=0, words=5, **sizes):
    """A translator in float64 whose probabilities are far from equal."""
    torch.manual_seed(seed)
    given = {"embedding_dim": 4, "hidden_size": 4, "num_layers": 1, **sizes}
    model = Translator(7, words, TranslatorSizes(**given), init_range=1.5)
    return model.double().eval()


class Scored(NamedTuple):
    """A sequence of words with its score."""

    words: list[int]
    score: float


@torch.no_grad()
def log_probability_and_coverage(models, source, words):
    """log P(words, end | source) of the models' mean probabilities, and the attention's sum."""
    lengths = torch.tensor([len(source)])
    encoded = [model.encode(source.unsqueeze(1), lengths) for model in models]
    states, total, covered = [state for _, state in encoded], 0.0, 0.0
    for before, after in zip([BEGIN, *words], [*words, END], strict=True):
        probabilities, attended = 0.0, 0.0
        for number, model in enumerate(models):
            memory = encoded[number][0]
            found = model.next_word(torch.tensor([before]), memory, states[number])
            probabilities = probabilities + found[0].exp() / len(models)
            attended = attended + found[1] / len(models)
            states[number] = found[2]
        total += probabilities[0, after].log().item()
        covered = covered + attended[0]
    return total, covered


def score(models, source, words, settings):
    """A finished hypothesis' score by Wu et al. 2016's formula."""
    total, covered = log_probability_and_coverage(models, source, words)
    length = len(words) + 1
    penalty = covered.clamp(max=1.0).log().sum().item()
    normalized = total / ((5 + length) / 6) ** settings.length_penalty
    return normalized + settings.coverage_penalty * penalty


def exhaustive(models, source, settings):
    """All translations that are allowed, best first."""
    limit = int(len(source) * settings.max_length_ratio) + settings.max_length_extra
    words = [word for word in range(models[0].generator.out_features) if word != END]
    every = (list(each) for length in range(limit + 1) for each in product(words, repeat=length))
    scored = [Scored(each, score(models, source, each, settings)) for each in every]
    return sorted(scored, key=lambda each: each.score, reverse=True)


def plain_beam_search(model, source, settings):
    """All hypotheses of a sentence, best first; the beam is narrower by one for each that ends.

    Slow: every prefix is scored anew from its beginning.
    """
    limit = int(len(source) * settings.max_length_ratio) + settings.max_length_extra
    live, finished = [((), 0.0)], []
    while live and len(finished) < settings.beam_size:
        grown = []
        for words, total in live:
            for word, gained in enumerate(_next_log_probabilities(model, source, words)):
                if word == END or len(words) < limit:
                    grown.append(((*words, word), total + gained))
        grown.sort(key=lambda each: each[1], reverse=True)
        kept = grown[: settings.beam_size - len(finished)]
        ended = [(list(words[:-1]), total) for words, total in kept if words[-1] == END]
        finished += [
            Scored(words, total / ((6 + len(words)) / 6) ** settings.length_penalty)
            for words, total in ended
        ]
        live = [each for each in kept if each[0][-1] != END]
    return sorted(finished, key=lambda each: each.score, reverse=True)


@torch.no_grad()
def _next_log_probabilities(model, source, words):
    memory, state = model.encode(source.unsqueeze(1), torch.tensor([len(source)]))
    for word in (BEGIN, *words):
        found, _, state = model.next_word(torch.tensor([word]), memory, state)
    return found[0].tolist()
