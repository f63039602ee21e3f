"""Tests of how the measurement of memory sums up its samples of processes."""

from __future__ import annotations

import pytest
from bench.lake_memory import after_the_first_round, figures, shares
from bench.lake_rig import Look, Watch


def look(at: int, java: float, *python: float, rounds: int | None = None) -> Look:
    told = at // 5 if rounds is None else rounds
    return Look(at, java, sum(python), len(python), max(python, default=0.0), told)


def test_shares_add_up_to_the_size_and_a_skewed_topic_has_nine_tenths_in_one_partition() -> None:
    even = shares(0.214, 4, skewed=False)
    assert even == [250_000] * 4
    skewed = shares(0.214, 4, skewed=True)
    assert sum(skewed) == 1_000_000
    assert skewed == [900_001, 33_333, 33_333, 33_333]


def test_peaks_are_of_all_processes_at_one_moment() -> None:
    looks = [look(at, 300, 10, rounds=1) for at in range(3)]
    looks += [look(4, 500, 10, 30), look(5, 400, 80, 20), look(6, 300, 50, rounds=2)]
    found = figures(Watch(looks, "", 0, 5.0))
    assert (found["peak_all_mb"], found["peak_java_mb"]) == (540, 500)
    assert (found["peak_python_mb"], found["peak_one_python_mb"]) == (100, 80)


def test_a_load_that_grows_is_seen_to_grow_but_its_start_is_no_growth() -> None:
    start = [look(at, 20 * at) for at in range(5)]
    steady = [look(at, 500, 100 + at % 3) for at in range(5, 50)]
    growing = [look(at, 500, 100 + 20 * at) for at in range(5, 50)]
    assert figures(Watch(start + steady))["grown"] == 1.0
    assert figures(Watch(start + growing))["grown"] > 1.5


def test_a_load_of_one_round_says_nothing() -> None:
    with pytest.raises(RuntimeError, match="give more --gigabytes"):
        after_the_first_round([look(at, 300, 50, rounds=at // 50) for at in range(99)])
