"""Subscriptions by regular expressions: resolved in steps, refreshed, written, and removed."""

from __future__ import annotations

import pytest
from tests.groups.consumer_desk import ConsumerDesk, SomeTopics, error_of

from ottla.groups import regexes
from ottla.kernel.errors import ErrorCode
from ottla.kernel.patterns import Matcher, compile_pattern


def test_a_regular_expression_matches_nothing_until_it_is_resolved():
    desk = ConsumerDesk(topics=SomeTopics(orders_a=1, orders_b=2, other=1))
    joined = desk.join_consumer("m", regex="orders_.*")
    assert desk.told(joined) == {}
    desk.pass_ms(0)
    answer = desk.beat("m", joined.member_epoch)
    assert desk.told(answer) == {"orders_a": {0}, "orders_b": {0, 1}}
    assert desk.describe_consumer().members[0].subscribed_topic_regex == "orders_.*"


def test_names_and_a_regular_expression_are_read_together():
    desk = ConsumerDesk(topics=SomeTopics(a=1, b=1, c=1))
    joined = desk.join_consumer("m", "a", regex="b")
    desk.pass_ms(0)
    assert desk.told(desk.beat("m", joined.member_epoch)) == {"a": {0}, "b": {0}}


def test_a_pattern_that_cannot_be_matched_in_linear_time_is_refused():
    desk = ConsumerDesk()
    answer = desk.join_consumer("m", regex="(?=x)")
    assert error_of(answer) == ErrorCode.INVALID_REGULAR_EXPRESSION and "(?=x)" in (answer.error_message or "")
    assert not desk.log


def test_very_many_names_are_matched_in_several_turns():
    desk = ConsumerDesk(topics=SomeTopics(**{f"t{number}": 1 for number in range(100)}))
    joined = desk.join_consumer("m", regex="t.*")
    first = desk.shard.tick(desk.now)
    assert first is not None and not first.entries
    desk.pass_ms(0)
    assert len(desk.told(desk.beat("m", joined.member_epoch)) or {}) == 100


def test_a_turn_compiles_one_regular_expression_at_most(monkeypatch: pytest.MonkeyPatch):
    """A group may have one of each member, and a short one may take milliseconds."""
    desk = ConsumerDesk(topics=SomeTopics(t1=1, t2=1))
    for number in range(10):
        desk.join_consumer(f"m{number}", regex=f"t{number}|t.{number}")
    compiled: list[str] = []

    def counted(pattern: str) -> Matcher:
        compiled.append(pattern)
        return compile_pattern(pattern)

    monkeypatch.setattr(regexes, "compile_pattern", counted)
    for turn in range(1, 11):
        assert desk.shard.tick(desk.now) is not None
        assert len(compiled) == turn
    assert sorted(compiled) == sorted(set(compiled))


def test_all_regular_expressions_of_a_group_are_resolved_in_one_run():
    desk = ConsumerDesk(topics=SomeTopics(**{f"t{number}": 1 for number in range(100)}))
    for number in range(10):
        desk.join_consumer(f"m{number}", regex=f"t{number}|t.{number}")
    desk.pass_ms(0)
    found = {regex: set(each.topics) for regex, each in desk.group().regexes.items()}
    assert len(found) == 10 and found["t3|t.3"] == {"t3", *(f"t{number}3" for number in range(1, 10))}


def test_a_new_topic_is_found_after_a_rest():
    desk = ConsumerDesk(topics=SomeTopics(ta=1))
    epoch = desk.join_consumer("m", regex="t.*").member_epoch
    desk.pass_ms(0)
    epoch = desk.beat("m", epoch).member_epoch
    desk.topics.make("tb", 1)
    desk.pass_ms(9_999)
    desk.beat("m", epoch)
    desk.pass_ms(0)
    assert desk.told(desk.beat("m", epoch)) is None, "the last run is not long ago"
    desk.pass_ms(1)
    desk.beat("m", epoch)
    desk.pass_ms(0)
    assert desk.told(desk.beat("m", epoch)) == {"ta": {0}, "tb": {0}}


def test_a_run_that_finds_nothing_new_writes_nothing():
    desk = ConsumerDesk(topics=SomeTopics(ta=1))
    epoch = desk.join_consumer("m", regex="t.*").member_epoch
    desk.pass_ms(0)
    epoch = desk.beat("m", epoch).member_epoch
    desk.topics.make("other", 1)
    written = len(desk.log)
    desk.pass_ms(20_000)
    desk.beat("m", epoch)
    desk.pass_ms(0)
    assert len(desk.log) == written and desk.beat("m", epoch).member_epoch == epoch


def test_a_deleted_topic_is_given_up_at_once():
    desk = ConsumerDesk(topics=SomeTopics(ta=1, tb=1))
    epoch = desk.join_consumer("m", regex="t.*").member_epoch
    desk.pass_ms(0)
    epoch = desk.beat("m", epoch).member_epoch
    desk.topics.delete("tb")
    assert desk.told(desk.beat("m", epoch, owned={"ta": {0}})) == {"ta": {0}}


def test_a_second_member_with_the_same_expression_needs_no_run():
    desk = ConsumerDesk(topics=SomeTopics(ta=2))
    epoch = desk.join_consumer("a", regex="t.*").member_epoch
    desk.pass_ms(0)
    epoch = desk.beat("a", epoch).member_epoch
    assert desk.join_consumer("b", regex="t.*").member_epoch == epoch + 1
    assert desk.group().target["b"] == {desk.topics.id_of("ta"): frozenset({1})}


def test_what_nobody_subscribes_by_is_forgotten():
    desk = ConsumerDesk(topics=SomeTopics(ta=1, other=1))
    epoch = desk.join_consumer("a", regex="t.*").member_epoch
    desk.join_consumer("b", regex="t.*")
    desk.pass_ms(0)
    assert set(desk.group().regexes) == {"t.*"}
    desk.beat("b", -1)
    assert set(desk.group().regexes) == {"t.*"}
    epoch = desk.group().members["a"].epoch
    desk.beat("a", epoch, topics=["other"], regex="")
    assert not desk.group().regexes and not desk.replayed().consumers.groups["g"].regexes


def test_resolved_topics_outlive_a_change_of_coordinators():
    desk = ConsumerDesk(topics=SomeTopics(ta=1))
    epoch = desk.join_consumer("m", regex="t.*").member_epoch
    desk.pass_ms(0)
    epoch = desk.beat("m", epoch).member_epoch
    desk.fail_over()
    assert desk.beat("m", epoch).member_epoch == epoch
    assert desk.group().regexes["t.*"].topics == {"ta"}


def test_an_expression_that_was_not_resolved_before_the_coordinator_changed_is_resolved_after():
    desk = ConsumerDesk(topics=SomeTopics(ta=1))
    epoch = desk.join_consumer("m", regex="t.*").member_epoch
    desk.fail_over()
    desk.beat("m", epoch)
    desk.pass_ms(0)
    assert desk.told(desk.beat("m", epoch)) == {"ta": {0}}


def test_a_run_matches_only_what_the_member_that_began_it_may_see():
    desk = ConsumerDesk(topics=SomeTopics(ta=1, tb=1))
    epoch = desk.join_consumer("m", regex="t.*", sees=lambda name: name != "tb").member_epoch
    desk.pass_ms(0)
    assert desk.told(desk.beat("m", epoch)) == {"ta": {0}}
    assert desk.group().regexes["t.*"].topics == {"ta"}


def test_rights_that_have_changed_since_count_in_the_next_run():
    hidden = {"tb"}
    desk = ConsumerDesk(topics=SomeTopics(ta=1, tb=1))
    epoch = desk.join_consumer("m", regex="t.*", sees=lambda name: name not in hidden).member_epoch
    desk.pass_ms(0)
    epoch = desk.beat("m", epoch).member_epoch
    hidden.add("ta")
    desk.topics.version += 1
    desk.pass_ms(regexes.REST_MS)
    desk.beat("m", epoch, owned={"ta": {0}}, sees=lambda name: name not in hidden)
    desk.pass_ms(0)
    assert desk.group().regexes["t.*"].topics == frozenset()
