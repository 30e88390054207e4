"""Builds the CUDA kernels into one shared library; called by setup.py, needs torch and nvcc.

    python kernels/build_cuda.py WHEEL...  # do these wheels hold the CUDA kernels, and if not, why

Every `kernels/cuda/*.cu` is compiled for all of ARCHITECTURES and linked with a runtime of its
own, on torch's stable ABI and against any torch's headers: the library serves the CPU and CUDA
builds of torch from 2.10 on, and nobody who gets it needs nvcc. `SDROP_BUILD_CUDA=0` leaves it
out. Objects are kept under the hash of all that went into them, beside what ptxas said of them.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

KERNELS = Path(__file__).resolve().parent
SOURCES = KERNELS / "cuda"
OBJECTS = KERNELS.parent / "build" / "cuda"
"""Where a checkout keeps its objects."""

ARCHITECTURES = (80, 86, 90, 100, 120)
"""Ampere, Ampere and Ada of desktops, Hopper, Blackwell, Blackwell of desktops. A processor runs
code for its own number or a lower one of the same ten; later ones get the newest as PTX."""

OLDEST_NVCC = (12, 0)
SWITCH = "SDROP_BUILD_CUDA"


def _load_cpu_build() -> ModuleType:
    """build.py beside this file; not by its name, which a package on PyPI has too."""
    spec = importlib.util.spec_from_file_location("build_kernels", KERNELS / "build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


cpu = _load_cpu_build()
CannotBuildError: type[Exception] = cpu.CannotBuildError


@dataclass(frozen=True)
class Compiler:
    """An nvcc.

    Attributes:
        path: to call it by.
        version: such as (13, 0).
        architectures: those of ARCHITECTURES that it knows.
    """

    path: str
    version: tuple[int, int]
    architectures: tuple[int, ...]

    @property
    def dropped(self) -> str | None:
        """Which architectures it is too old for, in words; None where it knows all."""
        missing = [f"sm_{each}" for each in ARCHITECTURES if each not in self.architectures]
        if not missing:
            return None
        return (
            f"nvcc {_dotted(self.version)} does not know {', '.join(missing)}: the CUDA kernels "
            "are built without them; a newer CUDA toolkit has them"
        )


@dataclass(frozen=True)
class Unit:
    """A translation unit: how it is compiled, into what, and where ptxas's words are kept."""

    command: list[str]
    object: Path
    log: Path


def why_not() -> str | None:
    """Why a build cannot even begin; None if it can."""
    try:
        find_compiler()
    except CannotBuildError as error:
        return str(error)
    return None


def find_compiler() -> Compiler:
    """The nvcc of CUDA_HOME, or else of PATH.

    Raises:
        CannotBuildError: where there is none that can build here, with what to do about it.
    """
    if os.environ.get(SWITCH, "1") == "0":
        raise CannotBuildError(f"not built: {SWITCH}=0 was set when sdrop was installed")
    if not SOURCES.is_dir():
        raise CannotBuildError("not built: the kernels' sources are not in this distribution")
    if (reason := cpu.why_not()) is not None:
        raise CannotBuildError(reason)  # no torch, or no compiler for the host's part
    home = os.environ.get("CUDA_HOME")
    path = str(Path(home, "bin", "nvcc")) if home else shutil.which("nvcc")
    if path is None or not Path(path).exists():
        where = f"in CUDA_HOME={home}" if home else "on PATH"
        raise CannotBuildError(
            f"not built: no nvcc was found {where} when sdrop was installed; install the CUDA "
            "toolkit and run `pip install --no-build-isolation` again"
        )
    return _describe(path)


def _describe(path: str) -> Compiler:
    found = re.search(r"release (\d+)\.(\d+)", _ask(path, "--version"))
    if found is None:
        raise CannotBuildError(f"not built: {path} --version names no release")
    version = (int(found[1]), int(found[2]))
    if version < OLDEST_NVCC:
        raise CannotBuildError(
            f"not built: nvcc {_dotted(version)} is too old; install CUDA {_dotted(OLDEST_NVCC)} "
            "or later and run `pip install --no-build-isolation` again"
        )
    known = set(_ask(path, "--list-gpu-code").split())
    usable = tuple(each for each in ARCHITECTURES if f"sm_{each}" in known)
    return Compiler(path, version, usable)


def _ask(path: str, option: str) -> str:
    try:
        done = subprocess.run([path, option], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise CannotBuildError(f"not built: {path} does not run ({error})") from error
    return done.stdout


def _dotted(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))


def build(library: Path, objects: Path = OBJECTS) -> str | None:
    """Compiles what has changed, and links.

    Args:
        library: the file to write.
        objects: a folder for what later builds can use again.

    Returns:
        what the library lacks, in a line, or None.

    Raises:
        CannotBuildError: where something is missing, cannot be written or does not compile.
    """
    compiler = find_compiler()
    units = compile_units(compiler, objects)
    new = library.with_suffix(".new")
    link = [compiler.path, "-shared", "--cudart=static", *_host_compiler()]
    link += ["-Xlinker", "--exclude-libs,ALL,-s", "-o", str(new)]
    link += [str(unit.object) for unit in units]
    _run([*link, f"-L{_torch_folder() / 'lib'}", "-ltorch_cpu", "-lc10"])
    new.replace(library)
    return compiler.dropped


def compile_units(compiler: Compiler, objects: Path = OBJECTS) -> list[Unit]:
    """The translation units, each compiled unless its object is there already."""
    found = units_of(compiler, objects)
    try:
        objects.mkdir(parents=True, exist_ok=True)
        left = [unit for unit in found if not (unit.object.exists() and unit.log.exists())]
        with ThreadPoolExecutor(cpu.JOBS) as pool:
            list(pool.map(_compile, left))
        wanted = {path for unit in found for path in (unit.object, unit.log)}
        for old in set(objects.iterdir()) - wanted:
            old.unlink()
    except OSError as error:
        raise CannotBuildError(f"not built: {error}") from error
    return found


def units_of(compiler: Compiler, objects: Path = OBJECTS) -> list[Unit]:
    """What a build compiles, the largest first so that the parallel jobs end together."""
    sources = sorted(SOURCES.glob("*.cu"), key=lambda path: (-_size(path), path.name))
    return [_unit(compiler, source, objects) for source in sources]


def _unit(compiler: Compiler, source: Path, objects: Path) -> Unit:
    options = compiler_options(compiler)
    digest = hashlib.sha256(repr((compiler.version, options, _torch_version())).encode())
    for path in _included(source):
        digest.update(path.name.encode() + path.read_bytes())
    stem = objects / f"{source.stem}-{digest.hexdigest()[:16]}"
    target = stem.with_suffix(".o")
    include = ["-isystem", str(_torch_folder() / "include")]
    command = [compiler.path, *options, *_host_compiler(), *include, "-c", str(source)]
    return Unit([*command, "-o", str(target)], target, stem.with_suffix(".log"))


def compiler_options(compiler: Compiler) -> list[str]:
    """Language, target version of torch, architectures; the runtime is told what they are."""
    names = ",".join([f"sm_{each}" for each in compiler.architectures])
    options = ["-std=c++17", "-O3", "-Xcompiler", "-fPIC,-fvisibility=hidden", "-Xptxas", "-v"]
    options += [*cpu.TORCH[1:], "-DUSE_CUDA", f'-DSDROP_CUDA_ARCHITECTURES="{names}"']
    for each in compiler.architectures:
        newest = each == compiler.architectures[-1]
        code = f"[sm_{each},compute_{each}]" if newest else f"sm_{each}"
        options += ["-gencode", f"arch=compute_{each},code={code}"]
    return options


def _host_compiler() -> list[str]:
    return ["-ccbin", os.environ["CXX"]] if "CXX" in os.environ else []


def _included(source: Path) -> list[Path]:
    """A source and all files of this folder that it includes, in the order they come."""
    found: dict[Path, None] = {}
    waiting = [source]
    while waiting:
        path = waiting.pop(0)
        if path not in found:
            found[path] = None
            names = re.findall(r'^\s*#\s*include\s+"([^"]+)"', path.read_text(), re.MULTILINE)
            near = [(path.parent / name).resolve() for name in names]
            waiting += [each for each in near if each.exists()]
    return list(found)


def _size(source: Path) -> int:
    return sum(path.stat().st_size for path in _included(source))


def _compile(unit: Unit) -> None:
    said = _run(unit.command)
    unit.log.write_text(said)


def _run(command: list[str]) -> str:
    """What a command prints on its error stream."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(" ".join(command), done.stdout, done.stderr, sep="\n", flush=True)
        lines = (done.stderr + done.stdout).strip().splitlines() or ["no message"]
        said = next((line for line in lines if "error" in line), lines[-1])
        raise CannotBuildError(
            f"not built: compiling for CUDA failed when sdrop was installed ({said.strip()})"
        )
    return done.stderr


def _torch_folder() -> Path:
    folder: Any = cpu._torch_folder()
    return Path(folder)


def _torch_version() -> str:
    return (_torch_folder() / "version.py").read_text()


def main() -> None:
    """Says of wheels whether they hold the kernels."""
    for path in sys.argv[1:]:
        with zipfile.ZipFile(path) as wheel:
            said = "with CUDA kernels"
            if "sdrop/_CUDA.so" not in wheel.namelist():
                reason = wheel.read("sdrop/_CUDA.missing").decode().strip()
                said = f"WITHOUT CUDA kernels, which are {reason}"
        print(f"{path}: {said}")


if __name__ == "__main__":
    main()
