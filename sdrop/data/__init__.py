"""Corpora, vocabularies and batches; the only place that knows torchtext."""

from sdrop.data.batches import NOT_COUNTED, Batch, Batches, BpttBatches
from sdrop.data.columns import Sentence, read_columns
from sdrop.data.corpus import CORPORA, Corpus, load_corpus
from sdrop.data.errors import DataError
from sdrop.data.moses import MosesText
from sdrop.data.parallel import PARALLEL_CORPORA, ParallelCorpus, ParallelText, load_parallel
from sdrop.data.pydoc import tokenize
from sdrop.data.side import BEGIN, END, MARKS, Side, build_vocabulary, load_vocabulary
from sdrop.data.tagged_corpus import TAGGED_CORPORA, TaggedCorpus, load_tagged_corpus
from sdrop.data.text import END_OF_LINE
from sdrop.data.translation_batches import Pair, TranslationBatches
from sdrop.data.vocabulary import Vocabulary

__all__ = [
    "BEGIN",
    "CORPORA",
    "END",
    "END_OF_LINE",
    "MARKS",
    "NOT_COUNTED",
    "PARALLEL_CORPORA",
    "TAGGED_CORPORA",
    "Batch",
    "Batches",
    "BpttBatches",
    "Corpus",
    "DataError",
    "MosesText",
    "Pair",
    "ParallelCorpus",
    "ParallelText",
    "Sentence",
    "Side",
    "TaggedCorpus",
    "TranslationBatches",
    "Vocabulary",
    "build_vocabulary",
    "load_corpus",
    "load_parallel",
    "load_tagged_corpus",
    "load_vocabulary",
    "read_columns",
    "tokenize",
]
