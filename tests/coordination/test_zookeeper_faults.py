"""An ensemble whose servers die, cables that are cut or hold what passes, sessions that end, answers that are lost."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest
from coordination_stores import SHORT_SESSION_MS, ZookeeperKind
from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionLoss, NoAuthError, NoNodeError
from zookeeper_ensemble import SERVERS, ZookeeperEnsemble

from ottla.coordination.zookeeper import ZookeeperCoordination
from ottla.coordination.zookeeper_log import LAYOUT, ZookeeperLog
from ottla.kernel.ids import BrokerId
from ottla.kernel.seams import Conflict, Coordination, StoredSnapshot, Unknown, Written


@pytest.fixture
def raw(zookeeper: ZookeeperEnsemble, store: ZookeeperKind) -> Iterator[KazooClient]:
    """A client that looks at the nodes themselves, as the same user."""
    client = KazooClient(zookeeper.hosts, auth_data=[("digest", "ottla:secret")])
    client.start()
    yield client
    client.stop()
    client.close()


def sessions(store: ZookeeperKind, raw: KazooClient) -> list[int]:
    """The sessions of brokers 1 and 2."""
    return [raw.retry(raw.get, f"{store.chroot}/live/{number}")[1].ephemeralOwner for number in (1, 2)]


def write_first(store: ZookeeperKind, broker: Coordination) -> None:
    """Append, and wait for all notifications of it, so that the next append is sent at once."""
    told: list[str] = []
    assert store.wait_until(lambda: broker.live() == {1, 2})
    store.wait(broker.head())  # the other broker's presence was notified; the next notification is about the head
    broker.on_change(lambda: told.append("changed"))
    assert store.wait(broker.append([b"first"], 0)) == Written(1)
    assert store.wait_until(lambda: bool(told))


def append_in_the_end(store: ZookeeperKind, broker: Coordination, body: bytes) -> int:
    """Append as a broker does (rule C1): settle an unknown outcome by reading; return the number of unknown ones."""
    unknown = 0
    while True:
        assert store.wait_until(store.answers(broker))
        try:
            head = store.wait(broker.head())
            outcome = store.wait(broker.append([body], head))
        except OSError:
            continue  # nothing was sent
        if isinstance(outcome, Written):
            return unknown
        if isinstance(outcome, Conflict):
            continue
        unknown += 1
        while True:
            assert store.wait_until(store.answers(broker))
            try:
                if body in [entry.body for entry in store.wait(broker.read(head))]:
                    return unknown
                outcome = store.wait(broker.append([body], head))
            except OSError:
                continue
            if isinstance(outcome, Written):
                return unknown
            if isinstance(outcome, Conflict) and body not in [one.body for one in store.wait(broker.read(head))]:
                break


def test_the_ensembles_leader_is_killed_and_every_append_is_there_once_in_one_order(store, zookeeper, raw):
    one, two = store.open(1), store.open(2)
    assert store.wait_until(lambda: one.live() == two.live() == {1, 2})
    before = sessions(store, raw)
    killed = zookeeper.leader()
    for number in range(60):
        append_in_the_end(store, one if number % 2 else two, b"%d" % number)
        if number == 20:
            zookeeper.kill(killed)
    assert zookeeper.leader() not in (None, killed)
    assert sessions(store, raw) == before, "a session outlives the election of another leader"
    assert [entry.body for entry in store.wait(one.read(0))] == [b"%d" % number for number in range(60)]
    assert store.wait_until(lambda: one.live() == two.live() == {1, 2})


def test_the_whole_ensemble_is_killed_and_comes_back_with_the_log(store, zookeeper):
    broker = store.open(1)
    assert store.wait(broker.append([b"a", b"b"], 0)) == Written(2)
    for number in SERVERS:
        zookeeper.kill(number)
    with pytest.raises(OSError, match="ZooKeeper"):
        store.wait(broker.head())
    zookeeper.wait_until_whole()
    assert store.wait_until(store.answers(broker))
    assert [entry.body for entry in store.wait(broker.read(0))] == [b"a", b"b"]
    assert store.wait(broker.append([b"c"], 2)) == Written(3)


def test_a_broker_whose_server_is_lost_goes_on_at_another_in_the_same_session(store, cables):
    one, two = store.open(1, hosts=cables.hosts), store.open(2)
    assert store.wait_until(lambda: two.live() == {1, 2})
    seen: list[frozenset[BrokerId]] = []
    two.on_change(lambda: seen.append(two.live()))
    for _ in range(3):
        used = [cable for cable in cables.to.values() if cable.in_use]
        assert len(used) == 1
        used[0].cut()
        assert store.wait_until(store.answers(one))
        assert store.wait(one.head()) == store.wait(two.head())
        used[0].mend()
    assert all(live == {1, 2} for live in seen)


def test_a_server_that_falls_silent_is_left_before_the_lease_ends(store, cables, monkeypatch):
    """An answer may take a quarter of a session; kazoo by itself would wait until after the lease's end."""
    one, two = store.open(1, hosts=cables.hosts), store.open(2)
    assert store.wait_until(lambda: two.live() == {1, 2})
    seen: list[frozenset[BrokerId]] = []
    two.on_change(lambda: seen.append(two.live()))
    left: list[str] = []
    leave = one._log._on_silence
    monkeypatch.setattr(one._log, "_on_silence", lambda: (left.append("silent"), leave()))
    silent = next(cable for cable in cables.to.values() if cable.in_use)
    silent.hold(requests=True, answers=True)
    assert store.wait_until(store.answers(one))
    assert left
    assert all(live == {1, 2} for live in seen)


def test_a_broker_that_is_cut_off_for_a_moment_stays_alive_and_hears_what_it_missed(store, cables):
    one, two = store.open(1, hosts=cables.hosts, first_connection_s=5), store.open(2)
    assert store.wait_until(lambda: two.live() == {1, 2})
    told: list[str] = []
    one.on_change(lambda: told.append("changed"))
    cables.cut()
    with pytest.raises(OSError, match="ZooKeeper"):
        store.wait(one.head())
    assert store.wait(two.append([b"meanwhile"], 0)) == Written(1)
    told.clear()
    cables.mend()
    assert store.wait_until(lambda: bool(told))
    assert store.wait_until(store.answers(one))
    assert [entry.body for entry in store.wait(one.read(0))] == [b"meanwhile"]
    assert two.live() == {1, 2}


def test_a_broker_that_is_silent_for_a_session_is_gone_and_comes_back_in_a_new_one(store, cables, raw):
    one, two = store.open(1, hosts=cables.hosts, session_timeout_ms=SHORT_SESSION_MS), store.open(2)
    assert store.wait_until(lambda: two.live() == {1, 2})
    first = raw.get(f"{store.chroot}/live/1")[1].ephemeralOwner
    told: list[frozenset[BrokerId]] = []
    two.on_change(lambda: told.append(two.live()))
    cables.hold(requests=True, answers=True)
    assert store.wait_until(lambda: frozenset({2}) in told)
    cables.mend()
    assert store.wait_until(lambda: two.live() == {1, 2})
    assert store.wait_until(store.answers(one))
    assert raw.get(f"{store.chroot}/live/1")[1].ephemeralOwner != first
    assert store.wait(one.append([b"back"], 0)) == Written(1)
    assert one.live() == {1, 2}


def test_a_process_that_replaces_another_of_the_same_number_outlives_its_session(store, cables, raw):
    def owner() -> int:
        """The session that owns the presence node, by this client's server; 0 if there is none."""
        stat = raw.exists(f"{store.chroot}/live/1")
        return 0 if stat is None else stat.ephemeralOwner

    store.open(1, hosts=cables.hosts, session_timeout_ms=SHORT_SESSION_MS)
    assert store.wait_until(owner)
    old = owner()
    cables.hold(requests=True, answers=True)
    again, other = store.open(1), store.open(2)
    assert store.wait_until(lambda: owner() not in (0, old))
    deadline = time.monotonic() + 2 * SHORT_SESSION_MS / 1000
    assert not store.wait_until(lambda: other.live() != {1, 2}, within_s=deadline - time.monotonic())
    assert again.live() == {1, 2}


def test_a_broker_that_starts_reads_on_when_its_connection_drops(store, cables):
    one = store.open(1, hosts=cables.hosts)
    cables.cut()
    asked = one.read(0), one.load_snapshot(), one.head()
    assert not store.wait_until(lambda: any(slot.full for slot in asked), within_s=0.5)
    cables.mend()
    assert [store.wait(slot) for slot in asked] == [[], None, 0]


def test_an_append_whose_answer_is_lost_is_unknown_and_reading_finds_it(store, cables):
    one, two = store.open(1, hosts=cables.hosts), store.open(2)
    write_first(store, one)
    cables.hold(requests=False, answers=True)
    asked = one.append([b"done"], 1)
    assert store.wait_until(lambda: store.wait(two.head()) == 2)
    assert not asked.full
    cables.cut()
    assert isinstance(store.wait(asked), Unknown)
    cables.mend()
    assert store.wait_until(store.answers(one))
    assert [entry.body for entry in store.wait(one.read(1))] == [b"done"]
    assert store.wait(one.append([b"done"], 1)) == Conflict(2)


def test_an_append_that_was_lost_on_its_way_is_unknown_and_is_not_there(store, cables):
    one, two = store.open(1, hosts=cables.hosts), store.open(2)
    write_first(store, one)
    cables.hold(requests=True, answers=False)
    asked = one.append([b"lost"], 1)
    assert not store.wait_until(lambda: asked.full, within_s=0.3)
    cables.cut()
    assert isinstance(store.wait(asked), Unknown)
    cables.mend()
    assert store.wait_until(store.answers(one))
    assert [entry.body for entry in store.wait(one.read(0))] == [b"first"]
    assert store.wait(two.append([b"other"], 1)) == Written(2)
    assert store.wait(one.append([b"lost"], 1)) == Conflict(2)


def test_an_append_that_is_held_up_and_then_arrives_meets_what_was_written_meanwhile(store, cables):
    one, two = store.open(1, hosts=cables.hosts), store.open(2)
    write_first(store, one)
    cables.hold(requests=True, answers=False)
    asked = one.append([b"late"], 1)
    assert store.wait(two.append([b"sooner"], 1)) == Written(2)
    cables.mend()
    assert store.wait(asked) == Conflict(2)
    assert [entry.body for entry in store.wait(two.read(0))] == [b"first", b"sooner"]


def test_a_snapshot_in_place_does_not_make_an_append_fail(store):
    one, two = store.open(1), store.open(2)
    store.wait(one.append([b"a"], 0))
    store.wait(two.save_snapshot(StoredSnapshot(1, b"a")))
    assert store.wait(one.append([b"b"], 1)) == Written(2)


def nodes_below(raw: KazooClient, path: str) -> list[str]:
    return sorted(f"{path}/{name}" for name in raw.get_children(path))


def entries_left(raw: KazooClient, chroot: str) -> list[int]:
    buckets = raw.get_children(f"{chroot}/log")
    return sorted(int(name) for bucket in buckets for name in raw.get_children(f"{chroot}/log/{bucket}"))


def test_what_an_interrupted_cut_left_goes_with_the_next(store, raw, monkeypatch):
    one, two = store.open(1), store.open(2)
    store.wait(one.append([b"large" * 60_000] * 4, 0))
    store.wait(one.append([b"x"] * 2500, 4))
    store.wait(one.save_snapshot(StoredSnapshot(1500, b"s" * 600_000)))
    with monkeypatch.context() as patched:
        patched.setattr(ZookeeperLog, "_remove", lambda log, paths: (_ for _ in ()).throw(ConnectionLoss()))
        with pytest.raises(OSError, match="ConnectionLoss"):
            store.wait(one.save_snapshot(StoredSnapshot(2100, b"t" * 600_000)))
    assert entries_left(raw, store.chroot)[0] == 1
    assert store.wait(two.load_snapshot()) == StoredSnapshot(2100, b"t" * 600_000)
    raw.create(f"{store.chroot}/snapshots/2000-0123456789abcdef-0", b"of a broker that died while it saved")
    raw.create(f"{store.chroot}/staged/1400-0123456789abcdef", b"of a broker that died while it appended")
    store.wait(two.save_snapshot(StoredSnapshot(2300, b"u")))
    assert entries_left(raw, store.chroot) == list(range(2101, 2505))
    assert nodes_below(raw, f"{store.chroot}/log") == [f"{store.chroot}/log/2"]
    assert nodes_below(raw, f"{store.chroot}/staged") == []
    versions = {name.rpartition("/")[2].split("-")[0] for name in nodes_below(raw, f"{store.chroot}/snapshots")}
    assert versions == {"2100", "2300"}
    assert [entry.version for entry in store.wait(one.read(2400))] == list(range(2401, 2505))


def test_bodies_of_an_append_that_came_too_late_do_not_stay(store, raw):
    one, two = store.open(1), store.open(2)
    store.wait(two.append([b"first"], 0))
    assert store.wait(one.append([b"large" * 60_000] * 4, 0)) == Conflict(1)
    assert nodes_below(raw, f"{store.chroot}/staged") == []
    assert store.wait(one.append([b"large" * 60_000] * 4, 1)) == Written(5)
    assert len(nodes_below(raw, f"{store.chroot}/staged")) == 4


def test_everything_lies_under_the_chroot_and_nobody_else_may_touch_it(store, zookeeper):
    broker = store.open(1)
    store.wait(broker.append([b"large" * 60_000] * 3, 0))
    store.wait(broker.save_snapshot(StoredSnapshot(2, b"state")))
    stranger = KazooClient(zookeeper.hosts)
    stranger.start()
    try:
        assert set(stranger.get_children("/")) <= {"test", "zookeeper"}
        for name in ("head", "log/0/1", "live/1"):
            with pytest.raises(NoAuthError):
                stranger.get(f"{store.chroot}/{name}")
            with pytest.raises(NoAuthError):
                stranger.set(f"{store.chroot}/{name}", b"")
        with pytest.raises(NoAuthError):
            stranger.create(f"{store.chroot}/live/7")
    finally:
        stranger.stop()
        stranger.close()
    with pytest.raises(OSError, match="another user's"):
        store.open(2, digest=("ottla", "wrong"))


def test_a_log_of_a_newer_layout_is_left_alone(store, raw):
    broker = store.open(1)
    head = {"layout": LAYOUT + 1, "version": 7, "first": 1, "snapshots": []}
    raw.set(f"{store.chroot}/head", json.dumps(head).encode())
    for slot in (broker.head(), broker.append([b"x"], 7), broker.read(0)):
        with pytest.raises(OSError, match="newer release"):
            store.wait(slot)
    with pytest.raises(NoNodeError):
        raw.get(f"{store.chroot}/log/0/8")


def test_sessions_shorter_than_the_lease_counts_on_are_refused(store):
    """The ensemble grants at most twenty ticks, 10 seconds; a lease of 40 seconds would outlive such a session."""
    with pytest.raises(OSError, match="maxSessionTimeout"):
        store.open(1, session_timeout_ms=60_000)


def test_nobody_there_is_said_after_a_while(store):
    broker = ZookeeperCoordination("127.0.0.1:1", BrokerId(1), store.callbacks.put, first_connection_s=0.3)
    with pytest.raises(OSError, match=r"127\.0\.0\.1:1 cannot be reached"):
        store.wait(broker.head())
    broker.close()


@pytest.mark.parametrize("fault", ["cut", "silent"])
def test_a_broker_can_stop_while_nobody_answers(store, cables, fault):
    broker = store.open(1, hosts=cables.hosts)
    if fault == "cut":
        cables.cut()
    else:
        cables.hold(requests=True, answers=True)
    broker.close()
    assert broker.head().full
