"""The metadata log gets checksums once every broker knows them; a damaged entry stops a broker with a sentence."""

from __future__ import annotations

import pytest
from sim_cluster import SimCluster

from ottla.cluster import brokers
from ottla.kernel.seams import LogEntry, StoreDamaged
from ottla.metadata.entries import FeatureLevelSet, UnknownEntry, decode_entry, encode_entry
from ottla.metadata.seal import SEALED_ENTRIES, is_sealed_entry, read_entry, sealed


def entries(cluster: SimCluster, after: int = 0) -> list[LogEntry]:
    return cluster.store.read(after, 1 << 20)


def flip(cluster: SimCluster, version: int, at: int) -> None:
    body = bytearray(cluster.store._entries[version - 1])
    body[at] ^= 0x10
    cluster.store._entries[version - 1] = bytes(body)


def restart(cluster: SimCluster, number: int) -> None:
    cluster.end_of(cluster.node(number).stop(clean=True))
    cluster.kill(number)
    cluster.start(number)


def test_every_entry_of_a_new_cluster_carries_a_checksum():
    cluster = SimCluster(2)
    cluster.create_topic()
    assert all(map(is_sealed_entry, entries(cluster)))


def test_nothing_is_written_that_an_older_broker_cannot_read_before_the_level_is_raised(monkeypatch):
    with monkeypatch.context() as older:
        older.setattr(brokers, "LATEST_METADATA_VERSION", SEALED_ENTRIES - 1)
        cluster = SimCluster(3)
        cluster.create_topic("before")
    for number in (1, 2):
        restart(cluster, number)
        cluster.create_topic(f"while-{number}", by=number)
    cluster.loop.run_for(5000)
    assert cluster.node(1).metadata.metadata_version() == SEALED_ENTRIES - 1
    assert all(decode_entry(entry.body) for entry in entries(cluster)), "as an older release decodes them"

    restart(cluster, 3)
    cluster.until(lambda: cluster.node(1).metadata.metadata_version() >= SEALED_ENTRIES)
    cluster.create_topic("after", by=3)
    found = entries(cluster)
    raised = next(
        entry.version
        for entry in found
        if isinstance(body := read_entry(entry).body, FeatureLevelSet) and body.level >= SEALED_ENTRIES
    )
    assert [entry.version for entry in found if is_sealed_entry(entry)] == list(range(raised, found[-1].version + 1))
    with pytest.raises(UnknownEntry):
        decode_entry(found[-1].body)
    restart(cluster, 1)
    assert cluster.node(1).metadata.topic("after") is not None


def test_from_that_level_on_an_entry_without_a_checksum_is_damaged():
    cluster = SimCluster(1)
    cluster.create_topic()
    last = entries(cluster)[-1]
    bare = last.body[:2] + b"\0\0" + last.body[4:-4]
    cluster.store._entries[last.version - 1] = bare
    assert decode_entry(bare)
    cluster.kill(1)
    cluster.machines[1].start()
    assert cluster.machines[1].current is not None
    with pytest.raises(StoreDamaged, match=f"entry {last.version} .*no checksum"):
        cluster.end_of(cluster.machines[1].current.started)


def test_a_broker_does_not_start_on_a_damaged_entry():
    cluster = SimCluster(1)
    cluster.create_topic()
    flip(cluster, 4, 30)
    cluster.kill(1)
    cluster.machines[1].start()
    assert cluster.machines[1].current is not None
    with pytest.raises(StoreDamaged, match=r"entry 4 in the simulated store .*checksum"):
        cluster.end_of(cluster.machines[1].current.started)


def test_a_broker_that_runs_stops_at_a_damaged_entry_with_the_same_sentence():
    cluster = SimCluster(1)
    cluster.create_topic()
    stopped: list[str] = []
    cluster.node(1).around.failures.on_fatal = stopped.append
    head = cluster.store.head
    bare = encode_entry(FeatureLevelSet(name="a.feature", level=1), broker_epoch=3, sequence=1)
    cluster.store.append([sealed(bare, head + 1)], head)
    flip(cluster, head + 1, 30)
    cluster.until(lambda: bool(stopped))
    assert f"entry {head + 1} in the simulated store" in stopped[0]
