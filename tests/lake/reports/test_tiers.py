"""Compares the counts of producers with what a lake loaded."""

import random

from hypothesis import given
from hypothesis import strategies as st

from ottla.client.produce.audit_trail import WINDOW_MS, AuditMessage
from ottla.lake.columns.windows import Tally
from ottla.lake.reports.tiers import Comparison, Judgement, TierCounts, added_up, compare, ratios


def a_message(seq, window, count, *, tier="producer", topic="t", host="h"):
    start = window * WINDOW_MS
    return AuditMessage(tier, topic, start, start + WINDOW_MS, count, 0, host, "s", seq, start).encode()


@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 9)), max_size=20), st.randoms())
def test_repeated_messages_count_once_in_any_order(deltas, order: random.Random):
    bodies = [a_message(seq, window, count) for seq, (window, count) in enumerate(deltas)]
    again = bodies + [body for body in bodies if order.random() < 0.5]
    order.shuffle(again)
    found = added_up(again)
    assert found.told == added_up(bodies).told
    assert found.repeated == len(again) - len(bodies)
    assert sum(each.count for each in found.told) == sum(count for _, count in deltas)


def test_hosts_number_their_messages_each_by_itself_and_rubbish_is_counted():
    found = added_up([a_message(1, 0, 5), a_message(1, 0, 6, host="g"), b"rubbish", None])
    assert found.told == [TierCounts("producer", "t", 0, 11)]
    assert found.unreadable == 2


LAKE = {"t": Tally((0, 1, 2, 3), (10, 9, 11, 1), (0, 0, 0, 1), (0, 0, 0, 0))}
TOLD = [TierCounts("producer", "t", window, 10) for window in range(3)] + [TierCounts("producer", "t", 3, 2)]


def judged(**rules):
    return [each.judgement.value for each in compare(TOLD, LAKE, Comparison({"t": 99}, **rules))]


def test_windows_are_judged_one_by_one_and_dead_letters_count_as_loaded():
    assert judged() == ["complete", "missing", "more", "complete"]
    assert judged(tolerance=0.1) == ["complete"] * 4
    assert judged(since=2) == ["more", "complete"]
    assert judged(counted={"t": False}) == ["complete", "unknown", "more", "complete"]


def test_it_is_too_early_for_young_windows_and_the_lakes_own_messages_are_no_measure():
    told = [*TOLD, TierCounts("lake", "t", 0, 99), TierCounts("producer", "elsewhere", 0, 5)]
    found = compare(told, LAKE, Comparison({"t": 1}))
    assert [each.judgement for each in found] == [Judgement.COMPLETE, *[Judgement.OPEN] * 3]
    assert [each.told for each in found] == [10, 10, 10, 2]


def test_the_ratio_counts_no_window_above_what_was_told():
    assert ratios(compare(TOLD, LAKE, Comparison({"t": 99}))) == {("t", "producer"): 31 / 32}
    assert ratios(compare(TOLD, LAKE, Comparison({"t": 0}))) == {}
