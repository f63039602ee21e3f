"""A change's row in place of its envelope, for each way to treat deletions."""

import pytest

from ottla.connect import data
from ottla.connect.data import Struct, struct
from ottla.connect.errors import ConfigException, DataException
from ottla.connect.records import SourceRecord
from ottla.connect.transforms.debezium import ExtractNewRecordState

ROW = struct([("id", data.INT32), ("v", data.OPTIONAL_STRING)], name="p.s.t.Value", optional=True)
SOURCE = struct([("lsn", data.INT64)], name="Source")
ENVELOPE = struct(
    [("before", ROW), ("after", ROW), ("source", SOURCE), ("op", data.STRING)], name="p.s.t.Envelope", version=2
)


def a_change(op, before=None, after=None):
    rows = [None if each is None else Struct(ROW, list(each)) for each in (before, after)]
    value = Struct(ENVELOPE, [*rows, Struct(SOURCE, [7]), op])
    return SourceRecord("t", value_schema=ENVELOPE, value=value)


def made(record, **options):
    return ExtractNewRecordState({name.replace("_", "."): value for name, value in options.items()}).apply(record)


def test_the_row_after_a_change_is_the_value():
    record = made(a_change("u", (1, "a"), (1, "b")), add_fields="op,source.lsn,source.lsn:at", add_headers="op")
    assert dict(zip(record.value_schema.places, record.value.values, strict=True)) == {
        "id": 1, "v": "b", "__op": "u", "__source_lsn": 7, "__at": 7
    }  # fmt: skip
    assert record.value_schema.name == "p.s.t.Value"
    assert [(each.key, each.value) for each in record.headers] == [("__op", "u")]


@pytest.mark.parametrize(("mode", "of_deletion", "of_tombstone"), [
    ("drop", "none", "none"), ("tombstone", "none", "null"), ("rewrite", [1, "a", "true"], "none"),
    ("rewrite-with-tombstone", [1, "a", "true"], "null"), ("delete-to-tombstone", "null", "none"),
])  # fmt: skip
def test_a_deletion_is_treated_as_it_is_asked(mode, of_deletion, of_tombstone):
    def shown(record):
        made_record = made(record, **{"delete_tombstone_handling_mode": mode})
        return "none" if made_record is None else made_record.value.values if made_record.value else "null"

    assert shown(a_change("d", (1, "a"))) == of_deletion
    assert shown(SourceRecord("t")) == of_tombstone


def test_what_is_no_change_passes_and_emptied_tables_do_not():
    other = SourceRecord("beat", value_schema=SOURCE, value=Struct(SOURCE, [1]))
    assert made(other) is other
    assert made(a_change("t")) is None


def test_a_row_names_its_topic():
    assert made(a_change("c", after=(1, "elsewhere")), route_by_field="v").topic == "elsewhere"


def test_unknown_fields_and_options_of_old_are_refused():
    with pytest.raises(DataException, match=r"source\.lns: it has"):
        made(a_change("c", after=(1, "a")), add_fields="source.lns")
    with pytest.raises(ConfigException, match=r"delete\.tombstone\.handling\.mode"):
        made(a_change("c", after=(1, "a")), drop_tombstones="true")
