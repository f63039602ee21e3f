"""A single broker's store is carried into another store completely or not at all, and never makes two clusters."""

from __future__ import annotations

import pytest

from ottla.coordination.sqlite import FILE_NAME, SqliteCoordination
from ottla.kernel.ids import BrokerId
from ottla.metadata import entries as log
from ottla.metadata.snapshot import load_snapshot, take_snapshot
from ottla.metadata.state import Metadata
from ottla.server.store_carried import MARK, alone, carry_over, refuse_half_carried

JOIN = "zookeeper://h:1/x"


class Elsewhere:
    """The other store, empty or another cluster's; it can fail before or after its begin."""

    def __init__(self, *, taken_by: bytes | None = None) -> None:
        self.mark = taken_by
        self.snapshot = None
        self.tries = 0
        self.fails_after = self.fails_before = False

    def begin(self, snapshot, mark):
        self.tries += 1
        if self.fails_before:
            raise OSError("cannot be reached")
        if self.mark is None:
            self.mark, self.snapshot = mark, snapshot
        if self.fails_after:
            raise OSError("the answer was lost")
        return self.mark == mark


@pytest.fixture
def own(tmp_path):
    """A store of four entries with a snapshot of the first two, and the state that they make."""
    state = Metadata()
    bodies = [
        log.ClusterCreated(cluster_id="c", secret=b"s" * 32),
        log.FeatureLevelSet(name="metadata.version", level=1),
        log.ProducerIdsAllocated(broker_id=1, first=1000, count=0),
        log.FeatureLevelSet(name="group.version", level=1),
    ]
    store = SqliteCoordination(str(tmp_path), BrokerId(1), lambda callback: callback())
    for version, body in enumerate(bodies, 1):
        store.append([log.encode_entry(body, broker_epoch=log.UNREGISTERED, sequence=0)], version - 1)
        state.apply(version, body)
        if version == 2:
            store.save_snapshot(take_snapshot(state))
    store.close()
    return tmp_path, state


def test_the_other_store_goes_on_with_all_that_was_known_under_the_same_version(own):
    directory, state = own
    elsewhere = Elsewhere()
    carry_over(str(directory), JOIN, elsewhere.begin)
    found = load_snapshot(elsewhere.snapshot)
    assert found.version == 4
    assert (found.cluster_id, found.secret, found.features) == (state.cluster_id, state.secret, state.features)
    assert found.next_producer_id == state.next_producer_id == 1000
    assert not (directory / FILE_NAME).exists()
    assert not (directory / MARK).exists()
    carry_over(str(directory), JOIN, elsewhere.begin)
    assert elsewhere.tries == 1, "there is nothing more to bring"


def test_a_cluster_that_is_there_already_is_left_alone_and_so_is_ours(own):
    directory, _ = own
    elsewhere = Elsewhere(taken_by=b"others")
    with pytest.raises(OSError, match="cluster of its own"):
        carry_over(str(directory), JOIN, elsewhere.begin)
    assert (directory / FILE_NAME).exists()
    refuse_half_carried(str(directory))


def test_a_try_whose_outcome_nobody_knows_is_repeated_and_until_then_nothing_begins_here(own):
    directory, _ = own
    elsewhere = Elsewhere()
    elsewhere.fails_after = True
    with pytest.raises(OSError, match="answer was lost"):
        carry_over(str(directory), JOIN, elsewhere.begin)
    with pytest.raises(OSError, match="start once more"):
        refuse_half_carried(str(directory))
    elsewhere.fails_after = False
    carry_over(str(directory), JOIN, elsewhere.begin)
    assert not (directory / FILE_NAME).exists()
    refuse_half_carried(str(directory))


def test_a_crash_between_the_last_two_steps_leaves_no_mark_behind(own):
    directory, _ = own
    (directory / FILE_NAME).rename(directory / "away")
    (directory / MARK).write_bytes(b"mark")
    carry_over(str(directory), JOIN, Elsewhere().begin)
    assert not (directory / MARK).exists()


def test_what_others_run_on_is_not_carried_away(own):
    directory, _ = own
    other = SqliteCoordination(str(directory), BrokerId(2), lambda callback: callback())
    try:
        with pytest.raises(OSError, match="brokers that run"), alone(str(directory), BrokerId(1), 6000):
            raise AssertionError("carried away")
    finally:
        other.close()
