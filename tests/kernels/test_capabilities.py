"""Each capability that the processor has computes the same, on any number of threads."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

REPORT = """
import itertools, json, sys
sys.path.insert(0, sys.argv[1])
import torch
import sdrop
from kernels_random import draw, in_float64, random_layer, relative_errors, run_layer
from sdrop.ops.linear_cpu import linear
from sdrop.ops.lstm.cpu import lstm

def on_threads(count, compute):
    torch.set_num_threads(count)
    return compute()

def run_linear(tensors, mask):
    leaves = [t.clone(memory_format=torch.preserve_format).requires_grad_() for t in tensors]
    output = linear(*leaves, mask)
    output.square().sum().backward()
    return [output.detach(), *(leaf.grad for leaf in leaves)]

torch.manual_seed(1)
denormal = torch.tensor(1e-40)
errors, same = [], True
for steps, batch, hidden, patterns in (
    (3, 20, 37, ("III", "III")), (2, 3, 100, ("I", "IV")), (4, 65, 17, ("all", "all")),
    (3, 20, 650, ("III", "III")), (1, 2, 650, ("III", "III")), (1, 20, 650, ("all", "III")),
):
    layer = random_layer(steps, batch, 29, hidden, patterns)
    one, two = (on_threads(count, lambda: run_layer(layer, lstm)) for count in (1, 2))
    same = same and all(torch.equal(a, b) for a, b in zip(one, two))
    errors.append(max(relative_errors(one, in_float64(layer))))
for pattern, rows in itertools.product(("all", "I", "III", "IV"), (1, 20)):
    tensors = torch.randn(5, rows, 90), torch.randn(777, 90), torch.randn(777)
    mask = draw(pattern, 5, rows, 90)
    one, two = (on_threads(count, lambda: run_linear(tensors, mask)) for count in (1, 2))
    same = same and all(torch.equal(a, b) for a, b in zip(one, two))
print(json.dumps({
    "status": sdrop.backends()["cpu"], "error": max(errors), "same": same,
    "denormals": bool(denormal * 1.0 > 0),
}))
"""


@pytest.fixture(scope="module", params=["", "avx512", "avx2", "default"])
def report(request):
    """What a new process under SDROP_CPU_CAPABILITY finds."""
    folder = Path(__file__).resolve().parent
    paths = [str(folder.parents[1]), os.environ.get("PYTHONPATH", "")]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    env |= {"SDROP_CPU_CAPABILITY": request.param}
    done = subprocess.run(
        [sys.executable, "-c", REPORT, str(folder)],
        capture_output=True,
        text=True,
        check=False,
        env=env,
    )
    assert done.returncode == 0, done.stderr
    return request.param, json.loads(done.stdout)


def test_the_variable_chooses_among_what_the_processor_has(report):
    asked, found = report
    names = {"default": ["portable"], "avx2": ["avx2", "portable"]}
    names["avx512"] = ["avx512", *names["avx2"]]
    allowed = names.get(asked, ["avx512, bfloat16", "avx512", "avx2", "portable"])
    assert found["status"] in [f"available ({name})" for name in allowed]


def test_an_unknown_name_is_told():
    done = subprocess.run(
        [sys.executable, "-c", "import sdrop"],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"SDROP_CPU_CAPABILITY": "avx"},
    )
    assert "SDROP_CPU_CAPABILITY=avx: expected avx512, avx2, default or nothing" in done.stderr


def test_it_agrees_with_the_equations(report):
    assert report[1]["error"] < 1e-5


def test_one_and_two_threads_give_the_same_bits(report):
    assert report[1]["same"]


def test_denormals_stay_as_they_are(report):
    assert report[1]["denormals"]
