"""Which packages the wheel holds, and the compiled kernels; all else is in pyproject.toml.

`recipes` and `conf` stand at the top of a checkout, where they are read and edited, and travel
inside the package, so that no stray `conf` lands in site-packages. pyproject.toml can express that
mapping only with every package listed by hand.

The kernels are built where torch and a C++ compiler are at hand, those for CUDA where nvcc is too.
Without them sdrop installs all the same, and `sdrop.backends()` tells what was missing.
SDROP_BUILD_CUDA=0 leaves the CUDA kernels out, SDROP_BUILD_CUDA=1 makes it an error if they cannot
be built.
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path

from setuptools import Distribution, find_packages, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent
KERNELS = ROOT / "kernels"

build_cuda = None  # in a source tree without kernels
if KERNELS.is_dir():
    sys.path.append(str(KERNELS))
    import build_cuda


class BuildWithKernels(build_py):
    """Copies the modules, and puts each library or the reason for its absence beside them."""

    def run(self) -> None:
        super().run()
        if build_cuda is not None:
            in_place = getattr(self, "editable_mode", False)
            package = (ROOT if in_place else Path(self.build_lib)) / "sdrop"
            package.mkdir(parents=True, exist_ok=True)
            self.build_library(package, "_C", build_cuda.cpu.build, ROOT / "build" / "kernels")
            self.build_library(package, "_CUDA", build_cuda.build, build_cuda.OBJECTS)

    def build_library(
        self, package: Path, name: str, build: Callable[[Path, Path], str | None], objects: Path
    ) -> None:
        """The names are those that sdrop/ops/native.py and native_cuda.py read."""
        library, missing = package / f"{name}.so", package / f"{name}.missing"
        try:
            library.unlink(missing_ok=True)
            missing.unlink(missing_ok=True)
            if said := build(library, objects):
                self.warn(said)
        except build_cuda.CannotBuildError as error:
            if name == "_CUDA" and os.environ.get(build_cuda.SWITCH) == "1":
                raise
            missing.write_text(f"{error}\n")
            self.warn(f"the kernels of sdrop/{name}.so are {error}")


class WithKernels(Distribution):
    """Tells setuptools that the wheel holds compiled code, where it will."""

    def has_ext_modules(self) -> bool:
        return build_cuda is not None and build_cuda.cpu.why_not() is None


class AnyPythonWheel(bdist_wheel):
    """The library knows nothing of Python: one wheel a platform, whatever the interpreter."""

    def get_tag(self) -> tuple[str, str, str]:
        python, abi, platform = super().get_tag()
        if self.distribution.has_ext_modules():
            python, abi = "py3", "none"
        return python, abi, platform


recipes = [f"sdrop.{name}" for name in find_packages(include=["recipes", "recipes.*"])]

setup(
    packages=[*find_packages(include=["sdrop", "sdrop.*"]), *recipes, "sdrop.conf"],
    package_dir={"sdrop.recipes": "recipes", "sdrop.conf": "conf"},
    cmdclass={"build_py": BuildWithKernels, "bdist_wheel": AnyPythonWheel},
    distclass=WithKernels,
)
