"""Every option of a group. They steer the newer group protocols; a classic group is steered by its members."""

from __future__ import annotations

from ottla.config.option import OptionKind, OptionSet, OptionStatus, at_least, one_of, option

_SHARE = "For share groups (KIP-932), which are not announced: stored, without effect."
_STREAMS = "For streams groups (KIP-1071), which are not announced: stored, without effect."


def _consumer(name: str, default: int, low: int, doc: str) -> int:
    return option(
        f"consumer.{name}", default, OptionKind.INT, check=at_least(low), broker_name=f"group.consumer.{name}",
        doc=f"Of a group of the consumer protocol: {doc}",
    )  # fmt: skip


def _share(name: str, default: int, low: int) -> int:
    return option(
        f"share.{name}", default, OptionKind.INT, check=at_least(low), broker_name=f"group.share.{name}",
        doc=_SHARE, status=OptionStatus.NO_EFFECT,
    )  # fmt: skip


def _streams(name: str, default: int, low: int) -> int:
    return option(
        f"streams.{name}", default, OptionKind.INT, check=at_least(low), broker_name=f"group.streams.{name}",
        doc=_STREAMS, status=OptionStatus.NO_EFFECT,
    )  # fmt: skip


class GroupConfig(OptionSet):
    """The options that a group may set for itself."""

    consumer_assignment_interval_ms: int = _consumer(
        "assignment.interval.ms", 1000, 0, "how long it waits at least between two new targets."
    )
    consumer_heartbeat_interval_ms: int = _consumer(
        "heartbeat.interval.ms", 5000, 1, "how often its members are told to send a heartbeat."
    )
    consumer_session_timeout_ms: int = _consumer(
        "session.timeout.ms", 45000, 1, "a member that was not heard of for this long is removed."
    )
    share_assignment_interval_ms: int = _share("assignment.interval.ms", 1000, 0)
    share_auto_offset_reset: str = option(
        "share.auto.offset.reset", "latest", OptionKind.STRING, doc=_SHARE, status=OptionStatus.NO_EFFECT
    )
    share_delivery_count_limit: int = _share("delivery.count.limit", 5, 2)
    share_heartbeat_interval_ms: int = _share("heartbeat.interval.ms", 5000, 1)
    share_isolation_level: str = option(
        "share.isolation.level", "read_uncommitted", OptionKind.STRING,
        check=one_of("read_committed", "read_uncommitted"), doc=_SHARE, status=OptionStatus.NO_EFFECT,
    )  # fmt: skip
    share_partition_max_record_locks: int = _share("partition.max.record.locks", 2000, 100)
    share_record_lock_duration_ms: int = _share("record.lock.duration.ms", 30000, 1000)
    share_renew_acknowledge_enable: bool = option(
        "share.renew.acknowledge.enable", True, OptionKind.BOOLEAN, doc=_SHARE, status=OptionStatus.NO_EFFECT
    )
    share_session_timeout_ms: int = _share("session.timeout.ms", 45000, 1)
    streams_assignment_interval_ms: int = _streams("assignment.interval.ms", 1000, 0)
    streams_heartbeat_interval_ms: int = _streams("heartbeat.interval.ms", 5000, 1)
    streams_initial_rebalance_delay_ms: int = _streams("initial.rebalance.delay.ms", 3000, 0)
    streams_num_standby_replicas: int = _streams("num.standby.replicas", 0, 0)
    streams_session_timeout_ms: int = _streams("session.timeout.ms", 45000, 1)
