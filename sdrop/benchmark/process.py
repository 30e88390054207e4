"""What must not be measured in this process: peak memory, and other frameworks."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from sdrop.benchmark.rows import Setting


def in_a_process_of_its_own(
    module: str, shape: str, name: str, setting: Setting, *more: str
) -> dict[str, Any]:
    """What `python -m MODULE SHAPE NAME SETTING …` prints as JSON.

    Raises:
        RuntimeError: where the process fails, with the end of what it said.
    """
    command = [sys.executable, "-m", module, shape, name, json.dumps(dataclasses.asdict(setting))]
    package = str(Path(__file__).resolve().parents[2])
    paths = [package, *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(
        [*command, *more],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()[-1:] or ["nothing was said"]
        raise RuntimeError(f"{module} {shape} {name} failed ({done.returncode}): {said[0]}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found
