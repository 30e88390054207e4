"""The conll recipe: runs, run folders, resuming, evaluation and tagging."""

import io
import json

import pytest

from recipes.configuration import Mistake, as_options, compose, find_mistakes
from recipes.configuration.compose import groups
from recipes.configuration.recall import with_recalled
from recipes.conll import evaluate, run, tag
from sdrop.data import DataError
from sdrop.training import CheckpointError, read_metrics

SMALL = (
    *("model.hidden_size=8", "model.embedding_dim=8", "model.spelling_size=4"),
    *("data.batch_size=4", "data.evaluation_batch_size=8", "device=cpu"),
)
SENTENCES = "Anna B-PER\nsaw O\nNew B-LOC\nYork I-LOC\n\nBoris B-PER\nsleeps O\n\n"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Overrides for a corpus of three small files."""
    folder = tmp_path_factory.mktemp("a corpus")
    for split, times in {"train": 12, "valid": 3, "test": 3}.items():
        (folder / f"{split}.conll").write_text("-DOCSTART- O\n\n" + SENTENCES * times)
    named = (f"data.{split}={split}.conll" for split in ("train", "valid", "test"))
    return ("data=columns", f"data.root='{folder}'", *named)


@pytest.fixture
def train(files, monkeypatch):
    """`train(folder, *overrides)` runs two epochs on the small corpus, without the picture."""
    monkeypatch.setattr("sdrop.training.fitting.draw_curves", lambda *arguments: None)

    def train(folder, *overrides):
        command = [*files, *SMALL, "trainer.max_epochs=2", *overrides]
        return run(as_options(compose("conll", command)), folder, command)

    return train


@pytest.fixture(scope="module")
def trained(files, tmp_path_factory):
    """One finished run that has learnt the small corpus."""
    command = [*files, *SMALL, "trainer.max_epochs=12", "optimizer.lr=0.03"]
    return run(as_options(compose("conll", command)), tmp_path_factory.mktemp("a run"), command)


def recalled(*overrides):
    return as_options(compose("conll", with_recalled("conll", list(overrides))))


def test_a_run_folder_holds_what_the_design_says(trained):
    assert {path.name for path in trained.folder.iterdir()} == {
        *("config.yaml", "metrics.jsonl", "checkpoints", "curves.png", "summary.json"),
        *("words.txt", "characters.txt", "tags.txt", "predictions.txt", "confusion.txt"),
    }
    lines = (trained.folder / "predictions.txt").read_text().splitlines()
    assert lines[2:5] == ["New B-LOC B-LOC", "York I-LOC I-LOC", ""]


def test_the_summary_has_mode_and_scheme_beside_the_figures(trained):
    summary = json.loads((trained.folder / "summary.json").read_text())
    assert summary["metric"] == {"name": "f1", "valid": 1.0, "test": 1.0}
    assert (summary["mode"], summary["scheme"], summary["source_scheme"]) == (
        *("strict", "iob2"),
        "iob2",
    )
    assert summary["per_type"]["LOC"]["support"] == 3
    assert {score["mode"] for score in summary["scores"].values()} == {"strict", "default"}


def test_evaluation_of_a_run_folder_gives_its_scores_again(trained):
    again = evaluate(recalled("mode=evaluate", f"checkpoint='{trained.folder}'"))
    assert again.scores == trained.scores


@pytest.fixture
def tagged(trained, tmp_path):
    """`tagged(text, *overrides)` is what mode=tag writes for a file of that text."""

    def tagged(text, *overrides):
        (tmp_path / "in").write_text(text)
        files = (f"input={tmp_path}/in", f"output={tmp_path}/out")
        tag(recalled("mode=tag", f"checkpoint='{trained.folder}'", *files, *overrides))
        return (tmp_path / "out").read_text()

    return tagged


def test_raw_text_gets_one_prediction_a_token_and_keeps_its_sentences(tagged):
    found = tagged("Boris saw New York.\n\nAnna sleeps")
    tokens = [line.partition(" ")[0] for line in found.splitlines()]
    assert tokens == ["Boris", "saw", "New", "York", ".", "", "", "Anna", "sleeps", ""]


def test_column_files_are_tagged_anew(tagged):
    found = tagged("Anna X\nsleeps X\n\nBoris X\n", "text=columns")
    assert found == "Anna B-PER\nsleeps O\n\nBoris B-PER\n\n"


def test_tokens_are_tagged_into_objects(tagged):
    found = json.loads(tagged("Anna saw New York\n", "text=tokens", "output_format=jsonl"))
    assert found["tags"] == ["B-PER", "O", "B-LOC", "I-LOC"]
    assert found["entities"][1] == {"start": 2, "end": 4, "type": "LOC", "text": "New York"}


def test_standard_input_is_tagged_into_standard_output(trained, monkeypatch, capsys):
    stream = io.TextIOWrapper(io.BytesIO(b"Anna sleeps\n"))
    monkeypatch.setattr("sys.stdin", stream)
    tag(recalled("mode=tag", f"checkpoint='{trained.folder}'", "text=tokens"))
    assert capsys.readouterr().out == "Anna B-PER\nsleeps O\n\n"


def test_a_stopped_run_goes_on_as_if_it_had_not_stopped(train, tmp_path):
    whole = train(tmp_path / "whole", "baselines=false")
    train(tmp_path / "halves", "trainer.max_steps=5", "baselines=false")
    halves = train(tmp_path / "halves", "resume=auto", "baselines=false")
    assert halves.scores == whole.scores
    last = [read_metrics(tmp_path / name / "metrics.jsonl")[-1] for name in ("whole", "halves")]
    assert last[0]["loss"] == last[1]["loss"]


def test_training_stops_early_when_f1_gets_no_better(train, tmp_path):
    patience = ("trainer.early_stopping_patience=2", "trainer.max_epochs=30", "optimizer.lr=0.03")
    result = train(tmp_path, *patience, "baselines=false")
    assert result.fit.stopped == "early_stopping"
    values = [r["f1"] for r in read_metrics(tmp_path / "metrics.jsonl") if r["split"] == "valid"]
    assert values.index(max(values)) == len(values) - 3


@pytest.mark.parametrize("experiment", sorted(set(groups("conll")["experiment"]) - {"none"}))
def test_every_experiment_trains_for_two_steps(experiment, files, tmp_path, monkeypatch):
    monkeypatch.setattr("sdrop.training.fitting.draw_curves", lambda *arguments: None)
    command = [f"experiment={experiment}", *files, "trainer.max_steps=2", "device=cpu"]
    result = run(as_options(compose("conll", command)), tmp_path, command)
    assert result.fit.steps == 2
    assert result.scores["test"].scheme == as_options(compose("conll", command)).data.scheme


@pytest.mark.parametrize("preset", groups("conll")["dropout"])
def test_a_run_trains_with_each_preset(preset, train, tmp_path):
    choice = (f"dropout={preset}", "trainer.max_steps=2", "baselines=false")
    assert train(tmp_path, *choice, "model.spelling=cnn").fit.steps == 2


def test_pretrained_vectors_are_put_in_and_their_coverage_is_told(train, tmp_path, capsys):
    (tmp_path / "vectors.txt").write_text(
        "".join(f"{word} {' '.join('1' * 8)}\n" for word in ("anna", "saw"))
    )
    chosen = (f"model.vectors={tmp_path}/vectors.txt", "trainer.max_steps=1", "baselines=false")
    train(tmp_path / "run", *chosen)
    assert "vectors for" in capsys.readouterr().out


def test_a_checkpoint_of_another_model_is_refused(trained):
    changed = ("mode=evaluate", f"checkpoint='{trained.folder}'", "model.hidden_size=9")
    with pytest.raises(CheckpointError, match="another model"):
        evaluate(recalled(*changed))


def test_a_broken_file_is_told_before_anything_is_written(train, tmp_path):
    (tmp_path / "bad").write_text("a O\nb\n")
    with pytest.raises(DataError, match="bad, line 2: 1 column"):
        train(tmp_path / "run", f"data.valid={tmp_path}/bad")
    assert not (tmp_path / "run").exists()


def test_a_second_run_in_a_folder_is_refused(train, tmp_path):
    train(tmp_path, "trainer.max_steps=1", "baselines=false")
    with pytest.raises(Mistake, match="holds a run already"):
        train(tmp_path, "trainer.max_steps=2")


@pytest.mark.parametrize(
    ("overrides", "wanted"),
    [
        (["data=ptb"], "no such choice"),
        (["data=conll2003"], "needs a folder"),
        (["input=x"], "for mode=tag"),
        (["mode=tag"], "needs checkpoint=DIR"),
        (["data.scheme=iob"], "Did you mean data.scheme=iob2"),
        (["model.spelling=cn"], "cnn"),
    ],
)
def test_mistakes_are_told_with_what_is_right(overrides, wanted):
    (mistake,) = find_mistakes("conll", overrides)
    assert wanted in mistake


@pytest.mark.long
def test_the_embedded_corpus_is_learnt_and_its_baselines_are_far_below(tmp_path):
    scores = run(as_options(compose("conll", ["device=cpu"])), tmp_path).scores
    assert scores["test"].f1 >= 0.9
    for name, score in scores.items():
        assert not name.startswith("baseline") or score.f1 <= scores["test"].f1 - 0.1
