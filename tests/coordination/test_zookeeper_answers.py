"""Answers of kazoo (rule C5): fewer results than calls, refusals among the results, callbacks on another thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest
from coordination_stores import ZookeeperKind
from kazoo.client import KazooClient
from kazoo.protocol.serialization import Transaction
from zookeeper_ensemble import ZookeeperEnsemble

from ottla.kernel.seams import Conflict, StoredSnapshot, Unknown, Written
from ottla.kernel.story import Slot


@pytest.fixture
def store(zookeeper: ZookeeperEnsemble) -> Iterator[ZookeeperKind]:
    opened = ZookeeperKind(zookeeper.hosts)
    yield opened
    opened.close()


def shortened(results: list[object]) -> list[object]:
    return results[:-1]


def emptied(results: list[object]) -> list[object]:
    return []


@pytest.mark.parametrize("drop", [shortened, emptied])
def test_an_append_of_which_fewer_results_come_back_than_were_asked_is_unknown(store, monkeypatch, drop):
    """Rule C5: kazoo leaves empty results out, so only the full count means success."""
    one = store.open(1)
    assert store.wait(one.append([b"first"], 0)) == Written(1)
    whole = Transaction.deserialize
    with monkeypatch.context() as patched:
        patched.setattr(Transaction, "deserialize", staticmethod(lambda data, offset: drop(whole(data, offset))))
        assert isinstance(store.wait(one.append([b"a", b"b"], 1)), Unknown)
    assert [entry.body for entry in store.wait(one.read(1))] == [b"a", b"b"]
    assert isinstance(store.wait(one.append([b"a", b"b"], 1)), Conflict)
    assert store.wait(one.append([b"next"], 3)) == Written(4)


def test_an_append_with_a_refusal_among_its_results_is_an_error_and_wrote_nothing(store, zookeeper):
    """Rule C5: `commit` of a transaction does not raise. Another's node is in the place of an entry."""
    one = store.open(1)
    assert store.wait(one.append([b"first"], 0)) == Written(1)
    raw = KazooClient(zookeeper.hosts, auth_data=[("digest", "ottla:secret")])
    raw.start()
    try:
        raw.create(f"{store.chroot}/log/0/3", b"in the way")
        with pytest.raises(OSError, match=r"refused an append.*NodeExists"):
            store.wait(one.append([b"a", b"b"], 1))
        assert store.wait(one.head()) == 1
        raw.delete(f"{store.chroot}/log/0/3")
    finally:
        raw.stop()
        raw.close()
    assert store.wait(one.append([b"a", b"b"], 1)) == Written(3)
    assert [entry.body for entry in store.wait(one.read(0))] == [b"first", b"a", b"b"]


def test_slots_are_filled_and_listeners_called_on_the_loop_alone(store):
    """Rule C5: kazoo's threads and ours hand over by `call_soon_threadsafe`, whatever the answer is."""
    one, two = store.open(1), store.open(2)
    threads: dict[str, set[int]] = {}

    def heard(what: str) -> Callable[[], None]:
        return lambda: threads.setdefault(what, set()).add(threading.get_ident())

    one.on_change(heard("change"))
    asked: dict[str, Callable[[], Slot[object]]] = {
        "head": one.head,
        "written": lambda: one.append([b"x"] * 10, 0),
        "conflict": lambda: one.append([b"x"], 0),
        "read": lambda: one.read(0),
        "saved": lambda: one.save_snapshot(StoredSnapshot(4, b"four")),
        "saved again": lambda: one.save_snapshot(StoredSnapshot(8, b"eight")),
        "loaded": one.load_snapshot,
        "cut": lambda: one.read(0),
        "too large": lambda: one.append([b"x" * 2_000_000], 10),
    }
    for what, ask in asked.items():
        slot = ask()
        slot.when_full(heard(what))
        assert store.wait_until(lambda slot=slot: slot.full), what
        assert isinstance(slot.error, {"cut": LookupError, "too large": ValueError}.get(what, type(None)))
    threads.pop("change", None)
    store.wait(two.append([b"y"], 10))
    assert store.wait_until(lambda: "change" in threads)
    two.close()
    assert store.wait_until(lambda: one.live() == {1})
    assert threads == {what: {threading.get_ident()} for what in [*asked, "change"]}
