"""What a run shows: a bar on a terminal, a few plain lines elsewhere, nothing on other ranks."""

import io

import pytest
from rich.console import Console
from tiny_run import run

from sdrop.training import PERPLEXITY
from sdrop.training.progress import open_display

TRAIN = {"step": 5, "epoch": 1, "split": "train", "loss": 4.25, "tokens_per_second": 12345.0}
VALID = {"step": 10, "epoch": 1, "split": "valid", "loss": 4.5, "perplexity": 90.017}


def shown(*, terminal, used=True):
    """What is printed by a run of an epoch."""
    output = io.StringIO()
    console = Console(file=output, force_terminal=terminal, width=120)
    display = open_display(PERPLEXITY, 3, 30, shown=used, console=console)
    with display:
        for step in range(1, 11):
            display.trained(step, 1, TRAIN if step == 5 else None)
        display.validated(VALID)
        display.note("a [note]")
    return output.getvalue()


def test_without_a_terminal_there_is_a_plain_line_a_validation():
    assert shown(terminal=False) == (
        "epoch 1/3  step 10  loss 4.2500  valid perplexity 90.02  12,345 tokens/s\na [note]\n"
    )


def test_on_a_terminal_there_is_a_bar_with_figures_and_remaining_time():
    output = shown(terminal=True)
    for part in ("epoch 1/3", "loss 4.250", "valid perplexity 90.02", "12,345 tokens/s", "0:00:0"):
        assert part in output
    assert "━" in output


def test_other_ranks_show_nothing():
    assert shown(terminal=True, used=False) == shown(terminal=False, used=False) == ""


@pytest.mark.usefixtures("no_curves")
def test_a_run_prints_one_line_an_epoch_and_nothing_to_stderr(tmp_path, capsys):
    run(tmp_path)
    captured = capsys.readouterr()
    assert len(captured.out.splitlines()) == 2
    assert captured.err == ""
