"""Options of the iwslt recipe: type, default and range."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from omegaconf import MISSING

from .option import as_list, option
from .schema import Data, Model, Run

ATTENTIONS = ("dot", "general", "concat")
LANGUAGES = ("de", "en", "vi")


@dataclass
class Translator(Model):
    """Encoder, decoder and Luong attention; the fields of `sdrop.models.TranslatorSizes`."""

    embedding_dim: int = option(128, at_least=1)
    hidden_size: int = option(128, at_least=1)
    num_layers: int = option(1, at_least=1)  # of the decoder
    init_range: float = option(0.1, more_than=0)
    bidirectional: bool = option(True)  # the encoder reads both ways
    encoder_num_layers: int | None = option(None, at_least=1)  # null: as the decoder
    encoder_hidden_size: int | None = option(None, at_least=1)  # of each direction; null: H / 2
    attention: str = option("general", choices=ATTENTIONS)
    scaled_attention: bool = option(False)
    input_feeding: bool = option(False)  # the decoder reads its last attentional output


@dataclass
class TranslationData(Data):
    """How any parallel corpus is read and cut into batches."""

    source: str = option("de")  # languages, and the last suffixes of the files
    target: str = option("en")
    root: str | None = option(None, path=True)
    lowercase: bool = option(False)
    max_vocabulary: int | None = option(None, at_least=4)  # of each language, marks included
    min_frequency: int = option(1, at_least=1)
    vocabulary: str | None = option(
        None, path=True
    )  # files NAME.de and NAME.en in root; null: build them
    subwords: str = option("none", choices=("none", "sentencepiece", "bpe"))
    subword_size: int = option(8000, at_least=10)  # pieces that sentencepiece learns
    subword_codes: str | None = option(
        None, path=True
    )  # bpe: merges in files NAME.de and NAME.en in root
    max_length: int | None = option(None, at_least=1)  # words; longer training pairs are left out
    batch_size: int = option(64, at_least=1)  # over all ranks
    batch_unit: str = option("sentences", choices=("sentences", "tokens"))
    valid_sentences: int | None = option(None, at_least=1)  # the first so many, in training


@dataclass
class Dates(TranslationData):
    """Dates written out, from Babel's tables."""

    name: str = option("dates", choices=("dates",))
    source: str = option("de", choices=LANGUAGES)
    target: str = option("en", choices=LANGUAGES)
    train_pairs: int = option(6000, at_least=1, at_most=35_525)


@dataclass
class ParallelFiles(TranslationData):
    """The user's aligned files: `train` stands for train.de and train.en."""

    name: str = option("parallel", choices=("parallel",))
    source: str = option()
    target: str = option()
    train: str = option("train", path=True)
    valid: str = option("valid", path=True)
    test: str = option("test", path=True)
    tokenized: bool = option(True)  # words and signs are parted by spaces already


@dataclass
class Iwslt14(TranslationData):
    """TED talks of IWSLT 2014: fairseq's prepared files, or the unpacked WIT3 archive."""

    name: str = option("iwslt14_de_en", choices=("iwslt14_de_en",))
    source: str = option("de", choices=("de", "en"))
    target: str = option("en", choices=("de", "en"))
    lowercase: bool = option(True)  # as fairseq prepares it
    min_frequency: int = option(2, at_least=1)
    max_vocabulary: int | None = option(50_000, at_least=4)
    train: str = option("train", path=True)
    valid: str = option("valid", path=True)
    test: str = option("test", path=True)


@dataclass
class Iwslt15(TranslationData):
    """TED talks of IWSLT 2015: Stanford's prepared files, or the unpacked WIT3 archive."""

    name: str = option("iwslt15_en_vi", choices=("iwslt15_en_vi",))
    source: str = option("en", choices=("en", "vi"))
    target: str = option("vi", choices=("en", "vi"))
    vocabulary: str | None = option("vocab", path=True)
    train: str = option("train", path=True)
    valid: str = option("tst2012", path=True)
    test: str = option("tst2013", path=True)


@dataclass
class Decoding:
    """How translations are searched for; the fields of `sdrop.evaluation.DecodingSettings`."""

    beam_size: int = option(5, at_least=1)
    length_penalty: float = option(1.0, at_least=0)
    coverage_penalty: float = option(0.0, at_least=0)
    max_length_ratio: float = option(2.0, at_least=0)  # words a source word
    max_length_extra: int = option(10, at_least=0)
    n_best: int = option(1, at_least=1)
    batch_size: int = option(32, at_least=1)  # sentences at a time
    replace_unknown: bool = option(True)  # by the source word that is attended to
    dictionary: str | None = option(None, path=True)  # lines of a source word, a tab, its meaning


@dataclass
class TranslationRun(Run):
    """The top of the iwslt recipe."""

    model: Translator = MISSING  # keeps Run's place, as do data and mode
    data: TranslationData = MISSING
    mode: str = option("train", choices=("train", "evaluate", "translate"))
    decoding: Decoding = field(default_factory=Decoding)
    ensemble: Any = option([], several=str)  # more runs or checkpoints, to translate together
    average: int = option(1, at_least=1)  # the newest so many checkpoints of each run, as one
    input: str | None = option(None, path=True)  # mode=translate: a file; null: standard input
    output: str | None = option(None, path=True)  # a file; null: standard output
    detokenize: bool = option(True)  # write lines as people do, not words parted by spaces
    samples: int = option(2, at_least=0)  # translations shown at each validation
    attention_maps: Any = option([], several=int, at_least=0)  # numbers of test sentences

    def __post_init__(self) -> None:
        for name in ("ensemble", "attention_maps"):
            setattr(self, name, as_list(getattr(self, name)))
