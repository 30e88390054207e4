"""What the language model says of arguments and ids that do not fit, and of nothing else."""

import re
import subprocess
import sys
import textwrap

import pytest
import torch

from sdrop.models import DropoutRates, LanguageModel

IDS = torch.zeros(7, 3, dtype=torch.int64)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"vocabulary_size": 0}, "expected vocabulary_size to be at least 1, got 0"),
        ({"embedding_dim": -1}, "expected embedding_dim to be at least 1, got -1"),
        ({"hidden_size": 2.0}, "expected hidden_size to be an integer, got 2.0"),
        ({"num_layers": 0}, "expected num_layers to be at least 1, got 0"),
        ({"rates": 0.5}, "expected rates to be DropoutRates, got 0.5"),
        ({"pattern": "structured"}, "expected pattern to be a sdrop.DropoutPattern"),
        ({"init_range": -0.1}, "expected init_range to be a number >= 0, got -0.1"),
        ({"init_range": float("nan")}, "expected init_range to be a number >= 0, got nan"),
        ({"backend": "gpu"}, "backend='gpu': expected one of 'auto', 'reference'"),
    ],
)
def test_a_wrong_argument_is_named(options, words):
    with pytest.raises((TypeError, ValueError), match=re.escape(words)):
        LanguageModel(**({"vocabulary_size": 5} | options))


@pytest.mark.parametrize(
    ("input", "target", "words"),
    [
        (IDS[:, 0], IDS[:, 0], "expected word ids of shape (time, batch) on cpu, got shape (7,)"),
        (IDS[None], IDS[None], "got shape (1, 7, 3)"),
        (IDS.to("meta"), IDS, "got shape (7, 3) on meta"),
        (IDS[:0], IDS[:0], "expected a sequence of at least one step"),
        (IDS, IDS[1:], "expected a target of shape (7, 3), one class an output, got (6, 3)"),
        (IDS.float(), IDS, "Long, Int"),
    ],
)
def test_ids_that_do_not_fit_are_named(input, target, words):
    model = LanguageModel(5, embedding_dim=4, hidden_size=4, rates=DropoutRates(output=0.5))
    with pytest.raises(RuntimeError, match=re.escape(words)):
        model(input, target)


@pytest.mark.parametrize("state", [torch.zeros(2, 3, 4), (torch.zeros(1, 3, 4),) * 2])
def test_a_state_that_does_not_fit_is_named(state):
    with pytest.raises((TypeError, RuntimeError), match=r"LSTM: expected h"):
        LanguageModel(5, embedding_dim=4, hidden_size=4)(IDS, IDS, state)


def test_two_epochs_under_python_W_error_give_no_warning():
    script = """
        import torch, sdrop
        from sdrop.models import DropoutRates, LanguageModel

        torch.set_warn_always(True)
        for tied, fused in ((False, True), (True, False)):
            rates = DropoutRates(0.5, 0.5, 0.5, 0.5)
            model = LanguageModel(
                9, embedding_dim=4, hidden_size=4, rates=rates, tie_weights=tied
            )
            sdrop.name_sites(model)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, fused=fused)
            ids = torch.randint(9, (41, 3))
            for epoch in range(2):
                model.train()
                for step in range(2):
                    with sdrop.mask_key(0, step):
                        loss, state = model(ids[:-1], ids[1:])
                    optimizer.zero_grad()
                    loss.backward()
                    torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
                    optimizer.step()
                model.eval()
                with torch.no_grad():
                    model(ids[:-1], ids[1:], state)
                    model.logits(ids[:1])
    """
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(script)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
