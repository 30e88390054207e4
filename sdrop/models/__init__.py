"""The models that the recipes train."""

from sdrop.models.language_model import DropoutRates, LanguageModel
from sdrop.models.tagger import Tagger

__all__ = ["DropoutRates", "LanguageModel", "Tagger"]
