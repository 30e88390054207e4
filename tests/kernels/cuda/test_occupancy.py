"""kernels/cuda/occupancy.h: which sizes run in which mode, on devices by their published limits."""

import ctypes
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

REPOSITORY = Path(__file__).resolve().parents[3]
DOCS = REPOSITORY / "docs" / "cuda.md"

PROGRAM = """
#include "occupancy.h"
// mode, units, blocks, row_tile, chunk, bytes of shared memory
extern "C" void plan(int multiprocessors, int shared_bytes, int registers, int l2_bytes,
                     int cooperative, int batch, int hidden_size, int layers, int element_bytes,
                     int highest, long long* found) {
  const auto plan = sdrop::plan_recurrence(
      {multiprocessors, shared_bytes, registers, l2_bytes, cooperative != 0},
      {batch, hidden_size, layers, element_bytes}, static_cast<sdrop::RecurrenceMode>(highest));
  found[0] = static_cast<int>(plan.mode);
  found[1] = plan.division.units;
  found[2] = plan.division.tiles * layers;
  found[3] = plan.division.row_tile;
  found[4] = plan.division.chunk;
  found[5] = static_cast<long long>(plan.shared_bytes);
}
"""


class Device(NamedTuple):
    """What the CUDA programming guide and NVIDIA's architecture papers say of a device."""

    multiprocessors: int
    shared_bytes: int
    l2_bytes: int
    registers: int = 64 * 1024
    cooperative: int = 1


DEVICES = {
    "A100": Device(108, 163 * 1024, 40 * 2**20),
    "H100": Device(132, 227 * 1024, 50 * 2**20),
    "H200": Device(132, 227 * 1024, 50 * 2**20),
    "RTX 4090": Device(128, 99 * 1024, 72 * 2**20),
}
# Name -> B, H, directions: the layers of the benchmark.
SHAPES = {
    "ptb_medium": (20, 650, 1),
    "ptb_large": (20, 1500, 1),
    "awd": (80, 1150, 1),
    "iwslt": (64, 500, 1),
    "conll_200": (32, 200, 2),
    "conll_100": (10, 100, 2),
}
MODES = ("resident", "streamed", "by_step")


class Plan(NamedTuple):
    """What `plan` finds."""

    mode: str
    units: int
    blocks: int
    row_tile: int
    chunk: int
    shared_bytes: int


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    """`plan_recurrence`, called for a device and a layer."""
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    folder = tmp_path_factory.mktemp("occupancy")
    source, library = folder / "plan.cpp", folder / "plan.so"
    source.write_text(PROGRAM)
    include = f"-I{REPOSITORY / 'kernels' / 'cuda'}"
    command = [compiler, "-std=c++17", "-Wall", "-Werror", "-shared", "-fPIC", include]
    subprocess.run([*command, str(source), "-o", str(library)], check=True)
    function = ctypes.CDLL(str(library)).plan

    def call(device, batch, hidden_size, layers=1, element_bytes=4, highest="resident"):
        found = (ctypes.c_longlong * 6)()
        limits = (device.multiprocessors, device.shared_bytes, device.registers)
        limits += (device.l2_bytes, device.cooperative)
        shape = (batch, hidden_size, layers, element_bytes)
        function(*limits, *shape, MODES.index(highest), found)
        return Plan(MODES[found[0]], *found[1:])

    return call


def table(plan) -> str:
    """The table of docs/cuda.md: how each layer runs on each device."""
    lines = ["| layer | " + " | ".join(DEVICES) + " |", "|---" * (len(DEVICES) + 1) + "|"]
    for name, (batch, hidden_size, directions) in SHAPES.items():
        for dtype, element_bytes in (("float32", 4), ("bfloat16", 2)):
            cells = [f"{name}, {dtype}"]
            for device in DEVICES.values():
                found = plan(device, batch, hidden_size, directions, element_bytes)
                kilobytes = -(-found.shared_bytes // 1024)
                cells.append(f"{found.mode} {found.blocks} x {found.units}, {kilobytes} KB")
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def largest_table(plan) -> str:
    """The second table: the largest H of one layer at B = 20 that a mode takes."""
    lines = ["| largest H at B = 20 | " + " | ".join(DEVICES) + " |"]
    lines.append("|---" * (len(DEVICES) + 1) + "|")
    for dtype, element_bytes in (("float32", 4), ("bfloat16", 2)):
        for mode in MODES[:2]:
            cells = [f"{mode}, {dtype}"]
            for device in DEVICES.values():
                fits = [
                    h for h in range(1, 4097) if plan(device, 20, h, 1, element_bytes).mode == mode
                ]
                cells.append(str(max(fits)) if fits else "none")
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def test_the_tables_of_the_docs_are_what_the_arithmetic_gives(plan):
    text = DOCS.read_text()
    assert table(plan) in text, f"docs/cuda.md should have:\n{table(plan)}"
    assert largest_table(plan) in text, f"docs/cuda.md should have:\n{largest_table(plan)}"


@pytest.mark.parametrize("element_bytes", [2, 4])
@pytest.mark.parametrize("name", DEVICES)
def test_what_is_planned_fits_the_device(plan, name, element_bytes):
    device = DEVICES[name]
    for hidden_size in [*range(1, 40), 100, 650, 1150, 1500, 2000, 2500, 4000]:
        for batch in (1, 3, 20, 65, 130, 1000):
            for layers in (1, 2):
                found = plan(device, batch, hidden_size, layers, element_bytes)
                assert found.units * (found.blocks // layers) >= hidden_size
                assert found.units * (found.row_tile // 4) <= 256
                assert found.chunk >= 16
                if found.mode == "by_step":
                    assert found.shared_bytes <= 48 * 1024
                else:
                    assert found.shared_bytes <= device.shared_bytes
                    assert found.blocks <= device.multiprocessors
                if found.mode == "resident":
                    assert found.shared_bytes >= 4 * found.units * hidden_size * element_bytes


def test_a_lower_mode_is_taken_where_it_is_asked_for(plan):
    device = DEVICES["H200"]
    assert [plan(device, 20, 650, highest=mode).mode for mode in MODES] == list(MODES)


def test_without_cooperative_launches_every_step_is_a_launch(plan):
    device = DEVICES["H200"]._replace(cooperative=0)
    assert plan(device, 20, 650).mode == "by_step"


def test_weights_that_the_second_level_cache_cannot_hold_are_not_streamed(plan):
    device = DEVICES["H200"]
    assert plan(device, 20, 1500).mode == "streamed"
    assert plan(device._replace(l2_bytes=40 * 2**20), 20, 1500).mode == "by_step"


def test_two_layers_share_the_multiprocessors(plan):
    one, two = (plan(DEVICES["H200"], 20, 650, layers) for layers in (1, 2))
    assert (one.mode, two.mode) == ("resident", "resident")
    assert (one.units, two.units) == (5, 10)


def test_a_device_with_fewer_registers_than_a_block_may_need_is_not_persistent(plan):
    device = DEVICES["H200"]._replace(registers=32 * 1024)
    assert plan(device, 20, 650).mode == "by_step"
