"""No kernel spills or takes more than its budget, for any architecture."""

import sys
from pathlib import Path

import pytest

KERNELS = Path(__file__).resolve().parents[3] / "kernels"
LOG = """ptxas info    : 28 bytes gmem
ptxas info    : Compiling entry function '_ZN5sdrop4tileILi64EEEvPfi' for 'sm_80'
ptxas info    : Function properties for _ZN5sdrop4tileILi64EEEvPfi
    {frame} bytes stack frame, {spills} bytes spill stores, 0 bytes spill loads
ptxas info    : Used {registers} registers, used 1 barriers, {shared} bytes smem, 384 bytes cmem[0]
ptxas info    : Compiling entry function 'plain' for 'sm_90a'
ptxas info    : Function properties for plain
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 15 registers, used 0 barriers, 372 bytes cmem[0]
"""
PLAIN = {"registers": 40, "shared": 128, "frame": 0, "spills": 0}


@pytest.fixture
def resources(monkeypatch):
    monkeypatch.syspath_prepend(str(KERNELS))
    import cuda_resources

    yield cuda_resources
    for name in ("cuda_resources", "build_cuda"):
        sys.modules.pop(name)


def test_a_log_is_read_by_kernel_and_architecture(resources):
    usage = resources.usage_of([LOG.format(**PLAIN)])
    assert list(usage) == ["plain", "tile<64>"]
    assert usage["tile<64>"] == {80: resources.Resources(40, 0, 0, 128)}
    assert usage["plain"] == {90: resources.Resources(15, 0, 0, 0)}


def test_a_log_that_is_cut_off_is_no_log(resources):
    text = LOG.format(**PLAIN)
    with pytest.raises(ValueError, match="does not tell what plain takes"):
        resources.usage_of([text[: text.rindex("ptxas")]])


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({}, []),
        ({"registers": 33}, []),
        ({"registers": 41}, ["tile<64>, sm_80: registers 41, the budget has 40"]),
        ({"shared": 132}, ["tile<64>, sm_80: shared 132, the budget has 128"]),
        ({"frame": 16}, ["tile<64>, sm_80: stack 16, the budget has 0"]),
        ({"spills": 8}, ["tile<64>, sm_80: spills 8 bytes, none may"]),
    ],
)
def test_what_passes_the_budget_is_told(resources, tmp_path, change, wrong):
    file = tmp_path / "budget.json"
    resources.write_budget(resources.usage_of([LOG.format(**PLAIN)]), "13.0", file)
    compiler, budget = resources.read_budget(file)
    assert compiler == "13.0"
    found = resources.over_budget(resources.usage_of([LOG.format(**PLAIN | change)]), budget)
    assert found == wrong


def test_a_new_kernel_and_one_that_is_gone_are_told(resources):
    usage = resources.usage_of([LOG.format(**PLAIN)])
    budget = resources.budget_for(usage)
    budget["gone"] = budget.pop("plain")
    assert resources.over_budget(usage, budget) == [
        "gone: in the budget, but there is no such kernel",
        "plain, sm_90: not in the budget",
    ]


def test_every_kernel_is_within_the_committed_budget_and_none_spills(resources):
    if (reason := resources.build_cuda.why_not()) is not None:
        pytest.skip(f"the CUDA kernels are {reason}")
    compiler, usage = resources.measure()
    budgeted_for, budget = resources.read_budget()
    table = resources.table(usage)
    spilling = [line for line in table.splitlines() if "!" in line.split("spills)")[-1]]
    assert not spilling, table
    if compiler != budgeted_for:
        pytest.skip(
            f"the budget is for nvcc {budgeted_for}, this is {compiler}: spills alone count"
        )
    assert {each for found in usage.values() for each in found} == set(
        resources.build_cuda.ARCHITECTURES
    )
    assert resources.over_budget(usage, budget) == [], table
