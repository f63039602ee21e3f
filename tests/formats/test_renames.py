"""Fields renamed by an option, by aliases or by their numbers: values go into the column of the new name."""

import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.formats.decoder import Decoder, SchemaGrowth
from ottla.formats.evolution import aliases, widened
from ottla.formats.faults import Unresolvable
from ottla.formats.renames import Rename, Renames
from ottla.formats.wire import framed
from ottla.formats.writer import WriterSchema


def renames(*texts):
    return Renames.of(map(Rename.parse, texts))


def avro(*fields):
    return WriterSchema("AVRO", json.dumps({"type": "record", "name": "R", "fields": list(fields)}))


def text(name, *others):
    return {"name": name, "type": "string"} | ({"aliases": list(others)} if others else {})


def decoded(schemas, column, *, kind="avro", evolution=None, target=None):
    """Read until the target has all columns; return (rows, number of attempts, target)."""
    for _ in range(4):
        found = Decoder(kind, schemas.__getitem__, target, evolution=evolution).decode(column)
        if target is not None and found.wanted.equals(target, check_metadata=True):
            return found, target
        target = found.wanted
    raise AssertionError("the columns do not come to rest")


def column(*values):
    return pa.concat_arrays([framed(schema_id, [payload]) for schema_id, payload in values])


OLD, NEW = avro(text("name")), avro(text("full_name", "name"))
A, B = b"\x02a", b"\x02b"


@pytest.mark.parametrize("order", [((1, A), (2, B)), ((2, B), (1, A))])
def test_an_avro_field_with_the_old_name_for_an_alias_takes_the_old_values_in(order):
    found, target = decoded({1: OLD, 2: NEW}, column(*order))
    assert target.names == ["full_name"] and not found.faults
    assert found.table.column("full_name").to_pylist() == [payload[1:].decode() for _, payload in order]


def test_columns_that_stand_under_the_old_name_get_the_new_one_and_keep_it():
    known = pa.schema([("name", pa.string())])
    _, target = decoded({1: OLD, 2: NEW}, column((2, B)), target=known)
    assert target.names == ["full_name"] and aliases(target.field(0)) == ("name",)
    found, again = decoded({1: OLD, 2: NEW}, column((1, A)), target=target)
    assert again.equals(target, check_metadata=True) and found.table.to_pylist() == [{"full_name": "a"}]


def test_a_field_that_is_renamed_twice_takes_all_its_old_values_in():
    schemas = {1: OLD, 2: NEW, 3: avro(text("title", "full_name"))}
    found, target = decoded(schemas, column((1, A), (2, B), (3, A)))
    assert target.names == ["title"] and set(aliases(target.field(0))) == {"name", "full_name"}
    assert [row["title"] for row in found.table.to_pylist()] == ["a", "b", "a"]


def test_a_field_that_gets_its_old_name_back_stays_where_it_is():
    schemas = {2: NEW, 3: avro(text("name", "full_name"))}
    found, target = decoded(schemas, column((2, A), (3, B), (2, A)))
    assert target.names == ["full_name"]
    assert [row["full_name"] for row in found.table.to_pylist()] == ["a", "b", "a"]


def test_a_field_that_must_stay_keeps_its_name_and_its_values():
    stays = SchemaGrowth(stays=lambda path: path == ("name",))
    known = pa.schema([("name", pa.string())])
    found, target = decoded({1: OLD, 2: NEW}, column((1, A), (2, B)), evolution=stays, target=known)
    assert target.names == ["name"] and [row["name"] for row in found.table.to_pylist()] == ["a", "b"]


def test_a_name_that_another_field_has_is_not_taken_from_it():
    known = pa.schema([("name", pa.string()), ("full_name", pa.string())])
    assert widened(known, pa.schema([("full_name", pa.string())])).names == ["name", "full_name"]
    both = avro(text("name"), text("full_name", "name"))
    _, target = decoded({1: both}, column((1, A + B)), target=known)
    assert target.names == ["name", "full_name"]


def test_a_protobuf_field_of_the_same_number_continues_its_column_and_an_option_renames_it():
    head = 'syntax = "proto3"; message M { string %s = 1; }'
    schemas = {1: WriterSchema("PROTOBUF", head % "name"), 2: WriterSchema("PROTOBUF", head % "full_name")}
    values = column((1, b"\0\n\x01a"), (2, b"\0\n\x01b"))
    found, target = decoded(schemas, values, kind="protobuf")
    assert target.names == ["name"] and [row["name"] for row in found.table.to_pylist()] == ["a", "b"]
    found, target = decoded(schemas, values, kind="protobuf", evolution=SchemaGrowth(renames("name=full_name")))
    assert target.names == ["full_name"] and [row["full_name"] for row in found.table.to_pylist()] == ["a", "b"]


def test_an_option_renames_members_of_objects_through_arrays():
    item = {"type": "record", "name": "I", "fields": [text("sku")]}
    lines = avro({"name": "items", "type": {"type": "array", "items": item}})
    found, target = decoded(
        {1: lines}, column((1, b"\x02\x02a\x00")), evolution=SchemaGrowth(renames("items.sku=items.code"))
    )
    assert target.field("items").type.value_type == pa.struct([("code", pa.string())])
    assert found.table.to_pylist() == [{"items": [{"code": "a"}]}]


def test_a_schema_that_has_a_field_under_both_names_is_not_read():
    schemas = {1: OLD, 2: avro(text("name"), text("label"))}
    found, target = decoded(schemas, column((1, A), (2, A + B)), evolution=SchemaGrowth(renames("name=label")))
    assert found.table.to_pylist() == [{"label": "a"}] and target.names == ["label"]
    assert found.faults == [(1, "schema 2 cannot be read: label: there are label and name, which a rename makes one")]


@pytest.mark.parametrize(
    ("texts", "why"),
    [
        (["a"], "write OLD=NEW"),
        (["=b"], "write OLD=NEW"),
        (["a.=b"], "write OLD=NEW"),
        (["a.b=c"], r"a field stays in its object: write a\.b=a\.c"),
        (["a=a"], "both names are the same"),
        (["a=b", "a=c"], "a is renamed to b already"),
        (["a=b", "b=a"], "lead back to it"),
        (["o.a=o.b", "o.b=o.c", "o.c=o.a"], "lead back to it"),
    ],
)
def test_renames_that_make_no_sense_are_refused(texts, why):
    with pytest.raises(ValueError, match=why):
        renames(*texts)


def test_renames_follow_one_another_and_are_written_as_they_were_given():
    given = renames("a=b", "b=c", "o.x=o.y")
    assert dict(given.at(())) == {"a": "c", "b": "c"} and given.texts() == ("a=b", "b=c", "o.x=o.y")
    noted = given.columns(pa.schema([("b", pa.int64()), ("o", pa.struct([("x", pa.int64())]))]))
    assert noted.names == ["c", "o"] and aliases(noted.field("c")) == ("b", "a")
    assert given.columns(noted).equals(noted, check_metadata=True)
    with pytest.raises(Unresolvable, match=r"^c: there are a and c"):
        given.columns(pa.schema([("a", pa.int64()), ("c", pa.int64())]))


NAMES = st.sampled_from("abc")
DOCUMENTS = st.recursive(
    st.none() | st.integers(0, 9),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(NAMES, DOCUMENTS, max_size=3))
def test_a_document_keeps_all_its_values_or_is_refused(document):
    given = renames("a=b", "b.c=b.d")
    try:
        found = given.document(document)
    except ValueError:
        assert "a" in json.dumps(document) or "c" in json.dumps(document) or "d" in json.dumps(document)
        return
    assert "a" not in found
    assert sorted(leaves(found)) == sorted(leaves(document))


def leaves(value):
    """The numbers in a document."""
    if isinstance(value, dict):
        return [each for member in value.values() for each in leaves(member)]
    if isinstance(value, list):
        return [each for item in value for each in leaves(item)]
    return [] if value is None else [value]
