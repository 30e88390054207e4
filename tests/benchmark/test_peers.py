"""Rows of other frameworks, whose process is stood in for, and the frameworks that are here."""

import importlib.util
import json

import pytest

from sdrop.benchmark import peers
from sdrop.benchmark.process import in_a_process_of_its_own
from sdrop.benchmark.rows import Pair, Setting, make_row
from sdrop.benchmark.shapes import SHAPES, parse_shape
from sdrop.benchmark.work import Work

TINY = parse_shape("T3-B2-in5-H4")
TIMES = {"nn.Dropout + nn.LSTM": [4.0, 6.0], "nn.LSTM": [3.0, 3.0], "structured": [2.0, 2.0]}


def layer_row(baseline):
    pair = Pair("structured", baseline, Work(2e6, 1e6))
    return make_row("layer", TINY.name, pair, TIMES, Setting(), peak=10.0, machine="here")


@pytest.fixture
def process(monkeypatch):
    """What the process of a peer is asked for; it answers 8 ms a round."""
    asked = []

    def answer(module, shape, name, setting, options):
        asked.append((module, shape, name, json.loads(options)))
        return {"name": f"{name} x", "milliseconds": [8.0] * json.loads(options)["rounds"]}

    monkeypatch.setattr(peers, "in_a_process_of_its_own", answer)
    return asked


def test_a_peer_is_compared_with_the_stock_layer_that_drops(process):
    rows = [layer_row("nn.LSTM"), layer_row("nn.Dropout + nn.LSTM")]
    (row,) = peers.peer_rows(TINY, ["jax"], Setting(), rows)
    options = {"rounds": 2, "rate": 0.5}
    assert process == [("sdrop.benchmark.peers", TINY.name, "jax", options)]
    assert (row.variant, row.baseline) == ("jax x, own process", "nn.Dropout + nn.LSTM")
    assert (row.ratio_min, row.ratio_max, row.flop_limit) == (0.5, 0.75, 1.0)
    assert row.fraction_of_peak == pytest.approx(row.gflops / 10.0)


def test_without_dropout_it_is_compared_without(process):
    (row,) = peers.peer_rows(TINY, ["jax"], Setting(), [layer_row("nn.LSTM")])
    assert process[0][-1]["rate"] == 0.0
    assert row.baseline == "nn.LSTM"


def test_where_nothing_is_trained_no_peer_runs(process):
    assert peers.peer_rows(SHAPES["generation"], ["jax"], Setting(), [layer_row("nn.LSTM")]) == []
    assert process == []


@pytest.mark.parametrize("setting", [Setting(dtype="bfloat16"), Setting(device="cuda")])
def test_peers_run_in_float32_on_the_cpu(setting, process):
    with pytest.raises(RuntimeError, match="leave device= and dtype= out"):
        peers.peer_rows(TINY, ["jax"], setting, [layer_row("nn.LSTM")])


def test_a_process_that_fails_is_told_with_its_last_words():
    with pytest.raises(RuntimeError, match="No module named no_such_module"):
        in_a_process_of_its_own("no_such_module", "ptb_large", "stock", Setting())


@pytest.mark.parametrize("peer", ["jax", "keras"])
def test_a_peer_that_is_here_tells_its_times(peer):
    if importlib.util.find_spec(peer) is None:
        pytest.skip(f"{peer} is not installed")
    options = json.dumps({"rounds": 2, "rate": 0.5})
    told = in_a_process_of_its_own("sdrop.benchmark.peers", TINY.name, peer, Setting(), options)
    assert told["name"].startswith(peer)
    assert len(told["milliseconds"]) == 2
    assert min(told["milliseconds"]) > 0
