"""Evaluation: perplexity, and what an evaluation returns."""

from sdrop.evaluation.evaluation import Evaluation, evaluating
from sdrop.evaluation.perplexity import perplexity

__all__ = ["Evaluation", "evaluating", "perplexity"]
