"""Small runs that every test of the recipes can afford.

Puts this folder on the path, so that its tests share `tiny_iwslt`.
"""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from recipes import iwslt
from recipes.configuration import as_options, compose
from recipes.ptb import Result, run

sys.path.insert(0, str(Path(__file__).parent))

from tiny_iwslt import learn, write_pairs

TINY = ("model.hidden_size=8", "model.embedding_dim=8", "data.batch_size=4", "data.bptt=5")


@pytest.fixture(scope="session")
def texts(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """Overrides for a corpus of three small files."""
    folder = tmp_path_factory.mktemp("a corpus")
    lines = ["the cat sat on the mat", "a dog saw the cat", "the dog and the cat sat"]
    for split, times in {"train": 12, "valid": 3, "test": 3}.items():
        (folder / f"{split}.txt").write_text("\n".join(lines * times) + "\n")
    files = (f"data.{split}={split}.txt" for split in ("train", "valid", "test"))
    return ("data=text", f"data.root='{folder}'", *files, "data.valid_batch_size=2")


Train = Callable[..., Result]


@pytest.fixture
def train(texts: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> Train:
    """`train(folder, *overrides)` runs two epochs on the small corpus, without the picture.

    Drawing it would take longer than the run.
    """
    monkeypatch.setattr("sdrop.training.fitting.draw_curves", lambda *arguments: None)

    def train(folder: Path, *overrides: str) -> Result:
        command = [*texts, *TINY, "trainer.max_epochs=2", *overrides]
        return run(as_options(compose("ptb", command)), folder, command)

    return train


@pytest.fixture(scope="session")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """Overrides for a small parallel corpus."""
    return write_pairs(tmp_path_factory.mktemp("two languages"))


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory, pairs: tuple[str, ...]) -> iwslt.Result:
    """A finished run of iwslt that learnt its small corpus; ptb and conll have their own."""
    return learn(pairs, tmp_path_factory.mktemp("a run"))
