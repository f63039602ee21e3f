"""Settings that the client refuses are told in one line by the tools of Kafka's names."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from ottla.cli.faults import Misuse
from ottla.cli.kafka.client_options import consumer_settings, producer_settings


@pytest.mark.parametrize(
    ("make", "properties", "said"),
    [
        (producer_settings, {"transactional.id": ""}, "transactional_id is text that is not empty"),
        (producer_settings, {"transactional.id": "x", "acks": "1"}, "a transactional_id needs acks"),
        (consumer_settings, {"group.id": ""}, "group_id is text that is not empty"),
        (consumer_settings, {"group.id": "g", "session.timeout.ms": "1000"}, "heartbeat_interval_ms is less than"),
    ],
)
def test_settings_that_the_client_refuses_are_misuse(
    make: Callable[[Mapping[str, str]], object], properties: dict[str, str], said: str
) -> None:
    with pytest.raises(Misuse, match=said):
        make(properties)
