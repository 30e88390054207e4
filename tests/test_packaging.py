"""What `pip install` gives, and what the tests are run with."""

import importlib.metadata
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

REPOSITORY = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]


def requirements(texts, extras=("",)):
    """Those that hold here for one of the extras."""
    parsed = [Requirement(text) for text in texts]
    return [
        r for r in parsed if not r.marker or any(r.marker.evaluate({"extra": e}) for e in extras)
    ]


def installed_needs():
    """Name -> installed version of all that the project with its `dev` extra needs."""
    declared = PROJECT["dependencies"] + PROJECT["optional-dependencies"]["dev"]
    for extra in ("tensorboard", "tagging"):
        declared += PROJECT["optional-dependencies"][extra]
    waiting = [r for r in requirements(declared) if r.name != "sdrop"]
    found = {}
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        if name not in found:
            found[name] = Version(importlib.metadata.version(name)).public
            needs = importlib.metadata.requires(name) or []
            waiting += requirements(needs, requirement.extras or ("",))
    return found


def test_constraints_pin_every_package_that_the_tests_run_with():
    lines = (REPOSITORY / "constraints.txt").read_text().splitlines()
    pinned = dict(line.split("==") for line in lines if not line.startswith("#"))
    pinned = {canonicalize_name(name): version for name, version in pinned.items()}
    needed = installed_needs()
    assert {name: pinned.get(name) for name in needed} == needed


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """A wheel built from a copy of the checkout where there is no compiler, unpacked."""
    folder = tmp_path_factory.mktemp("a wheel")
    source = folder / "source"
    source.mkdir()
    for name in ("sdrop", "recipes", "conf", "kernels"):
        junk = shutil.ignore_patterns("__pycache__", "*.so", "_C.missing")
        shutil.copytree(REPOSITORY / name, source / name, ignore=junk)
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(REPOSITORY / name, source)
    options = ["--quiet", "--no-index", "--no-deps", "--no-build-isolation"]
    command = [sys.executable, "-m", "pip", "wheel", *options, "--wheel-dir", folder, source]
    env = {**os.environ, "CXX": "no-such-compiler"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as archive:
        archive.extractall(folder / "unpacked")
    return folder / "unpacked"


def test_the_wheel_holds_library_recipes_and_configs_inside_one_package(wheel):
    wanted = {"py.typed": REPOSITORY / "sdrop" / "py.typed"}
    for folder, pattern, place in (
        ("sdrop", "*.py", Path()),
        ("recipes", "*.py", Path("recipes")),
        ("conf", "*.yaml", Path("conf")),
    ):
        for path in (REPOSITORY / folder).rglob(pattern):
            wanted[str(place / path.relative_to(REPOSITORY / folder))] = path
    packed = {
        str(p.relative_to(wheel / "sdrop")) for p in (wheel / "sdrop").rglob("*") if p.is_file()
    }
    assert packed == {*wanted, "_C.missing"}
    tops = {path.name for path in wheel.iterdir() if not path.name.endswith(".dist-info")}
    assert tops == {"sdrop"}


def run_beside(wheel, program, folder):
    """What a program prints that has sdrop from the wheel, started in another folder."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(wheel), "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_recipes_import_from_the_wheel_and_need_no_checkout(wheel, tmp_path):
    program = (
        "import sys, sdrop.recipes.ptb as recipe\n"
        "assert 'recipes' not in sys.modules\n"
        "print(recipe.__file__)\n"
    )
    assert Path(run_beside(wheel, program, tmp_path)) == wheel / "sdrop" / "recipes" / "ptb.py"


NOTHING_IS_COMPILED = """
import sys
import torch
processes = []
sys.addaudithook(lambda event, arguments: processes.append((event, arguments)) if event.startswith(
    ("subprocess.", "os.system", "os.exec", "os.posix_spawn", "os.fork")) else None)
import sdrop
output, _ = sdrop.LSTM(3, 4, recurrent_dropout=0.5)(torch.randn(2, 2, 3))
output.sum().backward()
assert not processes, processes
print(sdrop.backends()["cpu"])
"""


def test_without_a_compiler_all_works_and_backends_say_why_the_kernels_are_missing(wheel, tmp_path):
    said = run_beside(wheel, NOTHING_IS_COMPILED, tmp_path)
    assert said.startswith("not built: no C++ compiler was found when sdrop was installed")
