"""Histograms meet Prometheus's rules: cumulative counts, a sum, a count, and durations in the right bucket."""

from __future__ import annotations

import math

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ottla.metrics.exposition import render
from ottla.metrics.histogram import BOUNDS_S, Histogram
from ottla.metrics.metric import Metric, Sample

TIMES = Metric("t_seconds", "histogram", "Times.", ("api",))


def buckets(*took_ns: int) -> dict[float, float]:
    """The buckets by bound, as a scrape reads them."""
    held = Histogram()
    for each in took_ns:
        held.add_ns(each)
    (family,) = text_string_to_metric_families(render(held.samples(TIMES, ("Fetch",))))
    assert family.type == "histogram"
    assert all(sample.labels["api"] == "Fetch" for sample in family.samples)
    return {float(sample.labels["le"]): sample.value for sample in family.samples if sample.name == "t_seconds_bucket"}


def the_bucket_of(took_ns: int) -> float:
    return min(bound for bound, count in buckets(took_ns).items() if count)


@pytest.mark.parametrize("bound_s", BOUNDS_S)
def test_a_duration_is_in_the_bucket_whose_bound_is_the_next_above_it(bound_s: float) -> None:
    bound_ns = round(bound_s * 1e9)
    assert the_bucket_of(bound_ns - 1) == bound_s
    assert the_bucket_of(bound_ns // 2 + 1000) == bound_s
    assert the_bucket_of(bound_ns + 1000) > bound_s


def test_what_is_longer_than_all_bounds_is_counted_without_one() -> None:
    assert the_bucket_of(3_600_000_000_000) == math.inf


def test_a_clock_that_was_set_back_counts_as_no_time_at_all() -> None:
    held = Histogram()
    held.add_ns(-5_000_000_000)
    assert list(held.samples(TIMES, ("Fetch",)))[-2].value == 0.000001
    assert the_bucket_of(-5_000_000_000) == BOUNDS_S[0]


def test_buckets_hold_all_that_is_below_their_bound_too() -> None:
    found = buckets(1, 100_000, 100_000, 1_000_000_000)
    assert found[0.000064] == 1
    assert found[0.000128] == 3
    assert found[0.524288] == 3
    assert found[1.048576] == found[math.inf] == 4


def test_the_sum_and_the_count_are_of_all_durations() -> None:
    held = Histogram()
    for _ in range(3):
        held.add_ns(1_999_999_500)
    found = {sample.suffix: sample.value for sample in held.samples(TIMES, ("Fetch",)) if sample.suffix != "_bucket"}
    assert found == {"_sum": 6.0, "_count": 3}
    assert held.count == 3


def test_a_histogram_without_labels_has_none_but_the_bound() -> None:
    text = render(Histogram().samples(Metric("t_seconds", "histogram", "Times."), ()))
    lines = text.splitlines()
    assert lines[:3] == ["# HELP t_seconds Times.", "# TYPE t_seconds histogram", 't_seconds_bucket{le="6.4e-05"} 0']
    assert lines[-3:] == ['t_seconds_bucket{le="+Inf"} 0', "t_seconds_sum 0", "t_seconds_count 0"]


def test_what_has_no_limit_is_written_as_prometheus_writes_it() -> None:
    assert render([Sample(Metric("m", "gauge", "Most."), (), math.inf)]).endswith("\nm +Inf\n")
