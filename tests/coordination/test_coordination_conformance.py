"""The promises of every coordination engine and of the simulator's model; run against each."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from cables import Cables
from clusters import topic_id
from coordination_stores import MemoryKind, RoughKind, SimKind, SqliteKind, Store, TroubledStore, ZookeeperKind
from failing_disk import Fate
from shrinks import LEADERS, Shrinks
from zookeeper_ensemble import ZookeeperEnsemble

from ottla.kernel.ids import BrokerId
from ottla.kernel.seams import Conflict, Coordination, StoredSnapshot, Written
from ottla.metadata.entries import decode_entry

ENGINES = ("sqlite PERSIST", "sqlite TRUNCATE", "zookeeper")
PUNCTUAL = ("memory", "simulated", *ENGINES)
"""All stores except the model that loses notifications."""
UNKNOWN_OUTCOMES = (
    *((kind, fate) for kind in ("simulated", "zookeeper") for fate in Fate),
    *((kind, fate) for kind in ("sqlite PERSIST", "sqlite TRUNCATE") for fate in (Fate.DONE, Fate.NOT_DONE)),
)
"""Stores with unknown outcomes: memory has none, and SQLite has none that arrive late."""


@pytest.fixture(params=["rough", *PUNCTUAL])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    with an_open_store(request, request.param, tmp_path) as opened:
        yield opened


@pytest.fixture(params=["simulated", *ENGINES])
def troubled(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """A store whose broker 1 meets faults."""
    with an_open_store(request, request.param, tmp_path) as opened:
        yield opened


@contextlib.contextmanager
def an_open_store(request: pytest.FixtureRequest, name: str, tmp_path: Path) -> Iterator[Store]:
    kind, _, journal = name.partition(" ")
    with contextlib.ExitStack() as ends:
        opened: Store
        if kind == "sqlite":
            opened = SqliteKind(tmp_path / "metadata", journal)
        elif kind == "zookeeper":
            ensemble: ZookeeperEnsemble = request.getfixturevalue("zookeeper")
            cables = ends.enter_context(contextlib.closing(Cables(ensemble.ports)))
            opened = ZookeeperKind(ensemble.hosts, cables)
            ends.callback(opened.close)
            ends.callback(cables.mend)
        else:
            opened = {"memory": MemoryKind, "simulated": SimKind, "rough": RoughKind}[kind]()
        yield opened
        opened.close()


def test_an_empty_log_is_at_version_0_and_has_no_snapshot(store):
    broker = store.open(1)
    assert store.wait(broker.head()) == 0
    assert store.wait(broker.read(0)) == []
    assert store.wait(broker.load_snapshot()) is None


def test_a_number_under_a_name_only_grows_and_is_there_for_the_next_to_open(store):
    broker = store.open(1)
    assert store.wait(broker.raise_age("a", 0)) == 0
    assert store.wait(broker.raise_age("a", 7)) == 7
    assert store.wait(broker.raise_age("a", 5)) == 7
    assert store.wait(broker.raise_age("b-_9", 3)) == 3
    other = store.open(2)
    assert store.wait(other.raise_age("a", 0)) == 7
    assert store.wait(other.raise_age("a", 2**40)) == 2**40


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


@pytest.mark.parametrize("store", PUNCTUAL, indirect=True)
def test_the_others_are_told_when_somebody_wrote(store):
    one, two = store.open(1), store.open(2)
    store.wait(one.append([b"a"], 0))
    told: list[int] = []
    one.on_change(lambda: told.append(1))
    two.on_change(lambda: told.append(2))
    store.wait(one.append([b"b"], 1))
    assert store.wait_until(lambda: 2 in told)


@pytest.mark.parametrize("store", PUNCTUAL, indirect=True)
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


def test_ten_brokers_shrink_five_hundred_in_sync_sets_each_at_once(store):
    """One of the brokers that append at once wins; the others decide again after it. Each shrink is there once."""
    shrinks, brokers = Shrinks(), {leader: store.open(leader) for leader in LEADERS}
    begin = store.wait(brokers[1].append(shrinks.what_made_the_cluster(), 0)).version
    assert begin == shrinks.state.version
    writers, appends = [leader for leader in LEADERS for _ in range(3)], 0
    while leaders := [leader for leader in LEADERS if shrinks.waiting[leader]]:
        head = shrinks.state.version
        asked = {leader: brokers[leader].append(shrinks.gathered(leader), head) for leader in leaders}
        outcomes = {leader: store.wait(slot) for leader, slot in asked.items()}
        (first,) = (leader for leader, outcome in outcomes.items() if isinstance(outcome, Written))
        assert {outcome.version for outcome in outcomes.values()} == {outcomes[first].version}
        shrinks.apply(store.wait(brokers[leaders[-1]].read(head)))
        assert shrinks.state.version == outcomes[first].version
        shrinks.written(first)
        writers.remove(first)
        appends += 1
    assert (appends, writers) == (30, [])

    partitions = shrinks.state.topics[topic_id("lagging")].partitions
    assert [(one.leader, one.in_sync, one.partition_epoch) for one in partitions] == [
        (leader, (leader,), 1) for leader in LEADERS for _ in range(500)
    ]
    assert len(set(shrinks.marks)) == len(shrinks.marks) == 5000
    for leader, broker in brokers.items():  # each reads a part of its own that spans two appends
        start = 450 * leader
        read = [decode_entry(entry.body) for entry in store.wait(broker.read(begin + start, limit=200))]
        assert [(one.broker_epoch, one.sequence) for one in read] == shrinks.marks[start : start + 200]


@pytest.mark.parametrize(("troubled", "fate"), UNKNOWN_OUTCOMES, indirect=["troubled"])
def test_an_append_of_unknown_outcome_is_there_whole_or_not_at_all_and_its_writer_goes_on(troubled, fate):
    """Rule C1. A late append may arrive before or after another broker reads."""
    one, two = troubled.open_fragile(1), troubled.open(2)
    assert troubled.wait(one.append([b"first"], 0)) == Written(1)
    bodies = [b"unknown", b"b" * 100_000, b"c"]
    troubled.append_unknown(one, two, fate, bodies, 1)
    found = [entry.body for entry in troubled.wait(one.read(1))]
    assert found in {Fate.DONE: [bodies], Fate.NOT_DONE: [[]], Fate.LATE: [[], bodies]}[fate]
    assert goes_on(troubled, one, bodies, 1)
    assert troubled.wait(two.append([b"next"], 4)) == Written(5)
    everything = list(enumerate([b"first", *bodies, b"next"], 1))
    assert troubled.wait(one.read(0)) == troubled.wait(two.read(0)) == everything


@pytest.mark.parametrize(("troubled", "fate"), UNKNOWN_OUTCOMES, indirect=["troubled"])
def test_of_an_append_of_unknown_outcome_and_another_writers_one_is_there(troubled, fate):
    """Rule C1: both expect the same version, and either may win."""
    one, two = troubled.open_fragile(1), troubled.open(2)
    assert troubled.wait(one.append([b"first"], 0)) == Written(1)
    troubled.append_unknown(one, two, fate, [b"unknown"], 1)
    other = troubled.wait(two.append([b"other"], 1))
    assert isinstance(other, Written) != goes_on(troubled, one, [b"unknown"], 1)
    assert isinstance(troubled.wait(one.append([b"unknown"], 1)), Conflict)
    assert troubled.wait(one.append([b"next"], 2)) == Written(3)
    winner = b"other" if isinstance(other, Written) else b"unknown"
    assert [entry.body for entry in troubled.wait(two.read(0))] == [b"first", winner, b"next"]


def goes_on(store: TroubledStore, broker: Coordination, bodies: list[bytes], expected: int) -> bool:
    """Act as a broker after an unknown outcome: read, and append again if nothing is there; True if its entry won."""
    while True:
        after = store.wait(broker.read(expected))
        if after:
            return after[0].body == bodies[0]
        if isinstance(store.wait(broker.append(bodies, expected)), Written):
            return True


@pytest.mark.parametrize("seed", range(10))
def test_in_a_rough_world_every_append_is_there_once_for_those_who_settle_what_they_do_not_know(seed):
    """Rule C1. Each writer learns which of its appends succeeded, and the log agrees."""
    store = RoughKind(seed)
    brokers = [store.open(number) for number in range(1, 5)]
    heads, told = [0] * 4, dict[bytes, int]()
    for turn in range(30):
        asked = [broker.append([b"%d" % turn, b"%d" % at], heads[at]) for at, broker in enumerate(brokers)]
        for at, slot in enumerate(asked):
            outcome = store.wait(slot)
            heads[at] = outcome.version
            if isinstance(outcome, Written):
                told[b"%d %d" % (turn, at)] = outcome.version
    entries = store.wait(brokers[0].read(0))
    pairs = [b"%s %s" % (one.body, other.body) for one, other in zip(entries[::2], entries[1::2], strict=True)]
    assert {pair: 2 * place for place, pair in enumerate(pairs, 1)} == told
    assert len(pairs) == len(told) >= 30
    assert sum(way.unknown for way in store.ways) > 3


def test_a_lost_session_ends_a_brokers_presence_and_the_others_are_told_of_that_and_of_its_return(troubled):
    one, two, three = troubled.open_fragile(1), troubled.open(2), troubled.open(3)
    assert troubled.wait_until(lambda: one.live() == two.live() == three.live() == {1, 2, 3})
    seen: dict[int, set[frozenset[BrokerId]]] = {2: set(), 3: set()}
    two.on_change(lambda: seen[2].add(two.live()))
    three.on_change(lambda: seen[3].add(three.live()))
    troubled.lose_session(one)
    assert troubled.wait_until(lambda: frozenset({2, 3}) in seen[2] & seen[3])
    assert two.live() == three.live() == {2, 3}
    for told in seen.values():
        told.clear()
    troubled.restore_session(one)
    assert troubled.wait_until(lambda: frozenset({1, 2, 3}) in seen[2] & seen[3])


@pytest.mark.parametrize("troubled", ["rough", "simulated", *ENGINES], indirect=True)
def test_a_broker_that_lost_its_session_comes_back_to_what_was_written_meanwhile(troubled):
    """Its presence is back, and its earlier decision is refused because of the expected version (rule C5)."""
    one, two = troubled.open_fragile(1), troubled.open(2)
    assert troubled.wait(one.append([b"before"], 0)) == Written(1)
    assert troubled.wait_until(lambda: one.live() == two.live() == {1, 2})
    troubled.lose_session(one)
    assert troubled.wait_until(lambda: two.live() == {2})
    assert troubled.wait(two.append([b"meanwhile"], 1)) == Written(2)
    troubled.restore_session(one)
    assert isinstance(troubled.wait(one.append([b"decided before"], 1)), Conflict)
    assert troubled.wait(one.read(1)) == [(2, b"meanwhile")]
    assert troubled.wait_until(lambda: one.live() == two.live() == {1, 2})
    assert troubled.wait(one.append([b"after"], 2)) == Written(3)
    assert [entry.body for entry in troubled.wait(two.read(0))] == [b"before", b"meanwhile", b"after"]
