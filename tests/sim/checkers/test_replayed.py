"""The judge of coordinators' states finds what a log, or what compaction leaves of it, does not tell."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from logged_groups import LoggedDesk
from tests.groups.consumer_desk import Client

from ottla.groups.entries import group_entry, offset_entry
from ottla.groups.group import GroupState
from ottla.groups.offsets import Offsets
from ottla.kernel.ids import TopicPartition
from ottla.messages.group_records import OffsetCommitValue
from ottla.records.batch import Batch
from ottla.records.builder import build_batch
from ottla.records.reader import Record, read_records
from ottla.sim.checkers.history import Anomaly
from ottla.sim.checkers.replayed import CoordinatorLog, check_shard
from ottla.storage.maintenance import cleaning
from ottla.transactions.entries import encode_entry, tombstone, transaction_entry
from ottla.transactions.shard import TransactionShard
from ottla.transactions.values import Transaction, TransactionSettings, TransactionState


def judged(desk: LoggedDesk) -> list[Anomaly]:
    return list(check_shard(desk.shard, desk.whole))


def kinds(found: list[Anomaly]) -> set[str]:
    return {each.kind for each in found}


def a_full_desk() -> LoggedDesk:
    """A classic group, a consumer group, and offsets of all kinds: plain, committed, aborted, deleted, pending."""
    desk = LoggedDesk()
    member, joined = desk.join_by_id(group="classic")
    desk.pass_ms(1)
    desk.sync(member, joined.result().generation_id, {member: b"all"}, group="classic")
    desk.commit({("t", 0): 3, ("t", 1): 4}, group="classic", member_id=member, generation=1)
    clients = [Client(desk, name) for name in ("a", "b")]
    for _ in range(4):
        for client in clients:
            client.beat()
            client.settle()
    desk.commit({("t", 0): 1, ("t", 1): 1}, group="plain")
    desk.delete_offsets("t", [1], group="plain")
    for producer, committed in ((7, True), (8, False), (9, True)):
        desk.commit_pending(producer, producer, partition=producer - 7)
        desk.end(producer, committed=committed)
    clients[1].leave()
    desk.commit_pending(10, 99)
    return desk


def test_a_shard_that_holds_what_its_log_says_is_sound_before_and_after_compaction():
    desk = a_full_desk()
    assert desk.shard.offsets.of("g")["t"].keys() == {0, 2} and list(desk.shard.offsets.pending())
    assert judged(desk) == []


def test_an_offset_that_is_not_in_the_log_is_called_by_its_group_and_place():
    desk = a_full_desk()
    value = OffsetCommitValue(offset=77, leader_epoch=-1, metadata="", commit_timestamp=1)
    desk.shard.apply(offset_entry("plain", "t", 0, value), desk.end_offset)
    found = judged(desk)
    assert [each.kind for each in found] == ["replay-differs"]
    assert found[0].what.startswith("plain: offset of t-0:") and "77" in found[0].what


@pytest.mark.parametrize(
    "entry",
    [
        offset_entry("plain", "t", 0, None),
        offset_entry("new", "t", 0, OffsetCommitValue(offset=1, leader_epoch=-1, metadata="", commit_timestamp=1)),
        group_entry("classic", None),
    ],
)
def test_a_record_that_the_live_shard_has_not_heard_of_is_found(entry):
    desk = a_full_desk()
    desk.log_only([entry])
    assert kinds(judged(desk)) == {"replay-differs"}


@pytest.mark.parametrize(
    "change",
    [
        {"epoch": 9},
        {"previous_epoch": 9},
        {"assigned": {}},
        {"client_id": "other"},
        {"topics": frozenset({"other"})},
    ],
)
def test_a_member_of_a_consumer_group_that_is_not_as_its_records_say_is_found(change):
    desk = a_full_desk()
    group = desk.group()
    group.put_member(replace(group.members["a"], **change))
    found = judged(desk)
    assert kinds(found) == {"replay-differs"} and "member a" in found[0].what


@pytest.mark.parametrize("field", ["epoch", "assignment_epoch", "metadata_hash", "assigned_at_ms"])
def test_an_epoch_or_time_of_a_consumer_group_that_is_not_in_the_log_is_found(field):
    desk = a_full_desk()
    setattr(desk.group(), field, 4242)
    assert kinds(judged(desk)) == {"replay-differs"}


def test_a_stable_classic_group_of_another_generation_than_the_logged_one_is_found():
    desk = a_full_desk()
    desk.shard.groups["classic"].generation += 1
    found = judged(desk)
    assert kinds(found) == {"replay-differs"} and "generation" in found[0].what


@pytest.mark.parametrize("state", [GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE])
def test_a_classic_group_may_be_ahead_of_its_log_while_it_rebalances_and_never_behind(state):
    desk = a_full_desk()
    group = desk.shard.groups["classic"]
    group.state = state
    group.remove(next(iter(group.members)))
    group.generation += 1
    assert judged(desk) == []
    group.generation -= 2
    assert kinds(judged(desk)) == {"replay-differs"}


class _MarkersInOrder(Offsets):
    """Lets the last marker win, where the last record does by the rule."""

    def apply_marker(self, producer, *, committed):
        places = self._pending.get(producer, {})
        super().apply_marker(producer, committed=committed)
        for place, pending in places.items() if committed else ():
            self._put(place, pending)


def a_desk_with_a_commit_in_between() -> LoggedDesk:
    desk = LoggedDesk()
    desk.commit_pending(7, 5)
    desk.commit({("t", 0): 6})
    desk.end(7, committed=True)
    return desk


def test_offsets_that_count_in_the_order_of_markers_are_found(monkeypatch):
    assert judged(a_desk_with_a_commit_in_between()) == []
    monkeypatch.setattr("ottla.groups.shard.Offsets", _MarkersInOrder)
    found = judged(a_desk_with_a_commit_in_between())
    assert kinds(found) == {"compacted-differs"} and "offset=5" in found[0].what and "offset=6" in found[0].what


def test_an_offset_that_an_aborted_transaction_has_hidden_from_compaction_is_found():
    desk = LoggedDesk()
    desk.commit({("t", 0): 6})
    desk.commit_pending(7, 5)
    desk.end(7, committed=False)
    assert judged(desk) == []
    without = desk.whole._replace(aborted=[])
    assert kinds(list(check_shard(desk.shard, without))) == {"compacted-differs"}, "compaction has taken it for data"


def test_an_abort_in_the_middle_of_the_log_is_judged_as_if_it_were_its_end(monkeypatch):
    desk = LoggedDesk()
    desk.commit({("t", 0): 6})
    desk.commit_pending(7, 5)
    desk.end(7, committed=False)
    desk.commit({("t", 0): 8})
    assert judged(desk) == []
    monkeypatch.setattr("ottla.storage.maintenance.cleaning._gather", _with_aborted_records)
    found = judged(desk)
    assert kinds(found) == {"compacted-differs"}
    assert all(each.what.startswith("up to offset 2, g: ") and "offset=6" in each.what for each in found)


def _with_aborted_records(disk, plan, keys):
    """Gather the keys of all records, those of aborted transactions among them."""
    for batch in cleaning._batches(disk, plan, plan.groups[0][0]):
        for record in read_records(batch) if not batch.is_control else ():
            keys[record.key] = record.offset
    return plan.dirty_end
    yield


def test_a_committed_transaction_that_compaction_takes_for_an_aborted_one_is_found():
    desk = LoggedDesk()
    desk.commit_pending(7, 5)
    desk.end(7, committed=False)
    aborted = desk.aborted
    desk = LoggedDesk()
    desk.commit_pending(7, 5)
    desk.end(7, committed=True)
    assert judged(desk) == []
    wrong = desk.whole._replace(aborted=aborted)
    found = list(check_shard(desk.shard, wrong))
    assert kinds(found) == {"compacted-differs"} and "offset of t-0" in found[0].what


def test_offsets_of_open_transactions_are_left_alone_by_compaction():
    desk = LoggedDesk()
    desk.commit({("t", 0): 6})
    desk.commit_pending(7, 5)
    desk.commit({("t", 0): 8})
    assert judged(desk) == []
    assert len(list(desk.shard.offsets.pending())) == 1
    desk.shard.offsets.apply_marker(7, committed=False)
    assert kinds(judged(desk)) == {"replay-differs"}


def test_a_log_with_a_damaged_batch_or_one_out_of_order_is_found():
    desk = LoggedDesk()
    desk.commit({("t", 0): 6})
    desk.commit({("t", 0): 7})
    sound = desk.whole
    torn = bytearray(sound.batches[0])
    torn[-1] ^= 1
    first, second = sound.batches
    assert kinds(list(check_shard(desk.shard, sound._replace(batches=[bytes(torn), second])))) == {"replay-differs"}
    assert "compacted-differs" in kinds(list(check_shard(desk.shard, sound._replace(batches=[second, first]))))


@pytest.mark.parametrize("seed", range(25))
def test_groups_and_transactions_in_any_order_leave_one_state_in_memory_and_in_the_log(seed: int):
    """Transactions overlap here with each other, with plain commits and with deletions, as they do in no world."""
    random = Random(seed)
    desk = LoggedDesk()
    client = Client(desk, "a")
    for step in range(60):
        _act(random, desk, client, step)
        if step % 4 == 3:
            assert judged(desk) == []


def _act(random: Random, desk: LoggedDesk, client: Client, step: int) -> None:
    """Do something with one of two offsets, one of four producers, or the only member."""
    producer, partition = random.randrange(7, 11), random.randrange(2)
    act = random.choice(("pending", "pending", "end", "end", "commit", "delete", "beat", "leave", "join"))
    if act == "pending":
        desk.commit_pending(producer, step, partition=partition)
    elif act == "end" and desk.is_open(producer):
        desk.end(producer, committed=random.random() < 0.5)
    elif act == "commit":
        member = client.member_id if client.epoch else ""
        desk.commit({("t", partition): step}, member_id=member, generation=client.epoch or -1)
    elif act == "delete":
        desk.delete_offsets("t", [partition])
    elif act == "beat":
        client.beat()
        client.settle()
    elif act == "leave" and client.epoch:
        client.leave()
    elif act == "join" and not client.epoch:
        desk.join_by_id(group=random.choice(("g", "other")))
        desk.pass_ms(random.choice((1, 400_000)))


# Transactions

P0 = TopicPartition("t", 0)


def a_transaction_shard(*steps: tuple[str, Transaction | None]) -> tuple[TransactionShard, CoordinatorLog]:
    shard = TransactionShard(TransactionSettings(), lambda: None)
    batches = []
    for offset, (name, step) in enumerate(steps):
        entry = tombstone(name) if step is None else transaction_entry(name, step, value_version=1)
        shard.apply(entry, offset)
        body = build_batch([Record(0, 1, *encode_entry(entry))])
        batches.append(b"".join(Batch(body).placed(offset, 0)))
    return shard, CoordinatorLog(batches, len(batches), [], {}, 1000)


STEPS = (
    ("one", Transaction(1, 0, timeout_ms=5)),
    ("one", Transaction(1, 0, timeout_ms=5, state=TransactionState.ONGOING, partitions=frozenset({P0}), started_ms=3)),
    ("gone", Transaction(2, 0, timeout_ms=5)),
    ("gone", None),
    ("two", Transaction(3, 4, last_epoch=3, timeout_ms=5, version=2)),
)


def test_a_transaction_shard_that_holds_what_its_log_says_is_sound():
    shard, log = a_transaction_shard(*STEPS)
    assert shard.transactions.keys() == {"one", "two"}
    assert list(check_shard(shard, log)) == []


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"producer_epoch": 9}, "producer_epoch"),
        ({"last_epoch": 9}, "last_epoch"),
        ({"partitions": frozenset()}, "partitions"),
        ({"state": TransactionState.PREPARE_COMMIT}, "state"),
        ({"updated_ms": 9}, "updated_ms"),
    ],
)
def test_a_transaction_that_is_not_as_its_record_says_is_called_by_its_id_and_field(change, named):
    shard, log = a_transaction_shard(*STEPS)
    shard.transactions["one"] = replace(shard.transactions["one"], **change)
    found = list(check_shard(shard, log))
    assert [each.kind for each in found] == ["replay-differs"]
    assert found[0].what.startswith(f"one: {named}:")


def test_a_transactional_id_that_has_expired_in_the_log_and_lives_on_is_found():
    shard, log = a_transaction_shard(*STEPS)
    shard.transactions["gone"] = Transaction(2, 0, timeout_ms=5)
    assert kinds(list(check_shard(shard, log))) == {"replay-differs"}


def test_what_compaction_may_not_take_is_compared(monkeypatch):
    monkeypatch.setattr("ottla.storage.maintenance.cleaning._Cleaner._keeps", lambda self, record, horizon: False)
    shard, log = a_transaction_shard(*STEPS)
    assert kinds(list(check_shard(shard, log))) == {"compacted-differs"}
