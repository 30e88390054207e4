"""What `fit` gives back and leaves behind."""

import json
import time

import pytest
import torch
from tiny_run import read_metrics, run, tiny_batches, tiny_model
from torch import nn

from sdrop.data.batches import Batch
from sdrop.evaluation import Evaluation
from sdrop.training import (
    BLEU,
    PERPLEXITY,
    RunFolder,
    TrainerSettings,
    constant,
    draw_curves,
    fit,
    make_fabric,
    sgd,
    write_summary,
)
from sdrop.training.stopwatch import Stopwatch


class Mean(nn.Module):
    """Loss: the mean of its weights."""

    def __init__(self):
        super().__init__()
        self.part, self.frozen = nn.Linear(2, 2), nn.Linear(2, 2).eval()
        self.modes = []

    def forward(self, input, target, state=None):
        self.modes.append((self.training, self.part.training))
        return self.part.weight.mean(), None


def train(folder, model, validate, metric=BLEU, batches=None, precision="32-true", **settings):
    return fit(
        make_fabric("cpu", precision),
        model,
        sgd(model.parameters(), 0.1),
        constant(),
        tiny_batches() if batches is None else batches,
        validate,
        TrainerSettings(**{"max_epochs": 2, **settings}),
        RunFolder(folder),
        seed=0,
        metric=metric,
    )


def test_a_run_folder_holds_metrics_checkpoints_and_curves(tmp_path):
    run(tmp_path / "a folder")
    names = {path.name for path in (tmp_path / "a folder").iterdir()}
    assert names == {"metrics.jsonl", "checkpoints", "curves.png"}
    assert (tmp_path / "a folder" / "curves.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.usefixtures("no_curves")
def test_the_best_of_a_metric_that_grows_is_its_largest(tmp_path):
    values = iter([0.1, 0.3, 0.2])
    model = Mean()
    result = train(
        tmp_path, model, lambda: Evaluation(1.0, 10, {"bleu": next(values)}), max_epochs=3
    )
    assert (result.metric, result.best, result.last, result.best_step) == ("bleu", 0.3, 0.2, 8)
    assert (result.epochs, result.steps, result.stopped) == (3, 12, "max_epochs")


@pytest.mark.usefixtures("no_curves")
def test_validation_sees_evaluation_mode_and_training_mode_comes_back(tmp_path):
    model = Mean()
    seen = []

    def validate():
        seen.append((model.training, model.part.training, torch.is_grad_enabled()))
        return Evaluation(1.0, 10, {"bleu": 0.0})

    train(tmp_path, model, validate)
    assert seen == [(False, False, False)] * 2
    assert set(model.modes) == {(True, True)}


@pytest.mark.usefixtures("no_curves")
@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_validation_is_in_the_precision_of_the_run(precision, tmp_path):
    seen = []

    def validate():
        seen.append(torch.is_autocast_enabled("cpu"))
        return Evaluation(1.0, 10, {"bleu": 0.0})

    train(tmp_path, Mean(), validate, precision=precision)
    assert seen == [precision == "bf16-mixed"] * 2


@pytest.mark.usefixtures("no_curves")
def test_an_evaluation_without_the_metric_says_what_it_has(tmp_path):
    with pytest.raises(KeyError, match="no 'bleu'; it has: loss, chrf"):
        train(tmp_path, Mean(), lambda: Evaluation(1.0, 10, {"chrf": 1.0}))


@pytest.mark.usefixtures("no_curves")
def test_training_seconds_and_speed_leave_out_evaluation(tmp_path):
    def slow():
        time.sleep(0.3)
        return Evaluation(1.0, 10, {"bleu": 0.0})

    result = train(tmp_path, Mean(), slow)
    assert result.seconds_total > result.seconds_train + 0.6
    assert result.tokens_per_second == pytest.approx(2 * 79 / result.seconds_train)


@pytest.mark.usefixtures("no_curves")
def test_seconds_add_up_over_the_processes_of_a_run(tmp_path):
    first, _ = run(tmp_path, max_steps=4)
    second, _ = run(tmp_path, resume="auto")
    assert second.seconds_train > first.seconds_train
    assert second.seconds_total > first.seconds_total


@pytest.mark.usefixtures("no_curves")
def test_nothing_validated_gives_no_best(tmp_path):
    result, _ = run(tmp_path, max_steps=2)
    assert (result.best, result.last, result.best_step) == (None, None, None)


class Empty:
    stateful = False

    def __len__(self):
        return 0

    def epoch(self, epoch, start=0):
        return iter(())


@pytest.mark.usefixtures("no_curves")
def test_no_training_batches_are_an_error(tmp_path):
    with pytest.raises(ValueError, match="the training batches are empty"):
        train(tmp_path, Mean(), lambda: Evaluation(1.0, 1), batches=Empty())


class Endless(Empty):
    """More batches in each epoch, none of which can be known beforehand."""

    def epoch(self, epoch, start=0):
        batches = [Batch({"input": torch.ones(1), "target": torch.ones(1)}, 3, 1)] * (epoch + 2)
        return iter(batches[start:])


@pytest.mark.usefixtures("no_curves")
def test_epochs_may_differ_in_length(tmp_path):
    validate = lambda: Evaluation(1.0, 1, {"bleu": 0.0})  # noqa: E731
    assert train(tmp_path, Mean(), validate, batches=Endless()).steps == 2 + 3


def test_curves_show_gaps_and_runs_without_a_validation(tmp_path):
    lines = [
        {"step": 1, "split": "train", "loss": 3.0},
        {"step": 2, "split": "train", "loss": None},
        {"step": 3, "split": "train", "loss": 2.0},
    ]
    metrics = tmp_path / "metrics.jsonl"
    metrics.write_text("".join(json.dumps(line) + "\n" for line in lines))
    draw_curves(metrics, tmp_path / "curves.png", PERPLEXITY)
    assert (tmp_path / "curves.png").stat().st_size > 1000
    assert not list(tmp_path.glob(".*"))


def test_the_summary_has_the_agreed_keys_and_what_a_recipe_adds(tmp_path):
    written = write_summary(
        tmp_path / "summary.json",
        recipe="ptb",
        experiment=None,
        metric="perplexity",
        valid=90.0,
        test=85.5,
        seconds_train=10.0,
        seconds_total=12.0,
        tokens_per_second=1234.5,
        steps=100,
        parameters=sum(parameter.numel() for parameter in tiny_model().parameters()),
        backend="reference",
        pattern="case III",
        signature="ab12",
        bits_per_word=6.4,
    )
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary == written
    assert set(summary) == {
        "recipe",
        "experiment",
        "metric",
        "seconds",
        "tokens_per_second",
        "steps",
        "parameters",
        "backend",
        "pattern",
        "versions",
        "signature",
        "bits_per_word",
    }
    assert summary["metric"] == {"name": "perplexity", "valid": 90.0, "test": 85.5}
    assert summary["seconds"] == {"train": 10.0, "total": 12.0}
    assert summary["versions"]["torch"] == torch.__version__
    assert not list(tmp_path.glob(".*"))


def test_a_stopwatch_stands_still_while_it_is_paused(monkeypatch):
    clock = iter([0.0, 1.0, 5.0, 7.0, 8.0])
    monkeypatch.setattr("sdrop.training.stopwatch.time.perf_counter", lambda: next(clock))
    stopwatch = Stopwatch(10.0)
    with stopwatch.running():  # from 0
        with stopwatch.paused():  # 1 to 5
            assert stopwatch.seconds == 11.0
        assert stopwatch.seconds == 13.0  # at 7
    assert stopwatch.seconds == 14.0


@pytest.mark.usefixtures("no_curves")
def test_metrics_of_bfloat16_runs_resume_exactly_too(tmp_path):
    options = {"precision": "bf16-mixed", "log_every_steps": 1}
    _, whole = run(tmp_path / "whole", **options)
    run(tmp_path / "parts", max_steps=3, **options)
    _, parts = run(tmp_path / "parts", resume="auto", **options)
    assert all(map(torch.equal, whole.parameters(), parts.parameters()))
    losses = [
        [line["loss"] for line in read_metrics(tmp_path / name / "metrics.jsonl")]
        for name in ("whole", "parts")
    ]
    assert losses[0] == losses[1]
