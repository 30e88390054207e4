"""What is said of the CUDA library on machines of all kinds, none of which has to be this one."""

import subprocess
import sys

import pytest
import torch

from sdrop.ops import native_cuda
from sdrop.ops.native_cuda import (
    LIBRARY,
    CudaLibrary,
    inspect,
    why_driver_too_old,
    why_not_architecture,
    why_not_here,
)

BUILT = CudaLibrary((80, 86, 90, 100, 120), 13000, 13000)


@pytest.fixture
def torch_with_a_gpu(monkeypatch):
    """A torch that knows CUDA and sees a GPU of the capability that it is told."""

    def pretend(capability):
        monkeypatch.setattr(torch.version, "cuda", "13.0")
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda *_: capability)

    return pretend


@pytest.mark.parametrize(
    ("capability", "runs"),
    [
        *[((8, 0), True), ((8, 6), True), ((8, 9), True), ((9, 0), True), ((10, 0), True)],
        *[((10, 3), True), ((12, 0), True), ((12, 1), True), ((13, 0), True)],
        *[((7, 5), False), ((11, 0), False)],
    ],
    ids=str,
)
def test_a_gpu_runs_code_of_its_family_or_the_newest_as_ptx(torch_with_a_gpu, capability, runs):
    torch_with_a_gpu(capability)
    reason = why_not_here(BUILT)
    assert reason == why_not_architecture(BUILT, capability)
    assert (reason is None) == runs
    if not runs:
        number = 10 * capability[0] + capability[1]
        assert f"not for this GPU's sm_{number}" in reason


@pytest.mark.parametrize(
    ("driver", "runs"), [(13000, True), (13020, True), (14000, True), (12080, False)]
)
def test_a_driver_of_an_older_major_release_is_too_old(torch_with_a_gpu, driver, runs):
    torch_with_a_gpu((9, 0))
    library = BUILT._replace(driver_version=driver)
    assert why_not_here(library) == why_driver_too_old(library)
    assert (why_not_here(library) is None) == runs
    if not runs:
        assert "the driver here is too old: it knows CUDA 12.8" in why_not_here(library)
        assert "built with 13.0" in why_not_here(library)


def test_a_torch_without_cuda_no_driver_and_no_device_are_told_apart(monkeypatch):
    monkeypatch.setattr(torch.version, "cuda", None)
    assert "is a build without CUDA" in why_not_here(BUILT)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert "no NVIDIA driver" in why_not_here(BUILT._replace(driver_version=0))
    monkeypatch.setattr(native_cuda, "_torch_says", lambda: "no device")
    assert "torch sees no GPU here (no device)" in why_not_here(BUILT)


def test_what_the_installation_wrote_is_what_is_said(tmp_path):
    reason = tmp_path / "_CUDA.missing"
    missing = tmp_path / "_CUDA.so"
    assert inspect(missing, reason).startswith("not built: this is a checkout")
    reason.write_text("not built: no nvcc was found\n")
    assert inspect(missing, reason) == "not built: no nvcc was found"
    assert why_not_here(inspect(missing, reason)) == "not built: no nvcc was found"


def test_a_library_that_does_not_load_is_told_and_breaks_nothing(tmp_path):
    broken = tmp_path / "_CUDA.so"
    broken.write_text("no library")
    assert inspect(broken).startswith("built, but it does not load")


def test_the_library_loads_without_a_gpu_and_says_what_it_was_built_for():
    if not LIBRARY.exists():
        pytest.skip(f"the CUDA kernels are {inspect()}")
    program = (
        "import torch, sdrop\n"
        "from sdrop.ops.native_cuda import LIBRARY, has_kernel, inspect\n"
        "torch.ops.load_library(str(LIBRARY))\n"
        "ops = ('lstm_cuda', 'lstm_cuda_backward', 'linear_cuda', 'linear_cuda_backward')\n"
        "print(all(has_kernel(f'sdrop::{op}', torch.device('cuda')) for op in ops))\n"
        "print(inspect().architectures)\n"
    )
    command = [sys.executable, "-W", "error", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    has_all, architectures = done.stdout.splitlines()
    assert has_all == "True"
    assert architectures.startswith("(80, ")


@pytest.mark.parametrize(
    ("precision", "pattern", "rows", "said"),
    [
        ("float32", "keep_all", 20, "whole, whole, whole: nothing is dropped"),
        ("float32", "set_a_step", 20, "row_skip, row_skip, row_skip: float32"),
        ("tf32", "set_a_step", 20, "masked, masked, masked: "),
        ("bfloat16", "set_a_step", 64, "tensor_core, tensor_core, masked: "),
        ("bfloat16", "one_set", 1, "packed, packed, packed: one set"),
        ("tf32", "each_element", 99, "masked, masked, masked: each sequence"),
    ],
)
def test_the_library_tells_how_products_are_computed(precision, pattern, rows, said):
    if not LIBRARY.exists():
        pytest.skip(f"the CUDA kernels are {inspect()}")
    assert native_cuda.method(precision, pattern, rows).startswith(said)


def test_without_a_library_no_method_is_told(tmp_path):
    assert native_cuda.method("float32", "one_set", 1, tmp_path / "_CUDA.so") is None
