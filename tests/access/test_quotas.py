"""The most specific quota counts; a rate is that of eleven seconds; over it a client waits as long as in Kafka."""

from __future__ import annotations

import pytest

from ottla.access.quotas import LONGEST_MS, Bucket, QuotaMeter, Quotas, Rate
from ottla.kernel.quotas import CONSUMER_BYTE_RATE, PRODUCER_BYTE_RATE, QuotaEntity

KEY = PRODUCER_BYTE_RATE
BY_RANK = [
    QuotaEntity("alice", "app"),
    QuotaEntity("alice", ""),
    QuotaEntity("alice"),
    QuotaEntity("", "app"),
    QuotaEntity("", ""),
    QuotaEntity(""),
    QuotaEntity(None, "app"),
    QuotaEntity(None, ""),
]


def quotas_of(**limits_by_rank: float) -> Quotas:
    quotas = Quotas()
    quotas.reset({BY_RANK[int(rank[1:])]: {KEY: limit} for rank, limit in limits_by_rank.items()})
    return quotas


def limit_of(quotas: Quotas, user: str = "alice", client_id: str = "app") -> float | None:
    meter = quotas.meter(KEY, user, client_id, 0)
    return None if meter is None else meter.limit


def test_of_all_quotas_of_a_client_the_most_specific_counts():
    quotas = Quotas()
    for rank in range(len(BY_RANK)):
        quotas.reset({entity: {KEY: 100 + place} for place, entity in enumerate(BY_RANK) if place >= rank})
        assert limit_of(quotas) == 100 + rank
    quotas.reset({})
    assert limit_of(quotas) is None
    assert not quotas.has(KEY)


def test_a_quota_of_others_or_of_another_kind_does_not_count():
    quotas = Quotas()
    quotas.reset(
        {QuotaEntity("bob"): {KEY: 1}, QuotaEntity("alice", "x"): {KEY: 1}, BY_RANK[2]: {CONSUMER_BYTE_RATE: 1}}
    )
    assert limit_of(quotas) is None
    assert limit_of(quotas, user="bob") == 1


@pytest.mark.parametrize(
    ("rank", "others", "shared"),
    [
        (2, ("alice", "other"), True),
        (5, ("alice", "other"), True),
        (5, ("bob", "app"), False),
        (7, ("bob", "app"), True),
        (7, ("alice", "other"), False),
        (4, ("alice", "other"), False),
    ],
)
def test_a_default_limits_each_user_or_client_and_not_all_together(rank: int, others: tuple[str, str], shared: bool):
    quotas = quotas_of(**{f"r{rank}": 10})
    mine, theirs = quotas.meter(KEY, "alice", "app", 0), quotas.meter(KEY, *others, 0)
    assert mine is not None and theirs is not None
    assert (mine.rate is theirs.rate) is shared


def test_another_limit_counts_at_once_and_the_rate_goes_on():
    quotas = quotas_of(r2=100)
    before = quotas.meter(KEY, "alice", "app", 0)
    assert before is not None
    assert before.take(1000, 0) == 0
    quotas.reset({BY_RANK[2]: {KEY: 50}})
    after = quotas.meter(KEY, "alice", "app", 0)
    assert after is not None
    assert after.take(1, 0) == round((100.1 - 50) / 50 * 10_000)


def test_the_throttle_time_is_that_of_kafka():
    """(rate - limit) / limit * window; the window is ten seconds and what has passed of the running one."""
    meter = QuotaMeter(100, Rate())
    assert meter.take(1000, 0) == 0
    assert meter.take(500, 0) == 5000
    assert meter.take(0, 500) == round((1500 / 10.5 - 100) / 100 * 10_500) == 4500
    assert meter.take(0, 5000) == 5000  # five seconds without a sample are not missing from the ten
    assert QuotaMeter(1, Rate()).take(1 << 40, 0) == LONGEST_MS


def test_bytes_are_forgotten_after_eleven_seconds():
    rate = Rate()
    rate.add(2000, 0)
    rate.add(100, 1500)
    assert rate.over_ms(100, 0, 10_999) > 0
    assert rate.over_ms(100, 0, 11_000) == 0
    assert not rate.is_idle(12_499)
    assert rate.is_idle(12_500)


def test_a_client_that_waits_as_it_is_told_gets_its_rate_and_no_more():
    meter, now_ms, sent = QuotaMeter(1000, Rate()), 0, 0
    while now_ms < 300_000:
        now_ms += 10 + meter.take(4000, now_ms)
        sent += 4000
    assert 0.9 < sent / now_ms < 1.1


def test_an_answer_over_the_limit_is_held_back_uncounted():
    meter = QuotaMeter(100, Rate())
    assert meter.take_within(900, 0) == (True, 0)
    assert meter.take_within(200, 0) == (False, 1000)
    assert meter.take_within(100, 0) == (True, 0)


def test_a_batch_above_what_the_limit_ever_allows_is_sent_and_waited_for():
    """Kafka holds it back for ever."""
    meter = QuotaMeter(100, Rate())
    assert meter.most == 1000
    assert meter.take_within(5000, 0) == (True, 40_000)
    held = meter.take_within(5000, 100)
    assert not held.done
    assert meter.take_within(5000, 100 + held.wait_ms).done


def test_rates_of_clients_that_left_are_forgotten():
    quotas = quotas_of(r7=100)
    for number in range(25_000):
        meter = quotas.meter(KEY, "alice", f"client-{number}", number * 1000)
        assert meter is not None
        meter.take(1, number * 1000)
    assert len(quotas._rates) <= 10_020


def test_a_bucket_is_full_at_first_and_one_burst_may_overdraw_it():
    bucket = Bucket()
    bucket.take(2, 21, 5000)
    assert bucket.wait_ms(2, 5000) == 0
    bucket.take(2, 11, 5000)
    assert bucket.wait_ms(2, 5000) == 5000
    assert bucket.wait_ms(2, 9000) == 1000
    assert bucket.wait_ms(2, 10_000) == 0
    assert not bucket.is_full(2, 20_000)
    assert bucket.is_full(2, 21_000)
