"""`ottla doctor`: log directories that are offline, or have hardly any room left."""

from __future__ import annotations

from collections.abc import Iterator

from ottla.client.admin import replicas
from ottla.client.blocking.cluster import Cluster

MIB = 1 << 20
_LEAST_SHARE = 20
_LEAST_BYTES = 1 << 30


def troubles(cluster: Cluster) -> Iterator[tuple[str, str]]:
    """(fault, remedy), for each log directory of the brokers that can be asked."""
    brokers = list(cluster.plan.metadata.brokers.values())
    for broker, answer in sorted(cluster.run(replicas.describe_log_dirs(cluster.plan, brokers)).items()):
        for found in [] if isinstance(answer, Exception) else answer:
            where = f"broker {broker}: log directory {found.log_dir}"
            if found.error_code:
                yield (
                    f"{where} is offline",
                    "the broker's log says why; what it holds is served by other replicas, if there are any",
                )
            elif is_short(found.total_bytes, found.usable_bytes):
                left = f"{found.usable_bytes / MIB:.1f} of {found.total_bytes / MIB:.1f} MiB"
                yield (
                    f"{where} is full or nearly so: {left} are left",
                    "records that do not fit are refused (KAFKA_STORAGE_ERROR): shorten a topic's retention.ms, or "
                    "delete records by kafka-delete-records",
                )


def is_short(total_bytes: int, usable_bytes: int) -> bool:
    """True if less than a twentieth and less than a gigabyte is left; -1 means unknown."""
    return total_bytes > 0 and 0 <= usable_bytes < min(total_bytes // _LEAST_SHARE, _LEAST_BYTES)
