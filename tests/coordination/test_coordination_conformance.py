"""What every coordination engine promises, and the simulator's model of one; run against each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from coordination_stores import MemoryKind, SimKind, SqliteKind, Store, ZookeeperKind
from zookeeper_ensemble import ZookeeperEnsemble

from ottla.kernel.ids import BrokerId
from ottla.kernel.seams import Conflict, StoredSnapshot, Written
from ottla.sim.coordination import CALM


@pytest.fixture(params=["memory", "simulated", "sqlite PERSIST", "sqlite TRUNCATE", "zookeeper"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    kind, _, journal = request.param.partition(" ")
    opened: Store
    if kind == "sqlite":
        opened = SqliteKind(tmp_path / "metadata", journal)
    elif kind == "zookeeper":
        ensemble: ZookeeperEnsemble = request.getfixturevalue("zookeeper")
        opened = ZookeeperKind(ensemble.hosts)
    else:
        opened = MemoryKind() if kind == "memory" else SimKind(CALM)
    yield opened
    opened.close()


def test_an_empty_log_is_at_version_0_and_has_no_snapshot(store):
    broker = store.open(1)
    assert store.wait(broker.head()) == 0
    assert store.wait(broker.read(0)) == []
    assert store.wait(broker.load_snapshot()) is None


def test_entries_appended_together_are_numbered_from_1_and_read_in_order(store):
    broker = store.open(1)
    assert store.wait(broker.append([b"a", b"b"], 0)) == Written(2)
    assert store.wait(broker.append([b"c"], 2)) == Written(3)
    assert store.wait(broker.read(0)) == [(1, b"a"), (2, b"b"), (3, b"c")]
    assert store.wait(broker.read(1)) == [(2, b"b"), (3, b"c")]
    assert store.wait(broker.read(3)) == []
    assert store.wait(broker.head()) == 3


def test_a_read_gives_no_more_than_it_was_asked_for(store):
    broker = store.open(1)
    store.wait(broker.append([b"%d" % number for number in range(10)], 0))
    assert [entry.version for entry in store.wait(broker.read(2, limit=3))] == [3, 4, 5]


def test_an_append_on_another_version_than_the_last_writes_nothing(store):
    broker = store.open(1)
    store.wait(broker.append([b"a", b"b"], 0))
    for expected in (0, 1, 3):
        assert store.wait(broker.append([b"x", b"y"], expected)) == Conflict(2)
    assert [entry.body for entry in store.wait(broker.read(0))] == [b"a", b"b"]


def test_of_two_writers_on_one_version_one_wins(store):
    one, two = store.open(1), store.open(2)
    for version in range(20):
        asked = [one.append([b"1"], version), two.append([b"2"], version)]
        outcomes = [store.wait(slot) for slot in asked]
        assert sorted(map(type, outcomes), key=str) == [Conflict, Written]
        assert {outcome.version for outcome in outcomes} == {version + 1}
    assert len(store.wait(one.read(0))) == 20


def test_what_one_wrote_the_other_reads_at_once(store):
    one, two = store.open(1), store.open(2)
    store.wait(one.append([b"a"], 0))
    assert store.wait(two.head()) == 1
    assert store.wait(two.append([b"b"], 1)) == Written(2)
    assert store.wait(one.read(0)) == store.wait(two.read(0)) == [(1, b"a"), (2, b"b")]


def test_the_others_are_told_when_somebody_wrote(store):
    one, two = store.open(1), store.open(2)
    store.wait(one.append([b"a"], 0))
    told: list[int] = []
    one.on_change(lambda: told.append(1))
    two.on_change(lambda: told.append(2))
    store.wait(one.append([b"b"], 1))
    assert store.wait_until(lambda: 2 in told)


def test_brokers_that_are_open_are_live_and_others_are_told_when_one_goes(store):
    one, two = store.open(1), store.open(2)
    assert store.wait_until(lambda: one.live() == two.live() == {1, 2})
    told: list[str] = []
    one.on_change(lambda: told.append("changed"))
    two.close()
    assert store.wait_until(lambda: bool(told) and one.live() == {BrokerId(1)})


def test_the_latest_snapshot_is_loaded(store):
    broker = store.open(1)
    store.wait(broker.append([b"x"] * 6, 0))
    store.wait(broker.save_snapshot(StoredSnapshot(2, b"two")))
    store.wait(broker.save_snapshot(StoredSnapshot(5, b"five")))
    assert store.wait(broker.load_snapshot()) == StoredSnapshot(5, b"five")


def test_the_log_is_cut_below_the_snapshot_before_the_last(store):
    broker = store.open(1)
    store.wait(broker.append([b"%d" % number for number in range(1, 11)], 0))
    store.wait(broker.save_snapshot(StoredSnapshot(4, b"four")))
    assert len(store.wait(broker.read(0))) == 10
    store.wait(broker.save_snapshot(StoredSnapshot(8, b"eight")))
    assert [entry.version for entry in store.wait(broker.read(4))] == [5, 6, 7, 8, 9, 10]


def test_a_laggard_is_told_that_its_entries_have_been_cut(store):
    broker, laggard = store.open(1), store.open(2)
    store.wait(broker.append([b"x"] * 10, 0))
    for version in (4, 8):
        store.wait(broker.save_snapshot(StoredSnapshot(version, b"state")))
    for after in (0, 3):
        with pytest.raises(LookupError):
            store.wait(laggard.read(after))
    assert store.wait(laggard.load_snapshot()) == StoredSnapshot(8, b"state")


def test_a_log_whose_entries_are_all_cut_keeps_its_version(store):
    broker = store.open(1)
    store.wait(broker.append([b"x"] * 3, 0))
    store.wait(broker.save_snapshot(StoredSnapshot(3, b"all")))
    store.wait(broker.append([b"y"], 3))
    store.wait(broker.save_snapshot(StoredSnapshot(4, b"all")))
    store.wait(broker.append([b"z"], 4))
    store.wait(broker.save_snapshot(StoredSnapshot(5, b"all")))
    assert store.wait(broker.head()) == 5
    assert store.wait(broker.append([b"w"], 5)) == Written(6)


def test_an_older_snapshot_does_not_replace_a_later_one(store):
    one, two = store.open(1), store.open(2)
    store.wait(one.append([b"x"] * 10, 0))
    store.wait(one.save_snapshot(StoredSnapshot(8, b"eight")))
    store.wait(two.save_snapshot(StoredSnapshot(5, b"five")))
    assert store.wait(one.load_snapshot()) == StoredSnapshot(8, b"eight")
    assert len(store.wait(one.read(0))) == 10


def test_large_entries_come_back_whole(store):
    broker = store.open(1)
    bodies = [bytes([number]) * 256 * 1024 for number in range(4)]
    assert store.wait(broker.append(bodies, 0)) == Written(4)
    assert [entry.body for entry in store.wait(broker.read(0))] == bodies


def test_an_append_of_ten_megabytes_is_there_as_a_whole_or_not_at_all(store):
    one, two = store.open(1), store.open(2)
    bodies = [bytes([number]) * 256 * 1024 if number % 4 else b"small" for number in range(52)]
    assert store.wait(one.append([b"first"], 0)) == Written(1)
    assert store.wait(two.append(bodies, 0)) == Conflict(1)
    assert store.wait(one.head()) == 1
    assert store.wait(two.append(bodies, 1)) == Written(53)
    read: list[bytes] = []
    while len(read) < 52:
        read += [entry.body for entry in store.wait(one.read(1 + len(read)))]
    assert read == bodies


def test_many_appends_of_many_brokers_end_up_in_one_order(store):
    brokers = [store.open(number) for number in range(1, 5)]
    written = dict.fromkeys(range(1, 5), 0)
    while sum(written.values()) < 120:
        heads = [store.wait(broker.head()) for broker in brokers]
        asked = [
            broker.append([b"%d" % number], head) for number, broker, head in zip(written, brokers, heads, strict=True)
        ]
        for number, slot in zip(written, asked, strict=True):
            written[number] += isinstance(store.wait(slot), Written)
    entries = store.wait(brokers[0].read(0))
    assert [entry.version for entry in entries] == list(range(1, len(entries) + 1))
    for number, count in written.items():
        assert sum(entry.body == b"%d" % number for entry in entries) == count


def test_a_broker_that_was_closed_finds_the_log_as_it_was(store):
    broker = store.open(1)
    store.wait(broker.append([b"a", b"b"], 0))
    broker.close()
    again = store.open(1)
    assert store.wait(again.read(0)) == [(1, b"a"), (2, b"b")]


def test_ten_brokers_append_five_hundred_entries_each_at_once(store):
    brokers = {number: store.open(number) for number in range(1, 11)}
    waiting, conflicts = dict(brokers), 0
    while waiting:
        head = store.wait(brokers[1].head())
        asked = {number: broker.append([b"%d" % number] * 500, head) for number, broker in waiting.items()}
        outcomes = {number: store.wait(slot) for number, slot in asked.items()}
        written = [number for number, outcome in outcomes.items() if isinstance(outcome, Written)]
        assert len(written) == 1
        conflicts += len(outcomes) - 1
        del waiting[written[0]]
    assert conflicts == sum(range(10))
    bodies = [entry.body for after in range(0, 5000, 1000) for entry in store.wait(brokers[1].read(after))]
    runs = [bodies[start : start + 500] for start in range(0, 5000, 500)]
    assert sorted(int(run[0]) for run in runs) == list(range(1, 11))
    assert all(len(set(run)) == 1 for run in runs)
