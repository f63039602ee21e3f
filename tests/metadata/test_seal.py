"""Checksums of entries and snapshots: no flipped bit passes, and entries of older and newer releases are recognized."""

from __future__ import annotations

import pytest

from ottla.kernel.seams import LogEntry, StoredSnapshot
from ottla.metadata import entries as log
from ottla.metadata.entries import UnknownEntry, decode_entry, encode_entry
from ottla.metadata.seal import (
    SEALED_ENTRIES,
    is_sealed,
    is_sealed_entry,
    read_entry,
    sealed,
    sealed_append,
    unsealed_snapshot,
)
from ottla.metadata.snapshot import load_snapshot, take_snapshot
from ottla.metadata.state import METADATA_VERSION, Metadata
from ottla.schema.codec import MalformedMessage

BODY = log.TopicCreated(topic_id=bytes(range(16)), name="orders", configs=[log.ConfigChange(name="a", value="b")])
BARE = encode_entry(BODY, broker_epoch=7, sequence=8)
PLACE = 41


def flips(data: bytes):
    for at in range(len(data)):
        for bit in range(8):
            yield data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]


def a_state(level: int) -> Metadata:
    state = Metadata()
    state.apply(1, log.ClusterCreated(cluster_id="c", secret=b"s"))
    state.apply(2, log.FeatureLevelSet(name=METADATA_VERSION, level=level))
    state.apply(3, BODY)
    return state


def test_a_sealed_entry_reads_as_the_bare_one():
    stored = LogEntry(PLACE, sealed(BARE, PLACE))
    assert is_sealed_entry(stored)
    assert read_entry(stored, required=True) == read_entry(LogEntry(PLACE, BARE)) == decode_entry(BARE)


@pytest.mark.parametrize("required", [False, True])
def test_no_flipped_bit_of_a_sealed_entry_passes(required: bool):
    for damaged in flips(sealed(BARE, PLACE)):
        with pytest.raises(MalformedMessage):
            read_entry(LogEntry(PLACE, damaged), required=required)


@pytest.mark.parametrize("length", range(len(BARE) + 4))
def test_no_cut_entry_passes(length: int):
    with pytest.raises(MalformedMessage):
        read_entry(LogEntry(PLACE, sealed(BARE, PLACE)[:length]), required=True)


def test_an_entry_belongs_to_its_place():
    with pytest.raises(MalformedMessage, match="checksum"):
        read_entry(LogEntry(PLACE + 1, sealed(BARE, PLACE)))


def test_where_checksums_are_required_a_bare_entry_is_damaged():
    with pytest.raises(MalformedMessage, match="no checksum"):
        read_entry(LogEntry(PLACE, BARE), required=True)


def test_a_release_without_checksums_stops_at_a_sealed_entry():
    with pytest.raises(UnknownEntry, match="newer release"):
        decode_entry(sealed(BARE, PLACE))


def test_an_append_is_sealed_from_the_level_on_and_so_is_the_one_that_sets_it():
    def forms(state: Metadata, *bodies: log.Body) -> list[bool]:
        entries = [encode_entry(body, broker_epoch=1, sequence=1) for body in bodies]
        appended = sealed_append(entries, bodies, state)
        return [is_sealed_entry(LogEntry(state.version + 1 + at, data)) for at, data in enumerate(appended)]

    raised = log.FeatureLevelSet(name=METADATA_VERSION, level=SEALED_ENTRIES)
    other = log.FeatureLevelSet(name="another.feature", level=SEALED_ENTRIES)
    assert forms(a_state(SEALED_ENTRIES - 1), BODY, other) == [False, False]
    assert forms(a_state(SEALED_ENTRIES - 1), BODY, raised) == [True, True]
    assert forms(a_state(SEALED_ENTRIES), BODY) == [True]


def test_no_flipped_bit_of_a_sealed_snapshot_passes():
    taken = take_snapshot(a_state(SEALED_ENTRIES))
    assert is_sealed(taken)
    assert take_snapshot(load_snapshot(taken)) == taken
    for damaged in flips(taken.body):
        with pytest.raises(MalformedMessage):
            load_snapshot(StoredSnapshot(taken.version, damaged))


def test_no_cut_snapshot_and_none_of_another_version_passes():
    taken = take_snapshot(a_state(SEALED_ENTRIES))
    for end in range(len(taken.body)):
        with pytest.raises(MalformedMessage):
            load_snapshot(StoredSnapshot(taken.version, taken.body[:end]))
    with pytest.raises(MalformedMessage, match="checksum"):
        load_snapshot(StoredSnapshot(taken.version + 1, taken.body))


def test_a_snapshot_without_its_seal_is_damaged_from_the_level_on_and_read_below_it():
    taken = take_snapshot(a_state(SEALED_ENTRIES))
    with pytest.raises(MalformedMessage, match="no checksum"):
        load_snapshot(unsealed_snapshot(taken))
    older = take_snapshot(a_state(SEALED_ENTRIES - 1))
    assert not is_sealed(older)
    assert load_snapshot(older).topic("orders") is None
    assert BODY.topic_id in load_snapshot(older).topics
