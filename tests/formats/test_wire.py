"""A column of values is split by schema id with the same result as a loop over its rows."""

from uuid import UUID

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from ottla.formats.wire import cut, framed

GUIDS = st.sampled_from([b"0123456789abcdef", b"fedcba9876543210"])
VALUES = st.lists(
    st.none()
    | st.binary(max_size=7)
    | st.builds(lambda guid, payload: b"\x01" + guid + payload, GUIDS, st.binary(max_size=5))
    | st.builds(
        lambda schema_id, payload: b"\x00" + schema_id.to_bytes(4, "big") + payload,
        st.sampled_from([0, 1, 2, 258, (1 << 32) - 1]),
        st.binary(max_size=20),
    ),
    max_size=40,
)


@given(VALUES, st.integers(0, 5))
def test_each_row_is_in_its_group_or_null_or_a_fault(values, skipped):
    column = pa.array(values, pa.binary()).slice(skipped)
    values = values[skipped:]
    found = cut(column)
    rows = {}
    for group in found.groups:
        for row, payload in zip(group.rows.tolist(), group.payloads.to_pylist(), strict=True):
            rows[row] = (group.schema, payload)
    expected = {
        row: (int.from_bytes(value[1:5], "big"), value[5:])
        for row, value in enumerate(values)
        if value is not None and len(value) >= 5 and value[0] == 0
    } | {
        row: (str(UUID(bytes=value[1:17])), value[17:])
        for row, value in enumerate(values)
        if value is not None and len(value) >= 17 and value[0] == 1
    }
    assert rows == expected
    assert found.nulls.tolist() == [row for row, value in enumerate(values) if value is None]
    assert [row for row, _ in found.faults] == [
        row for row, value in enumerate(values) if value is not None and row not in expected
    ]


def test_a_fault_says_what_is_wrong():
    reasons = dict(cut(pa.array([b"\x00\x00", b"{}    ", b"\x01" + b"g" * 15, b""], pa.binary())).faults)
    assert "2 bytes: too short" in reasons[0]
    assert "the first byte is 0x7b" in reasons[1]
    assert "16 bytes: too short for the prefix of a GUID" in reasons[2]
    assert "0 bytes" in reasons[3]


def test_what_is_framed_is_cut_into_the_same_payloads():
    (group,) = cut(framed(70_000, [b"a", b""])).groups
    assert group.schema == 70_000 and group.payloads.to_pylist() == [b"a", b""]
    assert framed(1, [None, b"x"]).to_pylist() == [None, b"\x00\x00\x00\x00\x01x"]


HEADERS = (
    st.none() | st.builds(lambda guid: b"\x01" + guid, GUIDS) | st.just(b"\x00\x00\x00\x01\x02") | st.binary(max_size=4)
)


@given(st.lists(st.tuples(st.none() | st.binary(max_size=20), HEADERS), max_size=30), st.integers(0, 3))
def test_a_header_names_the_schema_of_its_row_and_of_no_other(records, skipped):
    values = pa.array([value for value, _ in records], pa.binary())
    headers = pa.array([header for _, header in records], pa.binary())
    found = cut(values.slice(skipped), headers.slice(skipped))
    records, without = records[skipped:], cut(values.slice(skipped))
    got = {row: group.schema for group in found.groups for row in group.rows.tolist()}
    payloads = {
        row: payload
        for group in found.groups
        for row, payload in zip(group.rows.tolist(), group.payloads.to_pylist(), strict=True)
    }
    plain = {row: group.schema for group in without.groups for row in group.rows.tolist()}
    for row, (value, header) in enumerate(records):
        if value is None:
            assert row in found.nulls.tolist()
        elif header is None:
            assert got.get(row) == plain.get(row)
        elif len(header) in (5, 17):
            assert got[row] == (258 if len(header) == 5 else str(UUID(bytes=header[1:])))
            assert payloads[row] == value
        else:
            assert (row, "the header __value_schema_id names no schema") in found.faults
    assert sorted([*got, *found.nulls.tolist(), *(row for row, _ in found.faults)]) == list(range(len(records)))


def test_what_a_header_has_behind_the_schema_belongs_before_the_payload():
    header = b"\x01" + b"0123456789abcdef" + b"\x02\x04"
    (group,) = cut(pa.array([b"m"], pa.binary()), pa.array([header], pa.binary())).groups
    assert group.payloads.to_pylist() == [b"\x02\x04m"]
