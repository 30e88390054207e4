"""The parts of a tagging run: corpus, known words, batches, model, and their files."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sdrop.data import Sentence, TaggedCorpus, Vocabulary, load_tagged_corpus
from sdrop.data.forms import CAPITALS, FormEncoder
from sdrop.data.tag_batches import EncodedSentences, TagBatches, tag_numbers
from sdrop.data.tags import all_tags, constraints
from sdrop.data.vectors import WordVectors
from sdrop.models import Tagger

from .building import build_model
from .configuration.tagging import Columns, Conll2003, TaggingData, TaggingRun

WORDS, CHARACTERS, TAGS = "words.txt", "characters.txt", "tags.txt"  # in the run folder


@dataclass(frozen=True)
class Parts:
    """What is known of words, and the model's tags by name."""

    encoder: FormEncoder
    names: list[str]

    @staticmethod
    def of(options: TaggingRun, corpus: TaggedCorpus, vectors: WordVectors | None) -> Parts:
        """Words and characters of the training split, and such words of the other splits as have a
        pretrained vector."""
        data, also = options.data, []
        if vectors is not None:
            others = {token for each in (*corpus.valid, *corpus.test) for token in each.tokens}
            also = vectors.known({word.lower() for word in others} if data.lower else others)
        encoder = FormEncoder.build(
            [each.tokens for each in corpus.train],
            min_frequency=data.min_frequency,
            lower=data.lower,
            also=also,
        )
        return Parts(encoder, all_tags(corpus.types, corpus.scheme))

    @staticmethod
    def load(folder: Path) -> Parts:
        """What `save` wrote into a run folder."""
        words, characters, tags = (
            Vocabulary.load(folder / name) for name in (WORDS, CHARACTERS, TAGS)
        )
        return Parts(FormEncoder(words, characters), list(tags.tokens))

    def save(self, folder: Path) -> None:
        """Writes a file each for words, characters and tags."""
        self.encoder.words.save(folder / WORDS)
        self.encoder.characters.save(folder / CHARACTERS)
        Vocabulary(self.names).save(folder / TAGS)

    def signatures(self) -> dict[str, str]:
        """What a checkpoint must share with a run that uses it."""
        return {
            "words": self.encoder.words.signature,
            "characters": self.encoder.characters.signature,
            "tags": " ".join(self.names),
        }


def read_corpus(data: TaggingData) -> TaggedCorpus:
    """The three splits of the corpus that `data=` chooses, in the scheme that is wanted."""
    if isinstance(data, Conll2003):
        return load_tagged_corpus("conll2003", scheme=data.scheme, root=data.root)
    if isinstance(data, Columns):
        return load_tagged_corpus(
            "columns",
            scheme=data.scheme,
            root=data.root,
            files={"train": data.train, "valid": data.valid, "test": data.test},
            token_column=data.token_column,
            tag_column=data.tag_column,
            source_scheme=None if data.source_scheme == "auto" else data.source_scheme,
            keep_marks=data.keep_marks,
        )
    return load_tagged_corpus("gazetteer", scheme=data.scheme)


def training_batches(
    options: TaggingRun, corpus: TaggedCorpus, parts: Parts, rank: int, world_size: int
) -> TagBatches:
    """This process's share of the training batches."""
    hides = not options.debug.overfit
    return TagBatches(
        _encoded(corpus.train, parts),
        batch_size=options.data.batch_size,
        seed=options.seed,
        word_dropout=options.model.word_dropout if hides else 0.0,
        rare_dropout=options.model.rare_dropout if hides else 0.0,
        rank=rank,
        world_size=world_size,
    )


def evaluated(options: TaggingRun, corpus: TaggedCorpus) -> dict[str, Sequence[Sentence]]:
    """The sentences of valid and test, or as many as `debug=` says."""
    debug, splits = options.debug, {"valid": corpus.valid, "test": corpus.test}
    if debug.overfit and debug.train_batches is not None:
        seen = corpus.train[: debug.train_batches * options.data.batch_size]
        return {"valid": seen, "test": seen}
    limit = debug.evaluation_batches
    count = None if limit is None else limit * options.data.evaluation_batch_size
    return {name: sentences[:count] for name, sentences in splits.items()}


def evaluation_batches(
    options: TaggingRun, sentences: Sequence[Sentence], parts: Parts
) -> TagBatches:
    """Batches of all these sentences."""
    return TagBatches(_encoded(sentences, parts), batch_size=options.data.evaluation_batch_size)


def make_model(options: TaggingRun, parts: Parts) -> Tagger:
    """The model with its first weights, which follow from the seed."""
    model = dataclasses.asdict(options.model)
    for name in ("word_dropout", "rare_dropout", "vectors"):  # not the model's business
        del model[name]
    return build_model(
        options,
        lambda **dropout: Tagger(
            len(parts.encoder.words),
            len(parts.encoder.characters),
            len(parts.names),
            **model,
            num_capitals=len(CAPITALS),
            constraints=constraints(parts.names, options.data.scheme),
            **dropout,
        ),
    )


def _encoded(sentences: Sequence[Sentence], parts: Parts) -> EncodedSentences:
    tags = tag_numbers(sentences, parts.names)
    return EncodedSentences.of([each.tokens for each in sentences], parts.encoder, tags)
