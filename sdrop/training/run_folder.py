"""The folder of a run: where everything that it writes lies, and what `resume=` may mean."""

from __future__ import annotations

import shutil
from pathlib import Path

from sdrop.training.atomic import partial_folder, publish_folder, recover_folders
from sdrop.training.checkpoint import MANIFEST, checkpoint_name, latest
from sdrop.training.errors import CheckpointError


class RunFolder:
    """The places in a run folder. Nothing is written until `prepare`.

    Attributes:
        path: the folder itself.
        config: `config.yaml`.
        metrics: `metrics.jsonl`, a line a report.
        checkpoints: the folder of checkpoints.
        curves: `curves.png`.
        summary: `summary.json`, written last.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.config = self.path / "config.yaml"
        self.metrics = self.path / "metrics.jsonl"
        self.checkpoints = self.path / "checkpoints"
        self.curves = self.path / "curves.png"
        self.summary = self.path / "summary.json"

    def prepare(self) -> None:
        """Makes the folders and tidies up after a process that died while it wrote."""
        self.checkpoints.mkdir(parents=True, exist_ok=True)
        recover_folders(self.checkpoints)

    def adopt(self, checkpoint: Path, best_step: int | None) -> None:
        """Copies metrics and the best checkpoint of the run that `checkpoint` belongs to.

        So a run that goes on in a new folder has its whole history there. Nothing is copied where
        the checkpoint lies in this folder.
        """
        checkpoints = checkpoint.resolve().parent
        if checkpoints == self.checkpoints.resolve():
            return
        for name in ("metrics.jsonl", "metrics.csv"):
            if (checkpoints.parent / name).is_file():
                shutil.copyfile(checkpoints.parent / name, self.path / name)
        if best_step is not None:
            self._copy_checkpoint(checkpoints / checkpoint_name(best_step))

    def _copy_checkpoint(self, source: Path) -> None:
        target = self.checkpoints / source.name
        if source.is_dir():
            temporary = partial_folder(target)
            shutil.copytree(source, temporary, dirs_exist_ok=True)
            publish_folder(temporary, target)


def find_checkpoint(resume: str | Path, run_folder: RunFolder) -> Path | None:
    """The checkpoint that `resume=` means.

    Args:
        resume: `"auto"`: the newest of `run_folder`, if there is one. A run folder: its newest.
            A checkpoint's folder: that one.
        run_folder: the folder of this run.

    Returns:
        The checkpoint's folder; None for `"auto"` where there is none yet.

    Raises:
        CheckpointError: if there is none where one was named.
    """
    if resume == "auto":
        return latest(run_folder.checkpoints)
    path = Path(resume)
    if (path / MANIFEST).is_file():
        return path
    found = latest(path) or latest(path / "checkpoints")
    if found is None:
        raise CheckpointError(
            f"resume={path}: there is no checkpoint; expected 'auto', a run folder with "
            "checkpoints/ in it, or a checkpoint such as RUN/checkpoints/step-00000123"
        )
    return found
