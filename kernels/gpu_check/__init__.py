"""The parts of check_gpu.py: what it measures on a machine with a GPU.

Such a machine may have torch, numpy and pytest, and none of what the recipes need. The parts of
`sdrop.benchmark` and `sdrop.training` that are used here need no more either, but their packages
import parts that do: so both are entered here without running their `__init__`.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

REPOSITORY = Path(__file__).resolve().parents[2]


def enter_packages(*names: str) -> None:
    """Makes submodules of packages importable, and leaves out what the packages import."""
    for name in names:
        if name not in sys.modules:
            package = ModuleType(name)
            package.__path__ = [str(REPOSITORY.joinpath(*name.split(".")))]
            package.__spec__ = importlib.util.spec_from_loader(name, None, is_package=True)
            sys.modules[name] = package


if str(REPOSITORY) not in sys.path:
    sys.path.insert(0, str(REPOSITORY))
enter_packages("sdrop.benchmark", "sdrop.training")
