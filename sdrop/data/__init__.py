"""Corpora, vocabularies and batches; the only place that knows torchtext."""

from sdrop.data.batches import NOT_COUNTED, Batch, Batches, BpttBatches
from sdrop.data.corpus import CORPORA, Corpus, load_corpus
from sdrop.data.errors import DataError
from sdrop.data.pydoc import tokenize
from sdrop.data.text import END_OF_LINE
from sdrop.data.vocabulary import Vocabulary

__all__ = [
    "CORPORA",
    "END_OF_LINE",
    "NOT_COUNTED",
    "Batch",
    "Batches",
    "BpttBatches",
    "Corpus",
    "DataError",
    "Vocabulary",
    "load_corpus",
    "tokenize",
]
