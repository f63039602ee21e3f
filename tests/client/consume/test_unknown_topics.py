"""Topics that do not exist: a subscription says so once, waits for them, and creates none."""

from __future__ import annotations

import re
from typing import Any

import pytest

from ottla.client import Admin, Consumer, Producer


def test_a_subscription_names_the_missing_topic_once_and_reads_it_when_it_comes(
    ours: str, name: str, caplog: pytest.LogCaptureFixture
):
    with Consumer(ours, group_id=name, auto_offset_reset="earliest") as consumer, Admin(ours) as admin:
        consumer.subscribe([name])
        for _ in range(3):
            consumer.poll(1_100)
        assert name not in admin.list_topics()
        said = [record.getMessage() for record in caplog.records]
        assert said == [f"topic {name!r} does not exist: nothing is read of it; the consumer goes on looking for it"]
        with Producer(ours) as producer:
            producer.produce(name, "at last").result(60)
        found: list[Any] = []
        while not found:
            found += consumer.poll(1_000)
    assert [record.value for record in found] == [b"at last"]


def test_a_pattern_that_matches_no_topic_is_named_once(ours: str, name: str, caplog: pytest.LogCaptureFixture):
    with Consumer(ours, group_id=name, metadata_max_age_ms=1) as consumer:
        consumer.subscribe(re.compile(f"{name}-.*"))
        for _ in range(3):
            consumer.poll(20)
    assert [record.getMessage().split(":")[0] for record in caplog.records] == [f"no topic matches '{name}-.*'"]


def test_a_subscription_creates_a_topic_where_that_is_asked_for(ours: str, name: str):
    with Consumer(ours, group_id=name, allow_auto_create_topics=True) as consumer, Admin(ours) as admin:
        consumer.subscribe([name])
        consumer.poll(1_100)
        assert name in admin.list_topics()
