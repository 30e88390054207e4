"""The options of the recipes: types and ranges, how they are composed, what is said of mistakes."""

from .compose import compose
from .launch import interruptible, launch
from .mistakes import Mistake, as_options, find_mistakes

__all__ = ["Mistake", "as_options", "compose", "find_mistakes", "interruptible", "launch"]
