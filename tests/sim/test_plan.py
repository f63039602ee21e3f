"""Tests of which worlds are drawn: a share of them has every option at its default."""

from __future__ import annotations

from ottla.config.broker import BrokerConfig
from ottla.sim.drawing import draw_plan, draw_with_options
from ottla.sim.plan import CUT_COORDINATION, GUARDED, PARTITION

SEEDS = range(200)


def test_a_share_of_clusters_leaves_every_option_at_its_default():
    said = {
        "min.insync.replicas",
        "offsets.topic.replication.factor",
        "offsets.topic.num.partitions",
        "group.initial.rebalance.delay.ms",
        "group.min.session.timeout.ms",
        "group.consumer.min.session.timeout.ms",
        "group.consumer.session.timeout.ms",
        "group.consumer.min.heartbeat.interval.ms",
        "group.consumer.heartbeat.interval.ms",
        "transaction.state.log.num.partitions",
        "authorizer.class.name",
        "super.users",
        "sasl.enabled.mechanisms",
        "delegation.token.secret.key",
    }
    as_they_come = [plan for seed in SEEDS if (plan := draw_plan(seed, 3)) != draw_with_options(seed, 3)]
    assert 20 <= len(as_they_come) <= 80
    for plan in as_they_come:
        for name, text in plan.broker_texts:
            assert name in said or text == str(BrokerConfig.BY_NAME[name].default)
        assert not any(topic.configs for topic in plan.topics)
    assert {plan.session_us for plan in as_they_come} == {0, 6_000_000}


def test_a_broker_that_is_alone_is_drawn_as_ever():
    assert all(draw_plan(seed) == draw_with_options(seed) for seed in SEEDS)


def test_a_share_of_worlds_has_transactions_and_the_others_are_as_before():
    drawn = [draw_plan(seed, 3) for seed in SEEDS]
    with_transactions = [plan for plan in drawn if plan.transactions is not None]
    assert 50 <= len(with_transactions) <= 110
    for plan in drawn:
        assert plan.transactions is not None or not any("transaction" in name for name, _ in plan.broker_texts)


def test_half_of_the_worlds_with_transactions_have_a_contested_group():
    with_transactions = [plan.transactions for seed in SEEDS if (plan := draw_plan(seed, 3)).transactions is not None]
    assert 0.35 < sum(each.contests for each in with_transactions) / len(with_transactions) < 0.65
    alone = [plan.transactions for seed in SEEDS if (plan := draw_plan(seed)).transactions is not None]
    assert any(each.contests for each in alone)


def test_markers_are_delayed_only_where_there_are_transactions_faults_and_other_coordinators():
    drawn = [plan for seed in SEEDS if (plan := draw_plan(seed, 3)).transactions is not None]
    delaying = [plan for plan in drawn if plan.transactions is not None and plan.transactions.late_markers]
    assert 0.3 < len(delaying) / len(drawn) < 0.65
    assert all(plan.faults for plan in delaying)
    alone = [plan.transactions for seed in SEEDS if (plan := draw_plan(seed)).transactions is not None]
    assert not any(each.late_markers for each in alone)


def test_worlds_have_classic_groups_or_members_of_the_consumer_protocol_or_both():
    drawn = [draw_plan(seed, 3) for seed in SEEDS]
    assigned = [plan for plan in drawn if plan.assigned_members]
    assert 70 <= len(assigned) <= 130
    assert 15 <= sum(plan.groups == 0 for plan in assigned) <= 50
    assert all(plan.groups for plan in drawn if not plan.assigned_members)
    assert {plan.assigned_members for plan in drawn} == {0, 2, 3, 4}


def test_clients_stay_with_late_leaders_only_where_brokers_are_cut_off_from_the_store():
    drawn = [draw_plan(seed, 3) for seed in SEEDS]
    assert 50 <= sum(plan.clings for plan in drawn) <= 100
    assert all(CUT_COORDINATION in plan.faults for plan in drawn if plan.clings)
    assert not any(draw_plan(seed).clings for seed in SEEDS)


def test_leaders_out_of_reach_are_replaced_and_put_back_only_where_leaders_move_and_brokers_are_apart():
    drawn = [draw_plan(seed, 3) for seed in SEEDS]
    assert 15 <= sum(plan.turns for plan in drawn) <= 60
    assert all(plan.moves_leaders and PARTITION in plan.faults for plan in drawn if plan.turns)
    assert not any(draw_plan(seed).turns for seed in SEEDS)


def test_a_share_of_worlds_has_guests_and_an_authorizer_and_the_others_are_as_before():
    drawn = [draw_plan(seed, 3) for seed in SEEDS]
    with_guests = [plan for plan in drawn if plan.guests]
    assert 18 <= len(with_guests) <= 50
    for plan in drawn:
        assert ("authorizer.class.name" in dict(plan.broker_texts)) == plan.guests
        assert any(topic.name == GUARDED for topic in plan.topics) == plan.guests
    assert 18 <= sum(plan.limits_clients for plan in drawn) <= 50
    assert 30 <= sum(plan.guests or plan.limits_clients for plan in drawn) <= 70
    assert any(draw_plan(seed).guests for seed in SEEDS) and any(draw_plan(seed).limits_clients for seed in SEEDS)


def test_most_worlds_with_guests_have_them_log_in_and_the_others_are_as_before():
    drawn = [draw_plan(seed, 3) for seed in SEEDS]
    with_guests = [plan for plan in drawn if plan.guests]
    assert 0.5 < sum(plan.guests_log_in for plan in with_guests) / len(with_guests) < 0.9
    for plan in drawn:
        assert plan.guests or not plan.guests_log_in
        assert ("delegation.token.secret.key" in dict(plan.broker_texts)) == plan.guests_log_in
        assert plan.guests_log_in or "connections.max.reauth.ms" not in dict(plan.broker_texts)
    assert any(draw_plan(seed).guests_log_in for seed in SEEDS)
