"""The time for which Spark's connections wait for a broker where none answers, counted in virtual time."""

from __future__ import annotations

import pytest

from ottla.client.core.effects import Ask, Pause
from ottla.client.core.plan import ClusterPlan
from ottla.client.errors import BrokerUnreachable
from ottla.client.model import ClientSettings
from ottla.spark.connections import client_settings
from ottla.spark.kafka_settings import KafkaSettings

SPARKS = client_settings(KafkaSettings("boot:1"))


def waited_ms(settings: ClientSettings, *, connecting_ms: int) -> float:
    """The time until the first request fails, where each attempt to connect takes `connecting_ms` and fails."""
    now_ms = 0.0
    plan = ClusterPlan("boot:1", settings, lambda: now_ms)
    story = plan.refresh(["t"])
    effect = story.send(None)
    with pytest.raises(BrokerUnreachable, match="no broker answers at boot:1"):
        while True:
            if isinstance(effect, Pause):
                now_ms += effect.ms
                effect = story.send(None)
            else:
                assert isinstance(effect, Ask)
                now_ms += connecting_ms
                effect = story.throw(BrokerUnreachable("cannot connect"))
    return now_ms


def test_brokers_that_refuse_are_tried_for_as_long_as_the_bound_says() -> None:
    bound_ms = SPARKS.bootstrap_timeout_ms
    assert bound_ms / 2 < waited_ms(SPARKS, connecting_ms=1) <= bound_ms + 1
    assert waited_ms(ClientSettings(), connecting_ms=1) > bound_ms + 1, "the client's own bound is longer"


def test_an_address_that_takes_no_connection_leaves_a_fifth_of_ten_seconds_to_spark() -> None:
    assert waited_ms(SPARKS, connecting_ms=SPARKS.connect_timeout_ms) <= 8_000


def test_a_broker_that_is_connected_has_the_time_to_answer_that_the_options_say() -> None:
    settings = client_settings(KafkaSettings("boot:1", request_timeout_ms=25_000))
    assert settings.request_timeout_ms == 25_000
    assert settings.connect_timeout_ms > 3_000, "two lost first packets may be sent again"
