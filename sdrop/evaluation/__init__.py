"""Evaluation: perplexity, translations and their scores, and what an evaluation returns."""

from sdrop.evaluation.bleu import TranslationScores, translation_scores
from sdrop.evaluation.decoding import DecodingSettings, Hypothesis
from sdrop.evaluation.evaluation import Evaluation, evaluating
from sdrop.evaluation.perplexity import perplexity
from sdrop.evaluation.translation import replaced_unknown, translate

__all__ = [
    "DecodingSettings",
    "Evaluation",
    "Hypothesis",
    "TranslationScores",
    "evaluating",
    "perplexity",
    "replaced_unknown",
    "translate",
    "translation_scores",
]
