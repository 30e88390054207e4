"""The CUDA kernels, emulated, under AddressSanitizer and bounds checks: programs without Python and
torch, fed by files that the reference wrote. And kernels broken on purpose, which must be told."""

import itertools
import os
import shutil
import subprocess
from pathlib import Path

import filelock
import pytest
import sanitizer_cases
import torch
from kernels_random import PATTERNS, draw, random_layer
from sanitizer_cases import linear_case, lstm_case

REPOSITORY = Path(__file__).resolve().parents[3]
KERNELS = REPOSITORY / "kernels"
DRIVERS = Path(__file__).parent / "sanitize"
FLAGS = ["-std=c++17", "-Og", "-g1", "-Wall", "-Wextra", "-Wno-unknown-pragmas"]
FLAGS += ["-fsanitize=address,undefined,bounds", "-fno-sanitize-recover=all"]
SHARED = [pattern for pattern in PATTERNS if pattern not in ("I", "II")]
"""Patterns in which the whole batch drops the same neurons: the row-skipping kernels' business."""


def compile_driver(name: str, program: Path, sources: Path = KERNELS / "cuda") -> Path:
    """Builds sanitize/NAME_driver.cpp; skips where the compiler has no sanitizer."""
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no g++: the CUDA kernels cannot be emulated")
    includes = [KERNELS / "emulation", sources, DRIVERS, DRIVERS.parents[1] / "sanitize"]
    command = [compiler, "-x", "c++", *FLAGS, *[f"-I{folder}" for folder in includes]]
    source = DRIVERS / f"{name}_driver.cpp"
    done = subprocess.run(
        [*command, source, "-o", program], capture_output=True, text=True, check=False
    )
    if "asan" in done.stderr and done.returncode != 0:
        pytest.skip(f"no program can be built with sanitizers: {done.stderr}")
    assert done.returncode == 0, done.stderr
    return program


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    """A function that builds a driver by name, once for all processes of the test run."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent

    def build(name: str) -> Path:
        program = folder / f"cuda {name} driver"
        with filelock.FileLock(folder / f"cuda {name}.lock"):
            return program if program.exists() else compile_driver(name, program)

    return build


def run(program, cases, folder):
    paths = [sanitizer_cases.write(case, folder) for case in cases]
    return subprocess.run([program, *paths], capture_output=True, text=True, check=False)


def check(program, cases, folder):
    cases = list(cases)
    done = run(program, cases, folder)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert f"{len(cases)} cases" in done.stdout


def few_linear_cases():
    for pattern in SHARED:
        x = torch.randn(3, 20, 70)
        yield linear_case(f"linear {pattern}", x, 131, draw(pattern, 3, 20, 70))
    yield linear_case("wide steps", torch.randn(2, 65, 17), 12, draw("III", 2, 65, 17))
    yield linear_case("one of each", torch.randn(1, 1, 1), 1, draw("all", 1, 1, 1))
    sizes = torch.tensor([6, 6, 3, 1])
    options = {"bias": False, "batch_sizes": sizes}
    yield linear_case("packed", torch.randn(16, 21), 45, draw("III", 4, 6, 21), **options)


def few_lstm_cases():
    for i, pattern in enumerate(PATTERNS):
        options = {"packed": i % 2 == 1, "reverse": i % 3 == 1, "bias": i % 4 != 3}
        layer = random_layer(3, 5, 7, 19, (PATTERNS[-1 - i], pattern), **options)
        yield lstm_case(f"lstm {pattern}", layer)
    yield lstm_case("one of each", random_layer(1, 1, 1, 1, ("all", "all")))


def many_cases():
    for pattern, batch, features in itertools.product(SHARED, (1, 8, 33), (1, 64, 257)):
        mask = draw(pattern, 4, batch, 100)
        yield linear_case(
            f"{pattern} {batch} {features}", torch.randn(4, batch, 100), features, mask
        )


def many_lstm_cases():
    for pattern, batch, hidden in itertools.product(PATTERNS, (1, 20, 66), (3, 64, 100)):
        layer = random_layer(4, batch, 5, hidden, (pattern, pattern), packed=batch == 20)
        yield lstm_case(f"{pattern} {batch} {hidden}", layer)


def test_the_row_skipping_products_run_clean(driver, tmp_path):
    check(driver("linear"), few_linear_cases(), tmp_path)


def test_the_recurrence_runs_clean_in_every_mode(driver, tmp_path):
    check(driver("lstm"), few_lstm_cases(), tmp_path)


@pytest.mark.long
def test_products_of_many_sizes_run_clean(driver, tmp_path):
    check(driver("linear"), many_cases(), tmp_path)


@pytest.mark.long
def test_recurrences_of_many_sizes_run_clean(driver, tmp_path):
    check(driver("lstm"), many_lstm_cases(), tmp_path)


BROKEN = {
    # name: (file, what stands there, what is put instead, what must be said)
    "a barrier is missing": (
        "pipeline.cuh",
        "    __syncthreads();  // everybody's copies are here, and nobody reads the slot before",
        "    //",
        "wrong by|has other bits",
    ),
    "an index is one too large": (
        "row_skip_forward.cuh",
        "if (column < on.columns) to[column]",
        "if (column <= on.columns) to[column]",
        "ERROR: AddressSanitizer: heap-buffer-overflow",
    ),
    "shared memory is never set": (
        "row_skip_weight_gradient.cuh",
        "i += Tile::kThreads) pool[i] = 0.0f;",
        "i += Tile::kThreads) {}",
        "grad_weight is wrong by inf",
    ),
}


@pytest.mark.parametrize("mistake", list(BROKEN))
def test_a_kernel_that_is_broken_on_purpose_is_told(mistake, tmp_path):
    file, original, changed, said = BROKEN[mistake]
    sources = tmp_path / "cuda"
    shutil.copytree(KERNELS / "cuda", sources)
    text = (sources / file).read_text()
    assert text.count(original) == 1, f"{file} has changed: break it in another way"
    (sources / file).write_text(text.replace(original, changed))
    program = compile_driver("linear", tmp_path / "broken", sources)
    done = run(program, few_linear_cases(), tmp_path)
    assert done.returncode != 0
    assert any(each in done.stdout + done.stderr for each in said.split("|")), done.stdout
