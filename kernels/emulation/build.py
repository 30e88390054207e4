"""Builds the CUDA sources for the CPU: the library that the tests run kernels in, with no GPU.

The same `kernels/cuda/*.cu` that nvcc compiles go through a C++ compiler with `cuda_emulation.h`,
and the ops are registered for CPU tensors. Objects are kept under the hash of all that went into
them, so that only what changed is compiled again.
"""

from __future__ import annotations

import hashlib
import importlib.util
import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

EMULATION = Path(__file__).resolve().parent
SOURCES = EMULATION.parent / "cuda"
JOBS = 2

# -O1: a fifth slower to run than -O2 and a good deal faster to compile.
FLAGS = ["-std=c++17", "-O1", "-fPIC", "-fvisibility=hidden", "-g0", "-Wall", "-Wextra"]
FLAGS += ["-Wno-unknown-pragmas", "-DTORCH_TARGET_VERSION=0x020a000000000000"]

_INCLUDE = re.compile(r'^\s*#include "([^"]+)"', re.MULTILINE)


def compiler() -> str | None:
    """The C++ compiler, None where there is none."""
    return shutil.which("g++") or shutil.which("clang++")


def build(folder: Path, flags: tuple[str, ...] = ()) -> Path:
    """Compiles what has changed, and links.

    Args:
        folder: for objects and libraries; they stay there for the next time.
        flags: more flags of the compiler, such as a sanitizer's.

    Returns:
        the library.

    Raises:
        RuntimeError: with the compiler's words, where it fails.
    """
    folder.mkdir(parents=True, exist_ok=True)
    sources = [EMULATION / "emulation.cpp", *sorted(SOURCES.glob("*.cu"))]
    with ThreadPoolExecutor(JOBS) as pool:
        objects = list(pool.map(lambda source: _compile(source, folder, flags), sources))
    names = "".join(path.name for path in objects)
    library = folder / f"emulated-{hashlib.sha256(names.encode()).hexdigest()[:16]}.so"
    if not library.exists():
        linked = library.with_suffix(".new")
        torch = _torch_folder() / "lib"
        command = [str(compiler()), *flags, "-shared", "-o", str(linked), *map(str, objects)]
        _run([*command, f"-L{torch}", "-ltorch_cpu", "-lc10"])
        linked.replace(library)
    return library


def _compile(source: Path, folder: Path, flags: tuple[str, ...]) -> Path:
    begin = [str(compiler()), "-x", "c++", *FLAGS, *flags, f"-I{EMULATION}", f"-I{SOURCES}"]
    begin += ["-isystem", str(_torch_folder() / "include")]
    digest = hashlib.sha256(" ".join(begin).encode())
    for path in _with_includes(source):
        digest.update(path.read_bytes())
    compiled = folder / f"{source.stem}-{digest.hexdigest()[:16]}.o"
    if not compiled.exists():
        new = compiled.with_suffix(".new")
        _run([*begin, "-c", str(source), "-o", str(new)])
        new.replace(compiled)
    return compiled


def _with_includes(source: Path) -> list[Path]:
    """The source and all of our headers that it includes, directly or not."""
    found, waiting = [], [source]
    while waiting:
        path = waiting.pop()
        found.append(path)
        for name in _INCLUDE.findall(path.read_text()):
            here = next((f / name for f in (SOURCES, EMULATION) if (f / name).exists()), None)
            if here is not None and here not in found and here not in waiting:
                waiting.append(here)
    return sorted(found)


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}\n{done.stderr}")


def _torch_folder() -> Path:
    spec = importlib.util.find_spec("torch")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent
