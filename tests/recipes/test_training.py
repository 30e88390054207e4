"""The course of a recipe: what its best checkpoint is for, and what a signal leaves."""

import os
import signal

from sdrop.evaluation import Evaluation, perplexity


def test_the_best_checkpoint_is_tested_not_the_last_one(train, tmp_path, monkeypatch):
    once = train(tmp_path / "once", "trainer.max_epochs=1", "optimizer.lr=0.03")
    values = iter([1.0, 2.0])  # of the two validations

    def worse_each_time(*arguments):
        value = next(values, None)
        return (
            perplexity(*arguments) if value is None else Evaluation(0.0, 1, {"perplexity": value})
        )

    monkeypatch.setattr("recipes.ptb.perplexity", worse_each_time)
    twice = train(tmp_path / "twice", "optimizer.lr=0.03")
    assert twice.fit.steps == 2 * once.fit.steps
    assert (twice.valid, twice.test) == (1.0, once.test)


def test_a_stopped_run_says_so_and_has_no_summary(train, tmp_path, monkeypatch, capsys):
    def stop_meanwhile(*arguments):
        os.kill(os.getpid(), signal.SIGTERM)
        return perplexity(*arguments)

    monkeypatch.setattr("recipes.ptb.perplexity", stop_meanwhile)
    stopped = train(tmp_path)
    assert stopped.fit.stopped == "signal"
    assert stopped.test is None
    assert "stopped by a signal after step" in capsys.readouterr().out
    assert not (tmp_path / "summary.json").exists()
