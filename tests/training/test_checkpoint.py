"""Checkpoints as folders: whole or not at all, pruned, found again, refused where they must be."""

import json

import pytest
import torch
from tiny_run import run, tiny_model
from torch import nn

from sdrop.training import (
    CheckpointError,
    RunFolder,
    best,
    describe,
    find_checkpoint,
    latest,
    load_weights,
)
from sdrop.training.atomic import partial_folder, publish_folder, recover_folders
from sdrop.training.checkpoint import Manifest, prune, write_checkpoint

FILES = {"model.safetensors", "optimizer.pt", "trainer.pt", "manifest.json"}


def write(checkpoints, step, best_step=None, **options):
    manifest = Manifest(
        step=step,
        epoch=1,
        seed=5,
        best_step=best_step,
        metric="perplexity",
        signatures={"vocabulary": "ab12"},
        optimizer="SGD",
        world_size=1,
        settings={},
    )
    return write_checkpoint(checkpoints, manifest, nn.Linear(2, 3), {"state": {}}, {"step": step})


@pytest.fixture
def stored(tmp_path):
    """A checkpoint of a run."""
    run(tmp_path, max_steps=1, signatures={"vocabulary": "ab12"})
    return latest(tmp_path / "checkpoints")


pytestmark = pytest.mark.usefixtures("no_curves")


def test_a_checkpoint_is_a_folder_of_four_files_and_says_what_it_is(tmp_path):
    folder = write(tmp_path, 123)
    assert folder == tmp_path / "step-00000123"
    assert {path.name for path in folder.iterdir()} == FILES
    manifest = describe(folder)
    assert (manifest.step, manifest.seed, manifest.optimizer) == (123, 5, "SGD")
    assert manifest.signatures == {"vocabulary": "ab12"}
    assert list(tmp_path.iterdir()) == [folder]


def test_all_of_it_loads_without_running_code(stored):
    for name in ("optimizer.pt", "trainer.pt"):
        torch.load(stored / name, weights_only=True)
    json.loads((stored / "manifest.json").read_text())


def test_a_checkpoint_of_the_same_step_is_replaced(tmp_path):
    write(tmp_path, 1)
    folder = write(tmp_path, 1, best_step=1)
    assert describe(folder).best_step == 1
    assert list(tmp_path.iterdir()) == [folder]


def test_what_an_interrupted_write_left_is_removed_or_brought_back(tmp_path):
    whole = write(tmp_path, 1)
    partial_folder(tmp_path / "step-00000002")
    whole.rename(tmp_path / ".step-00000001.old")  # died between the two renames
    assert latest(tmp_path) is None
    recover_folders(tmp_path)
    assert list(tmp_path.iterdir()) == [whole]
    (tmp_path / ".step-00000001.old").mkdir()  # died before it removed the old one
    recover_folders(tmp_path)
    assert list(tmp_path.iterdir()) == [whole]


def test_a_folder_is_synced_before_it_gets_its_name(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr("sdrop.training.atomic.sync", lambda path: synced.append(path.name))
    temporary = partial_folder(tmp_path / "final")
    (temporary / "file").write_text("content")
    publish_folder(temporary, tmp_path / "final")
    assert synced == ["file", ".final.partial", tmp_path.name]


def test_the_newest_and_the_best_are_kept(tmp_path):
    for step in (1, 2, 3, 4):
        write(tmp_path, step, best_step=2)
    prune(tmp_path, 1, best_step=2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-00000002", "step-00000004"]
    assert (latest(tmp_path).name, best(tmp_path).name) == ("step-00000004", "step-00000002")


def test_steps_of_nine_digits_come_last(tmp_path):
    for step in (99_999_999, 100_000_000):
        write(tmp_path, step)
    assert describe(latest(tmp_path)).step == 100_000_000


def test_best_is_the_newest_where_nothing_was_validated(tmp_path):
    assert best_of(tmp_path, 3, None) == "step-00000003"


def best_of(folder, step, best_step):
    write(folder, step, best_step)
    return best(folder).name


def test_a_best_checkpoint_that_is_gone_or_never_was_is_an_error(tmp_path):
    with pytest.raises(CheckpointError, match="there is no checkpoint in"):
        best(tmp_path)
    write(tmp_path, 3, best_step=1)
    with pytest.raises(CheckpointError, match="step-00000001, the best checkpoint, is gone"):
        best(tmp_path)


def test_a_run_keeps_as_many_as_asked_and_the_best(tmp_path):
    result, _ = run(tmp_path, checkpoint_every_steps=1, keep_checkpoints=3)
    names = {path.name for path in (tmp_path / "checkpoints").iterdir()}
    kept = {"step-00000006", "step-00000007", "step-00000008"}
    assert names == kept | {f"step-{result.best_step:08d}"}
    assert best(tmp_path / "checkpoints").name == f"step-{result.best_step:08d}"


def test_find_checkpoint_takes_a_run_a_checkpoint_or_auto(tmp_path):
    folder = RunFolder(tmp_path)
    assert find_checkpoint("auto", folder) is None
    newest = [write(folder.checkpoints, step) for step in (1, 2)][-1]
    for resume in ("auto", tmp_path, str(tmp_path), folder.checkpoints, newest):
        assert find_checkpoint(resume, folder) == newest
    older = folder.checkpoints / "step-00000001"
    assert find_checkpoint(older, folder) == older


def test_find_checkpoint_says_what_it_expected(tmp_path):
    with pytest.raises(CheckpointError, match=r"nowhere: there is no checkpoint; expected 'auto'"):
        find_checkpoint(tmp_path / "nowhere", RunFolder(tmp_path))


def test_load_weights_gives_the_weights_of_the_run(tmp_path):
    _, trained = run(tmp_path)
    model = tiny_model(seed=9)
    manifest = load_weights(model, latest(tmp_path / "checkpoints"))
    assert manifest.step == 8
    for name, value in trained.state_dict().items():
        assert torch.equal(model.state_dict()[name], value)


@pytest.mark.parametrize("name", sorted(FILES))
def test_a_damaged_file_is_refused_by_name(name, stored):
    content = (stored / name).read_bytes()
    flipped = len(content) // 2
    (stored / name).write_bytes(
        content[:flipped] + bytes([content[flipped] ^ 0xFF]) + content[flipped + 1 :]
    )
    with pytest.raises(CheckpointError, match=rf"{name} is damaged"):
        load_weights(tiny_model(), stored)


@pytest.mark.parametrize("name", sorted(FILES))
def test_a_missing_file_is_told_by_name(name, stored):
    (stored / name).unlink()
    with pytest.raises(CheckpointError, match=name):
        load_weights(tiny_model(), stored)


def test_a_folder_that_is_no_checkpoint_is_told(tmp_path):
    with pytest.raises(CheckpointError, match=r"is no checkpoint: expected a folder with manifest"):
        load_weights(tiny_model(), tmp_path)


def test_a_checkpoint_of_a_later_format_is_refused(stored):
    content = json.loads((stored / "manifest.json").read_text())
    (stored / "manifest.json").write_text(json.dumps({**content, "format": 99}))
    with pytest.raises(CheckpointError, match="has format 99, this version reads 1"):
        describe(stored)


def test_another_vocabulary_is_refused_with_both_values(stored):
    load_weights(tiny_model(), stored, {"vocabulary": "ab12"})
    for given in ("cd34", ""):
        with pytest.raises(CheckpointError, match=f"ab12 in the checkpoint, {given} here"):
            load_weights(tiny_model(), stored, {"vocabulary": given})
    with pytest.raises(CheckpointError, match="data: nothing in the checkpoint, x here"):
        load_weights(tiny_model(), stored, {"data": "x"})
