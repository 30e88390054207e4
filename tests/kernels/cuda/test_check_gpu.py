"""kernels/check_gpu.py as far as a machine without a GPU can tell."""

import math
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

import sdrop.benchmark
import sdrop.training
from sdrop.benchmark.rows import Setting
from sdrop.benchmark.shapes import Shape
from sdrop.benchmark.timing import Candidate
from sdrop.data import BpttBatches
from sdrop.evaluation import perplexity
from sdrop.training import decay_after

KERNELS = Path(__file__).resolve().parents[3] / "kernels"
WITHOUT_EXTRAS = """
import runpy, sys
extras = "hydra omegaconf torchtext lightning_fabric lightning_utilities seqeval sacrebleu rich"
extras = set(f"{extras} matplotlib yaml safetensors tensorboard".split())
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in extras:
            raise ImportError(f"{name} is not on this machine")
sys.meta_path.insert(0, Blocked())
sys.path.insert(0, sys.argv[1])
"""


@pytest.fixture
def gpu_check(monkeypatch):
    """Makes `import gpu_check.…` find it; what it enters without __init__ is imported already."""
    assert sdrop.benchmark
    assert sdrop.training
    monkeypatch.syspath_prepend(str(KERNELS))


def run(program, *arguments, folder):
    command = [sys.executable, "-W", "error", "-c", WITHOUT_EXTRAS + program, str(KERNELS)]
    return subprocess.run(
        [*command, *map(str, arguments)], capture_output=True, text=True, check=False, cwd=folder
    )


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_it_says_so_with_an_exit_code_of_its_own_and_writes_nothing(tmp_path):
    program = "sys.argv[:2] = [sys.argv[1] + '/check_gpu.py']\n"
    program += "runpy.run_path(sys.argv[0], run_name='__main__')"
    done = run(program, tmp_path / "out", folder=tmp_path)
    assert done.returncode == 3, done.stderr
    assert "sees no GPU here, so nothing was measured" in done.stdout
    assert not (tmp_path / "out").exists()


def test_its_parts_need_no_package_but_torch_numpy_and_pytest(tmp_path):
    program = (
        "from gpu_check import graphs, rates, suites, training\n"
        "from sdrop.benchmark.rows import write_rows\n"
        "import sdrop\nprint(sorted(sdrop.backends()))"
    )
    done = run(program, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "['cpu', 'cuda', 'reference', 'torch']\n"


@pytest.fixture
def plan(gpu_check):
    from gpu_check.training import Plan

    return Plan(hidden_size=8, steps=5, batch=4, epochs=3, flat_epochs=1)


def corpus():
    """A text whose next word is nearly known: ids and the size of the vocabulary."""
    words = (torch.arange(600) * 2 + (torch.rand(600) < 0.05)) % 7
    return {"train": words, "valid": words[:203], "test": words[100:151]}, 7


@pytest.mark.parametrize("variant", ["standard", "structured"])
def test_the_training_run_learns_and_tells_what_the_recipe_would(plan, variant):
    from gpu_check.training import train

    said = []
    plan = type(plan)(**vars(plan) | {"init_range": 0.5, "rate": 0.1})
    ids, words = corpus()
    outcome = train(variant, ids, words, plan, torch.device("cpu"), said.append)
    assert outcome.valid[-1] < outcome.valid[0] < words
    assert math.isfinite(outcome.test)
    assert (len(outcome.valid), len(said), outcome.graph) == (3, 3, False)


def test_its_perplexity_is_the_recipes(plan):
    from gpu_check.training import Trainer, make_model
    from gpu_check.training import perplexity as measured

    ids, words = corpus()
    for split, columns in (("valid", 20), ("test", 1)):
        trainer = Trainer(make_model("structured", words, plan), plan, torch.device("cpu"))
        batches = BpttBatches(ids[split], batch_size=columns, bptt=plan.steps)
        expected = perplexity(trainer.model, batches, "cpu").metrics["perplexity"]
        assert measured(trainer, ids[split], split) == pytest.approx(expected, rel=1e-5)


def test_its_step_is_clipped_sgd_on_the_loss_summed_over_time(plan):
    from gpu_check.training import Trainer, make_model

    model = make_model("standard", 7, plan).eval()
    twin = make_model("standard", 7, plan).eval()
    twin.load_state_dict(model.state_dict())
    trainer = Trainer(model, plan, torch.device("cpu"))
    trainer.plan = type(plan)(**vars(plan) | {"max_norm": 0.01})
    trainer.rate.fill_(0.5)
    input, target = torch.randint(7, (2, 5, 4))
    state = trainer.state[0].clone(), trainer.state[1].clone()
    loss, state = twin(input, target, state)
    (5 * loss).backward()
    nn.utils.clip_grad_norm_(twin.parameters(), 0.01)
    torch.optim.SGD(twin.parameters(), lr=0.5).step()
    trainer.take(input, target)
    for ours, theirs in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs)
    torch.testing.assert_close(trainer.state, tuple(each.detach() for each in state))


def test_its_learning_rate_is_the_published_schedule(gpu_check):
    from gpu_check.training import Plan

    schedule = decay_after(7, 1 / 1.2)
    for epoch in (1, 7, 8, 39):
        assert Plan().learning_rate(epoch) == pytest.approx(schedule(epoch, []))


def test_a_captured_backward_gemm_is_told_without_its_forward(gpu_check, monkeypatch):
    from gpu_check import suites

    calls = []

    def captured(candidate, *, with_prepare=False):
        calls.append(with_prepare)
        return Candidate(candidate.run, candidate.prepare)

    monkeypatch.setattr(suites, "captured", captured)
    shape = Shape("small", steps=3, batch=2, input_size=8, hidden_size=4)
    comparison = suites.as_graphs(suites.gemm_comparison(shape, ["structured"], Setting()))
    behind = [name for name, prepared in zip(comparison.candidates, calls, strict=True) if prepared]
    assert behind == ["structured backward", "structured backward_weight"]
    times = {name: [2.0, 2.0] for name in comparison.candidates}
    times |= {"structured backward": [7.0, 1.0], "structured backward_weight": [5.0, 1.0]}
    derived = comparison.derived(times)
    if "structured backward_data" in derived:  # the phases are told apart where kernels run
        assert derived["structured backward_weight"] == [3.0, 0.01]
        assert derived["structured backward_data"][0] == 2.0


def test_the_table_has_a_line_a_row(gpu_check):
    from gpu_check.suites import table

    shape = Shape("small", steps=3, batch=2, input_size=8, hidden_size=4)
    from sdrop.benchmark.layer import layer_comparison
    from sdrop.benchmark.timing import clock_for

    comparison = layer_comparison(shape, ["structured"], Setting())
    rows = comparison.measure(Setting(), clock_for("cpu", 1), rounds=1)
    head, line = table(rows).splitlines()
    assert head.split()[:5] == ["suite", "shape", "phase", "in", "variant"]
    assert line.split()[:5] == ["layer", "small", "total", "float32", "structured"]


def test_the_barrier_that_is_timed_lets_all_blocks_through(gpu_check, device):
    import gpu_check.rates  # noqa: F401, declares the op

    arrived = torch.zeros(1, dtype=torch.int32, device=device)
    torch.ops.sdrop.grid_barrier_rounds(arrived, 5, 32, 7)
    assert int(arrived) == 35
