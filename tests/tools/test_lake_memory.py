"""What the measurement of memory says of looks at processes."""

from __future__ import annotations

import pytest
from bench.lake_memory import at_work, figures, shares
from bench.lake_rig import Look, Watch


def look(seconds: float, java: float, *python: float) -> Look:
    return Look(seconds, java, sum(python), len(python), max(python, default=0.0))


def test_shares_add_up_to_the_size_and_a_skewed_topic_has_nine_tenths_in_one_partition() -> None:
    even = shares(0.214, 4, skewed=False)
    assert even == [250_000] * 4
    skewed = shares(0.214, 4, skewed=True)
    assert sum(skewed) == 1_000_000
    assert skewed == [900_001, 33_333, 33_333, 33_333]


def test_peaks_are_of_all_processes_at_one_moment() -> None:
    looks = [look(0, 900), look(1, 500, 10, 30), look(2, 400, 80, 20), look(3, 300, 50), look(4, 2_000)]
    found = figures(Watch(looks, "", 0, 5.0))
    assert (found["peak_all_mb"], found["peak_java_mb"]) == (540, 500)
    assert (found["peak_python_mb"], found["peak_one_python_mb"]) == (100, 80)


def test_a_load_that_grows_is_seen_to_grow() -> None:
    steady = [look(at, 500, 100 + at % 3) for at in range(30)]
    growing = [look(at, 500, 100 + 20 * at) for at in range(30)]
    assert figures(Watch(steady))["grown"] == 1.0
    assert figures(Watch(growing))["grown"] > 1.5


def test_a_load_without_a_look_at_a_worker_says_nothing() -> None:
    with pytest.raises(RuntimeError, match="give more --gigabytes"):
        at_work([look(0, 300), look(1, 300)])
