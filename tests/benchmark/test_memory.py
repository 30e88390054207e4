"""Peak memory, each candidate in a process of its own."""

import json

import torch

from sdrop.benchmark import memory
from sdrop.benchmark.process import in_a_process_of_its_own
from sdrop.benchmark.rows import Setting
from sdrop.benchmark.shapes import SHAPES, parse_shape

TINY = parse_shape("T2-B2-H4-V7")


def test_a_process_tells_its_peak(capsys):
    memory.main(["T2-B2-H4-V7", "structured"])
    assert json.loads(capsys.readouterr().out)["megabytes"] > 10


def test_the_peak_is_what_was_held_at_most():
    before = memory.peak_megabytes()
    held = torch.ones(int(before) * 1024**2 // 2)
    peak = memory.peak_megabytes()
    del held
    assert peak > 1.2 * before
    assert memory.peak_megabytes() > 0.9 * peak  # the kernel counts in batches


def test_a_fresh_process_does_not_count_what_this_one_holds():
    held = torch.zeros(int(memory.peak_megabytes()) * 1024**2 // 2)
    found = in_a_process_of_its_own("sdrop.benchmark.memory", "T2-B2-H4-V7", "stock", Setting())
    assert 10 < found["megabytes"] < memory.peak_megabytes()
    del held


def test_a_row_compares_two_processes(monkeypatch):
    asked = []

    def process(module, shape, name, setting):
        asked.append(name)
        return {"megabytes": {"stock": 30.0, "structured": 20.0, "structured_nr": 60.0}[name]}

    monkeypatch.setattr(memory, "in_a_process_of_its_own", process)
    variants = ["structured_nr", "structured", "unrolled"]
    rows = memory.memory_rows(TINY, variants, Setting(), machine="here")
    assert asked == ["stock", "structured_nr", "structured"]
    assert [(row.variant, row.baseline, row.ratio) for row in rows] == [
        ("structured_nr", "stock", 0.5),
        ("structured", "stock", 1.5),
    ]
    assert (rows[0].milliseconds, rows[0].megabytes, rows[0].machine) == (None, 60.0, "here")


def test_what_is_not_trained_has_no_row():
    assert memory.memory_rows(SHAPES["generation"], ["none"], Setting()) == []
