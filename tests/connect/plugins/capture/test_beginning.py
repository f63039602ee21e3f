"""A connector begins where nothing is lost, or says what is."""

import pytest

from ottla.connect.errors import ConfigException, ConnectException
from ottla.connect.plugins.binlog.source import MariaDbConnector
from ottla.connect.plugins.capture.beginning import Beginning, SlotState, beginning, lsn_of, lsn_text
from ottla.connect.plugins.capture.postgres import PostgresConnector

SLOT = SlotState("pgoutput", "shop", 100)
DONE = {"lsn": 100, "snapshot": "INITIAL", "snapshot_completed": True}
HALF = {"lsn": 100, "snapshot": "INITIAL", "snapshot_completed": False}
STREAMING = {"lsn": 130, "lsn_proc": 130, "lsn_commit": 120, "txId": 7, "messageType": "INSERT"}


def begun(mode, kept, slot):
    return beginning(mode, kept, slot, "s", "shop")


@pytest.mark.parametrize(("mode", "snapshot"), [
    ("initial", True), ("always", True), ("initial_only", True), ("when_needed", True), ("no_data", False),
    ("never", False),
])  # fmt: skip
def test_the_first_start_takes_a_snapshot_unless_none_is_wanted(mode, snapshot):
    assert begun(mode, None, None) == begun(mode, None, SLOT) == Beginning(snapshot)


@pytest.mark.parametrize("half", [HALF, {"lsn": 100, "snapshot": True, "last_snapshot_record": False}])
def test_a_snapshot_that_was_cut_short_is_taken_again(half):
    assert begun("initial", half, SLOT) == begun("initial", half, None) == Beginning(snapshot=True)


def test_the_log_follows_a_snapshot_and_its_own_place():
    assert begun("initial", DONE, SLOT) == Beginning(snapshot=False, kept=DONE)
    assert begun("initial", STREAMING, SLOT) == Beginning(snapshot=False, kept=STREAMING)
    assert begun("always", STREAMING, SLOT) == Beginning(snapshot=True)


@pytest.mark.parametrize(("slot", "said"), [
    (None, "the changes since 0/78 with it"), (SlotState("pgoutput", "shop", 121), "made anew"),
    (SlotState("pgoutput", "shop", 100, lost=True), "max_slot_wal_keep_size"),
])  # fmt: skip
def test_lost_changes_are_told_or_read_by_a_new_snapshot(slot, said):
    with pytest.raises(ConnectException, match=said):
        begun("initial", STREAMING, slot)
    assert begun("when_needed", STREAMING, slot) == Beginning(snapshot=True)


@pytest.mark.parametrize("slot", [SlotState("wal2json", "shop", 1), SlotState("pgoutput", "other", 1)])
def test_a_slot_of_another_plugin_or_database_is_refused(slot):
    with pytest.raises(ConfigException, match="choose another"):
        begun("initial", None, slot)


def test_a_place_in_the_log_has_two_forms():
    assert lsn_of("16/B374D848") == 0x16B374D848
    assert lsn_text(0x16B374D848) == "16/B374D848"


@pytest.mark.parametrize(("options", "postgres", "mariadb"), [
    ({}, False, False),
    ({"snapshot.mode": "no_data"}, False, True),
    ({"snapshot.mode": "never", "skipped.operations": "t, m"}, True, True),
    ({"snapshot.mode": "when_needed", "skipped.operations": "m"}, False, False),
    ({"snapshot.mode": "no_data", "skipped.operations": "m", "provide.transaction.metadata": "true"}, False, False),
])  # fmt: skip
def test_changes_come_once_where_nothing_without_an_offset_of_its_own_is_told(options, postgres, mariadb):
    assert PostgresConnector.exactly_once(options) is postgres
    assert MariaDbConnector.exactly_once(options) is mariadb
