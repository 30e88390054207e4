"""Tables, picture, and the README's table."""

import dataclasses
import io

import pytest
from rich.console import Console

from sdrop.benchmark.readme import BEGIN, END, speed_table, update_readme
from sdrop.benchmark.report import draw_rows, noise, table
from sdrop.benchmark.rows import Pair, Setting, make_row
from sdrop.benchmark.work import Work

TIMES = {
    "structured": [100.0, 100.0, 100.0],
    "none": [200.0, 201.0, 202.0],
    "stock": [200.0, 202.0, 204.0],
    "tail": [150.0, 150.0, 150.0],
}


def row(variant="structured", suite="layer", **more):
    pair = Pair(variant, "stock", Work(4e9, 2e9 if variant == "structured" else 4e9), **more)
    return make_row(suite, "ptb_medium", pair, TIMES, Setting(), peak=100.0, machine="a machine")


def printed(rows, about="", width=80):
    console = Console(file=io.StringIO(), width=width)
    console.print(table(rows, about))
    return console.file.getvalue()


def test_a_table_fits_on_a_screen_of_80_columns():
    rows = [row("none", "step", same_tail="tail"), row(suite="step", same_tail="tail")]
    text = printed(rows, "ptb_medium: T 35")
    title, second, *_ = text.splitlines()
    assert title.strip() == "step ptb_medium: T 35"
    assert second.strip() == "cpu, 1 thread, float32"
    line = next(line for line in text.splitlines() if "structured" in line).split()
    assert line == ["structured", "100.0", "2.02", "2.00-2.04", "2.00", "101%", "20%", "1.50"]
    baseline = next(line for line in text.splitlines() if "stock" in line).split()
    assert baseline == ["stock", "202.0"]
    assert "…" not in text


def test_what_is_not_known_is_a_dash():
    unknown = make_row("compare", "mine", Pair("structured", "stock"), TIMES, Setting())
    line = next(line for line in printed([unknown]).splitlines() if "structured" in line)
    assert line.split()[-3:] == ["-", "-", "-"]


def test_the_scaling_table_says_what_linear_would_be():
    line = next(line for line in printed([row(suite="scaling")]).splitlines() if "ptb_m" in line)
    # 1e9 live multiply-adds in 100 ms; the baseline's 202 ms for half as much work again.
    assert line.split() == ["ptb_medium", "100.0", "100.0", "101.0", "101%"]


def test_the_memory_table_has_megabytes():
    memory = dataclasses.replace(
        row(suite="memory"), megabytes=500.0, baseline_megabytes=1000.0, ratio=2.0
    )
    line = next(line for line in printed([memory]).splitlines() if "structured" in line)
    assert line.split() == ["structured", "500.0", "2.00"]


def test_a_noisy_run_says_so():
    assert noise([row()]) is None
    assert noise([]) is None
    noisy = dataclasses.replace(row(), baseline_spread=0.2, noisy=True)
    assert "spread over 20% of their median, more than 5%" in noise([row(), noisy])


def test_the_picture_is_whole(tmp_path):
    draw_rows([row(), row("none")], tmp_path / "bench.png")
    draw_rows([dataclasses.replace(row(), flop_limit=None)], tmp_path / "compare.png")
    assert (tmp_path / "bench.png").read_bytes().startswith(b"\x89PNG")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bench.png", "compare.png"]


def test_the_readme_gets_the_table_between_its_markers(tmp_path):
    readme = tmp_path / "README.md"
    readme.write_text(f"before\n{BEGIN} -->\nold\n{END}\nafter\n")
    rows = [row("none"), row(), row("none", "step"), row(suite="step"), row(suite="gemm")]
    update_readme(readme, rows)
    text = readme.read_text()
    assert text.startswith(f"before\n{BEGIN} -->\nOn a machine:\n\n| what |")
    assert text.endswith(f"{END}\nafter\n")
    assert "old" not in text
    assert "| layer ptb_medium | 1 | float32 | 202 | 1.00 (1.00) | 2.02 (2.00) |" in text
    assert "gemm" not in text
    assert text.count("a machine") == 1
    update_readme(readme, rows)
    assert readme.read_text() == text


def test_the_readmes_table_marks_what_was_noisy():
    noisy = dataclasses.replace(row(suite="step"), baseline_spread=0.2, noisy=True)
    lines = list(speed_table([row(), noisy]))
    assert [line for line in lines if r"202\*" in line] == [lines[5]]
    assert any("here up to 20%" in line for line in lines)
    assert "*" not in "".join(speed_table([row()]))


def test_the_readmes_rows_stand_under_their_machine():
    machines = ["1 of 2 cores of X", "1 of 8 cores of Y", "2 of 2 cores of X", "H200"]
    rows = [dataclasses.replace(row(), machine=name, shape=name[:1]) for name in machines]
    lines = [line for line in speed_table(rows) if line.startswith(("On", "| layer"))]
    assert [line.split(" | ")[0] for line in lines] == [
        *("On 2 cores of X:", "| layer 1", "| layer 2"),
        *("On 8 cores of Y:", "| layer 1", "On H200:", "| layer H"),
    ]


def test_a_marker_says_which_rows_its_file_wants(tmp_path):
    page = tmp_path / "page.md"
    marker = f"{BEGIN} threads=1,2 dtype=float32 suite=step -->"
    page.write_text(f"{marker}\n{END}\n")
    step = row(suite="step")
    others = [
        *(row(), dataclasses.replace(step, threads=3), dataclasses.replace(step, dtype="bfloat16")),
        *(step, dataclasses.replace(step, threads=2)),
    ]
    update_readme(page, others)
    lines = page.read_text().splitlines()
    assert lines[0] == marker
    assert [line[:33] for line in lines if line.startswith(("| layer", "| step"))] == [
        "| step ptb_medium | 1 | float32 |",
        "| step ptb_medium | 2 | float32 |",
    ]


@pytest.mark.parametrize("choice", ["thread=1", "threads", "threads=", "threads 1"])
def test_a_marker_that_chooses_nothing_is_told(choice, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"{BEGIN} {choice} -->\n{END}\n")
    with pytest.raises(ValueError, match=f"suite, shape, threads, dtype .* got '{choice}'"):
        update_readme(page, [row()])


def test_a_choice_that_no_row_meets_is_told(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"{BEGIN} threads=64 -->\n{END}\n")
    with pytest.raises(ValueError, match="without a row of the suites layer and step"):
        update_readme(page, [row()])


WHOLE = f"{BEGIN} -->"


@pytest.mark.parametrize(
    "lines",
    [[], [WHOLE], [END], [END, WHOLE], [WHOLE, WHOLE, END], [WHOLE, END, END], [BEGIN, END]],
)
def test_a_readme_without_markers_stays_as_it_is(lines, tmp_path):
    readme = tmp_path / "README.md"
    content = "".join(f"{line}\n" for line in [*lines, f"of {WHOLE} in a line"])
    readme.write_text(content)
    with pytest.raises(ValueError, match=r"README\.md: expected <!-- bench: begin -->"):
        update_readme(readme, [row()])
    assert readme.read_text() == content


def test_rows_of_other_suites_make_no_table():
    with pytest.raises(ValueError, match="without a row of the suites layer and step"):
        list(speed_table([row(suite="gemm")]))
