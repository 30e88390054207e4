"""Start a recipe: look at its command line first, then let Hydra run it."""

from __future__ import annotations

import inspect
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import hydra
from hydra._internal.utils import get_args_parser
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

from sdrop.training.memory import keep_freed_memory
from sdrop.training.signals import handled

from .compose import CONF, HYDRA_VERSION_BASE, compose, groups
from .mistakes import Mistake, find_mistakes
from .recall import quoted, with_recalled
from .registry import free_texts, register_schema

Task = Callable[[DictConfig], float | None]
_INTERRUPTED = 130  # what shells expect of a program that Ctrl-C ended
_LAST_WORDS = 2.0  # seconds
_SHOWN = 6  # mistakes at once, so that they fit on a screen


@contextmanager
def interruptible() -> Iterator[None]:
    """Leaves the process without a traceback where Ctrl-C, SIGTERM, or a run that one of them
    stopped, ends what is done inside."""
    try:
        with handled(signal.default_int_handler, signal.SIGTERM):
            yield
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(_INTERRUPTED)


@interruptible()
def launch(recipe: str, main: Task, told: tuple[type[Exception], ...] = ()) -> None:
    """Run `main` as the Hydra app `recipe`.

    Leaves the process with 2 after a mistyped command line, with 1 after a run that could not be
    done and with 130 after Ctrl-C or SIGTERM, which end a sweep too, each with a message in place
    of a traceback and without an empty run folder.

    Args:
        recipe: name of the primary config in `conf/`.
        main: takes the composed configuration, returns the number that a sweeper optimises.
        told: exceptions beside `Mistake` whose text is written for the user.
    """
    arguments = get_args_parser().parse_args()
    if arguments.hydra_help or arguments.shell_completion:
        _run_hydra(recipe, main)
        return
    if arguments.config_dir or arguments.config_path or arguments.config_name:
        _leave(
            ["Options of your own: `python -m sdrop copy-recipe` makes a copy of conf/ to edit."]
        )
    overrides = _checked(recipe, arguments.overrides, sweep=arguments.multirun)
    if arguments.help:
        print(_help(recipe, main, overrides))
        return
    flags = [each for each in sys.argv[1:] if each not in arguments.overrides]
    sys.argv[1:] = [*flags, *overrides]
    existing = _folders_before(recipe, overrides, sweep=arguments.multirun)
    keep_freed_memory()
    task = _Told(main, (Mistake, *told), existing)
    if _rank() == 0:
        _run_hydra(recipe, task.run_in_hydra)
    else:  # one process alone makes the run folder and tells the others where it is
        task.run(compose(recipe, overrides))
    if task.failed:
        sys.exit(1)


def _help(recipe: str, main: Task, overrides: list[str]) -> str:
    """Return how a recipe is called, which choices there are, and every option with its value."""
    commands = inspect.cleandoc(main.__globals__["__doc__"] or "")
    choices = "\n".join(f"  {group}={'|'.join(names)}" for group, names in groups(recipe).items())
    options = OmegaConf.to_yaml(compose(recipe, overrides))
    example = "model.hidden_size=650" if "model" in groups(recipe) else "rounds=10"
    return (
        f"{commands}\n\n"
        + (f"Choices:\n{choices}\n\n" if choices else "")
        + f"Options, written as in {example}, and their values here:\n{options}\n"
        "Hydra's own flags: --hydra-help"
    )


class _Told:
    """A task whose expected failures are told, not raised, and leave no empty folder behind.

    Args:
        main: the task.
        told: the exceptions that are expected.
        existing: folders that were there before the run folder was made.
    """

    def __init__(self, main: Task, told: tuple[type[Exception], ...], existing: list[Path]) -> None:
        self.main, self.told, self.existing, self.failed = main, told, existing, False

    def run_in_hydra(self, config: DictConfig) -> float | None:
        folder = Path(HydraConfig.get().runtime.output_dir)
        try:
            return self.run(config)
        except KeyboardInterrupt:
            if any((folder / "checkpoints").glob("step-*")):
                print(f"go on with resume={folder}")
            raise
        finally:
            while folder not in self.existing and folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()
                folder = folder.parent

    def run(self, config: DictConfig) -> float | None:
        try:
            return self.main(config)
        except self.told as error:
            print(error, file=sys.stderr)
            self.failed = True
            return None


def _checked(recipe: str, overrides: list[str], *, sweep: bool) -> list[str]:
    """Return the overrides to run with; leave the process where one of them is wrong."""
    if sweep and int(os.environ.get("WORLD_SIZE", "1")) > 1:
        _leave(["-m starts one run after the other: leave out either -m or torchrun."])
    if not sweep:
        try:
            overrides = with_recalled(recipe, [_free_text(each) for each in overrides])
        except Mistake as mistake:
            _leave([str(mistake)])
    mistakes = find_mistakes(recipe, overrides, sweep=sweep)
    if mistakes:
        _leave(mistakes)
    return overrides


def _folders_before(recipe: str, overrides: list[str], *, sweep: bool) -> list[Path]:
    """Return what is there of the run folder and those above it; leave where it cannot be made.

    A sweep's runs have their folders in its own, of which nothing is returned.
    """
    key = "hydra.sweep.dir" if sweep else "hydra.run.dir"
    if sweep:  # the other options may have several values, which compose no single run
        overrides = [each for each in overrides if each.startswith(f"{key}=")]
    hydra_config = compose(recipe, overrides, with_hydra=True).hydra
    folder = Path(hydra_config.sweep.dir if sweep else hydra_config.run.dir).absolute()
    try:
        existing = [each for each in (folder, *folder.parents) if each.exists()]
    except OSError as error:
        _leave([f"{key}={folder}: cannot be made: {error.strerror}. Choose another place."])
    try:  # what access rights say is not all: in /proc nothing can be made by anybody
        with tempfile.TemporaryDirectory(dir=existing[0]):
            pass
    except OSError:
        _leave(
            [
                f"{key}={folder}: cannot be made, since {existing[0]} is no folder that "
                "can be written to. Choose another place."
            ]
        )
    return [] if sweep else existing


def _free_text(override: str) -> str:
    """Quote a text or path, so that nothing in it is taken for a part of Hydra's own grammar."""
    key, _, value = override.partition("=")
    is_read_as_it_is = value[:1] in ("'", '"') or value in ("", "null")
    if key not in free_texts() or is_read_as_it_is:
        return override
    return f"{key}={quoted(value)}"


def _leave(mistakes: list[str]) -> NoReturn:
    if _rank() > 0:
        time.sleep(_LAST_WORDS)  # leaving first would end the process that tells the mistakes
    else:
        shown = mistakes[:_SHOWN]
        more = [f"… and {len(mistakes) - _SHOWN} more."] if len(mistakes) > _SHOWN else []
        print("\n".join([*shown, *more]), file=sys.stderr)
    sys.exit(2)


def _rank() -> int:
    return int(os.environ.get("RANK", "0"))


def _run_hydra(recipe: str, main: Callable[..., Any]) -> None:
    register_schema()
    hydra.main(str(CONF), recipe, HYDRA_VERSION_BASE)(main)()
