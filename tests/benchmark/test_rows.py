"""Rows are what the recorded times say, and a file of them is whole or not there."""

import dataclasses
import json

import pytest

from sdrop.benchmark.rows import Pair, Setting, make_row, read_rows, write_rows
from sdrop.benchmark.work import Work

TIMES = {
    "fast": [10.0, 20.0, 10.0],
    "stock": [20.0, 30.0, 50.0],
    "tail": [10.0, 30.0, 20.0],
}
OF_THE_DESIGN = {
    *("suite", "shape", "phase", "variant", "baseline", "threads", "device", "dtype"),
    *("milliseconds", "baseline_milliseconds", "ratio", "ratio_min", "ratio_max", "flop_limit"),
    *("fraction_of_limit", "gflops", "baseline_gflops", "fraction_of_peak", "rounds"),
    "ratio_same_tail",
}


@pytest.fixture
def row():
    pair = Pair("fast", "stock", Work(4e9, 2e9), same_tail="tail")
    return make_row("step", "mine", pair, TIMES, Setting(threads=2), peak=400.0, machine="here")


def test_a_ratio_is_the_median_of_the_rounds_ratios(row):
    assert (row.ratio, row.ratio_min, row.ratio_max) == (2.0, 1.5, 5.0)
    assert row.ratio_same_tail == 1.5
    assert (row.milliseconds, row.baseline_milliseconds, row.rounds) == (10.0, 30.0, 3)


def test_work_gives_limit_and_rates(row):
    assert (row.flop_limit, row.fraction_of_limit) == (2.0, 1.0)
    assert row.gflops == pytest.approx(200.0)
    assert row.baseline_gflops == pytest.approx(4 / 0.03)
    assert row.fraction_of_peak == pytest.approx(0.5)


def test_a_row_without_known_work_has_no_limit():
    row = make_row("compare", "mine", Pair("fast", "stock"), TIMES, Setting())
    assert row.flop_limit is row.gflops is row.fraction_of_peak is None
    assert row.ratio == 2.0


def test_a_baseline_that_is_not_steady_makes_the_row_noisy(row):
    assert row.baseline_spread == pytest.approx(0.5)
    assert row.noisy
    steady = TIMES | {"stock": [20.0, 20.5, 20.9]}
    assert not make_row("layer", "mine", Pair("fast", "stock"), steady, Setting()).noisy


def test_rows_have_the_keys_of_the_design_and_can_be_read_again(row, tmp_path):
    file = tmp_path / "bench.json"
    write_rows([row, row], file)
    (first, _) = json.loads(file.read_text())
    assert set(first) >= OF_THE_DESIGN
    assert first["milliseconds_by_round"] == TIMES["fast"]
    assert read_rows(file) == [row, row]
    assert [path.name for path in tmp_path.iterdir()] == ["bench.json"]


def test_a_write_that_fails_leaves_the_rows_from_before(row, tmp_path):
    file = tmp_path / "bench.json"
    write_rows([row], file)
    with pytest.raises(TypeError):
        write_rows([row, dataclasses.replace(row, ratio=object())], file)
    assert read_rows(file) == [row]


@pytest.mark.parametrize("content", ["", "{", "[1]", '[{"suite": "layer"}]', '{"a": 1}'])
def test_what_is_no_bench_file_is_told(content, tmp_path):
    file = tmp_path / "bench.json"
    file.write_text(content)
    with pytest.raises(ValueError, match=r"bench\.json: cannot be read as a bench\.json"):
        read_rows(file)


def test_a_file_that_is_not_there_is_told(tmp_path):
    with pytest.raises(ValueError, match="No such file"):
        read_rows(tmp_path / "bench.json")
