"""Puts this folder on the path, so that its tests and their new processes share helpers."""

import sys
from pathlib import Path

import pytest

import sdrop

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def needs_kernels():
    status = sdrop.backends()["cpu"]
    if not status.startswith("available"):
        pytest.skip(f"the CPU kernels are {status}")
