"""The models that the recipes train."""

from sdrop.models.language_model import DropoutRates, LanguageModel

__all__ = ["DropoutRates", "LanguageModel"]
