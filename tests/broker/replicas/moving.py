"""Moves of a replica between the log directories of one broker, and what its log holds before and after."""

from __future__ import annotations

from sim_broker import SimBroker
from two_directories import place_of, produce

from ottla.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from ottla.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.records.reader import read_run
from ottla.storage.values import LogRead


def alter(broker: SimBroker, path: str, *partitions: int, name: str = "t") -> list[int]:
    """Ask that partitions move to a directory; return the error codes."""
    topic = AlterReplicaLogDirTopic(name=name, partitions=list(partitions))
    response = broker.ask(AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=path, topics=[topic])]))
    return [one.error_code for result in response.results for one in result.partitions]


def slow_down(broker: SimBroker, bytes_per_second: int) -> None:
    """Limit moves from now on."""
    name = "replica.alter.log.dirs.io.max.bytes.per.second"
    edit = AlterableConfig(name=name, config_operation=0, value=str(bytes_per_second))
    resource = AlterConfigsResource(resource_type=4, resource_name="1", configs=[edit])
    answer = broker.ask(IncrementalAlterConfigsRequest(resources=[resource]))
    assert answer.responses[0].error_code == 0


def until_moved(broker: SimBroker, path: str) -> None:
    """Wait until t-1 is served from a directory."""
    assert broker.loop.run_until(lambda: place_of(broker, 1) == path, within_ms=60_000)


def rounds(broker: SimBroker, count: int) -> int:
    """Write `count` batches to t-1; return how many were taken."""
    taken = 0
    for _ in range(count):
        taken += produce(broker, 1) == 0
        broker.loop.run_for(20)
    return taken


def values(broker: SimBroker) -> int:
    """Read t-1 record by record; return how many there are."""
    held_log = broker.here.node.replicas.by_name["t", 1].log
    offset = 0
    while offset < held_log.end_offset:
        read = held_log.read(offset, 1 << 20, limit_offset=held_log.end_offset)
        assert isinstance(read, LogRead)
        for record in read_run(read.data()):
            assert record.offset == offset
            offset += 1
    return offset
