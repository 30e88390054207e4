"""A run that was stopped and resumed equals the run that never stopped, to the bit."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tiny_run import STEPS_AN_EPOCH, exact_figures, run, tiny_batches

from sdrop.data.batches import Batch
from sdrop.training import CheckpointError, NonFiniteError, describe, latest
from sdrop.training import checkpoint as checkpoint_module

SCRIPT = Path(__file__).parent / "tiny_run.py"
REPOSITORY = SCRIPT.parents[2]


def run_in_new_process(folder, **options):
    """Trains with warnings as errors; its output is kept for the message of a failure."""
    command = [sys.executable, "-W", "error", str(SCRIPT), str(folder), json.dumps(options)]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done


def assert_same_weights(model, expected):
    for name, value in expected.state_dict().items():
        assert torch.equal(model.state_dict()[name], value), name


def assert_same_run(folder, model, expected_folder, expected):
    assert exact_figures(folder) == exact_figures(expected_folder)
    assert_same_weights(model, expected)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Runs that were never stopped, one for each setting asked for."""
    made = {}

    def make(**options):
        key = json.dumps(options)
        if key not in made:
            folder = tmp_path_factory.mktemp("whole")
            made[key] = folder, run(folder, **options)[1]
        return made[key]

    return make


OPTIONS = {
    "sgd": {},
    "adam": {"optimizer": "adam"},
    "accumulation": {"gradient_accumulation_steps": 2, "log_every_steps": 1},
    "validation_within_the_epoch": {
        "validate_every_steps": 1,
        "validate_every_epochs": 2,
        "schedule": "decay_on_plateau",  # which must not see the validations of its own epoch
    },
}


@pytest.mark.usefixtures("no_curves")
@pytest.mark.parametrize("name", OPTIONS)
def test_stopped_after_any_step_and_resumed_equals_the_whole_run(name, tmp_path, whole):
    options = OPTIONS[name]
    expected_folder, expected = whole(**options)
    accumulated = options.get("gradient_accumulation_steps", 1)
    steps = 2 * -(-STEPS_AN_EPOCH // accumulated)
    for step in range(1, steps):
        folder = tmp_path / str(step)
        stopped, _ = run(folder, max_steps=step, **options)
        assert (stopped.stopped, stopped.steps) == ("max_steps", step)
        resumed, model = run(folder, resume="auto", **options)
        assert (resumed.stopped, resumed.steps) == ("max_epochs", steps)
        assert_same_run(folder, model, expected_folder, expected)


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_resumed_in_a_new_process_equals_the_whole_run(optimizer, tmp_path, whole):
    expected_folder, expected = whole(optimizer=optimizer)
    run(tmp_path, optimizer=optimizer, max_steps=3)
    run_in_new_process(tmp_path, optimizer=optimizer, resume="auto")
    _, model = run(tmp_path, optimizer=optimizer, resume="auto")  # loads what the process left
    assert_same_run(tmp_path, model, expected_folder, expected)


@pytest.mark.usefixtures("no_curves")
def test_the_mask_seed_comes_from_the_checkpoint(tmp_path, whole):
    expected_folder, expected = whole()
    run(tmp_path, max_steps=3)
    _, model = run(tmp_path, resume="auto", seed=99)
    assert_same_run(tmp_path, model, expected_folder, expected)
    assert describe(latest(tmp_path / "checkpoints")).seed == 3


def test_another_seed_from_the_start_gives_another_run(tmp_path, whole):
    expected_folder, _ = whole()
    run(tmp_path, seed=99)
    assert exact_figures(tmp_path) != exact_figures(expected_folder)


class Interrupting:
    """Batches of the tiny run that do something before a given batch of the first epoch."""

    def __init__(self, batch, action):
        self.inner, self.batch, self.action = tiny_batches(), batch, action
        self.stateful = self.inner.stateful

    def __len__(self):
        return len(self.inner)

    def epoch(self, epoch, start=0):
        for number, batch in enumerate(self.inner.epoch(epoch, start), start=start):
            if (epoch, number) == (0, self.batch):
                self.action()
            yield batch
        if (epoch, self.batch) == (0, len(self.inner)):
            self.action()


@pytest.mark.usefixtures("no_curves")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("batch", [0, 2, STEPS_AN_EPOCH])
def test_a_signal_leaves_a_checkpoint_of_exactly_where_it_stopped(number, batch, tmp_path, whole):
    handlers = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    expected_folder, expected = whole()
    signalled = Interrupting(batch, lambda: os.kill(os.getpid(), number))
    stopped, _ = run(tmp_path, batches=signalled)
    assert (stopped.stopped, stopped.steps, stopped.epochs) == ("signal", batch, 0)
    assert handlers == (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM))
    _, model = run(tmp_path, resume="auto")
    assert_same_run(tmp_path, model, expected_folder, expected)


def test_a_second_signal_stops_at_once(tmp_path):
    def twice():
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, batches=Interrupting(1, twice))


def crash():
    raise OSError("the disk is gone")


@pytest.mark.usefixtures("no_curves")
def test_after_a_crash_the_run_goes_back_to_the_last_checkpoint(tmp_path, whole):
    _, expected = whole()
    with pytest.raises(OSError, match="the disk is gone"):
        run(tmp_path, batches=Interrupting(3, crash), checkpoint_every_steps=2, log_every_steps=1)
    assert len(exact_figures(tmp_path)) == 3  # the third line is past the checkpoint
    _, model = run(tmp_path, resume="auto", checkpoint_every_steps=2)
    assert_same_weights(model, expected)
    steps = [(report["step"], report["split"]) for report in exact_figures(tmp_path)]
    assert (
        steps
        == sorted(set(steps))
        == [
            (1, "train"),
            (2, "train"),
            (4, "train"),
            (4, "valid"),
            (6, "train"),
            (8, "train"),
            (8, "valid"),
        ]
    )


@pytest.mark.usefixtures("no_curves")
def test_a_crash_while_a_checkpoint_is_written_leaves_the_one_before(tmp_path, whole, monkeypatch):
    expected_folder, expected = whole()
    run(tmp_path, max_steps=2)
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint_module, "publish_folder", lambda *folders: crash())
        with pytest.raises(OSError, match="the disk is gone"):
            run(tmp_path, resume="auto")
    names = {folder.name for folder in (tmp_path / "checkpoints").iterdir()}
    assert names == {"step-00000002", ".step-00000004.partial"}
    _, model = run(tmp_path, resume="auto")
    assert_same_run(tmp_path, model, expected_folder, expected)
    assert not list((tmp_path / "checkpoints").glob(".*"))


@pytest.mark.usefixtures("no_curves")
def test_a_run_that_goes_on_in_another_folder_has_its_whole_history_there(tmp_path, whole):
    expected_folder, expected = whole()
    run(tmp_path / "first", max_steps=6)
    _, model = run(tmp_path / "second", resume=str(tmp_path / "first"))
    assert_same_run(tmp_path / "second", model, expected_folder, expected)
    step = describe(latest(tmp_path / "second" / "checkpoints")).best_step
    assert (tmp_path / "second" / "checkpoints" / f"step-{step:08d}").is_dir()


@pytest.mark.usefixtures("no_curves")
def test_a_finished_run_resumed_does_nothing_says_so_and_gives_the_same_result(tmp_path, capsys):
    first, _ = run(tmp_path)
    assert "nothing was left" not in capsys.readouterr().out
    again, _ = run(tmp_path, resume="auto")
    told = " ".join(capsys.readouterr().out.split())
    assert f"nothing was left to train (max_epochs): {first.steps} steps are done" in told
    assert (again.stopped, again.steps, again.best, again.last) == (
        "max_epochs",
        first.steps,
        first.best,
        first.last,
    )


@pytest.mark.usefixtures("no_curves")
def test_auto_begins_anew_where_nothing_was_saved(tmp_path, whole, capsys):
    expected_folder, expected = whole()
    (tmp_path / "metrics.jsonl").write_text('{"step": 1, "left": "by a run that died early"}\n')
    capsys.readouterr()
    _, model = run(tmp_path, resume="auto")
    assert f"{tmp_path} has no checkpoint yet, a new run begins" in capsys.readouterr().out
    assert_same_run(tmp_path, model, expected_folder, expected)


@pytest.mark.usefixtures("no_curves")
def test_a_new_run_in_a_folder_that_holds_one_is_refused(tmp_path):
    run(tmp_path, max_steps=1)
    before = sorted(path for path in tmp_path.rglob("*"))
    with pytest.raises(CheckpointError, match=r"holds a run already.*resume=auto"):
        run(tmp_path)
    assert sorted(path for path in tmp_path.rglob("*")) == before


@pytest.mark.usefixtures("no_curves")
def test_changed_options_are_announced_and_take_effect(tmp_path, capsys):
    run(tmp_path, max_steps=2)
    run(tmp_path, resume="auto", seed=4, max_grad_norm=1.0, max_steps=3)
    told = capsys.readouterr().out
    assert "max_grad_norm was 5.0 in the checkpoint and is 1.0 from here on" in told
    assert "seed=4 was given; dropout goes on with 3" in told
    assert "max_steps" not in told


@pytest.mark.usefixtures("no_curves")
def test_resuming_with_another_vocabulary_or_optimizer_is_refused(tmp_path):
    run(tmp_path, max_steps=1, signatures={"vocabulary": "ab12"})
    with pytest.raises(CheckpointError, match="vocabulary: ab12 in the checkpoint, cd34 here"):
        run(tmp_path, resume="auto", signatures={"vocabulary": "cd34"})
    with pytest.raises(CheckpointError, match="optimizer SGD, this run has Adam"):
        run(tmp_path, resume="auto", optimizer="adam")


@pytest.mark.usefixtures("no_curves")
def test_a_loss_that_is_no_number_stops_before_the_update(tmp_path):
    run(tmp_path, max_steps=2)
    saved = latest(tmp_path / "checkpoints")
    with pytest.raises(NonFiniteError, match=r"the loss is nan in step 4 \(epoch 1\)"):
        run(tmp_path, resume="auto", batches=Spoiled(3))
    assert latest(tmp_path / "checkpoints") == saved
    assert describe(saved).step == 2


class Spoiled(Interrupting):
    """Batches of the tiny run, one of which makes the loss not a number."""

    def __init__(self, batch):
        super().__init__(batch, lambda: None)

    def epoch(self, epoch, start=0):
        for number, batch in enumerate(super().epoch(epoch, start), start=start):
            if number == self.batch:
                # The mean over no token is no number, and the batch says that it counts some.
                target = torch.full_like(batch.arguments["target"], -100)
                batch = Batch({**batch.arguments, "target": target}, batch.tokens, batch.sequences)
            yield batch
