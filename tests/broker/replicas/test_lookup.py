"""A lookup returns the replica that a request names, or the reason why it is not here."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.replicas.lookup import Lookup
from ottla.kernel.errors import ErrorCode

HERE, ELSEWHERE, OFFLINE = object(), 1, 2
TOPIC_ID, UNKNOWN_ID = bytes(15) + b"\1", bytes(15) + b"\2"


@pytest.fixture
def lookup() -> Lookup:
    """A topic with three partitions: the first is here, the last is in a directory that has failed."""
    topic = SimpleNamespace(topic_id=TOPIC_ID, partitions=(0, 1, 2))
    metadata = SimpleNamespace(topic={"t": topic}.get, topic_by_id={TOPIC_ID: topic}.get)
    around: Any = SimpleNamespace(metadata=metadata)
    replicas: Any = SimpleNamespace(
        by_name={("t", 0): HERE},
        by_id={(TOPIC_ID, 0): HERE},
        offline=SimpleNamespace(holds=lambda topic_id, index: (topic_id, index) == (TOPIC_ID, OFFLINE)),
    )
    return Lookup(around, replicas)


@pytest.mark.parametrize("place", [("t", bytes(16)), ("", TOPIC_ID)], ids=["by name", "by id"])
@pytest.mark.parametrize(
    ("index", "found"),
    [
        (0, HERE),
        (ELSEWHERE, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (OFFLINE, ErrorCode.KAFKA_STORAGE_ERROR),
        (3, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (-1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_a_partition_is_found_by_name_and_by_id_alike(
    lookup: Lookup, place: tuple[str, bytes], index: int, found: object
) -> None:
    assert lookup.partition(*place, index) is found


def test_a_topic_that_is_not_known_is_told_apart_by_how_it_was_named(lookup: Lookup) -> None:
    assert lookup.partition("u", bytes(16), 0) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert lookup.partition("", UNKNOWN_ID, 0) is ErrorCode.UNKNOWN_TOPIC_ID
