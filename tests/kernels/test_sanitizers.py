"""The kernels under sanitizers: a program without Python, fed by files that the equations wrote.

AddressSanitizer sees what reaches beyond an array, UndefinedBehaviorSanitizer what the language
does not define, ThreadSanitizer two threads at one element. `make sanitize` runs all cases.
"""

import importlib.util
import os
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

import filelock
import numpy as np
import pytest
import sanitizer_cases
import torch
from kernels_random import draw, random_layer
from sanitizer_cases import Case

REPOSITORY = Path(__file__).resolve().parents[2]
DRIVER = Path(__file__).parent / "sanitize" / "driver.cpp"
SANITIZERS = {
    "address and undefined": ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"],
    "thread": ["-fsanitize=thread"],
}
# -Og: as thorough as -O3, and compiled in a third of the time.
FLAGS = ["-Og", "-g1", "-pthread"]
# Vectors of AVX-512's width, which the compiler splits into what every processor has.
WIDE = "address and undefined, wide vectors"
WIDE_FLAGS = ["-Wno-psabi", *SANITIZERS["address and undefined"]]
CAPABILITIES = {"default": "portable", "avx2": "avx2", "avx512": "avx512"}


def load_build_script():
    spec = importlib.util.spec_from_file_location("build_kernels", REPOSITORY / "kernels/build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def build_driver(tmp_path_factory):
    """Builds the driver with a sanitizer, once for all processes of the test run.

    Skips where there is no compiler for it.
    """
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent

    def build(sanitizer: str) -> Path:
        objects = folder / f"driver, {sanitizer}"
        with filelock.FileLock(folder / "driver.lock"):
            if not (objects / "driver").exists():
                objects.mkdir(exist_ok=True)
                if sanitizer == WIDE:
                    compile_driver(objects, [*FLAGS, *WIDE_FLAGS], portable_width=64)
                else:
                    compile_driver(objects, [*FLAGS, *SANITIZERS[sanitizer]])
        return objects / "driver"

    return build


def compile_driver(folder: Path, flags: list[str], portable_width: int | None = None) -> None:
    """The driver with all capabilities, or with the portable one alone at a width of its own."""
    kernels = load_build_script()
    if portable_width is not None:
        flags_of, _, numbers = kernels.PORTABLE["portable"]
        kernels.PORTABLE = {"portable": (flags_of, portable_width, numbers)}
        kernels._is_x86 = lambda: False
    if (reason := kernels.why_not()) is not None:
        pytest.skip(reason)
    compiler = [*kernels.compiler_command(), *flags]
    (folder / "empty.cpp").write_text("int main() {}\n")
    try:
        kernels.run_all([[*compiler, str(folder / "empty.cpp"), "-o", str(folder / "empty")]])
        subprocess.run([folder / "empty"], check=True, capture_output=True)
    except (kernels.CannotBuildError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no program can be built and run with {' '.join(flags)}: {error}")
    compile = [*compiler, f"-I{kernels.SOURCES}", "-c"]
    commands = kernels.kernel_commands(folder, *flags)
    for source in (DRIVER, kernels.SOURCES / "dispatch.cpp"):
        commands.append([*compile, str(source), "-o", str(folder / f"{source.stem}.o")])
    kernels.run_all(commands)
    objects = [command[-1] for command in commands]
    kernels.run_all([[*compiler, *objects, "-o", str(folder / "driver")]])


@pytest.fixture(params=list(CAPABILITIES))
def capability(request):
    return request.param


def run(driver: Path, cases: Iterable[Case], folder: Path, capability: str = "default"):
    """What the driver says of the cases."""
    paths = [sanitizer_cases.write(case, folder) for case in cases]
    env = os.environ | {"SDROP_CPU_CAPABILITY": capability, "TSAN_OPTIONS": "halt_on_error=1"}
    return subprocess.run([driver, *paths], capture_output=True, text=True, check=False, env=env)


def check(driver, cases, folder, capability):
    name, cases = CAPABILITIES[capability], list(cases)
    if not run(driver, [], folder, capability).stdout.startswith(f"{name}: "):
        pytest.skip(f"this processor has no {name}")
    done = run(driver, cases, folder, capability)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(cases)} cases" in done.stdout


def test_small_layers_run_clean(build_driver, capability, tmp_path):
    driver = build_driver("address and undefined")
    check(driver, sanitizer_cases.few_cases(), tmp_path, capability)


def test_wide_vectors_are_right_on_any_processor(build_driver, tmp_path):
    """AVX-512's tiles, blocks and transposes, where there may be no such processor."""
    check(build_driver(WIDE), sanitizer_cases.few_cases(), tmp_path, "default")


@pytest.mark.long
def test_wide_vectors_are_right_at_all_sizes(build_driver, tmp_path):
    check(build_driver(WIDE), sanitizer_cases.many_cases(), tmp_path, "default")


@pytest.mark.long
def test_layers_of_all_sizes_run_clean(build_driver, capability, tmp_path):
    driver = build_driver("address and undefined")
    check(driver, sanitizer_cases.many_cases(), tmp_path, capability)


@pytest.mark.long
def test_two_threads_never_meet_at_an_element(build_driver, capability, tmp_path):
    check(build_driver("thread"), sanitizer_cases.few_cases(), tmp_path, capability)


def small_cases() -> list[Case]:
    steps = 20  # so many that some step keeps the last neuron, and so reads all of the weight
    bfloat16 = random_layer(steps, 3, 7, 10, ("III", "I"))
    layer = random_layer(steps, 2, 7, 10, ("III", "I"))
    x, mask = torch.randn(steps, 2, 10), draw("III", steps, 2, 10)
    return [
        sanitizer_cases.lstm_case("lstm", layer),
        sanitizer_cases.lstm_case("lstm of bfloat16", bfloat16, bfloat16=True),
        sanitizer_cases.linear_case("linear", x, 9, mask),
    ]


@pytest.mark.parametrize("case", small_cases(), ids=lambda case: case.name)
def test_every_wrong_result_is_told(build_driver, case, tmp_path):
    for name, array in case.arrays.items():
        if array.dtype == np.float64:
            wrong = array.copy()
            size = 1e-1 if "bfloat16" in case.arrays else 1e-3
            wrong.flat[-1] += size * np.abs(array).max()
            done = run(
                build_driver("address and undefined"),
                [Case(name, case.arrays | {name: wrong})],
                tmp_path,
            )
            assert done.returncode == 1
            told = rf": {name} is wrong by (1\.0e-03|.*e-0[12])"
            assert re.search(told, done.stdout), done.stdout


@pytest.mark.parametrize("case", small_cases(), ids=lambda case: case.name)
def test_a_read_behind_the_end_of_any_array_is_told(build_driver, case, tmp_path):
    for name, array in case.arrays.items():
        if array.dtype == np.float32 and not name.endswith("scale"):
            # A whole row of the input: of its last one the kernels read what the step keeps.
            missing = array.shape[-1] if name == "x" else 1
            short = Case(name, case.arrays | {name: array.ravel()[:-missing]})
            done = run(build_driver("address and undefined"), [short], tmp_path)
            assert "ERROR: AddressSanitizer" in done.stderr, name
