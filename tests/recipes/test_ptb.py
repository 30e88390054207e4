"""The ptb recipe: runs, run folders, resuming, evaluation and text."""

import json
import math
import shutil
from types import SimpleNamespace

import pytest
import torch

from recipes.configuration import Mistake, as_options, compose
from recipes.configuration.recall import with_recalled
from recipes.ptb import evaluate, make_batches, make_model, read_corpus, run, write_text
from sdrop.data import DataError, Vocabulary
from sdrop.training import CheckpointError, make_fabric, read_metrics


def recalled(*overrides):
    return as_options(compose("ptb", with_recalled("ptb", list(overrides))))


@pytest.fixture(scope="module")
def trained(tmp_path_factory, texts):
    """One finished run on the small corpus."""
    command = [*texts, "model.hidden_size=8", "model.embedding_dim=8", "data.batch_size=4"]
    command += ["data.bptt=5", "trainer.max_epochs=2", "logger=all", "trainer.log_every_steps=3"]
    folder = tmp_path_factory.mktemp("a run")
    return run(as_options(compose("ptb", command)), folder, command)


def test_a_run_folder_holds_what_the_design_says(trained):
    names = {path.name for path in trained.folder.iterdir()}
    assert names == {
        *("config.yaml", "metrics.jsonl", "checkpoints", "curves.png", "summary.json"),
        *("vocabulary.txt", "metrics.csv", "tensorboard"),
    }


def test_the_summary_says_what_came_out(trained):
    summary = json.loads((trained.folder / "summary.json").read_text())
    assert summary["recipe"] == "ptb"
    assert summary["metric"] == {
        "name": "perplexity",
        "valid": trained.valid,
        "test": trained.test,
    }
    assert summary["bits_per_word"] == pytest.approx(math.log2(trained.test))
    assert summary["steps"] == trained.fit.steps
    assert summary["pattern"].startswith("case III")
    assert summary["signature"].startswith("text-")


def test_each_report_of_a_run_is_a_line_of_metrics(trained):
    reports = read_metrics(trained.folder / "metrics.jsonl")
    valid = [each for each in reports if each["split"] == "valid"]
    assert [each["epoch"] for each in valid] == [1, 2]
    assert min(each["perplexity"] for each in valid) == pytest.approx(trained.valid)
    assert valid[1]["perplexity"] < valid[0]["perplexity"]


def test_evaluation_of_a_run_folder_gives_its_perplexities_again(trained, capsys):
    result = evaluate(recalled("mode=evaluate", f"checkpoint='{trained.folder}'"))
    assert result.valid == pytest.approx(trained.valid, rel=1e-6)
    assert result.test == pytest.approx(trained.test, rel=1e-6)
    assert f"{result.valid:.2f} valid" in capsys.readouterr().out


def test_evaluation_takes_a_checkpoint_too(trained):
    checkpoint = next((trained.folder / "checkpoints").iterdir())
    assert evaluate(recalled("mode=evaluate", f"checkpoint='{checkpoint}'")).test == pytest.approx(
        trained.test, rel=1e-6
    )


def test_batch_size_of_an_evaluation_changes_the_figure_little(trained):
    command = ("mode=evaluate", f"checkpoint='{trained.folder}'", "data.test_batch_size=3")
    assert evaluate(recalled(*command)).test == pytest.approx(trained.test, rel=0.1)


def test_text_goes_on_from_the_prompt_and_follows_from_the_seed(trained):
    def text(*overrides):
        command = ("mode=generate", f"checkpoint='{trained.folder}'", "length=12", *overrides)
        return write_text(recalled(*command, "prompt='the cat'"))

    first = text()
    assert first.startswith("the cat ")
    assert first == text()
    assert text("seed=7") != first
    words = Vocabulary.load(trained.folder / "vocabulary.txt")
    assert all(word in words for word in first.split())
    assert "<unk>" not in first
    assert text("temperature=0") == text("temperature=0", "seed=9")


def test_words_of_a_prompt_that_are_not_known_are_named(trained, capsys):
    command = ("mode=generate", f"checkpoint='{trained.folder}'", "prompt='the zorb'", "length=1")
    assert write_text(recalled(*command)).startswith("the zorb ")
    assert "zorb" in capsys.readouterr().err


def test_a_checkpoint_of_another_size_is_refused(trained):
    command = ("mode=evaluate", f"checkpoint='{trained.folder}'", "model.hidden_size=9")
    with pytest.raises(CheckpointError, match=r"\(32, 8\) in the checkpoint, \(36, 9\)") as error:
        evaluate(recalled(*command))
    assert len(str(error.value).splitlines()) <= 10


def test_a_checkpoint_with_another_vocabulary_is_refused(trained, tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(trained.folder, folder)
    words = (folder / "vocabulary.txt").read_text().splitlines()
    (folder / "vocabulary.txt").write_text("\n".join(reversed(words)) + "\n")
    with pytest.raises(CheckpointError, match="vocabulary"):
        evaluate(recalled("mode=evaluate", f"checkpoint='{folder}'"))


def test_a_folder_without_a_run_cannot_be_evaluated(tmp_path):
    with pytest.raises(Mistake, match="no run folder"):
        evaluate(recalled("mode=evaluate", f"checkpoint='{tmp_path}'"))


def test_a_stopped_run_goes_on_as_if_it_had_not_stopped(train, tmp_path):
    whole = train(tmp_path / "whole")
    train(tmp_path / "halves", "trainer.max_steps=7")
    halves = train(tmp_path / "halves", "resume=auto")
    assert (halves.valid, halves.test) == (whole.valid, whole.test)
    assert halves.fit.steps == whole.fit.steps


def test_a_second_run_in_a_folder_is_refused(train, tmp_path):
    train(tmp_path, "trainer.max_steps=1")
    before = (tmp_path / "config.yaml").read_text()
    with pytest.raises(Mistake, match=r"holds a run already.*resume=auto"):
        train(tmp_path, "trainer.max_steps=2")
    assert (tmp_path / "config.yaml").read_text() == before


@pytest.mark.parametrize(
    "changed", ["model.hidden_size=9", "data.max_vocabulary=5", "data.bptt=4", "optimizer=sgd"]
)
def test_a_change_that_would_load_nonsense_is_refused_and_leaves_the_folder(
    changed, train, tmp_path
):
    train(tmp_path, "trainer.max_steps=3")
    before = {name: (tmp_path / name).read_text() for name in ("config.yaml", "summary.json")}
    with pytest.raises(CheckpointError):
        train(tmp_path, "resume=auto", changed)
    assert {name: (tmp_path / name).read_text() for name in before} == before


def test_a_run_that_goes_on_has_no_summary_until_it_is_whole(train, tmp_path, monkeypatch):
    train(tmp_path, "trainer.max_steps=3")

    def at_the_end(*arguments):
        assert not (tmp_path / "summary.json").exists()

    monkeypatch.setattr("recipes.ptb.measured", lambda *arguments: at_the_end() or 1.0)
    train(tmp_path, "resume=auto")
    assert json.loads((tmp_path / "summary.json").read_text())["metric"]["test"] == 1.0


def test_a_run_goes_on_in_a_new_folder(train, tmp_path):
    whole = train(tmp_path / "whole")
    train(tmp_path / "first", "trainer.max_steps=7")
    second = train(tmp_path / "second", f"resume={tmp_path}/first")
    assert second.test == whole.test
    assert not (tmp_path / "first" / "checkpoints" / "step-00000024").exists()
    assert recalled("mode=evaluate", f"checkpoint={tmp_path}/second").model.hidden_size == 8


def test_a_change_that_makes_sense_is_announced(train, tmp_path, capsys):
    train(tmp_path, "trainer.max_steps=3")
    train(tmp_path, "resume=auto", "optimizer.lr=0.5", "dropout=none", "trainer.max_epochs=1")
    told = capsys.readouterr().out
    assert "changed from here on: optimizer.lr: 0.003 -> 0.5" in told
    assert "changed from here on: dropout.recurrent: 0.5 -> 0.0" in told


@pytest.mark.parametrize("preset", ["none", "standard", "variational", "structured_constant"])
def test_a_run_trains_with_each_preset(preset, train, tmp_path):
    assert train(tmp_path, f"dropout={preset}", "trainer.max_steps=2").valid > 1


@pytest.mark.parametrize(
    ("optimizer", "schedule"), [("adam", "plateau"), ("adamw", "constant"), ("sgd", "decay")]
)
def test_a_run_trains_with_each_optimizer_and_schedule(optimizer, schedule, train, tmp_path):
    chosen = (f"optimizer={optimizer}", f"schedule={schedule}")
    assert math.isfinite(train(tmp_path, *chosen, "trainer.max_steps=2").test)


def test_the_learning_rate_follows_the_schedule(train, tmp_path):
    train(
        tmp_path,
        *("schedule.flat_epochs=2", "schedule.divide_by=4", "trainer.max_epochs=4"),
        *("optimizer.lr=0.5", "trainer.log_every_steps=1000"),
    )
    reports = read_metrics(tmp_path / "metrics.jsonl")
    rates = [each["learning_rate"] for each in reports if each["split"] == "train"]
    assert rates == [0.5, 0.5, 0.125, 0.03125]


def test_overfitting_evaluates_on_what_it_trains_on(train, tmp_path):
    result = train(tmp_path, "debug=overfit", "optimizer=adam", "optimizer.lr=0.02")
    assert result.test == pytest.approx(result.valid)


def test_debug_choices_run(train, tmp_path, capsys):
    for debug in ("default", "fast_dev_run", "limit"):
        train(tmp_path / debug, f"debug={debug}", "trainer.max_epochs=1")
    fast = read_metrics(tmp_path / "fast_dev_run" / "metrics.jsonl")
    assert [each["split"] for each in fast] == ["train", "valid"]
    train(tmp_path / "profiler", "debug=profiler", "debug.train_batches=2")
    assert (tmp_path / "profiler" / "profile.json").stat().st_size > 0
    assert "Self CPU" in capsys.readouterr().out


def test_every_evaluation_batch_is_counted_once_by_each_process(texts):
    options = as_options(compose("ptb", [*texts, "data.batch_size=4"]))
    corpus = read_corpus(options.data)
    vocabulary = Vocabulary.build(corpus.train)
    _, valid, test = make_batches(options, corpus, vocabulary, make_fabric("cpu"))
    for batches, split in ((valid, corpus.valid), (test, corpus.test)):
        assert sum(batch.tokens for batch in batches.epoch(0)) == len(split) - 1


def test_first_weights_follow_from_the_seed(texts):
    def weights(seed):
        options = as_options(compose("ptb", [*texts, f"seed={seed}", "model.hidden_size=8"]))
        return make_model(options, Vocabulary(["<unk>", "a"])).decoder.weight

    assert torch.equal(weights(1), weights(1))
    assert not torch.equal(weights(1), weights(2))


@pytest.mark.parametrize(
    ("overrides", "wanted"),
    [
        (["data=ptb", "data.root=nowhere"], "ptb.train.txt does not exist"),
        (["data.train=nowhere.txt"], "nowhere.txt"),
        (["data.valid=empty.txt"], "is empty"),
        (["data.test=latin.txt"], "line 2: byte 0xe9 is not UTF-8"),
    ],
)
def test_bad_data_is_refused_before_anything_is_written(overrides, wanted, texts, tmp_path):
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "latin.txt").write_bytes(b"a b\ncaf\xe9\n")
    overrides = [each.replace("=empty", f"={tmp_path}/empty") for each in overrides]
    overrides = [each.replace("=latin", f"={tmp_path}/latin") for each in overrides]
    command = overrides if overrides[0] == "data=ptb" else [*texts, *overrides]
    with pytest.raises(DataError, match=wanted) as error:
        run(as_options(compose("ptb", command)), tmp_path / "run")
    assert len(str(error.value).splitlines()) <= 10
    assert not (tmp_path / "run").exists()


def test_ptb_files_with_a_wrong_checksum_are_refused(tmp_path):
    for split in ("train", "valid", "test"):
        (tmp_path / f"ptb.{split}.txt").write_text(" a b\n")
    options = as_options(compose("ptb", ["data=ptb", f"data.root={tmp_path}"]))
    with pytest.raises(DataError, match="MD5"):
        run(options, tmp_path / "run")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize("choice", ["device", "backend"])
def test_a_device_or_backend_that_is_missing_is_told_with_the_reason(choice, texts, tmp_path):
    options = as_options(compose("ptb", [*texts, f"{choice}=cuda"]))
    with pytest.raises(Mistake, match=rf"{choice}='cuda'.*use {choice}="):
        run(options, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_torchs_kernels_are_refused_where_the_recurrence_drops(texts, tmp_path):
    options = as_options(compose("ptb", [*texts, "backend=torch", "dropout=structured"]))
    with pytest.raises(Mistake, match=r"no dropout in the recurrence.*take dropout=none, standard"):
        run(options, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_the_vocabulary_of_ptb_has_ten_thousand_words(ptb_folder):
    options = as_options(compose("ptb", ["experiment=zaremba_small", f"data.root={ptb_folder}"]))
    corpus = read_corpus(options.data)
    vocabulary = Vocabulary.build(corpus.train, min_frequency=options.data.min_frequency)
    assert len(vocabulary) == 10_000
    model = make_model(options, vocabulary)
    assert sum(parameter.numel() for parameter in model.parameters()) == 4_653_200


def test_torchs_kernels_are_refused_on_a_gpu(texts, tmp_path, monkeypatch):
    gpu = SimpleNamespace(device=torch.device("cuda", 0))
    monkeypatch.setattr("recipes.building.make_fabric", lambda *arguments: gpu)
    options = as_options(compose("ptb", [*texts, "backend=torch", "dropout=standard"]))
    with pytest.raises(Mistake, match="The device is cuda:0: add device=cpu"):
        run(options, tmp_path)


def test_figures_of_a_few_batches_say_so(trained, capsys):
    checkpoint = f"checkpoint='{trained.folder}'"
    evaluate(recalled("mode=evaluate", checkpoint))
    assert "figures are of" not in capsys.readouterr().out
    evaluate(recalled("mode=evaluate", checkpoint, "debug.evaluation_batches=2"))
    assert "figures are of the first 2 batches of each split (debug)" in capsys.readouterr().out
