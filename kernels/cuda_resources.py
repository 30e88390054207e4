"""What every CUDA kernel takes of every architecture, as ptxas said, against a committed budget.

    python kernels/cuda_resources.py            # the table; exits with 1 where it is over budget
    python kernels/cuda_resources.py --write    # makes what the kernels take now the budget

Nothing is compiled that the build has compiled already. Registers limit how many threads a
multiprocessor holds, static shared memory how many blocks; a spill is a register kept in memory,
which no kernel here may need. Dynamic shared memory is asked for at launch and stands in none.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import build_cuda

BUDGET = build_cuda.SOURCES / "budget.json"

REGISTERS_GRANTED = 8
"""Registers of a thread are granted in eights, so a budget within one of them costs nothing."""

_ENTRY = re.compile(r" '(\w+)' for 'sm_(\d+)\w*'")
_SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+) bytes smem")


@dataclass(frozen=True)
class Resources:
    """What one kernel takes.

    Attributes:
        registers: a thread.
        stack, spills: bytes a thread, of local arrays and of registers.
        shared: static bytes a block.
    """

    registers: int
    stack: int
    spills: int
    shared: int

    def most(self, other: Resources) -> Resources:
        """The greater of each."""
        return Resources(*map(max, vars(self).values(), vars(other).values()))


Usage = dict[str, dict[int, Resources]]
"""By kernel and architecture."""

Budget = Mapping[str, Mapping[str, Mapping[str, int]]]
"""By kernel: `registers` by architecture, and `stack` and `shared` by architecture where any."""


def read_log(text: str) -> list[tuple[str, int, Resources]]:
    """(mangled name, architecture, what it takes) of each kernel that `ptxas -v` tells of.

    Raises:
        ValueError: for a kernel whose lines are not complete.
    """
    found = []
    for part in text.split("Compiling entry function")[1:]:
        entry = _ENTRY.match(part)
        if entry is None:
            raise ValueError(f"ptxas -v names no kernel: {part.strip()!r}")
        found.append((entry[1], int(entry[2]), _resources(entry[1], part)))
    return found


def _resources(name: str, text: str) -> Resources:
    frames = [tuple(map(int, each)) for each in _SPILLS.findall(text)]
    used = _USED.search(text)
    if used is None or not frames:
        raise ValueError(f"ptxas -v does not tell what {name} takes: {text.strip()!r}")
    shared = _SHARED.search(text)
    return Resources(
        registers=int(used[1]),
        stack=max(stack for stack, _, _ in frames),
        spills=sum(stores + loads for _, stores, loads in frames),
        shared=int(shared[1]) if shared else 0,
    )


def usage_of(logs: Iterable[str]) -> Usage:
    """All kernels of several logs, by the names that people read."""
    found = [entry for text in logs for entry in read_log(text)]
    readable = demangled({name for name, _, _ in found})
    usage: Usage = {}
    for name, architecture, taken in found:
        of_kernel = usage.setdefault(readable[name], {})
        of_kernel[architecture] = taken.most(of_kernel.get(architecture, taken))
    return dict(sorted(usage.items()))


def demangled(names: Iterable[str]) -> dict[str, str]:
    """The kernel's own name and template arguments, by mangled name.

    Raises:
        FileNotFoundError: without c++filt, which comes with g++.
    """
    listed = sorted(names)
    if shutil.which("c++filt") is None:
        raise FileNotFoundError("c++filt (binutils) is not installed")
    done = subprocess.run(
        ["c++filt"], input="\n".join(listed), capture_output=True, text=True, check=True
    )
    return dict(zip(listed, map(_short, done.stdout.splitlines()), strict=True))


def _short(signature: str) -> str:
    """Without return type, arguments, and the namespaces that all kernels share."""
    plain = re.sub(r"\(anonymous namespace\)::|\bsdrop::|\bcuda::", "", signature)
    plain = re.sub(r"\((?:int|bool|unsigned int)\)", "", plain)
    depth, end = 0, len(plain)
    for place, letter in enumerate(plain):
        depth += {"<": 1, ">": -1}.get(letter, 0)
        if letter == "(" and depth == 0:
            end = place
            break
    return plain[:end].removeprefix("void ").strip()


def over_budget(usage: Usage, budget: Budget) -> list[str]:
    """What is wrong, a line each: spills, more than the budget has, kernels it does not know."""
    wrong = [
        f"{name}: in the budget, but there is no such kernel" for name in budget.keys() - usage
    ]
    for name, by_architecture in usage.items():
        for architecture, taken in by_architecture.items():
            where = f"{name}, sm_{architecture}"
            if taken.spills:
                wrong.append(f"{where}: spills {taken.spills} bytes, none may")
            if name not in budget:
                wrong.append(f"{where}: not in the budget")
                continue
            for kind in ("registers", "stack", "shared"):
                granted = budget[name].get(kind, {}).get(str(architecture), 0)
                if (needed := getattr(taken, kind)) > granted:
                    wrong.append(f"{where}: {kind} {needed}, the budget has {granted}")
    return sorted(wrong)


def budget_for(usage: Usage) -> dict[str, dict[str, dict[str, int]]]:
    """The least budget that holds for `usage`, registers rounded up to what is granted."""
    return {name: _budget_row(by_architecture) for name, by_architecture in usage.items()}


def _budget_row(by_architecture: Mapping[int, Resources]) -> dict[str, dict[str, int]]:
    ordered = sorted(by_architecture.items())
    row = {"registers": {str(each): _granted(taken.registers) for each, taken in ordered}}
    for kind in ("stack", "shared"):
        needed = {str(each): getattr(taken, kind) for each, taken in ordered}
        if any(needed.values()):
            row[kind] = needed
    return row


def _granted(registers: int) -> int:
    return -(-registers // REGISTERS_GRANTED) * REGISTERS_GRANTED


def write_budget(usage: Usage, compiler: str, path: Path = BUDGET) -> None:
    """Writes the file, a line a kernel."""
    rows = [f"  {json.dumps(name)}: {json.dumps(row)}" for name, row in budget_for(usage).items()]
    kernels = ",\n".join(rows)
    path.write_text(f'{{"compiler": {json.dumps(compiler)}, "kernels": {{\n{kernels}\n}}}}\n')


def read_budget(path: Path = BUDGET) -> tuple[str, Budget]:
    """The release of nvcc that the budget is for, and the budget."""
    found = json.loads(path.read_text())
    return found["compiler"], found["kernels"]


def table(usage: Usage) -> str:
    """A line a kernel; a cell is registers, and what else there is: s bytes of static shared
    memory, f of stack frame, ! of spills."""
    architectures = sorted({each for found in usage.values() for each in found})
    lines = [["registers (s shared, f frame, ! spills)", *[f"sm_{each}" for each in architectures]]]
    for name, found in usage.items():
        lines.append([name, *[_cell(found.get(each)) for each in architectures]])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])])
        for line in lines
    )


def _cell(taken: Resources | None) -> str:
    if taken is None:
        return "-"
    extras = {"s": taken.shared, "f": taken.stack, "!": taken.spills}
    return " ".join([str(taken.registers), *[f"{n}{kind}" for kind, n in extras.items() if n]])


def measure() -> tuple[str, Usage]:
    """nvcc's release and what the kernels take, compiled first where they are not yet.

    Raises:
        CannotBuildError: of build_cuda.py, where they cannot be compiled here.
    """
    compiler = build_cuda.find_compiler()
    logs = [unit.log.read_text() for unit in build_cuda.compile_units(compiler)]
    return ".".join(map(str, compiler.version)), usage_of(logs)


def main() -> None:
    """Prints the table and what is wrong with it, or writes the budget."""
    compiler, usage = measure()
    print(table(usage))
    if sys.argv[1:] == ["--write"]:
        write_budget(usage, compiler)
        print(f"written: {BUDGET}")
        return
    budget_compiler, budget = read_budget()
    if budget_compiler != compiler:
        print(f"the budget is for nvcc {budget_compiler}, this is {compiler}")
    wrong = over_budget(usage, budget)
    print("\n".join(wrong) or f"{len(usage)} kernels, all within the budget and without spills")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
