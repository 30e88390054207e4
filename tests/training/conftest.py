"""Puts this folder on the path, so that its tests and their new processes share `tiny_run`."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def no_curves(monkeypatch) -> None:
    """For tests that train dozens of times: the picture costs more than the training."""
    monkeypatch.setattr("sdrop.training.fitting.draw_curves", lambda *arguments: None)
