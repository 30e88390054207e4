"""Candidates in turn, and the arithmetic of their times."""

import time

import pytest
import torch

from sdrop.benchmark.timing import Candidate, Clock, Stopped, clock_for, spread, time_in_turn


def recording(names):
    calls = []
    candidates = {
        name: Candidate(
            lambda name=name: calls.append(name), lambda name=name: calls.append(f"before {name}")
        )
        for name in names
    }
    return candidates, calls


def test_candidates_take_turns_and_the_first_call_is_not_counted(steady):
    candidates, calls = recording("ab")
    times = time_in_turn(candidates, steady, rounds=2)
    assert calls == ["before a", "a", "before b", "b"] * 3
    assert times == {"a": [3e3, 5e3], "b": [4e3, 6e3]}


def test_a_short_candidate_is_called_several_times_a_round():
    candidates, calls = recording("a")
    clock = Clock("5 ms", lambda run: run() or 0.005)
    assert time_in_turn(candidates, clock, rounds=3) == {"a": [5.0] * 3}
    assert calls.count("a") == 1 + 3 * 4


def test_there_are_as_many_rounds_as_fit_in_the_time_but_three_at_least():
    candidate = {"a": Candidate(lambda: time.sleep(0.01))}
    clock = Clock("long", lambda run: run() or 1.0)
    assert len(time_in_turn(candidate, clock, seconds=1e-9)["a"]) == 3
    assert len(time_in_turn(candidate, clock, seconds=1e9)["a"]) == 50


def test_a_stop_is_heard_in_front_of_each_candidate(steady):
    candidates, calls = recording("ab")
    with pytest.raises(Stopped):
        time_in_turn(candidates, steady, rounds=5, stop=lambda: len(calls) >= 6)
    assert calls[-1] == "a"


def test_a_stop_keeps_the_rounds_that_are_whole(steady):
    candidates, calls = recording("ab")
    times = time_in_turn(candidates, steady, rounds=5, stop=lambda: len(calls) >= 14)
    assert {name: len(each) for name, each in times.items()} == {"a": 2, "b": 2}
    assert calls[-1] == "a"


def test_one_thread_is_timed_by_what_it_computes_and_not_by_what_it_waits():
    assert clock_for("cpu", 1).name == "process CPU time"
    assert clock_for("cpu", 2).name == "wall time"
    assert clock_for("cuda:0", 1).name == "CUDA events"
    assert clock_for("cpu", 1).seconds(lambda: time.sleep(0.2)) < 0.1
    assert clock_for("cpu", 2).seconds(lambda: time.sleep(0.2)) >= 0.2


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
def test_events_wait_for_the_gpu():
    matrix = torch.randn(2048, 2048, device="cuda")
    clock = clock_for("cuda", 1)
    clock.seconds(lambda: matrix @ matrix)
    assert clock.seconds(lambda: matrix @ matrix) > 1e-5


def test_the_spread_is_the_distance_between_the_quartiles():
    assert spread([1.0, 2.0, 3.0, 4.0, 5.0]) == pytest.approx(2 / 3)
    assert spread([7.0]) == 0.0
