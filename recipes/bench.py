"""Measure on this machine what structured dropout is worth, against stock PyTorch.

    python -m recipes.bench                                 # a first answer, in two minutes
    python -m recipes.bench suite=layer shape=[ptb_medium,ptb_large,awd,iwslt,conll_200,conll_100]
    python -m recipes.bench suite=step shape=ptb_large threads=[1,2] seconds=300
    python -m recipes.bench suite=layer shape=T35-B20-in400-H1150-p.5 variant=structured
    python -m recipes.bench suite=layer dtype=bfloat16
    python -m recipes.bench suite=scaling shape=ptb_medium  # does time grow with the work?
    python -m recipes.bench suite=memory shape=ptb_large    # peak memory of a training step
    python -m recipes.bench mode=readme source=FILE         # the README's table from a bench.json

Suites: `gemm` (forward, backward data and backward weight apart), `layer` (one LSTM layer, forward
and backward), `step` (a whole training step of a language model); `all` is these three. Variants
and baseline run in turn, round by round, and a ratio is the median over the rounds of baseline
time / variant time. One thread is timed by process CPU time, more by wall time, a GPU by events.

bench.json gets each row as soon as it is measured, so a run that is stopped by Ctrl-C keeps what
it has. In an installed package this file is `sdrop.recipes.bench`.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import torch
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig
from rich.console import Console

from sdrop.backends import backends, check_backend
from sdrop.benchmark.comparison import dtype_of
from sdrop.benchmark.machine import (
    check_threads,
    describe_machine,
    load_average,
    measure_peak,
    torch_threads,
)
from sdrop.benchmark.memory import memory_rows
from sdrop.benchmark.peers import peer_rows
from sdrop.benchmark.readme import update_readme
from sdrop.benchmark.report import draw_rows, noise, table
from sdrop.benchmark.rows import Row, Setting, read_rows, write_rows
from sdrop.benchmark.shapes import parse_shape
from sdrop.benchmark.suites import comparisons, registered_steps
from sdrop.benchmark.timing import Stopped, clock_for
from sdrop.ops.choice import why_not_cpu
from sdrop.training import write_summary
from sdrop.training.signals import StopRequest

from .configuration import Mistake, as_options, launch
from .configuration.recall import write_config
from .configuration.schema import BenchRun

ALL = ("gemm", "layer", "step")
BUSY = 0.5  # a load average above this disturbs what is measured
SEED = 1


@dataclass
class Bench:
    """The rows so far, and where they go.

    Attributes:
        options, overrides: of the run.
        folder: of the run.
        console: where tables are printed.
        stop: whether the user wants to stop.
        deadline: when `options.seconds` are over, by `time.perf_counter`.
        rows: what was measured.
    """

    options: BenchRun
    overrides: Sequence[str]
    folder: Path
    console: Console
    stop: Callable[[], bool]
    deadline: float
    rows: list[Row] = field(default_factory=list)

    def keep(self, rows: Sequence[Row], about: str, clock: str = "") -> None:
        """Write rows into bench.json and show them; the first ones make the folder."""
        if not self.rows:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_config(self.options, self.overrides, self.folder / "config.yaml")
        self.rows += rows
        write_rows(self.rows, self.folder / "bench.json")
        self.console.print(table(rows, about, clock))
        if said := noise(rows):
            self.console.print(said)


def main(config: DictConfig) -> float | None:
    """Do what `mode=` says; return the geometric mean of the ratios, for a sweeper to maximise."""
    options: BenchRun = as_options(config)
    if options.mode == "readme":
        write_readme(options)
        return None
    hydra = HydraConfig.get()
    rows = run(options, hydra.runtime.output_dir, hydra.overrides.task)
    return mean_ratio(rows)


def run(options: BenchRun, folder: str | Path, overrides: Sequence[str] = ()) -> list[Row]:
    """Measure all that is asked for and fill the run folder.

    Args:
        options: plain dataclasses, as `as_options(compose("bench", [...]))` makes them.
        folder: the run folder.
        overrides: the command line, for config.yaml.

    Raises:
        Mistake: with what can be done about it.
        KeyboardInterrupt: where a signal stopped it; what was measured is kept.
    """
    folder = Path(folder)
    check(options, folder)
    started = time.perf_counter()
    torch.manual_seed(SEED)
    load = load_average()
    with StopRequest() as stop:
        deadline = started + options.seconds
        bench = Bench(options, overrides, folder, Console(), lambda: stop.requested, deadline)
        try:
            for done, threads in enumerate(options.threads):
                measure(bench, threads, share=len(options.threads) - done)
            if stop.requested:
                raise Stopped
        except Stopped:
            kept = f"{len(bench.rows)} rows are kept in {folder}/bench.json"
            bench.console.print(f"stopped; {kept if bench.rows else 'nothing was measured'}")
            raise KeyboardInterrupt from None
    if not bench.rows:
        raise Mistake(
            f"suite={','.join(options.suite)}: nothing to measure with these shapes and variants."
        )
    draw_rows(bench.rows, folder / "bench.png")
    summarise(options, bench.rows, folder / "summary.json", time.perf_counter() - started, load)
    if load is not None and load > BUSY:
        bench.console.print(
            f"busy: the load average was {load:.1f} when the run began, above {BUSY}, so other "
            "programs were running."
        )
    bench.console.print(f"run folder {folder}", soft_wrap=True)
    return bench.rows


def check(options: BenchRun, folder: Path) -> None:
    """Refuse what cannot run here, and a folder that holds a run.

    Raises:
        Mistake: with what can be done about it.
    """
    if options.device != "cpu" and not torch.cuda.is_available():
        raise Mistake(f"device={options.device}: torch sees no GPU here; leave device= out.")
    try:
        check_backend(options.backend)
        for threads in options.threads:
            check_threads(threads, options.device)
    except (RuntimeError, ValueError) as error:
        raise Mistake(str(error)) from error
    example = torch.empty(1, dtype=getattr(torch, options.dtype), device=options.device)
    if options.backend == "cpu" and (reason := why_not_cpu(example)):
        raise Mistake(f"backend=cpu: {reason}; leave backend= out.")
    if (folder / "bench.json").exists():
        raise Mistake(f"{folder} holds a run already. Choose another folder by hydra.run.dir=DIR.")


def measure(bench: Bench, threads: int, share: int) -> None:
    """Measure every suite with so many threads, in a `share`-th of the time that is left."""
    options = bench.options
    setting = Setting(threads, options.device, options.dtype, options.backend)
    machine = describe_machine(options.device, threads)
    bench.console.print(machine, soft_wrap=True)
    named = [ALL if suite == "all" else (suite,) for suite in options.suite]
    suites = list(dict.fromkeys(suite for several in named for suite in several))
    with torch_threads(threads):
        measure_times(bench, setting, [each for each in suites if each != "memory"], machine, share)
    if "memory" in suites:
        measure_memory(bench, setting, machine)


def measure_times(
    bench: Bench, setting: Setting, suites: Sequence[str], machine: str, share: int
) -> None:
    """Time the candidates of every comparison in turn."""
    options, clock = bench.options, clock_for(setting.device, setting.threads)
    making = list(comparisons(suites, options.shape, options.variant, setting))
    if not making:
        return
    peak = measure_peak(setting.device, dtype_of(setting), clock)
    bench.console.print(f"peak {peak:.0f} GFLOP/s: the fastest dense torch.mm", soft_wrap=True)
    for done, make in enumerate(making):
        comparison = make()
        if comparison is None:
            continue
        left = (bench.deadline - time.perf_counter()) / share
        rows = comparison.measure(
            setting,
            clock,
            rounds=options.rounds,
            seconds=left / (len(making) - done),
            peak=peak,
            machine=machine,
            stop=bench.stop,
        )
        if comparison.suite == "layer" and options.peers:
            shape = parse_shape(comparison.shape)
            with asked_of_others(bench):
                rows += peer_rows(shape, options.peers, setting, rows)
        bench.keep(rows, comparison.about, clock.name)


def measure_memory(bench: Bench, setting: Setting, machine: str) -> None:
    """Measure the peak memory of each candidate in a process of its own."""
    for name in bench.options.shape:
        if name in registered_steps():
            continue
        shape = parse_shape(name)
        with asked_of_others(bench):
            rows = memory_rows(shape, bench.options.variant, setting, machine=machine)
        if rows:
            bench.keep(rows, shape.described)


def mean_ratio(rows: Sequence[Row]) -> float | None:
    """The geometric mean of the suites that measure speed; None where none of them ran."""
    ratios = [row.ratio for row in rows if row.suite in ALL]
    return statistics.geometric_mean(ratios) if ratios else None


@contextmanager
def asked_of_others(bench: Bench) -> Iterator[None]:
    """Ask other processes inside; one that fails is told, or was stopped by the same Ctrl-C."""
    try:
        yield
    except RuntimeError as error:
        if bench.stop():
            raise Stopped from error
        raise Mistake(str(error)) from error


def summarise(
    options: BenchRun, rows: Sequence[Row], file: Path, seconds: float, load: float | None
) -> None:
    """Write summary.json, the last file of a run."""
    write_summary(
        file,
        recipe="bench",
        experiment=None,
        metric="ratio",
        valid=mean_ratio(rows),
        test=None,
        seconds_train=None,
        seconds_total=seconds,
        tokens_per_second=None,
        steps=None,
        parameters=None,
        backend=options.backend,
        pattern=", ".join(options.variant),
        signature=None,
        machine=rows[0].machine,
        load_average=load,
        noisy=any(row.noisy for row in rows),
        backends=backends(),
    )


def write_readme(options: BenchRun) -> None:
    """Put the speed table of `source=` into `readme=`."""
    try:
        update_readme(Path(options.readme), read_rows(Path(str(options.source))))
    except ValueError as error:
        raise Mistake(str(error)) from error
    except OSError as error:
        raise Mistake(
            f"readme={options.readme}: {error.strerror}. It must be a text file with the two "
            "markers of the speed table, as sdrop's own README.md."
        ) from error
    print(f"{options.readme}: the speed table is that of {options.source}")


if __name__ == "__main__":
    launch("bench", main)
