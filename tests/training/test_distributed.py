"""Two processes under torchrun (gloo, CPU) train as one process does."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from distributed_run import gradient
from tiny_run import run, text, tiny_model

from sdrop.data.batches import BpttBatches
from sdrop.evaluation import perplexity
from sdrop.training import CheckpointError, make_fabric

SCRIPT = Path(__file__).parent / "distributed_run.py"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("distributed")


@pytest.fixture(scope="module")
def ranks(folder):
    """What the two ranks found; one start for all tests, for starting takes the time."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    command += ["--master-addr", "127.0.0.1", "--master-port", str(port), str(SCRIPT), str(folder)]
    environment = {
        **os.environ,
        "PYTHONPATH": str(SCRIPT.parents[2]),
        "OMP_NUM_THREADS": "1",
    }
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    found = [json.loads((folder / f"rank-{rank}.json").read_text()) for rank in (0, 1)]
    return [*found, done.stdout + done.stderr]


def test_fabric_finds_the_processes_of_torchrun_and_prints_nothing(ranks):
    first, second, output = ranks
    assert first["world_size"] == second["world_size"] == 2
    assert "distributed_backend" not in output
    assert output.count("epoch 2/2") == 2  # the first rank's, in the whole and the resumed run


@pytest.mark.parametrize("accumulated", [1, 2])
@pytest.mark.parametrize("normalization", ["token", "sequence"])
def test_two_ranks_give_the_gradient_of_one_process(normalization, accumulated, ranks):
    first, second, _ = (found["gradients"] if isinstance(found, dict) else None for found in ranks)
    expected = gradient(make_fabric("cpu"), normalization, accumulated)
    for found in (first, second):
        found = found[f"{normalization} {accumulated}"]
        assert found["tokens"] == expected["tokens"]
        assert found["loss"] == pytest.approx(expected["loss"], rel=1e-6)
        torch.testing.assert_close(
            torch.tensor(found["update"]), torch.tensor(expected["update"]), rtol=1e-4, atol=1e-6
        )


def test_ranks_draw_different_masks_unless_told_otherwise(ranks):
    first, second, _ = ranks
    assert first["masks"] != second["masks"]
    assert first["same masks"] == second["same masks"]


def test_perplexity_over_shares_is_that_of_the_whole(ranks):
    whole = perplexity(tiny_model(), BpttBatches(text(76), batch_size=4, bptt=5), "cpu")
    for found in ranks[:2]:
        assert found["perplexity"]["tokens"] == whole.tokens == 75
        assert found["perplexity"]["loss"] == pytest.approx(whole.loss, rel=1e-6)


def test_a_resumed_run_equals_the_whole_one_on_both_ranks(ranks):
    first, second, _ = ranks
    for found in (first, second):
        assert found["resumed"]["equal"]
    assert first["resumed"]["digest"] == second["resumed"]["digest"]
    whole, parts = first["resumed"]["figures"]
    assert whole == parts
    assert len(whole) > 4


def test_all_ranks_stop_where_one_is_not_finite(ranks):
    first, second, _ = ranks
    assert "the loss is inf in step 1" in first["non-finite"]
    assert first["non-finite"] == second["non-finite"]


@pytest.mark.usefixtures("ranks", "no_curves")
def test_another_number_of_processes_cannot_go_on(folder, tmp_path):
    with pytest.raises(CheckpointError, match="number of processes 2, this run has 1"):
        run(tmp_path, resume=str(folder / "parts"))
