"""Tagging a stream of sentences in little memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import torch

from sdrop.data.columns import DOCUMENT_MARK
from sdrop.data.forms import FormEncoder
from sdrop.data.tag_batches import EncodedSentences, TagBatches
from sdrop.data.tags import OUTSIDE
from sdrop.evaluation.tagging import tag_all, tag_lists
from sdrop.models.tagger import Tagger

_CHUNK = 512  # sentences that are looked at together: memory does not grow with the stream
_BATCH = 64


def tag_stream(
    model: Tagger,
    sentences: Iterable[Sequence[str]],
    encoder: FormEncoder,
    names: Sequence[str],
    device: torch.device | str,
) -> Iterator[tuple[list[str], list[str]]]:
    """Tokens and tags of each sentence, in the order given, one tag a token.

    Args:
        model: the tagger.
        sentences: tokens of each; one without tokens stays so, a document mark is outside.
        encoder: what the model knows of forms.
        names: of its tags.
        device: the model's.
    """
    stream = iter(sentences)
    while chunk := [list(each) for each in islice(stream, _CHUNK)]:
        found: list[list[str]] = [[OUTSIDE] * len(each) for each in chunk]
        real = [i for i, each in enumerate(chunk) if each and each != [DOCUMENT_MARK]]
        if real:
            encoded = EncodedSentences.of([chunk[i] for i in real], encoder)
            tags = tag_all(model, TagBatches(encoded, batch_size=_BATCH), device).tags
            for place, own in zip(real, tag_lists(tags, encoded.lengths, names), strict=True):
                found[place] = own
        yield from zip(chunk, found, strict=True)
