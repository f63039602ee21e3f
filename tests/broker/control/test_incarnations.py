"""A broker compares its log directories with what the metadata knows of them, before it leads or follows anything."""

from __future__ import annotations

import json
import logging
from contextlib import suppress

import pytest
from sim_broker import SimBroker
from two_directories import create, place_of, produce, start_in_vain

from ottla.broker.control.incarnations import found_in, is_older, why_older
from ottla.broker.control.incarnations import name as awaited_name
from ottla.kernel.ids import NO_LEADER, BrokerEpoch, BrokerId, topic_id_text
from ottla.metadata.broker_state import BrokerState, HeldDirectory
from ottla.metadata.entries import BrokerRegistered, encode_entry
from ottla.metadata.seal import read_entry, sealed
from ottla.sim.disk_faults import PowerCut
from ottla.storage.directory.incarnation import FILES, DirectoryIncarnation, read_incarnation
from ottla.storage.directory.ownership import DirectoryRefused

X, Y, Z = (bytes([number]) * 16 for number in (1, 2, 3))


def an_incarnation(held: bytes = X, **how: object) -> DirectoryIncarnation:
    return DirectoryIncarnation(topic_id_text(held), 7, metadata_version=9, metadata_crc=11)._replace(**how)  # type: ignore[arg-type]


def leader_of(broker: SimBroker, index: int = 0) -> int:
    topic = broker.here.node.metadata.topic("t")
    assert topic is not None
    return topic.partitions[index].leader


# --- older directories ---


@pytest.mark.parametrize("closed", [False, True])
def test_the_incarnation_that_registered_last_is_not_older(closed: bool):
    assert not is_older(an_incarnation(), HeldDirectory("d", X), closed=closed)
    assert is_older(an_incarnation(), HeldDirectory("d", Y), closed=closed)


def test_a_directory_that_was_closed_is_older_where_it_does_not_say_so():
    closed = HeldDirectory("d", X, closed=True)
    assert is_older(an_incarnation(), closed, closed=False)
    assert not is_older(an_incarnation(), closed, closed=True)
    assert not is_older(an_incarnation(closed=True), closed, closed=False)


def test_a_registration_that_was_begun_and_never_noted_makes_nothing_older():
    begun = an_incarnation(attempts=(topic_id_text(Y), topic_id_text(Z)))
    assert not is_older(begun, HeldDirectory("d", Y), closed=False)
    assert not is_older(begun, HeldDirectory("d", Z), closed=False)
    assert is_older(begun, HeldDirectory("d", Z, closed=True), closed=True)


def test_a_directory_that_cannot_say_of_when_it_is_is_older():
    assert is_older(None, HeldDirectory("d", X), closed=True)


def test_a_directory_is_awaited_by_what_it_was_closed_as():
    assert awaited_name(HeldDirectory("d", X)) in found_in(an_incarnation(), closed=False)
    assert awaited_name(HeldDirectory("d", X, closed=True)) not in found_in(an_incarnation(), closed=False)
    for found in (found_in(an_incarnation(), closed=True), found_in(an_incarnation(closed=True), closed=False)):
        assert {awaited_name(HeldDirectory("d", X)), awaited_name(HeldDirectory("d", X, closed=True))} <= set(found)
    assert found_in(None, closed=True) == ()


def registered(epoch: int) -> BrokerState:
    return BrokerState(BrokerId(1), BrokerEpoch(epoch), X, "host", None, (), 2, fenced=True, draining=False)


def test_a_store_is_older_by_its_end_its_epoch_or_the_entry_that_was_seen():
    found = an_incarnation()
    assert why_older(found, registered(7), 9, 11) is None
    assert why_older(found, registered(8), 100, None) is None
    assert why_older(found, None, 9, None) is None
    assert "ends at version 8" in str(why_older(found, registered(7), 8, None))
    assert "broker epoch 6" in str(why_older(found, registered(6), 100, None))
    assert "another entry" in str(why_older(found, registered(7), 9, 12))


# --- when the incarnation is written ---


def test_the_incarnation_is_on_disk_before_the_broker_leads():
    broker = SimBroker()
    create(broker, partitions=1)
    broker.machine.vanish()
    broker.machine.start()
    node = broker.here.node

    def leads() -> bool:
        return any(partition.leader is not None for partition in node.replicas.all())

    assert broker.loop.run_until(leads, within_ms=5000)
    broker.machine.vanish()
    broker.machine.disk.lose_unsynced()
    found = read_incarnation(broker.machine.disk, "/data").incarnation
    assert found is not None
    assert (found.incarnation, found.broker_epoch) == (
        node.replicas.directories.incarnations.of_this_run,
        node.follow.broker_epoch,
    )


@pytest.mark.parametrize("clean", [False, True])
def test_a_crash_at_any_step_of_a_start_or_a_stop_makes_no_directory_older(clean: bool):
    steps = 0
    while True:
        broker = SimBroker()
        create(broker, partitions=1)
        assert produce(broker, 0) == 0
        if clean:
            broker.here.stop(clean=True).result()
        broker.machine.vanish()
        disk = broker.machine.disk
        disk.cut_after = disk.operations + steps
        with suppress(PowerCut):
            broker.machine.start()
            broker.loop.run_for(100)
            if clean and broker.machine.serving is not None:
                broker.here.stop(clean=True).result()
        cut = broker.machine.power_gone
        broker.machine.vanish()
        disk.lose_unsynced()
        broker.start()
        assert not broker.here.node.replicas.directories.incarnations.older, steps
        assert leader_of(broker) == 1 and broker.here.node.replicas.by_name["t", 0].log.end_offset == 1
        if not cut:
            break
        steps += 1
    assert steps > 15


def test_what_is_seen_of_the_metadata_is_noted_before_a_replica_is_made_of_it():
    broker = SimBroker()
    create(broker, partitions=1)
    made = read_incarnation(broker.machine.disk, "/data").incarnation
    assert made is not None
    seen = [read_entry(entry).body for entry in broker.store.read(0, made.metadata_version)]
    assert any(type(body).__name__ == "TopicCreated" for body in seen)


@pytest.mark.parametrize("mark", [False, True])
def test_a_clean_stop_is_noted_where_its_mark_may_be_lost(mark: bool, caplog: pytest.LogCaptureFixture):
    broker = SimBroker()
    create(broker, partitions=1)
    assert produce(broker, 0) == 0
    incarnation = broker.here.node.follow.incarnation
    running = read_incarnation(broker.machine.disk, "/data").incarnation
    assert running is not None and not running.closed
    broker.here.stop(clean=True).result()
    broker.machine.vanish()
    if not mark:
        broker.machine.disk.remove("/data/.kafka_cleanshutdown")
    closed = HeldDirectory("d", incarnation, closed=True)
    assert is_older(running, closed, closed=False)
    assert not is_older(read_incarnation(broker.machine.disk, "/data").incarnation, closed, closed=False)
    broker.start()
    assert broker.here.node.replicas.directories.online[0].clean == mark
    assert caplog.text.count("/data/.kafka_cleanshutdown is missing") == (not mark)
    assert leader_of(broker) == 1 and produce(broker, 0) == 0
    again = read_incarnation(broker.machine.disk, "/data").incarnation
    assert again is not None and not again.closed


# --- upgrades ---


def forget_incarnations(broker: SimBroker, *, files: bool) -> None:
    """Leave the store, and with `files` the directory, as a release without incarnations would."""
    head = broker.store.head
    entries = [read_entry(entry).body for entry in broker.store.read(0, head)]
    last = [body for body in entries if isinstance(body, BrokerRegistered)][-1]
    last.incarnation, last.held = bytes(16), []
    broker.store.append([sealed(encode_entry(last, broker_epoch=-1, sequence=0), head + 1)], head)
    for name in FILES if files else ():
        broker.machine.disk.remove(f"/data/{name}")


@pytest.mark.parametrize("files", [False, True])
def test_what_an_older_release_has_left_is_taken_once_as_it_is(caplog: pytest.LogCaptureFixture, files: bool):
    broker = SimBroker()
    create(broker, partitions=1)
    assert produce(broker, 0) == 0
    broker.here.stop(clean=True).result()
    broker.machine.vanish()
    forget_incarnations(broker, files=files)
    with caplog.at_level(logging.INFO, "ottla.incarnations"):
        broker.start()
    told = [record.levelno for record in caplog.records if record.name == "ottla.incarnations"]
    assert told == ([logging.INFO] if files else [])
    assert leader_of(broker) == 1 and produce(broker, 0) == 0
    broker.machine.vanish()
    for name in FILES:
        broker.machine.disk.remove(f"/data/{name}")
    broker.start()
    assert leader_of(broker) == NO_LEADER  # from now on the directory must name its incarnation


def test_one_bad_file_of_the_two_is_said_and_takes_nothing_offline(caplog: pytest.LogCaptureFixture):
    broker = SimBroker()
    create(broker, partitions=1)
    broker.machine.vanish()
    broker.machine.disk.flip_bit(f"/data/{FILES[0]}", 20)
    broker.start()
    assert leader_of(broker) == 1
    assert f"/data/{FILES[0]} does not match its checksum" in caplog.text
    broker.restart(clean=False)
    assert caplog.text.count("does not match") == 1


# --- several directories ---


def test_a_replica_that_was_moved_since_the_copy_stays_where_it_is():
    broker = SimBroker(more_directories=("/b",))
    create(broker, partitions=1)
    assert produce(broker, 0) == 0
    old, new = (place_of(broker, 0), "/b") if place_of(broker, 0) == "/data" else ("/b", "/data")
    disk = broker.machine.disk
    broker.machine.vanish()
    copy = disk.copied(old)
    broker.start()
    broker.machine.vanish()
    disk.rename(f"{old}/t-0", f"{new}/t-0")
    broker.start()
    assert produce(broker, 0) == 0
    broker.machine.vanish()
    disk.put_back(old, copy)
    broker.start()
    assert place_of(broker, 0) == new and broker.here.node.replicas.by_name["t", 0].log.end_offset == 2
    assert leader_of(broker) == 1


def test_a_replica_that_came_to_be_after_the_copy_is_not_made_anew_as_if_it_were_empty():
    broker = SimBroker()
    create(broker, "before", partitions=1)
    broker.machine.vanish()
    copy = broker.machine.disk.copied("/data")
    broker.start()
    create(broker, partitions=1)
    assert produce(broker, 0) == 0
    broker.machine.vanish()
    broker.start()
    broker.machine.vanish()
    broker.machine.disk.put_back("/data", copy)
    broker.start()
    assert leader_of(broker) == NO_LEADER


# --- the store ---


def test_a_store_with_another_history_is_refused_before_anything_is_set_aside():
    broker = SimBroker()
    put_back = broker.store.saved()
    version = broker.store.head
    create(broker, partitions=1)
    assert produce(broker, 0) == 0
    broker.here.stop(clean=True).result()
    broker.machine.vanish()
    newer, head = broker.store.saved(), broker.store.head
    put_back()
    with pytest.raises(DirectoryRefused, match=f"ends at version {version}"):
        start_in_vain(broker)
    broker.machine.vanish()
    bare = encode_entry(read_entry(broker.store.read(0, 1)[0]).body, broker_epoch=-1, sequence=0)
    broker.store.append([sealed(bare, place + 1) for place in range(version, head)], version)
    with pytest.raises(DirectoryRefused, match="another entry stands at version"):
        start_in_vain(broker)
    broker.machine.vanish()
    assert broker.machine.disk.exists("/data/t-0/00000000000000000000.log")
    newer()
    broker.start()
    assert leader_of(broker) == 1


def test_the_mark_of_a_clean_stop_names_the_incarnation():
    broker = SimBroker()
    epoch = broker.here.node.follow.broker_epoch
    broker.here.stop(clean=True).result()
    assert json.loads(broker.machine.disk.read("/data/.kafka_cleanshutdown"))["brokerEpoch"] == str(epoch)
