"""The bytes of the metadata log: every entry is decoded as encoded, and unknown or damaged ones are refused."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.kernel.errors import InvariantBroken
from ottla.metadata import entries as log
from ottla.metadata.entries import ENTRY_LIMIT, ENTRY_TYPES, Body, UnknownEntry, decode_entry, encode_entry
from ottla.schema.codec import MalformedMessage

NAMES = st.text(max_size=20)
IDS = st.binary(min_size=16, max_size=16)
INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
BROKERS = st.lists(st.integers(0, 1000), max_size=5)
CHANGES = st.lists(st.builds(log.ConfigChange, name=NAMES, value=st.none() | NAMES), max_size=4)
DAMAGED = st.lists(st.builds(log.DamagedTopic, topic_id=IDS, partitions=st.lists(INT32, max_size=3)), max_size=3)
LISTENERS = st.lists(
    st.builds(log.ListenerEntry, name=NAMES, host=NAMES, port=INT32, security_protocol=st.integers(0, 3)), max_size=3
)
PARTITIONS = st.lists(
    st.builds(
        log.PartitionEntry,
        topic_id=IDS,
        partition=INT32,
        leader=INT32,
        leader_epoch=INT32,
        partition_epoch=INT32,
        replicas=BROKERS,
        in_sync=BROKERS,
        eligible=BROKERS,
        last_known=BROKERS,
        adding=BROKERS,
        removing=BROKERS,
    ),
    max_size=4,
)
ACLS = st.builds(
    log.AclEntry,
    resource_type=st.integers(2, 7),
    name=NAMES,
    pattern_type=st.integers(3, 4),
    principal=NAMES,
    host=NAMES,
    operation=st.integers(2, 15),
    permission=st.integers(2, 3),
)
BODIES: dict[type[Body], st.SearchStrategy[Body]] = {
    log.ClusterCreated: st.builds(log.ClusterCreated, cluster_id=NAMES, secret=st.binary(max_size=40)),
    log.FeatureLevelSet: st.builds(log.FeatureLevelSet, name=NAMES, level=st.integers(0, 99)),
    log.BrokerRegistered: st.builds(
        log.BrokerRegistered,
        broker_id=INT32,
        incarnation=IDS,
        host=NAMES,
        rack=st.none() | NAMES,
        listeners=LISTENERS,
        damaged=DAMAGED,
        short=DAMAGED,
        epoch=INT64,
        options=CHANGES,
    ),
    log.BrokerFenced: st.builds(log.BrokerFenced, broker_id=INT32, epoch=INT64, stopped=st.booleans()),
    log.BrokerUnfenced: st.builds(log.BrokerUnfenced, broker_id=INT32, epoch=INT64),
    log.BrokerDraining: st.builds(log.BrokerDraining, broker_id=INT32, epoch=INT64),
    log.BrokerUnregistered: st.builds(log.BrokerUnregistered, broker_id=INT32),
    log.TopicCreated: st.builds(log.TopicCreated, topic_id=IDS, name=NAMES, configs=CHANGES),
    log.TopicReady: st.builds(log.TopicReady, topic_id=IDS),
    log.TopicDeleted: st.builds(log.TopicDeleted, topic_id=IDS),
    log.PartitionsCreated: st.builds(log.PartitionsCreated, partitions=PARTITIONS),
    log.PartitionsChanged: st.builds(log.PartitionsChanged, partitions=PARTITIONS),
    log.ConfigsSet: st.builds(log.ConfigsSet, resource_type=st.integers(0, 127), resource_name=NAMES, changes=CHANGES),
    log.ProducerIdsAllocated: st.builds(log.ProducerIdsAllocated, broker_id=INT32, first=INT64, count=INT32),
    log.ScramKeysSet: st.builds(
        log.ScramKeysSet,
        user=NAMES,
        mechanism=st.integers(1, 2),
        salt=st.binary(max_size=20),
        iterations=INT32,
        stored_key=st.binary(max_size=64),
        server_key=st.binary(max_size=64),
    ),
    log.DelegationTokenSet: st.builds(
        log.DelegationTokenSet,
        token_id=NAMES,
        owner=NAMES,
        requester=NAMES,
        renewers=st.lists(NAMES, max_size=3),
        issued_ms=st.integers(0, 1 << 60),
        expires_ms=st.integers(0, 1 << 60),
        max_ms=st.integers(0, 1 << 60),
    ),
    log.DelegationTokensRemoved: st.builds(log.DelegationTokensRemoved, token_ids=st.lists(NAMES, max_size=3)),
    log.ScramKeysRemoved: st.builds(log.ScramKeysRemoved, user=NAMES, mechanism=st.integers(1, 2)),
    log.AclsAdded: st.builds(log.AclsAdded, acls=st.lists(ACLS, max_size=3)),
    log.ClientQuotasSet: st.builds(
        log.ClientQuotasSet,
        user=st.none() | NAMES,
        client_id=st.none() | NAMES,
        ip=st.none() | NAMES,
        quotas=st.lists(st.builds(log.QuotaEntry, key=NAMES, value=st.floats(allow_nan=False)), max_size=3),
    ),
    log.AclsRemoved: st.builds(log.AclsRemoved, acls=st.lists(ACLS, max_size=3)),
}


def test_every_type_of_entry_has_a_number_of_its_own():
    assert sorted(ENTRY_TYPES) == list(range(1, len(ENTRY_TYPES) + 1))
    assert set(ENTRY_TYPES.values()) == set(BODIES)


@settings(max_examples=300, deadline=None)
@given(st.one_of(*BODIES.values()), INT64, INT64)
def test_an_entry_comes_back_as_it_was_with_the_mark_of_its_writer(body, broker_epoch, sequence):
    entry = decode_entry(encode_entry(body, broker_epoch=broker_epoch, sequence=sequence))
    assert entry == (broker_epoch, sequence, body)
    assert type(entry.body) is type(body)


@settings(max_examples=100, deadline=None)
@given(st.one_of(*BODIES.values()), st.data())
def test_an_entry_that_was_cut_or_continued_is_refused(body, data):
    whole = encode_entry(body, broker_epoch=1, sequence=2)
    end = data.draw(st.integers(0, len(whole) - 1))
    for damaged in (whole[:end], whole + b"\0"):
        with pytest.raises(MalformedMessage):
            decode_entry(damaged)


@pytest.mark.parametrize("start", [b"\x00\x63\x00\x00", b"\x00\x01\x00\x01"])
def test_an_entry_of_a_later_release_is_unknown_with_a_sentence(start):
    with pytest.raises(UnknownEntry, match="a newer release wrote it"):
        decode_entry(start + bytes(30))


def test_an_entry_over_the_limit_is_a_bug_that_is_not_written():
    changes = [log.ConfigChange(name="x" * 30_000, value="") for _ in range(ENTRY_LIMIT // 30_000 + 1)]
    with pytest.raises(InvariantBroken):
        encode_entry(log.ConfigsSet(changes=changes), broker_epoch=1, sequence=1)


def test_the_bytes_of_an_entry_are_those_of_the_first_release():
    """Entries on disk stay readable: these bytes were written once and may not change."""
    body = log.BrokerFenced(broker_id=7, epoch=9, stopped=True)
    written = bytes.fromhex("00040000000000000000000500000000000000060000000700000000000000090100")
    assert encode_entry(body, broker_epoch=5, sequence=6) == written
    assert decode_entry(written).body == body
