"""The recipes as they are typed: exit codes, messages, folders, processes."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from recipes import demo, ptb
from recipes.configuration.launch import launch
from sdrop import __main__ as command
from sdrop.data import DataError
from sdrop.evaluation import perplexity
from sdrop.training import CheckpointError, NonFiniteError

REPOSITORY = Path(__file__).resolve().parents[2]
QUICK = ["model.hidden_size=8", "model.embedding_dim=8", "debug=fast_dev_run"]
TOLD = (DataError, CheckpointError, NonFiniteError)


def python(*arguments, cwd, **environment):
    """Run python in another process, with warnings as errors."""
    environment = {"PYTHONPATH": str(REPOSITORY), "OMP_NUM_THREADS": "1", **environment}
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.fixture(autouse=True)
def ctrl_c_counts():
    """Also where the tests were started in the background of a shell, which has SIGINT ignored."""
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, former)


@pytest.fixture
def type_in(monkeypatch, tmp_path, capsys):
    """`type_in(*arguments)` does as the command line would; returns exit code and both outputs."""
    monkeypatch.chdir(tmp_path)

    def type_in(*arguments):
        monkeypatch.setattr(sys, "argv", ["ptb", *arguments])
        try:
            launch("ptb", ptb.main, TOLD)
            code = 0
        except SystemExit as leaving:
            code = leaving.code
        return code, *capsys.readouterr()

    return type_in


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder with the package as the wheel lays it out."""
    site = tmp_path_factory.mktemp("site packages")
    shutil.copytree(REPOSITORY / "sdrop", site / "sdrop")
    for name in ("recipes", "conf"):
        shutil.copytree(REPOSITORY / name, site / "sdrop" / name)
    return site


def files(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_a_run_fills_a_folder_under_the_working_directory(type_in, tmp_path, texts):
    code, out, err = type_in(*texts, "data.batch_size=4", *QUICK)
    assert (code, err) == (0, "")
    (folder,) = (tmp_path / "runs" / "ptb").iterdir()
    assert json.loads((folder / "summary.json").read_text())["metric"]["name"] == "perplexity"
    assert "corpus text, hash" in out
    assert f"run folder {folder}" in out


@pytest.mark.parametrize(
    ("arguments", "code", "wanted"),
    [
        (["trainer.max_stps=3"], 2, "Did you mean trainer.max_steps?"),
        (["data=text"], 2, "data.train has no value"),
        (["data=ptb", "data.root=nowhere"], 1, "nowhere/ptb.train.txt does not exist"),
        (["data=text", *(f"data.{split}=a,b" for split in ("train", "valid", "test"))], 1, "a,b"),
        (["resume=auto"], 2, "add hydra.run.dir=DIR"),
        (["resume=nowhere"], 1, "there is no checkpoint"),
        (["mode=evaluate", "checkpoint=nowhere"], 1, "no run folder"),
        (["hydra.run.dir=a_file/run"], 2, "no folder that can be written to"),
        (["hydra.run.dir=/proc/foo"], 2, "hydra.run.dir=/proc/foo: cannot be made"),
        ([f"hydra.run.dir={'a' * 300}"], 2, "cannot be made: File name too long"),
        (["-m", "hydra.sweep.dir=/proc/foo", "seed=1,2"], 2, "hydra.sweep.dir=/proc/foo: cannot"),
        (["--cfg", "job", "sed=1"], 2, "Did you mean seed?"),
        (["--config-dir", "x"], 2, "copy-recipe"),
        (["-m", "dropout=none,standrd"], 2, "Did you mean dropout=standard?"),
    ],
)
def test_a_mistake_is_told_on_one_screen_and_leaves_nothing(
    arguments, code, wanted, type_in, tmp_path
):
    (tmp_path / "a_file").touch()
    before = files(tmp_path)
    found, _, err = type_in(*arguments)
    assert found == code
    assert wanted in err
    assert "Traceback" not in err
    assert len(err.splitlines()) <= 24
    assert files(tmp_path) == before


def test_a_folder_that_was_there_stays_after_a_mistake(type_in, tmp_path):
    (tmp_path / "mine").mkdir()
    code, _, _ = type_in("hydra.run.dir=mine/run", "data=ptb", "data.root=nowhere")
    assert code == 1
    assert files(tmp_path) == ["mine"]


def test_many_mistakes_still_fit_on_a_screen(type_in):
    _, _, err = type_in(*(f"option{number}=1" for number in range(40)))
    assert "and 34 more" in err
    assert len(err.splitlines()) <= 24


def stop_in_validation(monkeypatch):
    def stopped(*arguments):
        os.kill(os.getpid(), signal.SIGINT)
        return perplexity(*arguments)

    monkeypatch.setattr("recipes.ptb.perplexity", stopped)
    monkeypatch.setattr("sdrop.training.fitting.draw_curves", lambda *arguments: None)


STOPPED = "stopping; the same again stops at once and loses what is not saved\ninterrupted\n"


@pytest.mark.parametrize("epochs", [1, 2])
def test_a_stopped_run_does_not_pass_for_a_whole_one(epochs, type_in, tmp_path, texts, monkeypatch):
    stop_in_validation(monkeypatch)
    options = [*texts, *QUICK, "data.batch_size=4", f"trainer.max_epochs={epochs}"]
    code, out, err = type_in(*options)
    assert (code, err) == (130, STOPPED)
    (folder,) = (tmp_path / "runs" / "ptb").iterdir()
    assert f"go on with resume={folder}\n" in out
    monkeypatch.setattr("recipes.ptb.perplexity", perplexity)
    assert type_in(f"resume={folder}")[0] == 0
    assert (folder / "summary.json").exists()


def test_ctrl_c_in_the_test_says_how_to_go_on(type_in, tmp_path, texts, monkeypatch):
    calls = iter(range(9))

    def stopped(*arguments):
        if next(calls) == 1:  # validation came before
            os.kill(os.getpid(), signal.SIGINT)
        return perplexity(*arguments)

    monkeypatch.setattr("recipes.ptb.perplexity", stopped)
    monkeypatch.setattr("sdrop.training.fitting.draw_curves", lambda *arguments: None)
    code, out, err = type_in(*texts, *QUICK, "data.batch_size=4")
    assert (code, err) == (130, "interrupted\n")
    (folder,) = (tmp_path / "runs" / "ptb").iterdir()
    assert f"go on with resume={folder}\n" in out


def test_a_signal_ends_a_sweep(type_in, tmp_path, texts, monkeypatch):
    stop_in_validation(monkeypatch)
    sweep = ["-m", *texts, *QUICK, "data.batch_size=4", "dropout=none,standard"]
    code, out, err = type_in(*sweep)
    assert (code, err) == (130, STOPPED)
    assert out.count("corpus text") == 1
    (folder,) = (tmp_path / "runs" / "ptb").iterdir()
    assert not (folder / "1").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_before_the_first_step_leaves_nothing(
    number, type_in, tmp_path, texts, monkeypatch
):
    def interrupted(*arguments, **options):
        os.kill(os.getpid(), number)

    monkeypatch.setattr("recipes.ptb.read_corpus", interrupted)
    code, _, err = type_in(*texts, *QUICK)
    assert (code, err) == (130, "interrupted\n")
    assert files(tmp_path) == []


def test_the_demo_ends_with_the_arm_that_is_stopped(monkeypatch, tmp_path, capsys, texts):
    stop_in_validation(monkeypatch)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        demo.main([*texts, *QUICK, "data.batch_size=4", "trainer.max_epochs=2"])
    assert capsys.readouterr().out.count("python -m recipes.ptb") == 1


def test_a_sweep_runs_each_value_in_a_folder_of_its_own(type_in, tmp_path, texts):
    code, _, _ = type_in("-m", *texts, *QUICK, "data.batch_size=4", "dropout=none,standard")
    assert code == 0
    (sweep,) = (tmp_path / "runs" / "ptb").iterdir()
    patterns = [json.loads((sweep / n / "summary.json").read_text())["pattern"] for n in "01"]
    assert patterns[0] == "none"
    assert patterns[1].startswith("case I ")


def test_a_run_of_a_sweep_that_fails_does_not_keep_the_others(type_in, tmp_path, texts):
    root = next(each for each in texts if each.startswith("data.root"))
    given = [each for each in texts if not each.startswith("data.train")]
    code, _, err = type_in(
        "-m", *given, "data.train=nowhere.txt,train.txt", *QUICK, "data.batch_size=4"
    )
    (sweep,) = (tmp_path / "runs" / "ptb").iterdir()
    assert (code, root in err) == (1, False)
    assert "nowhere.txt" in err
    assert files(sweep)[0] == "1"


def test_text_of_a_prompt_is_taken_as_it_is(type_in, texts):
    type_in(*texts, *QUICK, "data.batch_size=4", "hydra.run.dir=run")
    code, out, _ = type_in(
        "mode=generate", "checkpoint=run", "prompt=the cat, it's (a) = {b}", "length=2"
    )
    assert code == 0
    assert out.startswith("the cat, it's (a) = {b} ")


def test_help_shows_commands_choices_and_options(type_in, tmp_path):
    code, out, _ = type_in("--help", "dropout=none")
    assert code == 0
    for wanted in ("python -m recipes.ptb", "data=ptb|pydoc|text", "hidden_size: 256"):
        assert wanted in out
    assert files(tmp_path) == []


def test_the_configuration_can_be_shown(type_in):
    code, out, _ = type_in("--cfg", "job", "experiment=zaremba_small", "data.root=x")
    assert code == 0
    assert "loss_normalization: sequence" in out


def test_a_run_that_diverges_is_told_with_the_step(type_in, texts):
    code, _, err = type_in(
        *texts,
        *QUICK[:2],
        *("data.batch_size=4", "optimizer=sgd", "optimizer.lr=1e38", "trainer.max_grad_norm=null"),
    )
    assert code == 1
    assert "step" in err
    assert "Traceback" not in err


def test_a_checkout_runs_without_a_warning(tmp_path):
    done = python("-W", "error", "-m", "recipes.ptb", *QUICK, "hydra.run.dir=run", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert files(tmp_path)[0] == "run"


def test_an_installed_package_runs_in_its_own_layout(installed, tmp_path, texts):
    given = (*texts, *QUICK, "data.batch_size=4", "hydra.run.dir=run")
    done = python("-m", "sdrop.recipes.ptb", *given, cwd=tmp_path, PYTHONPATH=str(installed))
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "run" / "summary.json").exists()


def test_a_copied_recipe_runs_from_its_folder_with_its_own_options(tmp_path, capsys):
    folder = tmp_path / "my copy"
    assert command.main(["copy-recipe", "ptb", str(folder)]) == 0
    config = folder / "conf" / "trainer" / "default.yaml"
    config.write_text(config.read_text() + "max_epochs: 3\n")
    done = python("-m", "recipes.ptb", "--cfg", "job", cwd=folder)
    assert "max_epochs: 3" in done.stdout, done.stderr
    assert f"'{folder}'" in capsys.readouterr().out  # the name has a space, so it is quoted


def test_an_installed_package_copies_its_recipe(installed, tmp_path, monkeypatch):
    monkeypatch.setattr(command, "_PACKAGE", installed / "sdrop")
    command.copy_recipe("ptb", tmp_path / "copy")
    assert (tmp_path / "copy" / "conf" / "ptb.yaml").exists()
    assert (tmp_path / "copy" / "recipes" / "configuration" / "schema.py").exists()


def test_copying_a_recipe_overwrites_nothing(tmp_path, capsys):
    (tmp_path / "conf").mkdir()
    assert command.main(["copy-recipe", "ptb", str(tmp_path)]) == 1
    assert "is there already" in capsys.readouterr().err
    assert files(tmp_path) == ["conf"]


def test_the_demo_compares_two_runs_at_the_same_rates(monkeypatch, tmp_path, capsys, texts):
    monkeypatch.chdir(tmp_path)
    demo.main([*texts, *QUICK, "data.batch_size=4"])
    out = capsys.readouterr().out
    for column in ("valid", "test", "seconds", "ratio"):
        assert column in out
    (folder,) = (tmp_path / "runs" / "demo").iterdir()
    assert files(folder)[0] == "curves.png"
    found = [json.loads((folder / arm / "summary.json").read_text()) for arm in demo.ARMS]
    assert [each["backend"] for each in found] == ["torch", "auto"]
    assert [each["pattern"] for each in found] == [
        "case I (random in space, varying in time): "
        "input 0.5, between 0.5, recurrent 0, output 0.5",
        "case III (structured in space, varying in time, count): "
        "input 0.5, between 0.5, recurrent 0.5, output 0.5",
    ]


@pytest.mark.parametrize("option", ["resume=auto", "dropout=none", "mode=evaluate"])
def test_the_demo_refuses_what_does_not_fit_two_runs(option):
    with pytest.raises(SystemExit, match=f"{option}: the demo always trains both arms anew"):
        demo.main(["seed=2", option])


def test_the_demo_has_a_help(capsys):
    demo.main(["--help"])
    assert "python -m recipes.demo" in capsys.readouterr().out


def test_the_demo_tells_a_mistake():
    with pytest.raises(SystemExit, match=r"Did you mean trainer\.max_steps"):
        demo.main(["trainer.max_stps=3"])


@pytest.mark.long
def test_two_processes_train_together(tmp_path, texts):
    given = (*texts, "data.batch_size=4", "model.hidden_size=8", "trainer.max_epochs=1")
    torchrun = ("-m", "torch.distributed.run", "--nproc-per-node", "2", "-m", "recipes.ptb")
    done = python(*torchrun, *given, "hydra.run.dir=run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("run folder") == 1
    assert (tmp_path / "run" / "summary.json").exists()
    assert files(tmp_path)[0] == "run"
    wrong = python(*torchrun, *given, "trainer.max_stps=3", cwd=tmp_path)
    assert wrong.returncode != 0
    assert wrong.stderr.count("Did you mean trainer.max_steps?") == 1
