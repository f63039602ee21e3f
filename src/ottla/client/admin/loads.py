"""The load of each broker: traffic, disk, and the lag of its replicas. Two looks make a rate.

Brokers of other kinds tell their disk only. blocking/looks.py asks again and again.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, NamedTuple

from ottla.client.admin.troubles import states
from ottla.client.core.plan import ClusterPlan
from ottla.config.describe import BROKER_LOAD

if TYPE_CHECKING:
    from ottla.messages.describe_log_dirs import DescribeLogDirsResult


class Told(NamedTuple):
    """The load of one broker in its own words; two of them make a rate."""

    at_ms: int
    """The broker's own clock: two looks at one broker can be compared, looks at two brokers cannot."""
    bytes_in: int
    """Bytes of record batches produced to it since its start."""
    bytes_out: int
    """Bytes of record batches read from it since its start."""
    lags: dict[int, tuple[int, int]]
    """By follower: the records that it lacks, and the partitions that the leader has not heard from it about yet."""


class Load(NamedTuple):
    """One broker's load; unknown values are None."""

    lag: int | None = None
    """The records that the broker's replicas lack of their leaders'."""
    lag_may_be_more: bool = False
    """True if a leader has not heard from one of the broker's replicas yet, so that this one's lag is unknown."""
    bytes_in_per_s: float | None = None
    bytes_out_per_s: float | None = None
    disk_bytes: int | None = None
    """The bytes of all its logs."""
    free_bytes: int | None = None
    """The free bytes in its log directories."""


NOTHING = Load()
"""The load of a broker that cannot be asked."""


async def broker_loads(plan: ClusterPlan, brokers: Collection[int]) -> dict[int, Told]:
    """Ask each of these brokers; one that does not answer, or is not ottla, is left out."""
    return {broker: _parsed(text) for broker, text in (await states(plan, brokers, BROKER_LOAD)).items() if text}


def measured(
    before: Mapping[int, Told],
    now: Mapping[int, Told],
    directories: Mapping[int, list[DescribeLogDirsResult] | Exception],
) -> dict[int, Load]:
    """Combine the brokers' answers about themselves and about each other."""
    loads = {}
    for broker in {*now, *directories, *(follower for each in now.values() for follower in each.lags)}:
        found = directories.get(broker)
        online = [] if found is None or isinstance(found, Exception) else [one for one in found if not one.error_code]
        free = [one.usable_bytes for one in online if one.usable_bytes >= 0]
        known = [each.lags[broker] for each in now.values() if broker in each.lags]
        loads[broker] = Load(
            sum(records for records, _ in known) if known or broker in now else None,
            any(unheard for _, unheard in known),
            *_rates(before.get(broker), now.get(broker)),
            sum(part.partition_size for one in online for topic in one.topics for part in topic.partitions)
            if online
            else None,
            sum(free) if free else None,
        )
    return loads


def _rates(before: Told | None, now: Told | None) -> tuple[float | None, float | None]:
    """Bytes a second; None if a count fell: the broker restarted, or a topic was deleted."""
    if before is None or now is None or now.at_ms <= before.at_ms:
        return None, None
    moved = now.bytes_in - before.bytes_in, now.bytes_out - before.bytes_out
    if min(moved) < 0:
        return None, None
    seconds = (now.at_ms - before.at_ms) / 1000
    return moved[0] / seconds, moved[1] / seconds


def _parsed(text: str) -> Told:
    content = json.loads(text)
    lags = {int(broker): (int(records), int(unheard)) for broker, (records, unheard) in content["lags"].items()}
    return Told(content["at_ms"], content["bytes_in"], content["bytes_out"], lags)
