"""All that a machine with a GPU has to tell: are the CUDA kernels right, and how fast are they.

    python kernels/check_gpu.py OUT                     # under 8 minutes
    python kernels/check_gpu.py OUT --train --data PTB  # a published training run, under 5 minutes

The first builds the kernels where they are not built, runs their tests on the GPU, measures what
the GPU gives (launches, barriers, copies), then layers and training steps against cuDNN with a CUDA
graph on both sides, and prints a table last. The second trains zaremba_medium on the Penn Treebank
with standard and with structured dropout. Both write JSON into OUT. It needs torch, numpy and
pytest, and a checkout.

It exits with 0 if all kernels are right, 1 if a test fails, 2 for wrong arguments, 3 where there is
no GPU, and 4 where the kernels cannot run on it.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

KERNELS = Path(__file__).resolve().parent
REPOSITORY = KERNELS.parent
LIBRARY = REPOSITORY / "sdrop" / "_CUDA.so"

TESTS_FAILED, NO_GPU, NO_KERNELS = 1, 3, 4
SHARE_OF_TESTS = 0.4


def main() -> int:
    """Checks, or trains; returns the exit code."""
    options = parse()
    import torch

    if not torch.cuda.is_available():
        print(f"check_gpu: torch {torch.__version__} sees no GPU here, so nothing was measured.")
        print("Run it on a machine with an NVIDIA GPU, its driver and a CUDA build of torch.")
        return NO_GPU
    build_if_missing()
    import gpu_check  # noqa: F401, puts the checkout on the path

    import sdrop

    status = sdrop.backends()["cuda"]
    print(describe(torch), f"sdrop's kernels: {status}", sep="\n", flush=True)
    if not status.startswith("available"):
        return NO_KERNELS
    options.out.mkdir(parents=True, exist_ok=True)
    return train(options) if options.train else check(options)


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("out", type=Path, metavar="OUT", help="folder for JSON")
    parser.add_argument("--train", action="store_true", help="train zaremba_medium instead")
    parser.add_argument("--data", type=Path, help="folder with ptb.train.txt and the others")
    parser.add_argument("--epochs", type=int, default=39, help="of --train; default all 39")
    parser.add_argument("--seconds", type=float, default=470.0, help="the time to spend")
    parser.add_argument("--suites", nargs="*", default=[], help="of step, layer, gemm")
    parser.add_argument("--no-tests", action="store_true", help="measure alone")
    options = parser.parse_args()
    if options.train and options.data is None:
        parser.error("--train needs --data, the folder with the Penn Treebank")
    return options


def build_if_missing() -> None:
    """Before sdrop is imported, which loads the library."""
    if LIBRARY.exists():
        return
    sys.path.append(str(KERNELS))
    import build_cuda

    print("the CUDA kernels are not built yet: building them", flush=True)
    build_cuda.cpu.JOBS = os.cpu_count() or 2
    try:
        build_cuda.build(LIBRARY)
    except build_cuda.CannotBuildError as error:
        LIBRARY.with_suffix(".missing").write_text(f"{error}\n")


def describe(torch: Any) -> str:
    """The machine in a line."""
    properties = torch.cuda.get_device_properties("cuda")
    return (
        f"{properties.name}, sm_{properties.major}{properties.minor}, "
        f"{properties.multi_processor_count} multiprocessors, "
        f"{properties.total_memory / 2**30:.0f} GiB, torch {torch.__version__}"
    )


def check(options: argparse.Namespace) -> int:
    """Tests, rates, suites; the table comes last."""
    import torch
    from gpu_check import rates, suites

    from sdrop.benchmark.rows import write_rows

    began = time.perf_counter()
    deadline = began + options.seconds
    result: dict[str, Any] = {"machine": describe(torch)}
    code = 0
    if not options.no_tests:
        result["tests"] = run_tests(SHARE_OF_TESTS * options.seconds)
        code = 0 if result["tests"]["passed"] else TESTS_FAILED
    result["rates"] = rates.measure_rates()
    write(result, options.out / "check.json")
    for name, value in result["rates"].items():
        print(f"{name}: {value:.3g}", flush=True)
    torch.manual_seed(1)
    rows = suites.measure(deadline, describe(torch), say, suites=options.suites)
    write_rows(rows, options.out / "bench.json")
    print(f"{time.perf_counter() - began:.0f} s; JSON in {options.out}")
    print(suites.table(rows))
    print("all kernels right" if code == 0 else "SOME KERNELS ARE WRONG, see the tests above")
    return code


def run_tests(seconds: float) -> dict[str, Any]:
    """The kernels' own tests, on the GPU, in a process of their own."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command.append(str(REPOSITORY / "tests" / "kernels" / "cuda"))
    env = os.environ | {"SDROP_TEST_DEVICE": "cuda", "PYTHONPATH": str(REPOSITORY)}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, cwd=REPOSITORY, env=env, timeout=seconds
        )
        said, code = done.stdout, done.returncode
    except subprocess.TimeoutExpired as error:
        text = error.stdout or b""
        said = text.decode(errors="replace") if isinstance(text, bytes) else text
        said, code = f"{said}\nstopped after {seconds:.0f} s", None
    print(said[-6000:], flush=True)
    counts = {kind: int(n) for n, kind in re.findall(r"(\d+) (passed|failed|skipped|error)", said)}
    return {"passed": code == 0, "counts": counts, "last": said.strip().splitlines()[-1:]}


def train(options: argparse.Namespace) -> int:
    """Both variants, one behind the other."""
    import torch
    from gpu_check import training

    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False
    plan = training.Plan(epochs=options.epochs)
    ids, words = training.read_corpus(options.data)
    outcomes = []
    for variant in training.VARIANTS:
        outcomes.append(training.train(variant, ids, words, plan, torch.device("cuda"), say))
        listed = [dataclasses.asdict(each) for each in outcomes]
        write({"machine": describe(torch), "runs": listed}, options.out / "train.json")
    print(training.table(outcomes, plan))
    return 0


def write(result: dict[str, Any], file: Path) -> None:
    """JSON that a person can read."""
    file.write_text(json.dumps(result, indent=1) + "\n")


def say(text: str) -> None:
    """At once, so that a run that is stopped has told."""
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
