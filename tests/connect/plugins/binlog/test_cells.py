"""Values in the log from their bytes, and types from the log and from the catalog."""

import struct

import pytest

from ottla.connect.errors import DataException
from ottla.connect.plugins.binlog import cells
from ottla.connect.plugins.binlog.cells import LogType, cell_of, text_of
from ottla.connect.plugins.binlog.types import MyType, declared, logged, micros_of_time


@pytest.mark.parametrize(
    ("kind", "packed", "value"),
    [
        (LogType(cells.NEWDECIMAL, 10 | 4 << 8), "8004d20929", "1234.2345"),
        (LogType(cells.TIME2, 2), "7ffffeff", "-00:00:01.01"),
        (LogType(cells.DATETIME2, 0), "8000000000", "0000-00-00 00:00:00"),
        (LogType(cells.TIMESTAMP2, 0), "00000000", "0000-00-00 00:00:00"),
        (LogType(cells.YEAR, 0), "00", 0),
        (LogType(cells.INT24, 0), "ffffff", -1),
        (LogType(cells.INT24, 0, unsigned=True), "ffffff", 16777215),
        (LogType(cells.SET, 1 << 8, labels=("a", "b", "c")), "05", "a,c"),
        (LogType(cells.ENUM, 1 << 8, labels=("a",)), "00", ""),
        (LogType(cells.STRING, 3, charset="binary"), "0141", b"A\0\0"),
    ],
)
def test_values_are_read_to_their_end(kind, packed, value):
    row = bytes.fromhex(packed)
    assert cell_of(kind)(row + b"\xff", 0) == (value, len(row))


def test_bytes_that_windows_leaves_out_are_control_characters_in_latin1():
    assert text_of(b"\x80\x81", "latin1") == "€\x81"
    with pytest.raises(DataException, match="character set utf8mb4 cannot be read"):
        text_of(b"\xff", "utf8mb4")
    with pytest.raises(DataException, match="character set hp8 cannot be read"):
        text_of(b"a", "hp8")


def test_types_without_a_reader_are_refused_by_name():
    with pytest.raises(DataException, match="a compressed column"):
        cell_of(LogType(140, 2))


@pytest.mark.parametrize(
    ("text", "kind", "in_log"),
    [
        ("int(5) unsigned zerofill", MyType("int", unsigned=True), LogType(cells.LONG, 0, unsigned=True)),
        ("decimal(5,2)", MyType("decimal", size=5, scale=2), LogType(cells.NEWDECIMAL, 5 | 2 << 8)),
        ("enum('a''b','c,d')", MyType("enum", labels=("a'b", "c,d")), LogType(cells.ENUM, 256, labels=("a'b", "c,d"))),
        ("bit(9)", MyType("bit", size=9), LogType(cells.BIT, 1 | 1 << 8)),
        ("datetime(3)", MyType("datetime", size=3), LogType(cells.DATETIME2, 3)),
        ("longtext", MyType("longtext"), LogType(cells.BLOB, 4, charset="utf8mb4")),
        ("varbinary(9)", MyType("varbinary"), LogType(cells.VARCHAR, 9, charset="binary")),
        ("point", MyType("point"), LogType(cells.GEOMETRY, 4, point=True)),
    ],
)
def test_a_type_is_the_same_from_the_catalog_and_from_the_log(text, kind, in_log):
    assert declared(text) == logged(in_log) == kind


def test_a_time_may_be_below_zero_and_beyond_a_day():
    assert micros_of_time("-838:59:59.5") == -3020399500000
    with pytest.raises(ValueError, match="is no time"):
        micros_of_time("1 day")


def test_a_double_has_all_its_digits():
    assert cell_of(LogType(cells.DOUBLE, 8))(struct.pack("<d", 0.1), 0) == (0.1, 8)
