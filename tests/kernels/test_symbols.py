"""The libraries need nothing that torch 2.10, the oldest supported, does not have."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from sdrop.ops import native, native_cuda

OLDEST = Path(__file__).with_name("torch_2_10_symbols.txt")


@pytest.fixture(params=[native.LIBRARY, native_cuda.LIBRARY], ids=["cpu", "cuda"])
def library(request):
    if not request.param.exists():
        pytest.skip(f"{request.param.name} is not built: {native_cuda.inspect()}")
    return request.param


def listed(library: Path, tool: str, *options: str) -> list[str]:
    """The lines that a tool of binutils prints of the library."""
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} (binutils) is not installed")
    command = [tool, *options, str(library)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def test_all_symbols_that_torch_must_have_are_in_its_oldest_version(library):
    oldest = {line for line in OLDEST.read_text().splitlines() if not line.startswith("#")}
    lines = [line.split() for line in listed(library, "nm", "-D", "--undefined-only")]
    # Those with a version are of the C and C++ libraries, as are those in namespace std, of which
    # torch exports copies; weak ones ("w") may be missing.
    needed = {name for kind, name in lines if kind == "U" and "@" not in name}
    needed -= {name for name in needed if name.startswith(("_ZSt", "_ZNSt", "_ZNKSt"))}
    assert "torch_library_impl" in needed
    assert sorted(needed - oldest) == []


def test_the_library_is_tied_to_no_python_no_cuda_and_no_thread_pool_of_its_own(library):
    lines = listed(library, "readelf", "-d")
    needed = {match[1] for line in lines if (match := re.search(r"NEEDED.*\[(.*)\.so", line))}
    system = {"libstdc++", "libm", "libgcc_s", "libc", "ld-linux-x86-64", "ld-linux-aarch64"}
    assert needed - system == {"libtorch_cpu", "libc10"}
