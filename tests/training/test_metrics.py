"""Metrics files: one line a report, cut back to a checkpoint's count when a run goes on."""

import csv
import json
import sys

import pytest
from tiny_run import exact_figures, run

from sdrop.training import PERPLEXITY, RunFolder, read_metrics
from sdrop.training.metrics import open_loggers

FIELDS = {"step", "epoch", "split", "loss", "perplexity", "learning_rate", "tokens_per_second"}


def report(step, **others):
    return {"step": step, "epoch": 1, "split": "train", "loss": 2.0, **others}


def log(folder, reports, *names, keep=0, step=0):
    loggers = open_loggers(names, RunFolder(folder), PERPLEXITY, keep=keep, step=step)
    for logger in loggers:
        for one in reports:
            logger.log(one)
        logger.flush()
        logger.close()


@pytest.mark.usefixtures("no_curves")
def test_a_run_writes_training_and_validation_lines(tmp_path):
    result, _ = run(tmp_path)
    lines = read_metrics(tmp_path / "metrics.jsonl")
    assert [(line["step"], line["epoch"], line["split"]) for line in lines] == [
        (2, 1, "train"),
        (4, 1, "train"),
        (4, 1, "valid"),
        (6, 2, "train"),
        (8, 2, "train"),
        (8, 2, "valid"),
    ]
    for line in lines:
        assert set(line) == FIELDS | ({"gradient_norm"} if line["split"] == "train" else set())
    assert [line["learning_rate"] for line in lines] == [0.5] * 3 + [0.25] * 3
    assert result.best == min(line["perplexity"] for line in lines if line["split"] == "valid")


@pytest.mark.usefixtures("no_curves")
def test_a_step_is_validated_once_though_an_epoch_ends_there(tmp_path):
    run(tmp_path, validate_every_steps=2)
    steps = [line["step"] for line in exact_figures(tmp_path) if line["split"] == "valid"]
    assert steps == [2, 4, 6, 8]


@pytest.mark.usefixtures("no_curves")
def test_an_epochs_rest_makes_a_line_and_so_does_a_window_cut_short(tmp_path):
    run(tmp_path, log_every_steps=3, max_steps=5)
    steps = [line["step"] for line in exact_figures(tmp_path) if line["split"] == "train"]
    assert steps == [3, 4, 5]


def test_lines_past_the_checkpoint_are_cut_and_the_rest_kept(tmp_path):
    log(tmp_path, [report(step) for step in (1, 2, 3)], "csv")
    log(tmp_path, [report(2, loss=9.0)], "csv", keep=1)
    assert [(r["step"], r["loss"]) for r in read_metrics(tmp_path / "metrics.jsonl")] == [
        (1, 2.0),
        (2, 9.0),
    ]
    with (tmp_path / "metrics.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["step"], row["loss"]) for row in rows] == [("1", "2.0"), ("2", "9.0")]


def test_a_line_that_was_cut_off_is_no_line(tmp_path):
    (tmp_path / "metrics.jsonl").write_text('{"step": 1}\n{"ste')
    assert read_metrics(tmp_path / "metrics.jsonl") == [{"step": 1}]
    log(tmp_path, [report(2)], keep=2)
    assert [line["step"] for line in read_metrics(tmp_path / "metrics.jsonl")] == [1, 2]


def test_what_is_not_finite_is_null_so_that_each_line_is_json(tmp_path):
    log(tmp_path, [report(1, perplexity=float("inf"), gradient_norm=float("nan"))])
    (line,) = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert json.loads(line, parse_constant=pytest.fail)["perplexity"] is None


def test_csv_has_a_column_a_figure_and_leaves_missing_ones_empty(tmp_path):
    validation = {**report(1), "split": "valid", "chrf": 3.0}
    log(tmp_path, [report(1, learning_rate=0.5), validation], "csv")
    header, first, second = (tmp_path / "metrics.csv").read_text().splitlines()
    assert header == (
        "step,epoch,split,loss,perplexity,learning_rate,gradient_norm,tokens_per_second"
    )
    assert first == "1,1,train,2.0,,0.5,,"
    assert second == "1,1,valid,2.0,,,,"


def test_tensorboard_holds_each_figure_by_split(tmp_path):
    log(tmp_path, [report(1, perplexity=7.5)], "tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert set(events.Tags()["scalars"]) == {"train/loss", "train/perplexity", "train/epoch"}
    (scalar,) = events.Scalars("train/perplexity")
    assert (scalar.step, scalar.value) == (1, 7.5)


def test_tensorboard_that_is_not_installed_is_asked_for(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(ImportError, match=r"pip install 'sdrop\[tensorboard\]'"):
        log(tmp_path, [], "tensorboard")
    assert not list(tmp_path.iterdir())


def test_an_unknown_logger_is_told_before_anything_is_written(tmp_path):
    with pytest.raises(ValueError, match="logger='wandb': expected any of jsonl, csv, tensorboard"):
        log(tmp_path, [], "jsonl", "wandb")
    assert not list(tmp_path.iterdir())
