"""Where the figures of a run go: metrics.jsonl always, CSV and TensorBoard on demand.

Every report is one line. A checkpoint notes how many there were, and a resumed run cuts the
files back to that number, so nothing is there twice and nothing is lost.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any, Protocol

from sdrop.training.atomic import sync, write_atomically
from sdrop.training.metric import Metric
from sdrop.training.run_folder import RunFolder

Report = dict[str, Any]
"""`step`, `epoch`, `split`, then figures by name."""

LOGGERS = ("jsonl", "csv", "tensorboard")


class MetricLogger(Protocol):
    """A place that reports go to."""

    def log(self, report: Report) -> None: ...

    def flush(self) -> None:
        """Makes what was logged durable."""

    def close(self) -> None: ...


class JsonLines:
    """`metrics.jsonl`: a JSON object a line; what is no finite number is written as null.

    Args:
        path: the file.
        keep: how many lines of an earlier process to keep.
    """

    def __init__(self, path: Path, keep: int) -> None:
        self._file = _continue(path, keep)

    def log(self, report: Report) -> None:
        finite = {name: _or_null(value) for name, value in report.items()}
        self._file.write(json.dumps(finite, allow_nan=False) + "\n")
        self._file.flush()

    def flush(self) -> None:
        sync(Path(self._file.name))

    def close(self) -> None:
        self._file.close()


class CommaSeparated:
    """`metrics.csv`: one column a figure, a field left empty where a report has none.

    Args:
        path: the file.
        keep: how many reports of an earlier process to keep.
        metric: the run's metric, which has a column; other figures of an evaluation have none.
    """

    def __init__(self, path: Path, keep: int, metric: Metric) -> None:
        names = ["step", "epoch", "split", "loss"]
        names += [metric.name] if metric.name not in names else []
        names += ["learning_rate", "gradient_norm", "tokens_per_second"]
        self._file = _continue(path, keep + 1)
        self._writer = csv.DictWriter(self._file, names, restval="", extrasaction="ignore")
        if self._file.tell() == 0:
            self._writer.writeheader()

    def log(self, report: Report) -> None:
        self._writer.writerow(report)
        self._file.flush()

    def flush(self) -> None:
        sync(Path(self._file.name))

    def close(self) -> None:
        self._file.close()


class TensorBoard:
    """Event files in `tensorboard/`; points past the step of a resumed checkpoint are hidden.

    Args:
        folder: where the event files go.
        step: the step that the run starts after.
    """

    def __init__(self, folder: Path, step: int) -> None:
        from torch.utils.tensorboard.writer import SummaryWriter  # slow to import

        purge = step + 1 if step else None
        self._writer: Any = SummaryWriter(str(folder), purge_step=purge)

    def log(self, report: Report) -> None:
        for name, value in report.items():
            if name not in ("step", "split") and isinstance(value, (int, float)):
                self._writer.add_scalar(f"{report['split']}/{name}", value, report["step"])

    def flush(self) -> None:
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()


def open_loggers(
    names: Sequence[str], run_folder: RunFolder, metric: Metric, *, keep: int, step: int
) -> list[MetricLogger]:
    """The loggers of a run; `"jsonl"` is among them whether named or not.

    Args:
        names: any of `"jsonl"`, `"csv"`, `"tensorboard"`.
        run_folder: where they write.
        metric: the run's metric.
        keep: reports of an earlier process to keep.
        step: step that the run starts after.

    Raises:
        ValueError, ImportError: as `check_loggers`.
    """
    check_loggers(names)
    loggers: list[MetricLogger] = [JsonLines(run_folder.metrics, keep)]
    if "csv" in names:
        loggers.append(CommaSeparated(run_folder.path / "metrics.csv", keep, metric))
    if "tensorboard" in names:
        loggers.append(TensorBoard(run_folder.path / "tensorboard", step))
    return loggers


def check_loggers(names: Sequence[str]) -> None:
    """Whether these loggers can be opened.

    Raises:
        ValueError: for a name that is no logger's.
        ImportError: for `"tensorboard"` where that is not installed.
    """
    for name in names:
        if name not in LOGGERS:
            raise ValueError(f"logger={name!r}: expected any of {', '.join(LOGGERS)}")
    if "tensorboard" in names and find_spec("tensorboard") is None:
        raise ImportError(
            "logger=tensorboard needs the package tensorboard: pip install 'sdrop[tensorboard]'"
        )


def read_metrics(path: Path) -> list[Report]:
    """All reports in a `metrics.jsonl`; a last line that was cut off is left out."""
    lines = _whole_lines(path)
    return [json.loads(line) for line in lines]


def _continue(path: Path, keep: int) -> IO[str]:
    """Cuts a file to its first `keep` lines and opens it to append."""
    write_atomically(path, "".join(_whole_lines(path)[:keep]))
    return path.open("a", encoding="utf-8", newline="")


def _whole_lines(path: Path) -> list[str]:
    if not path.exists():
        return []
    text = io.StringIO(path.read_text(encoding="utf-8"), newline="\n")
    return [line for line in text if line.endswith("\n")]


def _or_null(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
