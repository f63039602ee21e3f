"""Makes a small metadata log in a SQLite file, and reads it as a broker does."""

from __future__ import annotations

from pathlib import Path

from ottla.coordination.database import Database
from ottla.metadata import entries as log
from ottla.metadata.entries import Body, PartitionEntry, encode_entry
from ottla.metadata.reading import take_entry, take_snapshot_of
from ottla.metadata.seal import SEALED_ENTRIES, sealed_append
from ottla.metadata.snapshot import take_snapshot
from ottla.metadata.state import METADATA_VERSION, Metadata

TOPICS = 4


def fill(path: Path, *, snapshots: int = 0, level: int = SEALED_ENTRIES) -> Metadata:
    """Write a cluster of one broker and some topics, with snapshots in between; return the state."""
    database, state = Database(str(path)), Metadata()

    def append(*bodies: Body) -> None:
        entries = [encode_entry(body, broker_epoch=1, sequence=at) for at, body in enumerate(bodies)]
        database.append(sealed_append(entries, bodies, state), state.version)
        for body in bodies:
            state.apply(state.version + 1, body)

    append(
        log.ClusterCreated(cluster_id="a cluster", secret=b"s" * 32),
        log.FeatureLevelSet(name=METADATA_VERSION, level=level),
        log.BrokerRegistered(broker_id=1, incarnation=bytes(16), host="host"),
    )
    for number in range(TOPICS):
        topic_id = bytes([number + 1]) * 16
        partition = PartitionEntry(topic_id=topic_id, leader=1, replicas=[1], in_sync=[1])
        created = log.TopicCreated(topic_id=topic_id, name=f"topic-{number}")
        append(created, log.PartitionsCreated(partitions=[partition]), log.TopicReady(topic_id=topic_id))
        if number < snapshots:
            database.save_snapshot(take_snapshot(state))
    database.close()
    return state


def read(path: Path) -> bytes:
    """The state that a broker reads from the store, as bytes; checks that the head is the log's end."""
    database = Database(str(path))
    try:
        saved = database.load_snapshot()
        state = Metadata() if saved is None else take_snapshot_of(str(path), saved)
        while entries := database.read(state.version, 1000):
            for entry in entries:
                take_entry(state, entry, str(path))
        assert database.head() == state.version
        return take_snapshot(state).body
    finally:
        database.close()
