"""BLEU and chrF: sacrebleu's own command line gives the same figures on the written files."""

import json
import subprocess
import sys

import pytest

from sdrop.evaluation import translation_scores

FOUND = ["The cat sat on the mat.", "", "It's a dog, isn't it?", "Vier Häuser & ein See."]
REFERENCES = ["The cat sat on a mat.", "Yes.", "It is a dog, isn't it?", "Vier Häuser, ein See."]
TOKENS = ["The cat sat on the mat .", "", "It 's a dog , isn 't it ?", "Vier Häuser & ein See ."]
REFERENCE_TOKENS = [
    *("The cat sat on a mat .", "Yes .", "It is a dog , isn 't it ?", "Vier Häuser , ein See ."),
]


def command_line(tmp_path, found, references, *options):
    """What `python -m sacrebleu` says of the files, a dictionary a metric."""
    for name, lines in (("found", found), ("references", references)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), "utf-8")
    command = [sys.executable, "-m", "sacrebleu", str(tmp_path / "references"), "-i"]
    command += [str(tmp_path / "found"), "-w", "12", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    said = json.loads(done.stdout)
    return {each["name"]: each for each in (said if isinstance(said, list) else [said])}


def test_scores_and_signatures_are_those_of_the_command_line(tmp_path):
    scores = translation_scores(FOUND, REFERENCES, TOKENS, REFERENCE_TOKENS)
    said = command_line(tmp_path, FOUND, REFERENCES, "-m", "bleu", "chrf")
    assert scores.bleu == pytest.approx(said["BLEU"]["score"], abs=1e-12)
    assert scores.bleu_signature == said["BLEU"]["signature"]
    assert scores.chrf == pytest.approx(said["chrF2"]["score"], abs=1e-12)
    assert scores.chrf_signature == said["chrF2"]["signature"]
    on_tokens = command_line(tmp_path, TOKENS, REFERENCE_TOKENS, "--tokenize", "none", "--force")
    assert scores.tokenized_bleu == pytest.approx(on_tokens["BLEU"]["score"], abs=1e-12)
    assert scores.tokenized_bleu_signature == on_tokens["BLEU"]["signature"]
    assert scores.bleu != scores.tokenized_bleu


def test_scores_print_each_with_its_signature():
    text = str(translation_scores(FOUND, REFERENCES, TOKENS, REFERENCE_TOKENS))
    for name, signature in (("BLEU", "tok:13a"), ("chrF", "nc:6"), ("BLEU on tokens", "tok:none")):
        assert any(
            line.startswith(f"{name} ") and signature in line for line in text.splitlines()
        ), text


@pytest.mark.parametrize("lengths", [(1, 2, 1, 1), (1, 1, 1, 2), (0, 0, 0, 0)])
def test_numbers_of_lines_that_differ_are_named(lengths):
    texts = [FOUND[:length] for length in lengths]
    with pytest.raises(ValueError, match="as many hypotheses as references, one or more, got"):
        translation_scores(*texts)


def test_without_sacrebleu_the_way_to_install_it_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    with pytest.raises(ImportError, match=r"pip install 'sdrop\[translation\]'"):
        translation_scores(FOUND, REFERENCES, TOKENS, REFERENCE_TOKENS)
