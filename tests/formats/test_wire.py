"""A column of values is taken apart by schema id as a loop over its rows would do it."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from ottla.formats.wire import cut, framed

VALUES = st.lists(
    st.none()
    | st.binary(max_size=7)
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
            rows[row] = (group.schema_id, payload)
    expected = {
        row: (int.from_bytes(value[1:5], "big"), value[5:])
        for row, value in enumerate(values)
        if value is not None and len(value) >= 5 and value[0] == 0
    }
    assert rows == expected
    assert found.nulls.tolist() == [row for row, value in enumerate(values) if value is None]
    assert [row for row, _ in found.faults] == [
        row for row, value in enumerate(values) if value is not None and row not in expected
    ]


def test_a_fault_says_what_is_wrong():
    reasons = dict(cut(pa.array([b"\x00\x00", b"{}    ", b"\x01" + b"g" * 16, b""], pa.binary())).faults)
    assert "2 bytes: too short" in reasons[0]
    assert "the first byte is 0x7b" in reasons[1]
    assert "GUID" in reasons[2]
    assert "0 bytes" in reasons[3]


def test_what_is_framed_is_cut_into_the_same_payloads():
    (group,) = cut(framed(70_000, [b"a", b""])).groups
    assert group.schema_id == 70_000 and group.payloads.to_pylist() == [b"a", b""]
    assert framed(1, [None, b"x"]).to_pylist() == [None, b"\x00\x00\x00\x00\x01x"]
