"""Builds the compiled CPU kernels into one shared library; called by setup.py, needs torch.

The kernels are compiled once a capability from the same source; which one runs is decided when the
library is loaded. The library uses torch's stable ABI and nothing of Python, so that it serves any
Python and, from 2.10 on, any torch.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SOURCES = Path(__file__).resolve().parent / "cpu"
JOBS = 2

# Not -ffast-math: it would set flush-to-zero for the whole process and forget NaN.
COMMON = ["-std=c++17", "-fPIC", "-fvisibility=hidden", "-g0", "-Wall", "-Wextra"]
KERNEL = ["-O3", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast"]
TORCH = ["-O3", "-DTORCH_TARGET_VERSION=0x020a000000000000"]

# Name -> flags, width of its vectors in bytes, and the numbers that it is compiled for. The
# portable one has all, so that every machine can run and test them.
PORTABLE = {"portable": ([], 16, ("FLOAT32", "BFLOAT16"))}
_AVX2 = ["-mavx2", "-mfma"]
_AVX512 = [f"-mavx512{part}" for part in ("f", "vl", "dq", "bw")] + _AVX2
_AVX512.append("-mprefer-vector-width=512")
X86 = {
    "avx2": (_AVX2, 32, ("FLOAT32",)),
    "avx512": (_AVX512, 64, ("FLOAT32",)),
    "avx512_bf16": ([*_AVX512, "-mavx512bf16"], 64, ("BFLOAT16",)),
    "amx": ([*_AVX512, "-mavx512bf16", "-mamx-tile", "-mamx-bf16"], 64, ("BFLOAT16", "TILES")),
}


class CannotBuildError(Exception):
    """Why there is no library, in a line that `sdrop.backends()` can show."""


def why_not() -> str | None:
    """Why a build cannot even begin; None if it can."""
    if not SOURCES.is_dir():
        return "not built: the kernels' sources are not in this distribution"
    if _compiler() is None:
        return (
            "not built: no C++ compiler was found when sdrop was installed; install g++ and run "
            "`pip install --no-build-isolation` again"
        )
    if importlib.util.find_spec("torch") is None:
        return (
            "not built: torch could not be imported when sdrop was installed; install torch and "
            "run `pip install --no-build-isolation`"
        )
    return None


def build(library: Path, objects: Path) -> None:
    """Compiles and links.

    Args:
        library: the file to write.
        objects: a folder for intermediate files.

    Raises:
        CannotBuildError: where something is missing or the compiler fails.
    """
    reason = why_not()
    if reason is not None:
        raise CannotBuildError(reason)
    objects.mkdir(parents=True, exist_ok=True)
    library.parent.mkdir(parents=True, exist_ok=True)
    commands = kernel_commands(objects) + _binding_commands(objects)
    run_all(commands)
    torch_folder = _torch_folder() / "lib"
    new = library.with_suffix(".new")
    link = [str(_compiler()), "-shared", "-s", "-o", str(new)]
    link += [command[-1] for command in commands]
    _run([*link, f"-L{torch_folder}", "-ltorch_cpu", "-lc10"])
    new.replace(library)


def kernel_commands(objects: Path, *flags: str) -> list[list[str]]:
    """The commands that compile the kernels alone, one a capability, the slowest first.

    Args:
        objects: the folder for the object files, each the last word of its command.
        flags: more flags of the compiler, which overrule the usual ones.
    """
    commands = []
    for name, (own, width, numbers) in ({**X86, **PORTABLE} if _is_x86() else PORTABLE).items():
        what = [f"-DSDROP_CAPABILITY={name}", f"-DSDROP_VECTOR_BYTES={width}"]
        what += [f"-DSDROP_{each}" for each in numbers]
        source = ["-c", str(SOURCES / "capability.cpp"), "-o", str(objects / f"{name}.o")]
        commands.append([*compiler_command(), *KERNEL, *own, *flags, *what, *source])
    return commands


def compiler_command() -> list[str]:
    """The compiler and the flags that all translation units have."""
    no_folders = f"-fmacro-prefix-map={SOURCES}/="  # errors name the line, not where it was built
    return [str(_compiler()), *COMMON, no_folders, *(["-DSDROP_X86"] if _is_x86() else [])]


def _binding_commands(objects: Path) -> list[list[str]]:
    """The same for what binds the kernels to torch, one a translation unit."""
    begin = [*compiler_command(), *TORCH, "-isystem", str(_torch_folder() / "include")]
    return [
        [*begin, "-c", str(path), "-o", str(objects / f"{path.stem}.o")]
        for path in sorted(SOURCES.glob("*.cpp"))
        if path.stem != "capability"
    ]


def run_all(commands: list[list[str]]) -> None:
    """Runs commands of the compiler, some at a time; raises CannotBuildError where one fails."""
    with ThreadPoolExecutor(JOBS) as pool:
        list(pool.map(_run, commands))


def _is_x86() -> bool:
    return platform.machine() in ("x86_64", "AMD64")


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(" ".join(command), done.stdout, done.stderr, sep="\n", flush=True)
        said = (done.stderr.strip().splitlines() or ["no message"])[0]
        raise CannotBuildError(f"not built: compiling failed when sdrop was installed ({said})")


def _compiler() -> str | None:
    asked = os.environ.get("CXX")
    names = [asked] if asked else ["g++", "c++", "clang++"]
    return next((found for name in names if (found := shutil.which(name))), None)


def _torch_folder() -> Path:
    spec = importlib.util.find_spec("torch")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent
