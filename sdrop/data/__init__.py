"""Corpora, vocabularies and batches; the only place that knows torchtext."""

from sdrop.data.batches import NOT_COUNTED, Batch, Batches, BpttBatches
from sdrop.data.columns import Sentence, read_columns
from sdrop.data.corpus import CORPORA, Corpus, load_corpus
from sdrop.data.errors import DataError
from sdrop.data.pydoc import tokenize
from sdrop.data.tagged_corpus import TAGGED_CORPORA, TaggedCorpus, load_tagged_corpus
from sdrop.data.text import END_OF_LINE
from sdrop.data.vocabulary import Vocabulary

__all__ = [
    "CORPORA",
    "END_OF_LINE",
    "NOT_COUNTED",
    "TAGGED_CORPORA",
    "Batch",
    "Batches",
    "BpttBatches",
    "Corpus",
    "DataError",
    "Sentence",
    "TaggedCorpus",
    "Vocabulary",
    "load_corpus",
    "load_tagged_corpus",
    "read_columns",
    "tokenize",
]
