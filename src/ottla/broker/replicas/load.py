"""The load of this broker as JSON: bytes in and out, and the lag of its followers.

`ottla cluster status` asks for it by DescribeConfigs, as no answer of Apache Kafka has these values.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.broker.replicas.partition import Partition
    from ottla.metrics.metric import Traffic


def as_json(partitions: Iterable[Partition], traffic: Mapping[str, Traffic], now_ms: int) -> str:
    """Bytes since the start with the present time, so that two calls give a rate."""
    told = {
        "at_ms": now_ms,
        "bytes_in": sum(counted.bytes_in for counted in traffic.values()),
        "bytes_out": sum(counted.bytes_out for counted in traffic.values()),
        "lags": {str(broker): lag for broker, lag in sorted(_lags(partitions).items())},
    }
    return json.dumps(told, separators=(",", ":"))


def _lags(partitions: Iterable[Partition]) -> dict[int, list[int]]:
    """[records, partitions] for each follower of a partition that is led here.

    The records are those that the follower lacks. The partitions are those in which the leader has had no fetch of the
    follower since either of them started: the records that the follower lacks there are unknown, and not counted.
    """
    lags: dict[int, list[int]] = {}
    for partition in partitions:
        leader = partition.leader
        if leader is None:
            continue
        for broker, held in leader.held.items():
            if broker == leader.me:
                continue
            lag = lags.setdefault(broker, [0, 0])
            if held.shown:
                lag[0] += max(0, partition.log.end_offset - held.through)
            else:
                lag[1] += 1
    return lags
