"""Changes become records whose offsets say where to go on: nothing is lost, and nothing that is kept comes again."""

import pytest

from ottla.connect.errors import ConfigException
from ottla.connect.plugins.capture.envelope import POSTGRES, Events
from ottla.connect.plugins.capture.options import checked
from ottla.connect.plugins.capture.pgoutput import (
    UNCHANGED,
    Begin,
    Commit,
    Delete,
    Insert,
    Message,
    Relation,
    RelationColumn,
    Truncate,
    Update,
)
from ottla.connect.plugins.capture.shapes import Shapes
from ottla.connect.plugins.capture.stream import Stream
from ottla.connect.plugins.capture.tables import Column, Table, TypeEntry
from ottla.connect.plugins.capture.types import PgType

GIVEN = {"topic.prefix": "p", "database.hostname": "h", "database.user": "u", "database.dbname": "d"}
INT, TEXT = TypeEntry(PgType("int4")), TypeEntry(PgType("text"))
TYPES = {23: INT, 25: TEXT}
NOW = Table("s", "t", (Column("id", INT.kind, optional=False), Column("v", TEXT.kind)), ("id",))
RELATION = Relation(1, "s", "t", "d", (RelationColumn("id", 23, -1, True), RelationColumn("v", 25, -1, False)))


class Reading:
    """A stream of the table s.t, from a kept offset or from 100."""

    def __init__(self, kept=None, relation=RELATION, **given):
        config = GIVEN | {name.replace("_", "."): value for name, value in given.items()}
        options = checked(config)
        begin = 100 if kept is None else kept["lsn_commit"]
        self.stream = Stream(Shapes(options, config, POSTGRES), Events(options, "run"), begin, kept)
        self.stream.on_relation(relation, NOW, TYPES)

    def transaction(self, xid, end_lsn, *changes):
        """The records of a transaction of changes with their places."""
        found = self.stream.on_message(0, Begin(end_lsn - 1, 1_000_000, xid), 2_000_000)
        for lsn, change in changes:
            found += self.stream.on_message(lsn, change, 2_000_000)
        return found + self.stream.on_message(end_lsn, Commit(end_lsn - 1, end_lsn, 1_000_000), 2_000_000)


def shown(records):
    """Op, key and value of the row of each record; None for a tombstone."""
    found = []
    for each in records:
        row = each.value and (each.value.get("after") or each.value.get("before"))
        key = each.key and each.key.values[0]
        found.append(None if each.value is None else (each.value.get("op"), key, row and row.values[1]))
    return found


def rows(*pairs):
    """Inserts at their places."""
    return [(lsn, Insert(1, (str(key), str(key)))) for lsn, key in pairs]


def test_reading_again_behind_any_record_brings_exactly_the_records_after_it():
    transactions = [
        (7, 130, *rows((110, 1), (110, 2), (120, 3))), (9, 150, *rows((105, 4), (140, 5))), (8, 170, *rows((108, 6)))
    ]  # fmt: skip
    first = Reading()
    whole = [record for each in transactions for record in first.transaction(*each)]
    assert [record.key.values[0] for record in whole] == [1, 2, 3, 4, 5, 6]
    for count, record in enumerate(whole, 1):
        kept = record.source_offset
        again = Reading(kept)
        sent = [each for each in transactions if each[1] > kept["lsn_commit"]]
        rest = [record for each in sent for record in again.transaction(*each)]
        assert [each.key.values[0] for each in rest] == [each.key.values[0] for each in whole[count:]]
        assert [each.source_offset for each in rest] == [each.source_offset for each in whole[count:]]


def test_a_place_is_passed_only_when_its_transaction_is_whole():
    reading = Reading()
    reading.stream.on_message(0, Begin(129, 1, 7), 2)
    (record,) = reading.stream.on_message(110, Insert(1, ("1", "a")), 2)
    reading.stream.on_keepalive(500)
    assert record.source_offset["lsn_commit"] == reading.stream.offset["lsn_commit"] == 100
    reading.stream.on_message(130, Commit(129, 130, 1), 2)
    assert reading.stream.offset["lsn_commit"] == 130
    reading.stream.on_keepalive(500)
    assert reading.stream.offset["lsn_commit"] == 500
    reading.stream.on_keepalive(400)
    assert reading.stream.offset["lsn_commit"] == 500


def test_an_offset_of_debezium_brings_the_rows_at_its_place_again():
    kept = {"lsn_proc": 110, "lsn": 110, "lsn_commit": 100, "messageType": "INSERT", "txId": 7}
    assert shown(Reading(kept).transaction(7, 130, *rows((105, 1), (110, 2), (120, 3)))) == [
        ("c", 2, "2"), ("c", 3, "3")
    ]  # fmt: skip


def test_a_deletion_is_passed_when_its_tombstone_is():
    deleted, tombstone = Reading().transaction(7, 130, (110, Delete(1, key=("1", None))))
    assert shown([deleted, tombstone]) == [("d", 1, None), None]
    assert tombstone.key == deleted.key
    assert deleted.source_offset["lsn_commit"] == 100
    assert "txId" not in deleted.source_offset
    assert tombstone.source_offset["txId"] == 7
    assert shown(Reading(tombstones_on_delete="false").transaction(7, 130, (110, Delete(1, key=("1", None))))) == [
        ("d", 1, None)
    ]  # fmt: skip


def test_a_changed_key_is_a_deletion_and_a_new_row_that_name_each_other():
    records = Reading().transaction(7, 130, (110, Update(1, ("2", "b"), key=("1", None))))
    assert shown(records) == [("d", 1, None), None, ("c", 2, "b")]
    assert [(each.headers[0].key, each.headers[0].value.values) for each in records] == [
        ("__debezium.newkey", [2]), ("__debezium.newkey", [2]), ("__debezium.oldkey", [1])
    ]  # fmt: skip


def test_a_value_that_was_not_sent_again_is_the_placeholder_or_that_of_the_row_before():
    (default,) = Reading().transaction(7, 130, (110, Update(1, ("1", UNCHANGED))))
    assert shown([default]) == [("u", 1, "__debezium_unavailable_value")]
    whole = Relation(1, "s", "t", "f", RELATION.columns)
    (full,) = Reading(relation=whole).transaction(7, 130, (110, Update(1, ("1", UNCHANGED), old=("1", "long"))))
    assert shown([full]) == [("u", 1, "long")]


def test_operations_are_left_out_and_emptied_tables_told_as_it_is_asked():
    changes = [(110, Insert(1, ("1", "a"))), (111, Truncate((1,))), (112, Update(1, ("1", "b")))]
    assert shown(Reading().transaction(7, 130, *changes)) == [("c", 1, "a"), ("u", 1, "b")]
    assert shown(Reading(skipped_operations="c").transaction(7, 130, *changes)) == [("t", None, None), ("u", 1, "b")]


def test_a_null_in_a_column_that_got_its_not_null_later_makes_it_optional():
    now = Table("s", "t", (NOW.columns[0], Column("v", TEXT.kind, optional=False)), ("id",))
    reading = Reading()
    reading.stream.on_relation(RELATION, now, TYPES)
    records = reading.transaction(7, 130, (110, Insert(1, ("1", "a"))), (111, Insert(1, ("2", None))))
    assert shown(records) == [("c", 1, "a"), ("c", 2, None)]
    assert [each.value_schema.field("after").schema.field("v").schema.optional for each in records] == [False, True]


def test_columns_are_those_of_the_change_whatever_the_table_has_now():
    reading = Reading()
    renamed = Relation(1, "s", "t", "d", (RELATION.columns[0], RelationColumn("w", 23, -1, False)))
    reading.stream.on_relation(renamed, Table("s", "t", ()), TYPES)
    (record,) = reading.transaction(7, 130, (110, Insert(1, ("1", "5"))))
    assert record.value.get("after").get("w") == 5


def test_transactions_are_told_with_the_number_of_their_events():
    records = Reading(provide_transaction_metadata="true").transaction(7, 130, *rows((110, 1), (120, 2)))
    assert [each.topic for each in records] == ["p.transaction", "p.s.t", "p.s.t", "p.transaction"]
    assert [each.value.get("transaction").values[1:] for each in records[1:3]] == [[1, 1], [2, 2]]
    assert records[3].value.get("event_count") == 2


def test_messages_of_the_log_have_a_topic_and_can_be_chosen():
    message = (110, Message(True, 110, "audit", b"x"))
    (record,) = Reading().transaction(7, 130, message)
    assert (record.topic, record.value.get("message").get("content")) == ("p.message", b"x")
    assert Reading(message_prefix_include_list="other").transaction(7, 130, message) == []
    assert Reading(skipped_operations="m").transaction(7, 130, message) == []


def test_tables_and_columns_are_chosen_by_patterns_in_any_case():
    assert shown(Reading(table_include_list=r"S\.T").transaction(7, 130, *rows((110, 1)))) == [("c", 1, "1")]
    assert Reading(table_exclude_list=r"s\..*").transaction(7, 130, *rows((110, 1))) == []
    (record,) = Reading(column_include_list=r"s\.t\.v").transaction(7, 130, *rows((110, 1)))
    assert record.value.get("after").values == [1, "1"]
    (record,) = Reading(column_exclude_list=r"s\.t\.v").transaction(7, 130, *rows((110, 1)))
    assert record.value.get("after").values == [1]


@pytest.mark.parametrize(("given", "said"), [
    ({"table.include.list": "a", "table.exclude.list": "b"}, "exclude each other"),
    ({"message.key.columns": "s.t"}, "COLUMN,COLUMN"), ({"converters": "x"}, "write a transformation"),
    ({"plugin.name": "decoderbufs"}, "pgoutput"), ({"slot.name": "A-B"}, "lower case"),
    ({"column.mask.hash.SHA-256.with.salt.x": "s.t.v"}, "hash.v2"), ({"snapshot.mode": "custom"}, "initial"),
    ({"column.mask.hash.v2.SHA-257.with.salt.x": "s.t.v"}, "SHA-257"),
    ({"heartbeat.action.query": "SELECT 1"}, "heartbeat.interval.ms"), ({"skipped.operations": "x"}, "no operation"),
    ({"snapshot.select.statement.overrides": "s.t"}, "overrides.s.t"),
])  # fmt: skip
def test_an_option_that_cannot_be_used_is_refused(given, said):
    with pytest.raises(ConfigException, match=said):
        Shapes(checked(GIVEN | given), GIVEN | given, POSTGRES)
