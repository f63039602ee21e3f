"""Following and writing the metadata log: conflicts, lost answers, laggards, leases, deaths; over many seeds."""

from __future__ import annotations

import logging
import random

import pytest
from followers import SESSION_MS, Cluster

from ottla.broker.metadata_log.command_queue import Applied, Outcome
from ottla.cluster.broker_commands import FenceBroker, UnregisterBroker
from ottla.cluster.brokers import LATEST_METADATA_VERSION
from ottla.cluster.commands import AllocateProducerIds, ChangeInSync, CreateTopic, DeleteTopic, ReplicaEpoch
from ottla.coordination.memory import MemoryStore
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.kernel.ids import NO_LEADER, TopicId
from ottla.kernel.seams import Unknown
from ottla.kernel.story import Slot, run_story
from ottla.metadata.entries import UNREGISTERED, ProducerIdsAllocated, TopicCreated
from ottla.metadata.growth import SNAPSHOT_BYTES, SNAPSHOT_ENTRIES
from ottla.metadata.seal import sealed
from ottla.metadata.snapshot import take_snapshot
from ottla.records.checksum import crc32c
from ottla.sim.coordination import ROUGH


def a_topic(name: str, partitions: int = 1, replicas: int = 1) -> CreateTopic:
    return CreateTopic(name, TopicId(random.Random(name).randbytes(16)), partitions, replicas)


def wait_for(cluster: Cluster, story):
    slot = run_story(story)
    assert cluster.until(lambda: slot.full)
    return slot.result()


def test_the_first_broker_makes_the_cluster_and_may_act_at_once():
    cluster = Cluster()
    cluster.up(1)
    metadata = cluster.follow[1].metadata
    assert len(metadata.cluster_id) == 22
    assert len(metadata.secret) == 32
    assert metadata.metadata_version() == LATEST_METADATA_VERSION
    assert cluster.follow[1].broker_epoch == metadata.brokers[1].epoch == 3
    assert cluster.follow[1].lease_valid()


def test_the_second_broker_joins_the_same_cluster_and_both_see_both():
    cluster = Cluster()
    cluster.up(1, 2)
    assert cluster.until(lambda: cluster.follow[1].metadata.version == cluster.follow[2].metadata.version)
    assert cluster.follow[1].metadata.cluster_id == cluster.follow[2].metadata.cluster_id
    assert [broker.broker_id for broker in cluster.follow[1].metadata.live_brokers()] == [1, 2]


def test_a_restart_is_a_later_incarnation_and_ends_the_leadership_of_the_last():
    cluster = Cluster()
    cluster.up(1)
    cluster.ask(1, a_topic("orders", 2))
    before = cluster.follow[1].metadata.topic("orders").partitions
    epoch = cluster.follow[1].broker_epoch
    cluster.crash(1)
    cluster.up(1)
    after = cluster.follow[1].metadata.topic("orders").partitions
    assert cluster.follow[1].broker_epoch > epoch
    assert [partition.leader for partition in after] == [1, 1]
    assert [now.leader_epoch for now in after] == [old.leader_epoch + 1 for old in before]


def test_a8_a_broker_does_not_act_on_what_the_log_says_of_its_last_incarnation():
    cluster = Cluster()
    cluster.up(1)
    cluster.ask(1, a_topic("orders"))
    before = cluster.follow[1].broker_epoch
    cluster.crash(1)
    follow = cluster.begin(1)
    wait_for(cluster, follow.start())
    assert follow.metadata.topic("orders").partitions[0].leader == 1
    assert not follow.metadata.brokers[1].fenced
    version = follow.metadata.version
    for _ in range(20):
        assert not follow.lease_valid()
        follow.look_after_brokers()
        wait_for(cluster, follow.catch_up())
        cluster.loop.run_for(SESSION_MS // 10)
    assert follow.metadata.version == version, "it has decided nothing"
    assert follow.broker_epoch == UNREGISTERED
    said = follow.registration(host="host1", rack=None, listeners=())
    assert wait_for(cluster, follow.register(said)) > max(before, version)
    assert follow.lease_valid()
    assert follow.metadata.topic("orders").partitions[0].leader_epoch == 1


def test_a_command_is_applied_and_reconciled_here_before_it_is_answered():
    cluster = Cluster()
    cluster.up(1)
    outcome = cluster.ask(1, a_topic("orders"))
    assert isinstance(outcome, Applied)
    assert isinstance(outcome.entries[0], TopicCreated)
    assert cluster.follow[1].metadata.topic("orders") is not None
    assert cluster.reconciled[1][-1] == outcome.first_version + len(outcome.entries) - 1


def test_an_error_is_answered_without_an_entry():
    cluster = Cluster()
    cluster.up(1)
    cluster.ask(1, a_topic("orders"))
    head = cluster.store.head
    outcome = cluster.ask(1, CreateTopic("orders", TopicId(b"x" * 16), 1, 1))
    assert isinstance(outcome, ApiError)
    assert outcome.code == ErrorCode.TOPIC_ALREADY_EXISTS
    assert cluster.store.head == head


def test_an_error_is_only_true_if_nobody_changed_the_matter_meanwhile():
    """Broker 2 has not read of the topic that broker 1 just made; it must not answer that there is none."""
    cluster = Cluster()
    cluster.up(1, 2)
    cluster.way[2].faults = cluster.way[2].faults._replace(lost_hint=1.0)
    created = cluster.ask(1, a_topic("orders"))
    assert isinstance(created, Applied)
    topic_id = cluster.follow[1].metadata.topic("orders").topic_id
    assert isinstance(cluster.ask(2, DeleteTopic("orders", topic_id)), Applied)


def test_commands_that_do_not_meet_share_an_append():
    cluster = Cluster()
    cluster.up(1)
    before = cluster.way[1].appends
    slots = [cluster.follow[1].submit(a_topic(f"topic-{number}")) for number in range(40)]
    assert cluster.until(lambda: all(slot.full for slot in slots))
    assert all(isinstance(slot.result(), Applied) for slot in slots)
    assert len(cluster.follow[1].metadata.topics) == 40
    assert cluster.way[1].appends - before <= 2
    for number, slot in enumerate(slots):
        created = slot.result().entries[0]
        assert created.name == f"topic-{number}"


def test_a4_a_fence_goes_before_topics_that_wait_to_be_made():
    cluster = Cluster()
    cluster.up(1, 2)
    follow = cluster.follow[1]
    assert cluster.until(lambda: 2 in follow.metadata.brokers)
    slots = [follow.submit(a_topic(f"topic-{number}", partitions=20)) for number in range(1000)]
    fence = follow.submit(FenceBroker(2, follow.metadata.brokers[2].epoch))
    assert cluster.until(lambda: fence.full)
    assert isinstance(fence.result(), Applied)
    made = sum(slot.full for slot in slots)
    assert made <= 200  # the append that was on its way
    assert cluster.until(lambda: all(slot.full for slot in slots))
    versions = [slot.result().first_version for slot in slots]
    assert versions == sorted(versions)
    assert sum(version < fence.result().first_version for version in versions) == made


def test_of_two_topics_of_one_name_in_one_moment_one_is_made():
    cluster = Cluster()
    cluster.up(1, 2)
    slots = [
        cluster.follow[number].submit(CreateTopic("orders", TopicId(bytes([number]) * 16), 1, 1))
        for number in (1, 2, 1, 2)
        if number
    ]
    assert cluster.until(lambda: all(slot.full for slot in slots))
    outcomes = [slot.result() for slot in slots]
    made = [outcome for outcome in outcomes if isinstance(outcome, Applied) and outcome.entries]
    assert len(made) == 1


def test_a_fenced_brokers_commands_are_refused_until_it_is_unfenced():
    cluster = Cluster()
    cluster.up(1, 2)
    epoch = cluster.follow[2].broker_epoch
    cluster.way[2].cut = True
    assert isinstance(cluster.ask(1, FenceBroker(2, epoch)), Applied)
    slot = cluster.follow[2].submit(a_topic("orders"))
    cluster.way[2].cut = False
    assert cluster.until(lambda: slot.full)
    # The fence was refused, or it came after the broker had unfenced itself; never in between.
    fenced = cluster.follow[1].metadata
    if isinstance(slot.result(), ApiError):
        assert slot.result().code == ErrorCode.STALE_BROKER_EPOCH
    else:
        assert slot.result().first_version > fenced.brokers_version - 1
    assert cluster.until(cluster.follow[2].lease_valid)


def test_a_broker_that_is_cut_off_loses_its_lease_in_time_and_has_it_back_afterwards():
    cluster = Cluster()
    cluster.up(1, 2)
    cluster.way[2].cut = True
    cut_ms = cluster.loop.mono_ms()
    assert cluster.until(lambda: not cluster.follow[2].lease_valid())
    assert cluster.loop.mono_ms() - cut_ms <= SESSION_MS * 2 // 3
    assert cluster.follow[1].lease_valid()
    cluster.way[2].cut = False
    assert cluster.until(cluster.follow[2].lease_valid, within_ms=SESSION_MS)


def test_the_lease_is_not_renewed_by_what_is_applied_and_not_acted_on_yet():
    cluster = Cluster()
    cluster.up(1, 2)
    follow, way = cluster.follow[2], cluster.way[2]
    assert cluster.until(lambda: follow.metadata.version == cluster.follow[1].metadata.version)
    read = way.read
    cluster.follow[1].submit(a_topic("orders"))
    way.read = lambda after, limit: Slot() if follow.metadata.topic("orders") else read(after, limit)
    assert cluster.until(lambda: follow.metadata.topic("orders") is not None)
    assert cluster.reconciled[2][-1] < follow.metadata.version
    assert cluster.until(lambda: not follow.lease_valid(), within_ms=SESSION_MS)


def test_the_lease_is_renewed_by_reads_alone():
    cluster = Cluster()
    cluster.up(1)
    head = cluster.store.head
    for _ in range(20):
        cluster.loop.run_for(SESSION_MS // 2)
        assert cluster.follow[1].lease_valid()
    assert cluster.store.head == head


def test_who_reads_slower_than_others_append_goes_on_acting_on_what_it_reads():
    """Each of its reads brings entries: it would never have come to the end, and its lease ran out."""
    cluster = Cluster()
    cluster.up(1, 2)
    follow, started = cluster.follow[2], len(cluster.reconciled[2])
    cluster.way[2].faults = cluster.way[2].faults._replace(way_us=(20_000, 20_000))
    until_ms = cluster.loop.mono_ms() + SESSION_MS

    async def append_without_a_pause() -> None:
        made = 0
        while cluster.loop.mono_ms() < until_ms:
            made += 1
            await cluster.follow[1].submit(a_topic(f"t{made}"))

    appended = run_story(append_without_a_pause())
    behind = []
    while not appended.full:
        assert follow.lease_valid()
        behind.append(cluster.store.head - follow.metadata.version)
        cluster.loop.run_for(20)
    assert min(behind[100:]) > 0
    assert len(cluster.reconciled[2]) - started > 10
    assert cluster.until(lambda: follow.metadata.version == cluster.store.head)


def test_a_dead_broker_is_fenced_by_the_caretaker_and_its_partitions_get_other_leaders():
    cluster = Cluster()
    cluster.up(1, 2, 3)
    cluster.ask(1, a_topic("orders", 6, 3))
    led = [one for one in cluster.follow[1].metadata.topic("orders").partitions if one.leader == 3]
    assert led
    cluster.crash(3)
    assert cluster.until(lambda: cluster.follow[1].metadata.brokers[3].fenced, within_ms=500)
    for partition in cluster.follow[1].metadata.topic("orders").partitions:
        assert partition.leader in (1, 2)
        assert set(partition.in_sync) == {1, 2}


def test_when_the_caretaker_dies_another_takes_care_after_its_patience():
    cluster = Cluster()
    cluster.up(1, 2, 3)
    cluster.ask(1, a_topic("orders", 3, 3))
    cluster.crash(1)
    assert cluster.until(lambda: cluster.follow[2].metadata.brokers[1].fenced, within_ms=3000)
    assert all(partition.leader != 1 for partition in cluster.follow[2].metadata.topic("orders").partitions)


def test_a_broker_that_is_taken_for_dead_by_mistake_unfences_itself():
    cluster = Cluster()
    cluster.up(1, 2)
    cluster.ask(1, a_topic("orders", 2, 1))
    cluster.way[2].expire()
    assert cluster.until(lambda: cluster.follow[1].metadata.brokers[2].fenced)
    cluster.way[2].revive()
    assert cluster.until(lambda: not cluster.follow[1].metadata.brokers[2].fenced)
    assert cluster.until(cluster.follow[2].lease_valid)
    assert all(one.leader != NO_LEADER for one in cluster.follow[1].metadata.topic("orders").partitions)


def test_a_broker_that_reads_of_its_own_fence_answers_as_leader_no_more():
    cluster = Cluster()
    cluster.up(1, 2)
    follow = cluster.follow[2]
    seen: list[tuple[bool, bool]] = []
    follow.on_reconcile = lambda changes: seen.append((follow.metadata.brokers[2].fenced, follow.lease_valid()))
    cluster.way[2].expire()
    assert cluster.until(lambda: (False, True) in seen)
    assert (True, False) in seen
    assert (True, True) not in seen


def test_a_broker_stops_when_another_process_registers_as_it():
    cluster = Cluster()
    cluster.up(1)
    first = cluster.follow[1]
    stopped: list[str] = []
    first.on_fatal = stopped.append
    cluster.up(1)
    assert cluster.until(lambda: bool(stopped))
    assert "registered as broker 1" in stopped[0]
    assert not first.lease_valid()


def test_a_broker_that_is_unregistered_while_it_runs_stops_and_may_register_again():
    cluster = Cluster()
    cluster.up(1, 2)
    stopped: list[str] = []
    cluster.follow[2].on_fatal = stopped.append
    assert isinstance(cluster.ask(1, UnregisterBroker(2)), Applied)
    assert cluster.until(lambda: bool(stopped))
    assert "Broker 2 was unregistered" in stopped[0]
    assert not cluster.follow[2].lease_valid()
    cluster.up(2)
    assert cluster.until(lambda: cluster.follow[1].metadata.is_active(2))


@pytest.mark.parametrize("form", [0, 2], ids=["of an unknown type", "in an unknown form"])
def test_an_entry_of_a_later_release_stops_the_broker_with_a_sentence(form):
    """Every release ends an entry with its checksum, so a damaged entry differs from one of a later release."""
    cluster = Cluster()
    cluster.up(1)
    head = cluster.store.head
    entry = sealed(b"\x7f\x00\x00\x00" + bytes(20), head + 1)
    if form:
        bare = entry[:2] + bytes([0, form]) + entry[4:-4]
        entry = bare + crc32c(bare, crc32c((head + 1).to_bytes(8, "big"))).to_bytes(4, "big")
    cluster.store.append([entry], head)
    assert cluster.until(lambda: 1 in cluster.fatal)
    assert "a newer release wrote it" in cluster.fatal[1]


def test_a_laggard_whose_entries_were_cut_goes_on_from_a_snapshot():
    cluster = Cluster()
    cluster.up(1, 2)
    cluster.way[2].cut = True
    for number in range(5):
        cluster.ask(1, a_topic(f"before-{number}"))
    cluster.store.save_snapshot(take_snapshot(cluster.follow[1].metadata))
    cluster.ask(1, a_topic("between"))
    cluster.store.save_snapshot(take_snapshot(cluster.follow[1].metadata))
    cluster.ask(1, a_topic("after"))
    with pytest.raises(LookupError):
        cluster.store.read(cluster.follow[2].metadata.version, 1)
    cluster.way[2].cut = False
    assert cluster.until(lambda: cluster.follow[2].metadata.topic("after") is not None)
    assert take_snapshot(cluster.follow[2].metadata) == take_snapshot(cluster.follow[1].metadata)


def test_the_caretaker_saves_snapshots_and_cuts_the_log():
    cluster = Cluster()
    cluster.up(1)
    for round_number in range(3):
        before = cluster.store.load_snapshot()
        for number in range(SNAPSHOT_ENTRIES // 2):
            cluster.follow[1].submit(a_topic(f"topic-{round_number}-{number}"))
        assert cluster.until(lambda before=before: cluster.store.load_snapshot() != before)
    with pytest.raises(LookupError):
        cluster.store.read(0, 1)
    cluster.up(2)
    assert cluster.until(lambda: cluster.follow[2].metadata.version == cluster.follow[1].metadata.version)
    assert take_snapshot(cluster.follow[2].metadata) == take_snapshot(cluster.follow[1].metadata)


def test_leader_epochs_do_not_pile_up_in_the_log_however_many_partitions_one_entry_holds():
    """Each restart elects all partitions anew, in a few large entries."""
    cluster = Cluster()
    cluster.up(1)
    cluster.ask(1, a_topic("orders", 5_000))
    behind_snapshot = []
    for _ in range(8):
        cluster.crash(1)
        cluster.up(1)
        snapshot = cluster.store.load_snapshot()
        kept = cluster.store.read(snapshot.version if snapshot else 0, 1000)
        behind_snapshot.append(sum(len(each.body) for each in kept))
    state = len(take_snapshot(cluster.follow[1].metadata).body)
    assert behind_snapshot[0] > state, "an election of all writes about as much as the state"
    assert max(behind_snapshot) < SNAPSHOT_BYTES + state
    assert cluster.follow[1].metadata.topic("orders").partitions[0].leader_epoch == 8


def test_a_command_that_cannot_reach_the_store_ends_with_its_time():
    cluster = Cluster()
    cluster.up(1)
    cluster.way[1].cut = True
    slot = cluster.follow[1].submit(AllocateProducerIds(), timeout_ms=2000)
    assert cluster.until(lambda: slot.full, within_ms=5000)
    outcome = slot.result()
    assert isinstance(outcome, ApiError)
    assert outcome.code == ErrorCode.REQUEST_TIMED_OUT


def test_a_stopping_broker_refuses_what_waits():
    cluster = Cluster()
    cluster.up(1)
    slots = [cluster.follow[1].submit(AllocateProducerIds()) for _ in range(3)]
    cluster.follow[1].close()
    late = cluster.follow[1].submit(AllocateProducerIds())
    assert isinstance(late.result(), ApiError)
    assert all(slot.full for slot in slots)
    cluster.loop.run_for(60_000)
    assert not cluster.fatal, "what was on its way came back to a stopped broker"


def test_an_append_that_lands_late_is_our_own_though_the_store_could_not_be_reached_meanwhile():
    """The answer is lost, a read shows no entry yet, the next try fails; only then the entry lands (rule C1)."""
    cluster = Cluster()
    cluster.up(1)
    real, tries = cluster.way[1].append, []

    def append(entries: list[bytes], expected: int) -> Slot:
        tries.append(expected)
        slot: Slot = Slot()
        if len(tries) == 1:
            slot.fill(Unknown("the answer was lost"))
        elif len(tries) == 2:
            cluster.store.append(entries, expected)
            slot.fail(OSError("cannot be reached"))
        else:
            return real(entries, expected)
        return slot

    cluster.way[1].append = append
    outcome = cluster.ask(1, a_topic("orders"))
    assert isinstance(outcome, Applied)
    assert outcome.first_version == tries[0] + 1
    assert len(cluster.follow[1].metadata.topics) == 1
    assert isinstance(cluster.ask(1, a_topic("more")), Applied)


def test_a_broker_stops_when_the_log_has_become_shorter():
    cluster = Cluster()
    cluster.up(1)
    cluster.way[1]._store = MemoryStore()
    assert cluster.until(lambda: 1 in cluster.fatal)
    assert "it is lost" in cluster.fatal[1]
    assert not cluster.store.read(cluster.store.head, 1)


def test_large_topics_do_not_share_an_append():
    cluster = Cluster()
    cluster.up(1, 2, 3)
    sizes, real = [], cluster.way[1].append

    def append(entries: list[bytes], expected: int) -> Slot:
        sizes.append(sum(map(len, entries)))
        return real(entries, expected)

    cluster.way[1].append = append
    slots = [cluster.follow[1].submit(a_topic(f"topic-{number}", 5000, 3)) for number in range(4)]
    slots.append(cluster.follow[1].submit(a_topic("largest", 10_000, 3)))
    assert cluster.until(lambda: all(slot.full for slot in slots))
    assert all(isinstance(slot.result(), Applied) for slot in slots)
    assert len(sizes) == 5
    assert max(sizes) < 1024 * 1024


@pytest.mark.parametrize("seed", range(25))
def test_whatever_answers_are_lost_every_command_happens_as_it_was_answered(seed):
    """Three brokers over a store that loses, delays or carries out too late a sixth of all requests (rule C1)."""
    cluster = Cluster(seed, ROUGH)
    cluster.up(1, 2, 3)
    draw = random.Random(seed)
    asked = []
    for step in range(60):
        number = draw.choice((1, 2, 3))
        if draw.random() < 0.5:
            command = CreateTopic(f"topic-{draw.randrange(25)}", TopicId(draw.randbytes(16)), 2, 2)
            asked.append((number, command, cluster.follow[number].submit(command, 3_600_000)))
        else:
            asked.append((number, None, cluster.follow[number].submit(AllocateProducerIds(10), 3_600_000)))
        if step % 4 == 0:
            cluster.loop.run_for(draw.randrange(200))
    assert cluster.until(lambda: all(slot.full for _, _, slot in asked), within_ms=3_600_000)
    cluster.faults = cluster.faults._replace(lost_hint=0.0)
    assert cluster.until(lambda: len({follow.metadata.version for follow in cluster.follow.values()}) == 1)
    states = {take_snapshot(follow.metadata) for follow in cluster.follow.values()}
    assert len(states) == 1
    _check_topics(cluster, asked)
    _check_blocks(asked)
    assert sum(way.unknown for way in cluster.way.values()) > 0, "nothing was lost: the seed did nothing"


def _check_topics(cluster, asked):
    metadata = cluster.follow[1].metadata
    for _, command, slot in asked:
        if command is None:
            continue
        outcome = slot.result()
        present = metadata.topic(command.name)
        assert present is not None
        if isinstance(outcome, Applied):
            assert present.topic_id == command.topic_id
            assert outcome.entries, "an own entry that was found is success"
        else:
            assert outcome.code in (ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.STALE_BROKER_EPOCH)
            assert present.topic_id != command.topic_id or outcome.code == ErrorCode.STALE_BROKER_EPOCH


def _check_blocks(asked):
    given = []
    for _, command, slot in asked:
        outcome = slot.result()
        if command is None and isinstance(outcome, Applied):
            (body,) = outcome.entries
            assert isinstance(body, ProducerIdsAllocated)
            given += range(body.first, body.first + body.count)
    assert len(given) == len(set(given)), "an id was given out twice"


def test_ten_brokers_that_shrink_two_hundred_sets_each_at_once_are_done_in_a_moment():
    cluster = Cluster(3)
    cluster.up(*range(1, 11))
    for number in range(4):
        cluster.ask(1, a_topic(f"topic-{number}", 500, 3))
    assert cluster.until(lambda: len({follow.metadata.version for follow in cluster.follow.values()}) == 1)
    state = cluster.follow[1].metadata
    slots = []
    for topic in state.visible_topics():
        for before in topic.partitions:
            kept = tuple(ReplicaEpoch(one, state.brokers[one].epoch) for one in {before.leader, before.in_sync[0]})
            command = ChangeInSync(topic.topic_id, before.partition, before.leader_epoch, before.partition_epoch, kept)
            slots.append(cluster.follow[before.leader].submit(command))
    started_ms = cluster.loop.mono_ms()
    assert cluster.until(lambda: all(slot.full for slot in slots))
    assert all(isinstance(slot.result(), Applied) for slot in slots)
    assert cluster.loop.mono_ms() - started_ms < 2000
    assert sum(way.appends for way in cluster.way.values()) < 200


def test_a_seed_gives_the_same_trace_twice():
    def run() -> str:
        cluster = Cluster(5, ROUGH)
        cluster.up(1, 2)
        slots = [cluster.follow[1 + number % 2].submit(a_topic(f"topic-{number}")) for number in range(10)]
        assert cluster.until(lambda: all(slot.full for slot in slots))
        return cluster.loop.trace_hash

    assert run() == run()


def test_a_story_that_is_told_of_its_timeout_may_submit_at_once():
    cluster = Cluster()
    follow = cluster.up(1) or cluster.follow[1]
    cluster.way[1].cut = True
    again: list[Slot[Outcome]] = []

    async def stubborn() -> None:
        await follow.submit(AllocateProducerIds(), timeout_ms=2000)
        again.append(follow.submit(AllocateProducerIds(), timeout_ms=600_000))

    run_story(stubborn())
    waiting = follow.submit(AllocateProducerIds(), timeout_ms=600_000)
    assert cluster.until(lambda: bool(again), within_ms=5000)
    cluster.way[1].cut = False
    assert cluster.until(lambda: waiting.full and again[0].full)
    assert not cluster.fatal


def test_an_append_that_ends_after_the_broker_stopped_is_not_reconciled():
    cluster = Cluster()
    follow = cluster.up(1) or cluster.follow[1]
    seen = len(cluster.reconciled.get(1, []))
    follow.submit(a_topic("late"))
    follow.close()
    cluster.loop.run_for(60_000)
    assert cluster.store.read(0, 1000), "the append itself happened"
    assert len(cluster.reconciled.get(1, [])) == seen
    assert not cluster.fatal


def test_a_store_that_cannot_be_used_is_said_once_and_so_is_that_it_can_be_again(caplog):
    cluster = Cluster()
    cluster.up(1)

    def refuses(*_: object) -> Slot[object]:
        slot: Slot[object] = Slot()
        slot.fail(OSError("/data/metadata.db: attempt to write a readonly database"))
        return slot

    follow = cluster.follow[1]
    with caplog.at_level(logging.WARNING, "ottla.metadata"):
        cluster.way[1].append = refuses
        asked = follow.submit(a_topic("orders"))
        cluster.way[1].cut = True
        cluster.loop.run_for(3 * SESSION_MS)
        del cluster.way[1].append
        cluster.way[1].cut = False
        assert cluster.until(lambda: asked.full and isinstance(asked.result(), Applied))
        cluster.loop.run_for(SESSION_MS)
    said = [record.getMessage() for record in caplog.records]
    assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR", "WARNING", "WARNING"]
    assert said[0].startswith("the metadata store cannot be written: /data/metadata.db: attempt to write")
    assert said[1].startswith("the metadata store cannot be read")
    again = {line.split(";")[0] for line in said[2:]}
    assert again == {"the metadata store can be read again", "the metadata store can be written again"}
