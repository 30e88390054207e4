"""Which packages the wheel holds, and the compiled kernels; all else is in pyproject.toml.

`recipes` and `conf` stand at the top of a checkout, where they are read and edited, and travel
inside the package, so that no stray `conf` lands in site-packages. pyproject.toml can express that
mapping only with every package listed by hand.

The kernels are built where torch and a C++ compiler are at hand. Without them sdrop installs all
the same, and `sdrop.backends()` tells what was missing.
"""

import importlib.util
from pathlib import Path
from types import ModuleType

from setuptools import Distribution, find_packages, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent
LIBRARY, REASON = "_C.so", "_C.missing"  # as sdrop/ops/native.py reads them


def load_build_script() -> ModuleType | None:
    """kernels/build.py; None in a source tree without kernels.

    Not by its name, which a package on PyPI has too.
    """
    path = ROOT / "kernels" / "build.py"
    if not path.exists():
        return None
    spec = importlib.util.spec_from_file_location("build_kernels", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


kernels = load_build_script()


class BuildWithKernels(build_py):
    """Copies the modules, and puts the library or the reason for its absence beside them."""

    def run(self) -> None:
        super().run()
        if kernels is not None:
            in_place = getattr(self, "editable_mode", False)
            self.build_kernels((ROOT if in_place else Path(self.build_lib)) / "sdrop")

    def build_kernels(self, package: Path) -> None:
        package.mkdir(parents=True, exist_ok=True)
        for name in (LIBRARY, REASON):
            (package / name).unlink(missing_ok=True)
        try:
            kernels.build(package / LIBRARY, ROOT / "build" / "kernels")
        except kernels.CannotBuildError as error:
            (package / REASON).write_text(f"{error}\n")
            self.warn(f"the CPU kernels are {error}")


class WithKernels(Distribution):
    """Tells setuptools that the wheel holds compiled code, where it will."""

    def has_ext_modules(self) -> bool:
        return kernels is not None and kernels.why_not() is None


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
