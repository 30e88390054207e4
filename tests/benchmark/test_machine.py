"""What a run says of the machine that it ran on."""

import pytest
import torch

from sdrop.benchmark import machine
from sdrop.benchmark.timing import Clock


def test_the_machine_is_described_with_all_that_a_figure_depends_on():
    text = machine.describe_machine("cpu", threads=1)
    assert text.startswith("1 of ")
    for part in (torch.__version__, torch.backends.cpu.get_cpu_capability(), "sdrop's kernels: "):
        assert part in text


def test_the_peak_is_the_fastest_size(monkeypatch):
    rates = {256: 40.0, 512: 60.0, 1024: 50.0, 2048: 45.0}
    monkeypatch.setattr(machine, "_gflops", lambda size, *others: rates[size])
    assert machine.measure_peak("cpu", torch.float32, None) == 60.0


def test_a_slow_type_is_not_measured_on_large_matrices(monkeypatch):
    sizes = []
    monkeypatch.setattr(machine, "_gflops", lambda size, *others: sizes.append(size) or 1.0)
    assert machine.measure_peak("cpu", torch.bfloat16, None) == 1.0
    assert sizes == [256, 512]


def test_a_rate_is_work_over_the_least_time():
    readings = iter([0.025, 0.4, 0.1, 0.2])  # two calls fit in a try
    clock = Clock("given", lambda run: run() or next(readings))
    found = machine._gflops(64, "cpu", torch.float32, clock)
    assert found == pytest.approx(2 * 64**3 * 2 / 0.1 / 1e9)


def test_threads_are_put_back_after_an_error():
    before = torch.get_num_threads()

    def fail():
        with machine.torch_threads(before + 1):
            raise KeyError(torch.get_num_threads())

    with pytest.raises(KeyError, match=str(before + 1)):
        fail()
    assert torch.get_num_threads() == before
