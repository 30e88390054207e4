"""A tagger's loss and tags over a set of sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from sdrop.data.tag_batches import TagBatches
from sdrop.evaluation.entities import entity_f1
from sdrop.evaluation.evaluation import Evaluation, evaluating
from sdrop.models.tagger import Tagger


class Tagged(NamedTuple):
    """What a model says of sentences: the number of each token's tag, int64 (N,), and the mean
    loss of a token in nats, NaN where the right tags are not known."""

    tags: Tensor
    loss: float


def tag_all(model: Tagger, batches: TagBatches, device: torch.device | str) -> Tagged:
    """Tags every sentence; the model's modes are restored."""
    found = torch.empty(int(batches.sentences.lengths.sum()), dtype=torch.int64)
    loss = torch.zeros((), dtype=torch.float64)
    with evaluating(model):
        for batch, places in batches.placed():
            arguments = batch.to(device).arguments
            tags = arguments.pop("tags", None)
            scores = model.emissions(**arguments)
            found[places] = model.decode(scores).cpu()
            loss += torch.nan if tags is None else model.loss(scores, tags).cpu() * batch.tokens
    return Tagged(found, float(loss) / max(1, len(found)))


def tag_lists(tags: Tensor, lengths: Tensor, names: Sequence[str]) -> list[list[str]]:
    """Numbers of tags (N,) as the names of each sentence's."""
    flat = [names[number] for number in tags.tolist()]
    ends = lengths.cumsum(0).tolist()
    return [flat[end - length : end] for end, length in zip(ends, lengths.tolist(), strict=True)]


def entity_evaluation(
    model: Tagger,
    batches: TagBatches,
    truth: Sequence[Sequence[str]],
    names: Sequence[str],
    scheme: str,
    device: torch.device | str,
) -> Evaluation:
    """Loss and `{"f1": …}` on sentences whose tags are known.

    Args:
        model: the tagger.
        batches: of the sentences, with their tags.
        truth: their tags by name.
        names: of the model's tags.
        scheme: of these tags.
        device: the model's.
    """
    tags, loss = tag_all(model, batches, device)
    predicted = tag_lists(tags, batches.sentences.lengths, names)
    return Evaluation(loss, len(tags), {"f1": entity_f1(truth, predicted, scheme)})
