"""Arguments of a consumer's calls, refused by name where they are of the wrong kind."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ottla.client.model import CommittedOffset
from ottla.client.settings import INT64_MAX, FineMilliseconds, Number
from ottla.kernel.ids import TopicPartition

_TIMEOUT = FineMilliseconds(0, most=INT64_MAX)
_RECORDS = Number(1, least=1)


def timeout_from(given: Any) -> float:
    """A `timeout_ms`: milliseconds, also as text with a unit, or a timedelta."""
    if type(given) in (int, float) and given >= 0:
        return float(given)
    return float(_TIMEOUT.read("timeout_ms", given))


def records_from(given: Any, default: int) -> int:
    """A `max_records`: a number of records, or None for the default."""
    return default if given is None else int(_RECORDS.read("max_records", given))


def require_partitions(given: Any) -> Collection[TopicPartition]:
    """The partitions, each a `TopicPartition`; TypeError where one is something else."""
    for each in [given] if isinstance(given, str | TopicPartition) else given:
        if not isinstance(each, TopicPartition) or given is each:
            raise TypeError(f"partitions are a list such as [TopicPartition('orders', 0)], not {given!r}")
    return given  # type: ignore[no-any-return]


def require_offsets(given: Any) -> Mapping[TopicPartition, CommittedOffset]:
    """Offsets to commit, by partition; TypeError where they are something else."""
    pairs = given.items() if isinstance(given, Mapping) else [(given, given)]
    for partition, offset in pairs:
        if not isinstance(partition, TopicPartition) or not isinstance(offset, CommittedOffset):
            wanted = "{TopicPartition('orders', 0): CommittedOffset(5)}"
            raise TypeError(f"offsets to commit are a dict such as {wanted}, not {given!r}")
    return given  # type: ignore[no-any-return]
