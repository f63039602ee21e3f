"""Predicates hold for a record or do not."""

from __future__ import annotations

import pytest

from ottla.connect import data
from ottla.connect.errors import ConfigException
from ottla.connect.plugin import found
from ottla.connect.predicates import PREDICATES
from ottla.connect.records import Header, SinkRecord

HEADERS = (Header("h", data.STRING, "v"), Header("k", data.INT32, 5))


@pytest.mark.parametrize(
    ("name", "config", "value", "holds"),
    [
        ("HasHeaderKey", {"name": "k"}, 1, True),
        ("HasHeaderKey", {"name": "K"}, 1, False),
        ("RecordIsTombstone", {}, None, True),
        ("RecordIsTombstone", {}, 0, False),
        ("TopicNameMatches", {"pattern": "orders-.."}, 1, True),
        ("TopicNameMatches", {"pattern": "orders"}, 1, False),
    ],
)
def test_predicates_hold_or_do_not(name, config, value, holds):
    assert found(PREDICATES, name).make(config).test(SinkRecord("orders-eu", 3, value=value, headers=HEADERS)) == holds


@pytest.mark.parametrize(
    ("name", "config", "message"),
    [
        ("HasHeaderKey", {}, 'Missing required configuration "name" which has no default value.'),
        ("HasHeaderKey", {"name": ""}, "Invalid value  for configuration name: String must be non-empty"),
        (
            "TopicNameMatches",
            {"pattern": "("},
            "Invalid value ( for configuration pattern: Invalid regex: Unclosed group",
        ),
    ],
)
def test_a_predicate_without_its_option_is_refused(name, config, message):
    with pytest.raises(ConfigException) as refusal:
        found(PREDICATES, name).make(config)
    assert str(refusal.value).startswith(message)
    assert len(PREDICATES) == 3
