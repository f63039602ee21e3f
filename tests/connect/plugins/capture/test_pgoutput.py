"""Messages of pgoutput from their bytes, as PostgreSQL 15 sent them."""

import pytest

from ottla.connect.errors import DataException
from ottla.connect.plugins.capture.pgoutput import (
    EPOCH_US,
    UNCHANGED,
    Begin,
    Commit,
    Delete,
    Insert,
    Message,
    NamedType,
    Origin,
    Relation,
    RelationColumn,
    Truncate,
    Update,
    decoded,
)

ONE = b"\x00\x02t\x00\x00\x00\x011n"
"""A row of the text 1 and a null."""


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        (b"B\x00\x00\x00\x00\x01\x95\xf7\x20\x00\x00\x00\x00\x00\x00\x00\x05\x00\x00\x02\xe4",
         Begin(0x195F720, EPOCH_US + 5, 740)),
        (b"C\x00\x00\x00\x00\x00\x01\x95\xf7\x20\x00\x00\x00\x00\x01\x95\xf7\x50\x00\x00\x00\x00\x00\x00\x00\x05",
         Commit(0x195F720, 0x195F750, EPOCH_US + 5)),
        (b"R\x00\x00\x40\x01public\x00t\x00d\x00\x02\x01id\x00\x00\x00\x00\x17\xff\xff\xff\xff\x00v\x00\x00\x00\x00\x19\xff\xff\xff\xff",
         Relation(16385, "public", "t", "d", (RelationColumn("id", 23, -1, True), RelationColumn("v", 25, -1, False)))),
        (b"Y\x00\x00\x40\x09inv\x00mood\x00", NamedType(16393, "inv", "mood")),
        (b"O\x00\x00\x00\x00\x00\x00\x00\x07there\x00", Origin(7, "there")),
        (b"I\x00\x00\x40\x01N" + ONE, Insert(16385, ("1", None))),
        (b"U\x00\x00\x40\x01N" + ONE, Update(16385, ("1", None))),
        (b"U\x00\x00\x40\x01K\x00\x02t\x00\x00\x00\x012nN" + ONE, Update(16385, ("1", None), key=("2", None))),
        (b"U\x00\x00\x40\x01O" + ONE + b"N\x00\x02t\x00\x00\x00\x02\xc3\xbcu",
         Update(16385, ("ü", UNCHANGED), old=("1", None))),
        (b"D\x00\x00\x40\x01K" + ONE, Delete(16385, key=("1", None))),
        (b"D\x00\x00\x40\x01O" + ONE, Delete(16385, old=("1", None))),
        (b"T\x00\x00\x00\x02\x03\x00\x00\x40\x01\x00\x00\x40\x02", Truncate((16385, 16386))),
        (b"M\x01\x00\x00\x00\x00\x00\x00\x00\x09pre\x00\x00\x00\x00\x02hi", Message(True, 9, "pre", b"hi")),
    ],
)  # fmt: skip
def test_a_message_is_read_from_its_bytes(payload, message):
    assert decoded(payload) == message


@pytest.mark.parametrize("payload", [
    b"", b"Z", b"I\x00\x00\x40\x01X", b"I\x00\x00\x40\x01N\x00\x01x", b"I\x00\x00\x40\x01N\x00\x01t\x00\x00\x00\x05ab",
    b"B\x00\x00", b"R\x00\x00\x40\x01public",
])  # fmt: skip
def test_a_message_that_is_cut_short_or_unknown_is_refused_with_its_bytes(payload):
    with pytest.raises(DataException, match=": " + payload[:40].hex()):
        decoded(payload)
