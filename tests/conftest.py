"""What all tests share: one torch thread, a fixed seed, and real corpora where they are at hand."""

import os
from pathlib import Path

import pytest
import torch

REPOSITORY = Path(__file__).resolve().parents[1]


def pytest_configure() -> None:
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def fixed_seed() -> None:
    """A test that draws numbers draws the same ones alone and among others."""
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder of real corpora: SDROP_TEST_DATA, or ../shared/data beside the checkout."""
    folder = Path(os.environ.get("SDROP_TEST_DATA", REPOSITORY.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no real corpora: {folder} does not exist (set SDROP_TEST_DATA)")
    return folder


@pytest.fixture(scope="session")
def ptb_folder(shared_data: Path) -> Path:
    """Folder with ptb.train.txt, ptb.valid.txt and ptb.test.txt."""
    folder = shared_data / "ptb"
    if not folder.is_dir():
        pytest.skip(f"no Penn Treebank: {folder} does not exist")
    return folder


@pytest.fixture(scope="session")
def conll2003_folder(shared_data: Path) -> Path:
    """Folder with eng.train, eng.testa and eng.testb."""
    folder = shared_data / "conll2003"
    if not folder.is_dir():
        pytest.skip(f"no CoNLL-2003: {folder} does not exist")
    return folder
