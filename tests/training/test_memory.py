"""Freed memory that stays with the process."""

import os
import platform
import subprocess
import sys

import pytest

PROGRAM = """
import resource, sys
import torch
from sdrop.training import keep_freed_memory

done = keep_freed_memory() if sys.argv[1] == "keep" else None

def large_tensor():
    torch.empty(12_000_000).fill_(1.0)  # 48 MB: glibc alone returns it whenever it is freed

for _ in range(5):
    large_tensor()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    large_tensor()
print(done, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""

FRESH = 100  # page faults: fresh memory takes 120 huge ones of 2 MB, or thousands of small ones

glibc_alone = pytest.mark.skipif(
    sys.platform != "linux" or platform.libc_ver()[0] != "glibc",
    reason="the allocator of another C library is not asked",
)


def run(how: str, **settings: str) -> tuple[str, int]:
    """What `keep_freed_memory` said, and the page faults of five large tensors in turn."""
    names = ("MALLOC_", "GLIBC_TUNABLES", "LD_PRELOAD")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(names)}
    command = [sys.executable, "-c", PROGRAM, how]
    printed = subprocess.check_output(command, env=environment | settings, text=True)
    said, faults = printed.split()
    return said, int(faults)


@glibc_alone
def test_freed_memory_is_used_again():
    assert run("no")[1] > FRESH
    said, faults = run("keep")
    assert said == "True"
    assert faults < FRESH


@glibc_alone
@pytest.mark.parametrize(
    "settings",
    [
        {"MALLOC_TRIM_THRESHOLD_": "131072"},
        {"MALLOC_MMAP_MAX_": "65536"},
        {"GLIBC_TUNABLES": "glibc.malloc.mmap_max=65536"},
    ],
    ids=lambda settings: next(iter(settings)),
)
def test_an_allocator_that_the_user_set_up_is_left_alone(settings):
    said, faults = run("keep", **settings)
    assert said == "False"
    assert faults > FRESH
