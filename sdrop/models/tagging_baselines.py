"""What a tagger must beat: a table of the training names, and a softmax that looks one word far."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from sdrop.data.columns import Sentence
from sdrop.data.forms import written
from sdrop.data.tags import Span, spans, tags_of

_EPOCHS = 12
_ROWS = 512  # tokens of a step
_LEARNING_RATE = 0.05
_EDGE = "<edge>"


def look_up_tags(
    train: Sequence[Sentence], tokens: Sequence[Sequence[str]], scheme: str
) -> list[list[str]]:
    """Tags by a table: the longest name that the training set has, with its most frequent type.

    A name that stands outside entities more often than in one is no entity.
    """
    table = _names(train, scheme)
    longest = max(map(len, table), default=0)
    return [tags_of(_matches(each, table, longest), len(each), scheme) for each in tokens]


def softmax_tags(
    train: Sequence[Sentence], tokens: Sequence[Sequence[str]], *, seed: int = 0
) -> list[list[str]]:
    """Tags by multinomial logistic regression on a token's word, its neighbours and its shape."""
    names = sorted({tag for each in train for tag in each.tags})
    numbers: dict[str, int] = {}
    rows = [
        [numbers.setdefault(feature, len(numbers) + 1) for feature in features]
        for each in train
        for features in _features(each.tokens)
    ]
    number = {name: place for place, name in enumerate(names)}
    tags = torch.tensor([number[tag] for each in train for tag in each.tags])
    weights = _trained(torch.tensor(rows), tags, len(numbers) + 1, len(names), seed)
    found = []
    for each in tokens:
        known = [[numbers.get(feature, 0) for feature in row] for row in _features(each)]
        best = weights(torch.tensor(known)).argmax(1).tolist()
        found.append([names[place] for place in best])
    return found


def _names(train: Sequence[Sentence], scheme: str) -> dict[tuple[str, ...], str]:
    counts: dict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
    for each in train:
        for start, end, kind in spans(each.tags, scheme):
            counts[each.tokens[start:end]][kind] += 1
    longest = max(map(len, counts), default=0)
    for each in train:
        inside = {(span.start, span.end) for span in spans(each.tags, scheme)}
        for start in range(len(each)):
            for end in range(start + 1, min(len(each), start + longest) + 1):
                name = each.tokens[start:end]
                if name in counts and (start, end) not in inside:
                    counts[name][""] += 1
    best = {name: count.most_common(1)[0][0] for name, count in counts.items()}
    return {name: kind for name, kind in best.items() if kind}


def _matches(tokens: Sequence[str], table: dict[tuple[str, ...], str], longest: int) -> list[Span]:
    found, place = [], 0
    while place < len(tokens):
        for size in range(min(longest, len(tokens) - place), 0, -1):
            name = tuple(tokens[place : place + size])
            if name in table:
                found.append(Span(place, place + size, table[name]))
                place += size - 1
                break
        place += 1
    return found


def _features(tokens: Sequence[str]) -> list[list[str]]:
    padded = [_EDGE, *tokens, _EDGE]
    return [
        [f"-1 {before}", f"0 {token}", f"+1 {after}", f"shape {written(token)}"]
        for before, token, after in zip(padded, padded[1:], padded[2:], strict=False)
    ]


def _trained(rows: Tensor, tags: Tensor, features: int, names: int, seed: int) -> nn.EmbeddingBag:
    """Weights that minimise the cross-entropy, one for each feature and tag."""
    generator = torch.Generator().manual_seed(seed)
    weights = nn.EmbeddingBag(features, names, mode="sum")
    nn.init.zeros_(weights.weight)
    optimizer = torch.optim.Adam(weights.parameters(), _LEARNING_RATE, foreach=True)
    for _ in range(_EPOCHS):
        for places in torch.randperm(len(tags), generator=generator).split(_ROWS):  # type: ignore[no-untyped-call]
            optimizer.zero_grad()
            nn.functional.cross_entropy(weights(rows[places]), tags[places]).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    return weights.requires_grad_(False)
