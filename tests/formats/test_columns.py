"""Walks over types of columns."""

import pyarrow as pa

from ottla.formats.evolution import wider_number


def test_numbers_widen_to_wider_ones_alone():
    integer, decimal = pa.int32(), pa.decimal128(9, 2)
    assert wider_number(integer, pa.int64()) and not wider_number(pa.int64(), integer)
    assert wider_number(integer, pa.decimal128(21, 2)) and not wider_number(integer, pa.decimal128(20, 2))
    assert wider_number(decimal, pa.decimal128(10, 3)) and not wider_number(decimal, pa.decimal128(9, 3))
    assert wider_number(pa.float32(), pa.float64()) and not wider_number(pa.float64(), pa.float32())
    assert not wider_number(pa.uint8(), pa.int64()) and not wider_number(decimal, pa.float64())
