"""Short runs of the campaigns of `make faults`, and tests that their judges notice removed events."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.faults import nemesis
from tests.faults.hosts import can_make_hosts
from tests.faults.mix import run_mix
from tests.faults.power_cuts import RECORDS_A_ROUND, run_power_cuts
from tests.faults.sent_anew import older_copies, told_apart
from tests.faults.witness import from_file
from tests.storage.image_disk import NO_IMAGES, can_mount
from zookeeper_ensemble import zookeeper_jars

from ottla.sim.checkers.history import Acknowledged, Disturbed, Event, History, LogKey, Polled, Scanned, Sent, Traits
from ottla.sim.checkers.verdict import check

pytestmark = [
    pytest.mark.root,
    pytest.mark.slow,
    pytest.mark.skipif(not can_mount(), reason=NO_IMAGES),
]


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> History:
    """The recorded history of three real brokers whose power was cut while clients wrote."""
    folder = tmp_path_factory.mktemp("power-cuts")
    _, found = run_power_cuts(folder, seed=1, rounds=1)
    assert not found
    return from_file(folder / "history.jsonl")


def test_three_brokers_lose_nothing_when_the_power_of_all_is_cut(history: History) -> None:
    assert not check(history)
    assert sum(isinstance(event, Acknowledged) for event in history.events) >= RECORDS_A_ROUND
    assert any(isinstance(event, Disturbed) for event in history.events)


def test_a_record_that_is_missing_in_a_real_history_is_missed(history: History) -> None:
    lost = next(event for event in reversed(history.events) if isinstance(event, Acknowledged))
    found = kinds(with_scans(history, lambda scan: without(scan, lost) if scan.log == lost.log else scan))
    assert {"lost-write", "redpanda:lost"} <= found
    unread = with_scans(history, lambda scan: without(scan, lost) if scan.log == lost.log else scan)
    unread.events = [event for event in unread.events if not (isinstance(event, Polled) and event.log == lost.log)]
    assert "jepsen:unseen" in kinds(unread)


def test_a_record_whose_bytes_changed_in_a_real_history_is_missed(history: History) -> None:
    changed = next(event for event in history.events if isinstance(event, Sent))

    def damaged(scan: Scanned) -> Scanned:
        records = tuple((at, value + b"!" if value in changed.values else value) for at, value in scan.records)
        return scan._replace(records=records)

    assert {"phantom", "lost-write", "redpanda:phantom"} <= kinds(with_scans(history, damaged))


def test_brokers_on_hosts_of_their_own_lose_nothing_to_a_cut_and_a_power_failure(tmp_path: Path) -> None:
    libs = zookeeper_jars()
    if libs is None:
        pytest.skip("Apache ZooKeeper's jars are not here")
    if not can_make_hosts():
        pytest.skip("needs to be root, with network namespaces")
    witness, found = run_mix(tmp_path, seed=1, minutes=0, kinds=["one-way", "power-one"], libs=libs, longest_s=1)
    assert not found
    assert witness.acknowledged > 100
    happened = [event.what for event in witness.history.events if isinstance(event, Disturbed)]
    assert sorted(what.partition(":")[0] for what in happened if not what.startswith("healed")) == [
        "one-way",
        "power-one",
    ]


def test_a_fault_that_this_kernel_does_not_allow_is_left_out_with_a_word(monkeypatch, capsys) -> None:
    monkeypatch.setattr(nemesis, "_can_slow_disks", lambda: False)
    assert set(nemesis.FAULTS) - set(nemesis.possible()) == {"disk-slow"}
    assert "without disk-slow" in capsys.readouterr().err
    monkeypatch.setattr(nemesis, "_can_slow_disks", lambda: True)
    assert nemesis.possible() == list(nemesis.FAULTS)
    assert not capsys.readouterr().err


A, B = b"a", b"b"
LOG = LogKey("faults", 0)


def twice(*senders: tuple[int, int]) -> set[str]:
    """The anomalies found for a record that is in a log twice; the senders are those of offsets 0, 1 and 2."""
    history = History()
    history.replicated = True
    history.traits[LOG] = Traits("faults")
    history.events = [Sent(0, "w", LOG, 1, (A,), -1, True), Sent(1, "v", LOG, 1, (B,), -1, True)]
    history.events += [Polled(2, "reader", LOG, 0, ((0, A),)), Acknowledged(3, "v", LOG, 1, 1)]
    history.events += [Acknowledged(4, "w", LOG, 1, 2), Polled(5, "reader", LOG, 1, ((1, B), (2, A)))]
    scan = Scanned(6, LOG, 0, 3, ((0, A), (1, B), (2, A)))
    history.add(scan)
    return kinds(told_apart(history, older_copies([scan], lambda place: senders[place.offset])))


def test_a_record_that_a_client_sent_anew_in_another_epoch_is_none_that_a_broker_doubled() -> None:
    assert twice((1000, 6), (1001, 0), (1000, 7)) == set()
    assert twice((1000, 6), (1001, 0), (1002, 0)) == set()
    assert {"duplicate", "jepsen:duplicate"} <= twice((1000, 6), (1001, 0), (1000, 6))


def kinds(history: History) -> set[str]:
    return {anomaly.kind for anomaly in check(history)}


def without(scan: Scanned, lost: Acknowledged) -> Scanned:
    return scan._replace(records=tuple(record for record in scan.records if record[0] != lost.base_offset))


def with_scans(history: History, change) -> History:
    """The same history with changed scans at its end."""
    other = History()
    other.traits, other.replicated = history.traits, True
    events: list[Event] = [change(event) if isinstance(event, Scanned) else event for event in history.events]
    other.events = events
    return other
