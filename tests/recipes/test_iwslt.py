"""The iwslt recipe: runs, run folders, resuming and evaluation."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tiny_iwslt import recalled

from recipes.configuration import Mistake, as_options, compose, find_mistakes
from recipes.configuration.compose import groups
from recipes.iwslt import evaluate, make_model, run
from recipes.texts import make_sides, read_corpus
from sdrop.evaluation import Evaluation
from sdrop.training import CheckpointError, read_metrics

TINY = ("model.hidden_size=8", "model.embedding_dim=6", "data.batch_size=4", "samples=0")


@pytest.fixture
def train(pairs, monkeypatch):
    """`train(folder, *overrides)` trains two epochs on the small corpus."""
    monkeypatch.setattr("sdrop.training.fitting.draw_curves", lambda *arguments: None)

    def train(folder, *overrides):
        command = [*pairs, *TINY, "trainer.max_epochs=2", *overrides]
        return run(as_options(compose("iwslt", command)), folder, command)

    return train


def test_a_run_folder_holds_words_texts_and_pictures(trained):
    names = {path.name for path in trained.folder.iterdir()}
    assert names == {
        *("config.yaml", "metrics.jsonl", "checkpoints", "curves.png", "summary.json"),
        *("vocabulary.source.txt", "vocabulary.target.txt", "translations"),
        *("attention-0.png", "attention-2.png"),
    }


def test_the_summary_says_what_came_out(trained):
    summary = json.loads((trained.folder / "summary.json").read_text())
    scores = trained.test.scores
    assert summary["recipe"] == "iwslt"
    assert summary["metric"] == {"name": "bleu", "valid": trained.valid, "test": scores.bleu}
    assert summary["direction"] == "de-en"
    assert summary["beam_size"] == 5
    assert summary["chrf"] == scores.chrf
    assert "tok:13a" in summary["bleu_signature"]
    assert trained.valid > 30  # it has learnt something


def test_the_written_files_score_the_same_on_sacrebleus_command_line(trained):
    folder = trained.folder / "translations"
    command = [sys.executable, "-m", "sacrebleu", str(folder / "test.reference.txt"), "-b"]
    command += ["-w", "10", "-i", str(folder / "test.txt")]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert float(said) == pytest.approx(trained.test.scores.bleu, abs=1e-10)


def test_evaluation_gives_the_scores_again_with_one_model_or_the_same_twice(trained, capsys):
    found = evaluate(recalled("mode=evaluate", f"checkpoint='{trained.folder}'"))
    assert found.test.scores == trained.test.scores
    assert str(found.test.scores) in capsys.readouterr().out
    twice = ("mode=evaluate", f"checkpoint='{trained.folder}'", f"ensemble=['{trained.folder}']")
    assert evaluate(recalled(*twice)).test.texts == trained.test.texts


def test_a_beam_wider_than_the_vocabulary_is_refused(trained, train, tmp_path):
    wide = "decoding.beam_size=100000"
    told = r"decoding\.beam_size=100000: the target vocabulary has (\d+) words.* \1 or less"
    with pytest.raises(Mistake, match=told):
        evaluate(recalled("mode=evaluate", f"checkpoint='{trained.folder}'", wide))
    with pytest.raises(Mistake, match=told):
        train(tmp_path / "run", wide)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("folder", ["/proc/foo", "a_file", "a_file/run"])
def test_a_run_folder_that_cannot_be_made_is_told(folder, train, tmp_path):
    (tmp_path / "a_file").touch()
    with pytest.raises(Mistake, match=f"the run folder .*{folder} cannot be made"):
        train(tmp_path / folder)


def test_checkpoints_are_averaged_where_there_are_so_many(trained):
    command = ("mode=evaluate", f"checkpoint='{trained.folder}'")
    assert evaluate(recalled(*command, "average=3")).test.scores.bleu > 0
    with pytest.raises(CheckpointError, match=r"has \d checkpoints, fewer than the 9 to average"):
        evaluate(recalled(*command, "average=9"))


def test_a_run_stopped_in_mid_epoch_goes_on_as_if_it_had_not_stopped(train, tmp_path):
    whole = train(tmp_path / "whole")
    train(tmp_path / "halves", "trainer.max_steps=7")
    halves = train(tmp_path / "halves", "resume=auto")
    assert halves.fit.steps == whole.fit.steps
    assert (halves.valid, halves.test) == (whole.valid, whole.test)
    losses = [
        [each["loss"] for each in read_metrics(folder / "metrics.jsonl") if "bleu" in each]
        for folder in (whole.folder, halves.folder)
    ]
    assert len(losses[0]) == 2
    assert losses[0] == losses[1]


def test_early_stopping_goes_by_bleu_and_keeps_the_highest(train, tmp_path, monkeypatch):
    values = iter([1.0, 3.0, 2.0, 2.5, 9.0])

    def worth(*arguments):
        return Evaluation(1.0, 1, {"bleu": next(values)})

    monkeypatch.setattr("recipes.iwslt.validated", worth)
    found = train(tmp_path, "trainer.max_epochs=9", "trainer.early_stopping_patience=2")
    assert (found.fit.stopped, found.fit.best, found.fit.epochs) == ("early_stopping", 3.0, 4)
    assert found.fit.best_step == found.fit.steps // 2
    assert (tmp_path / "checkpoints" / f"step-{found.fit.best_step:08d}").is_dir()


@pytest.mark.parametrize(
    "changed", ["model.hidden_size=10", "data.min_frequency=5", "data.batch_size=3", "seed=4"]
)
def test_a_change_that_would_load_nonsense_is_refused(changed, train, tmp_path):
    train(tmp_path, "trainer.max_steps=2")
    with pytest.raises(CheckpointError):
        train(tmp_path, "resume=auto", changed)


@pytest.mark.parametrize(
    "chosen",
    [
        ("data.batch_unit=tokens", "data.batch_size=40"),
        ("data.subwords=sentencepiece", "data.subword_size=40"),
        ("model.input_feeding=true", "model.scaled_attention=true", "dropout=structured_constant"),
        ("model.attention=concat", "dropout=variational"),
        ("model.bidirectional=false", "model.attention=dot", "dropout=standard"),
        ("model.tie_weights=true", "model.embedding_dim=8", "data.max_vocabulary=9"),
        ("data.max_length=4", "data.lowercase=true", "dropout=structured_nr"),
        ("debug=fast_dev_run",),
        ("debug=overfit", "trainer.max_epochs=1"),
        ("schedule=plateau", "optimizer=sgd", "data.valid_sentences=1", "data.tokenized=false"),
    ],
    ids=lambda chosen: chosen[0],
)
def test_every_option_trains_two_steps(chosen, train, tmp_path):
    found = train(tmp_path, *chosen, "trainer.max_steps=2", "decoding.beam_size=2")
    assert found.test.scores.chrf >= 0


def test_a_bpe_table_parts_the_words_of_each_language(train, pairs, tmp_path):
    for language in ("de", "en"):
        (tmp_path / f"codes.{language}").write_text("#version: 0.2\nH u\no l\n")
    chosen = ("data.subwords=bpe", f"data.subword_codes='{tmp_path}/codes'")
    found = train(tmp_path / "run", *chosen, "trainer.max_steps=2")
    assert "Hu@@" in (found.folder / "vocabulary.source.txt").read_text().split("\n")
    assert "@@" not in "".join(found.test.texts["txt"])


@pytest.mark.parametrize("direction", [("de", "en"), ("en", "vi")])
def test_dates_train_two_steps_in_both_directions(direction, tmp_path):
    source, target = direction
    command = [*TINY, f"data.source={source}", f"data.target={target}", "data.train_pairs=20"]
    command += ["trainer.max_steps=2", "debug=fast_dev_run", "decoding.batch_size=4"]
    found = run(as_options(compose("iwslt", command)), tmp_path, command)
    assert found.test.scores.chrf >= 0


EXPERIMENTS = [name for name in groups("iwslt")["experiment"] if name != "none"]


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_each_experiment_trains_two_steps_on_its_own_data(experiment, shared_data, tmp_path):
    small = ["trainer.max_steps=2", "data.valid_sentences=2", "debug.evaluation_batches=1"]
    small += ["decoding.batch_size=2", "data.batch_size=2", "decoding.beam_size=2", "samples=0"]
    if "en_vi" in experiment:
        root, train = shared_data / "iwslt15_envi", "train_first1000_exact/train"
    else:
        root, train = shared_data / "iwslt14_deen", "train_subset"
        small.append("data.min_frequency=20")
    command = [f"experiment={experiment}", f"data.root='{root}'", f"data.train={train}", *small]
    if experiment in ("opennmt_de_en", "luong_en_vi"):
        command += ["model.hidden_size=50", "model.embedding_dim=20"]
        command += ["model.encoder_hidden_size=50"] * (experiment == "luong_en_vi")
    found = run(as_options(compose("iwslt", command)), tmp_path, command)
    assert found.fit.steps == 2


def test_published_settings_are_as_published():
    luong = as_options(compose("iwslt", ["experiment=luong_en_vi", "data.root=x"]))
    assert (luong.model.hidden_size, luong.model.num_layers) == (512, 2)
    assert (luong.model.encoder_num_layers, luong.model.encoder_hidden_size) == (1, 512)
    assert (luong.model.scaled_attention, luong.model.input_feeding) == (True, True)
    assert (luong.data.batch_size, luong.trainer.max_steps, luong.dropout.input) == (
        128,
        12000,
        0.2,
    )
    assert luong.dropout.pattern.space == "random"
    opennmt = as_options(compose("iwslt", ["experiment=opennmt_de_en", "data.root=x"]))
    assert (opennmt.model.hidden_size, opennmt.data.batch_size) == (500, 64)
    assert (opennmt.optimizer.lr, opennmt.trainer.max_grad_norm) == (1.0, 5.0)
    assert (opennmt.dropout.between, opennmt.dropout.recurrent) == (0.3, 0.0)
    assert opennmt.schedule.divide_by**4 == pytest.approx(2.0)


def test_first_weights_follow_from_the_seed(pairs):
    def weights(seed):
        options = as_options(compose("iwslt", [*pairs, *TINY, f"seed={seed}"]))
        source, target, _ = make_sides(options.data, read_corpus(options.data))
        return make_model(options, (source, target)).generator.weight

    assert torch.equal(weights(1), weights(1))
    assert not torch.equal(weights(1), weights(2))


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["data=ptb"], "data=ptb: no such choice"),
        (["data=iwslt14_de_en"], r"needs a folder: add data\.root=DIR"),
        (["data.source=en"], "two languages are wanted"),
        (["decoding.n_best=9"], r"a beam of decoding\.beam_size=5"),
        (["mode=translate"], "mode=translate needs checkpoint=DIR"),
        (["input=x"], "input= is for mode=translate"),
        (["average=2"], "are for mode=evaluate and mode=translate"),
        (["data.subwords=bpe"], r"add data\.subword_codes=NAME"),
        (["model.atention=dot"], r"Did you mean model\.attention"),
        (["model.attention=mlp"], "There are: concat, dot, general"),
    ],
)
def test_what_does_not_go_together_is_told(command, words):
    (mistake,) = find_mistakes("iwslt", command)
    assert re.search(words, mistake), mistake


def test_a_picture_of_a_sentence_that_there_is_not_is_told(train, tmp_path):
    with pytest.raises(Mistake, match="attention_maps=7: the test text has 3 sentences"):
        train(tmp_path / "run", "trainer.max_steps=1", "attention_maps=7")
    assert not (tmp_path / "run").exists()


def test_sizes_that_do_not_fit_are_told_before_anything_is_written(train, tmp_path):
    with pytest.raises(Mistake, match="must fill the decoder's"):
        train(tmp_path / "run", "model.hidden_size=7")
    assert not Path(tmp_path / "run").exists()
