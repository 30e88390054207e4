"""The bench recipe: what a run leaves, what it says of mistakes, what a stopped run keeps."""

import json
import statistics
import sys

import pytest
import torch

from recipes import bench
from recipes.configuration import Mistake, as_options, compose, find_mistakes
from recipes.configuration.launch import launch

TINY = ("shape=T3-B2-in5-H4-V7", "rounds=2")


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """The machine's peak takes longer to measure than all else."""
    monkeypatch.setattr(bench, "measure_peak", lambda *arguments: 50.0)


def run(folder, *overrides):
    return bench.run(as_options(compose("bench", [*TINY, *overrides])), folder, overrides)


@pytest.fixture
def type_in(monkeypatch, tmp_path, capsys):
    """`type_in(*arguments)` does as the command line would; returns exit code and both outputs."""
    monkeypatch.chdir(tmp_path)

    def type_in(*arguments):
        monkeypatch.setattr(sys, "argv", ["bench", *arguments])
        try:
            launch("bench", bench.main)
            code = 0
        except SystemExit as leaving:
            code = leaving.code
        return code, *capsys.readouterr()

    return type_in


def test_a_run_fills_its_folder(type_in, tmp_path):
    code, out, err = type_in(*TINY)
    assert (code, err) == (0, "")
    (folder,) = (tmp_path / "runs" / "bench").iterdir()
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["bench.json", "bench.png", "config.yaml", "summary.json"]
    rows = json.loads((folder / "bench.json").read_text())
    assert {row["suite"] for row in rows} == {"gemm", "layer", "step"}
    assert "layer T3-B2-in5-H4-V7" in out
    assert str(folder) in out
    summary = json.loads((folder / "summary.json").read_text())
    ratios = [row["ratio"] for row in rows]
    assert summary["metric"]["name"] == "ratio"
    assert summary["metric"]["valid"] == pytest.approx(statistics.geometric_mean(ratios))
    assert summary["recipe"] == "bench"


def test_each_ratio_is_what_the_recorded_times_say(tmp_path):
    for row in run(tmp_path, "suite=all"):
        rounds = zip(row.baseline_milliseconds_by_round, row.milliseconds_by_round, strict=True)
        ratios = [baseline / variant for baseline, variant in rounds]
        assert row.ratio == pytest.approx(statistics.median(ratios))
        assert (row.ratio_min, row.ratio_max) == (min(ratios), max(ratios))
        assert row.milliseconds == pytest.approx(statistics.median(row.milliseconds_by_round))
        assert row.rounds == len(ratios) == 2
        assert row.fraction_of_peak == pytest.approx(row.gflops / 50.0)


def test_threads_are_measured_one_after_the_other_and_put_back(tmp_path, monkeypatch):
    before, seen = torch.get_num_threads(), []
    monkeypatch.setattr(
        bench, "measure_peak", lambda *_: seen.append(torch.get_num_threads()) or 1.0
    )
    rows = run(tmp_path, "suite=layer", "variant=structured", "threads=[1,2]")
    assert [row.threads for row in rows] == seen == [1, 2]
    assert torch.get_num_threads() == before


def test_the_memory_suite_makes_rows_without_times(tmp_path, monkeypatch):
    found = {"stock": 40.0, "structured": 20.0}
    monkeypatch.setattr(
        "sdrop.benchmark.memory.in_a_process_of_its_own",
        lambda module, shape, name, setting: {"megabytes": found[name]},
    )
    (row,) = run(tmp_path, "suite=memory", "variant=structured")
    assert (row.ratio, row.megabytes, row.milliseconds) == (2.0, 20.0, None)
    assert json.loads((tmp_path / "summary.json").read_text())["metric"]["valid"] is None


def test_a_run_that_is_stopped_keeps_the_rows_that_it_has(tmp_path, monkeypatch, capsys):
    class Request:
        requested = False

        def __enter__(self):
            return self

        def __exit__(self, *error):
            return None

    request = Request()
    monkeypatch.setattr(bench, "StopRequest", lambda: request)
    keep = bench.Bench.keep

    def stop_after_the_first(self, *arguments):
        keep(self, *arguments)
        request.requested = True

    monkeypatch.setattr(bench.Bench, "keep", stop_after_the_first)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, "suite=[layer,step]")
    rows = json.loads((tmp_path / "bench.json").read_text())
    assert [row["suite"] for row in rows] == ["layer"] * 5
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bench.json", "config.yaml"]
    assert "stopped; 5 rows are kept" in capsys.readouterr().out


def test_a_run_that_is_stopped_in_its_last_comparison_is_not_whole(tmp_path, monkeypatch):
    class Request(bench.StopRequest):
        """Asked before each of seven candidates, four rounds, and stopped in the third."""

        asked = 0

        @property
        def requested(self):
            self.asked += 1
            return self.asked > 18

        @requested.setter
        def requested(self, value):
            pass

    monkeypatch.setattr(bench, "StopRequest", Request)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, "suite=layer", "rounds=4")
    rows = json.loads((tmp_path / "bench.json").read_text())
    assert [row["rounds"] for row in rows] == [1] * 5
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bench.json", "config.yaml"]


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("sute=layer", "Did you mean suite?"),
        ("suite=layr", "Did you mean suite=layer?"),
        ("suite=[layer,stp]", "Did you mean suite=step?"),
        ("shape=ptb_medim", "Did you mean shape=ptb_medium?"),
        ("shape=T3-B2", "H is missing, as in T35-B20-H650-p.5"),
        ("shape=3", "wrong type. It must be a text, or a list"),
        ("variant=strutured", "Did you mean variant=structured?"),
        ("variant=[none,none]", "each may be given once"),
        ("threads=two", "threads=two: wrong type. It must be a whole number, or a list"),
        ("threads=0", "threads=0: out of range. It must be at least 1."),
        ("threads=[1,-2]", "threads=-2: out of range"),
        ("rounds=0", "out of range"),
        ("rounds=many", "It must be a whole number, or null"),
        ("seconds=0", "out of range. It must be more than 0."),
        ("dtype=float16", "Did you mean dtype=bfloat16?"),
        ("device=gpu", "device=gpu: no such choice"),
        ("backend=gpu", "There are: auto, cpu, cuda, reference"),
        ("dropout=structured", "there is no such option"),
        ("mode=readme", "mode=readme needs source=FILE"),
        ("source=bench.json", "is for mode=readme"),
        ("peers=torch", "no such choice"),
        ("suite=[]", "suite=[]: at least one is wanted"),
    ],
)
def test_a_mistake_is_told(override, said):
    mistakes = "\n".join(find_mistakes("bench", [override]))
    assert said in mistakes
    assert len(mistakes.splitlines()) <= 6


def test_a_peer_that_is_not_installed_is_told(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert find_mistakes("bench", ["peers=jax"]) == [
        "peers=jax: jax is not installed here: pip install jax"
    ]


def test_a_mistake_leaves_no_folder(type_in, tmp_path):
    code, _, err = type_in("suite=gemm", "shape=generation")
    assert code == 1
    assert "nothing to measure" in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_a_gpu_that_is_not_there_is_told(tmp_path):
    with pytest.raises(Mistake, match="device=cuda: torch sees no GPU here"):
        run(tmp_path / "run", "device=cuda")
    assert not (tmp_path / "run").exists()


def test_more_threads_than_cores_are_refused(tmp_path):
    with pytest.raises(Mistake, match=r"threads=10000: this process may use \d+ cores"):
        run(tmp_path / "run", "threads=[1,10000]")
    assert not (tmp_path / "run").exists()


def test_kernels_that_cannot_take_the_type_are_told(tmp_path, monkeypatch):
    monkeypatch.setattr(bench, "check_backend", lambda name: name)
    monkeypatch.setattr(
        bench, "why_not_cpu", lambda tensor: f"they need float32, got {tensor.dtype}"
    )
    with pytest.raises(
        Mistake, match=r"backend=cpu: they need float32, got torch\.bfloat16; leave"
    ):
        run(tmp_path / "run", "backend=cpu", "dtype=bfloat16")
    assert not (tmp_path / "run").exists()


def test_a_folder_with_a_run_is_not_written_over(tmp_path):
    run(tmp_path, "suite=layer", "variant=none")
    before = (tmp_path / "bench.json").read_bytes()
    with pytest.raises(Mistake, match="holds a run already"):
        run(tmp_path, "suite=layer", "variant=none")
    assert (tmp_path / "bench.json").read_bytes() == before


def test_the_readmes_table_is_written_from_a_stored_run(type_in, tmp_path):
    (tmp_path / "README.md").write_text("a\n<!-- bench: begin -->\n<!-- bench: end -->\nz\n")
    assert type_in(*TINY, "suite=layer", "hydra.run.dir=run")[0] == 0
    code, out, err = type_in("mode=readme", "source=run/bench.json")
    assert (code, err) == (0, "")
    assert "the speed table is that of" in out
    text = (tmp_path / "README.md").read_text()
    assert "| layer T3-B2-in5-H4-V7 | 1 | float32 |" in text
    assert torch.__version__ in text
    assert sorted(path.name for path in tmp_path.iterdir()) == ["README.md", "run"]


@pytest.mark.parametrize(
    ("readme", "source", "said"),
    [
        ("README.md", "missing.json", "missing.json: cannot be read as a bench.json"),
        ("README.md", ".", ": cannot be read as a bench.json"),
        ("missing.md", "rows.json", "missing.md: No such file or directory. It must be"),
        (".", "rows.json", ": Is a directory. It must be"),
        ("README.md", "rows.json", "without a row of the suites layer and step"),
    ],
)
def test_files_that_give_no_table_are_told(readme, source, said, type_in, tmp_path):
    (tmp_path / "README.md").write_text("<!-- bench: begin -->\n<!-- bench: end -->\n")
    (tmp_path / "rows.json").write_text("[]")
    code, _, err = type_in("mode=readme", f"source={source}", f"readme={readme}")
    assert code == 1
    assert said in err


def test_help_shows_commands_and_options(type_in):
    code, out, _ = type_in("--help")
    assert code == 0
    assert "python -m recipes.bench suite=layer" in out
    assert "threads" in out
    assert "Choices" not in out
