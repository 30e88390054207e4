"""Two data-parallel ranks on this machine against one process with the whole batch."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

pytestmark = pytest.mark.long  # each rank imports torch and Dynamo
WORKER = Path(__file__).with_name("ddp_worker.py")


@pytest.fixture(scope="module")
def worker():
    """The worker's module, whose model and batch the one process uses too."""
    spec = importlib.util.spec_from_file_location("ddp_worker", WORKER)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    """What each of two ranks saw."""
    folder = tmp_path_factory.mktemp("ddp")
    environment = os.environ | {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    command = [sys.executable, "-W", "error", str(WORKER)]
    processes = [
        subprocess.Popen(
            [*command, str(rank), str(folder)],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        outputs = [process.communicate(timeout=600)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0, 0], "\n".join(outputs)
    return [torch.load(folder / f"rank{rank}.pt") for rank in range(2)]


@pytest.mark.parametrize("view", [False, True], ids=["copied gradients", "gradients in buckets"])
def test_two_ranks_of_the_same_masks_train_as_one_process_with_the_whole_batch(
    ranks, worker, view, assert_same
):
    model = worker.make_model()
    output, grads = worker.train_step(model, worker.make_batch(), rank=0)
    seen = [rank[f"shared {view}"] for rank in ranks]
    together = torch.cat([rank["output"] for rank in seen])
    assert_same({"output": together}, {"output": output})
    weights = {name: p.detach() for name, p in model.named_parameters()}
    for rank in seen:
        assert_same(rank["grads"], grads)
        assert_same(rank["weights"], weights)
        assert rank["k_major"]


def test_ranks_of_their_own_keys_draw_different_masks_and_stay_in_step(ranks, worker):
    first, second = (rank["own False"] for rank in ranks)
    with_rank_0 = ranks[1]["shared False"]["output"]
    assert not torch.equal(second["output"], with_rank_0)
    assert torch.equal(first["output"], ranks[0]["shared False"]["output"])
    for name, weight in first["weights"].items():
        assert torch.equal(weight, second["weights"][name])


def test_a_wrapped_model_evaluates_as_an_unwrapped_one(ranks, worker):
    model = worker.make_model()
    worker.train_step(model, worker.make_batch(), rank=0)
    halves = worker.make_batch().chunk(2, dim=1)
    for rank, half in zip(ranks, halves, strict=True):
        torch.testing.assert_close(rank["shared evaluated"], model.eval()(half))
