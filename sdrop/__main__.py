"""The command `python -m sdrop`: an editable copy of a recipe.

python -m sdrop copy-recipe ptb DIR
"""

from __future__ import annotations

import argparse
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
_LEFT_OUT = shutil.ignore_patterns("__pycache__", "demo.py")


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line says; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m sdrop")
    commands = parser.add_subparsers(dest="command", required=True)
    copy = commands.add_parser("copy-recipe", help="copy a recipe and its options, to edit them")
    copy.add_argument("recipe", choices=sorted(_recipes()))
    copy.add_argument("folder", type=Path, help="where to; made if it is not there")
    given = parser.parse_args(arguments)
    try:
        copy_recipe(given.recipe, given.folder)
    except OSError as error:
        print(error, file=sys.stderr)
        return 1
    place = shlex.quote(str(given.folder))
    print(f"Copied. Run it: cd {place} && python -m recipes.{given.recipe}")
    return 0


def copy_recipe(recipe: str, folder: Path) -> None:
    """Copy a recipe into `folder/recipes` and its options into `folder/conf`.

    Raises:
        FileExistsError: where one of the two is there already; nothing is copied then.
    """
    for name in ("recipes", "conf"):
        if (folder / name).exists():
            raise FileExistsError(
                f"{folder / name} is there already, and nothing was copied: choose another folder, "
                "or move it away"
            )
    others = _recipes() - {recipe}
    for name, suffix in (("recipes", "py"), ("conf", "yaml")):
        shutil.copytree(_source() / name, folder / name, ignore=_LEFT_OUT)
        for other in others:
            (folder / name / f"{other}.{suffix}").unlink(missing_ok=True)


def _source() -> Path:
    """Where `recipes` and `conf` lie: inside the installed package, beside it in a checkout."""
    inside = (_PACKAGE / "recipes").is_dir()
    return _PACKAGE if inside else _PACKAGE.parent


def _recipes() -> set[str]:
    """Names of the recipes: each has a primary config."""
    return {config.stem for config in (_source() / "conf").glob("*.yaml")}


if __name__ == "__main__":
    sys.exit(main())
