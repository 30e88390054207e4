"""Options of the tagging recipe, conll."""

from __future__ import annotations

from dataclasses import dataclass

from omegaconf import MISSING

from .option import option
from .schema import Data, Run


@dataclass
class TaggerModel:
    """Words and their spelling, an LSTM in both directions, scores of tags."""

    embedding_dim: int = option(100, at_least=1)
    hidden_size: int = option(200, at_least=1)  # of each direction
    num_layers: int = option(1, at_least=1)
    spelling: str = option("lstm", choices=("lstm", "cnn", "none"))  # over a word's characters
    character_dim: int = option(25, at_least=1)
    spelling_size: int = option(25, at_least=1)  # of each direction, or filters
    capital_dim: int = option(8, at_least=0)  # embedding of how a word is written; 0 is none
    hidden_layer: bool = option(False)  # a tanh layer in front of the scores
    output: str = option("crf", choices=("crf", "softmax"))
    drop_spelling: bool = option(True)  # dropout inside the spelling, too
    word_dropout: float = option(0.05, at_least=0, below=1)  # words given as unknown
    rare_dropout: float = option(0.3, at_least=0, below=1)  # of the words seen once
    vectors: str | None = option(None, path=True)  # pretrained ones: a GloVe or fastText text file


@dataclass
class TaggingData(Data):
    """How any tagged corpus is read and cut into batches."""

    scheme: str = option("iob2", choices=("iob1", "iob2", "iobes"))  # trained and scored in
    batch_size: int = option(32, at_least=1)  # sentences over all ranks
    evaluation_batch_size: int = option(64, at_least=1)
    min_frequency: int = option(1, at_least=1)  # rarer words are known by their spelling alone
    lower: bool = option(True)  # words are known by their lower case


@dataclass
class Gazetteer(TaggingData):
    """Sentences made from patterns and Babel's names."""

    name: str = option("gazetteer", choices=("gazetteer",))


@dataclass
class Conll2003(TaggingData):
    """The English files of the CoNLL-2003 shared task."""

    name: str = option("conll2003", choices=("conll2003",))
    root: str | None = option(None, path=True)  # folder of eng.train, eng.testa and eng.testb


@dataclass
class Columns(TaggingData):
    """The user's own column files."""

    name: str = option("columns", choices=("columns",))
    root: str | None = option(None, path=True)  # the three files stand in here, where it is given
    train: str = option(path=True)
    valid: str = option(path=True)
    test: str = option(path=True)
    token_column: int = option(0)  # from 0; negative ones count from the end
    tag_column: int = option(-1)
    source_scheme: str = option("auto", choices=("auto", "iob1", "iob2", "iobes"))
    keep_marks: bool = option(False)  # train on -DOCSTART- lines as sentences, too


@dataclass
class TaggingRun(Run):
    """The top of the conll recipe."""

    model: TaggerModel = MISSING  # type: ignore[assignment]
    data: TaggingData = MISSING
    mode: str = option("train", choices=("train", "evaluate", "tag"))
    baselines: bool = option(True)  # score a look-up table and a softmax, too
    input: str = option("-", path=False)  # mode=tag: a file, or - for standard input
    output: str = option("-", path=False)
    text: str = option("raw", choices=("raw", "tokens", "columns"))  # of the input
    output_format: str = option("conll", choices=("conll", "jsonl"))
