"""The compiled codecs on small messages of their own."""

from __future__ import annotations

import copy
import pickle
import traceback

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.kernel.seams import Buffer
from ottla.schema.codec import MalformedMessage, decode, decoder, encode, encoder
from ottla.schema.message import field, message, schema_of, struct
from ottla.schema.types import Array, Bool, Bytes, Float64, Int8, Int16, Int32, Int64, Records, String, Uint16, Uuid
from ottla.schema.varints import put_varint, read_varint, skip_tags


@struct()
class Place:
    name: str = field(String)
    row: int = field(Int32, default=-1)


@struct()
class Empty:
    late: int = field(Int32, since=3)


@message(versions=(0, 3), flexible_since=2)
class Everything:
    flag: bool = field(Bool)
    small: int = field(Int16)
    port: int = field(Uint16)
    ratio: float = field(Float64)
    label: str = field(String)
    note: str | None = field(String, nullable_since=1, default=None)
    body: bytes = field(Bytes)
    topic_id: bytes = field(Uuid, since=1)
    numbers: list[int] = field(Array(Int64))
    ids: list[bytes] = field(Array(Uuid))
    names: list[str] | None = field(Array(String), nullable_since=0)
    places: list[Place] = field(Array(Place))
    place: Place = field(Place)
    other: Place | None = field(Place, nullable_since=0, default=None)
    empties: list[Empty] = field(Array(Empty), since=2)
    old: int = field(Int8, until=1, default=9)
    records: Buffer | None = field(Records, nullable_since=0)
    limit: int = field(Int64, since=2, tag=3, default=1 << 40)
    home: Place = field(Place, since=2, tag=1)
    words: list[str] = field(Array(String), since=2, tag=0)
    hint: str | None = field(String, since=2, tag=2, nullable_since=0, default=None)


FULL = Everything(
    flag=True,
    small=-2,
    port=65535,
    ratio=0.5,
    label="ä" * 100,
    note="n",
    body=b"\0\1",
    topic_id=bytes(range(16)),
    numbers=[1, -1, 1 << 62],
    ids=[bytes(16), b"\xff" * 16],
    names=["", "b"],
    places=[Place(name="x", row=1), Place()],
    place=Place(name="p"),
    other=Place(row=0),
    empties=[Empty(late=5), Empty()],
    records=b"r" * 200,
    limit=5,
    home=Place(name="home"),
    words=["w"],
    hint="",
)


@message(versions=(0, 1), flexible_since=1)
class Name:
    text: str = field(String)


@message(versions=(0, 1), flexible_since=1)
class Counts:
    numbers: list[int] = field(Array(Int32))


@pytest.mark.parametrize("version", [2, 3])
def test_every_type_comes_back_from_a_flexible_version(version: int) -> None:
    expected = copy.deepcopy(FULL)
    expected.old = 9
    if version < 3:
        expected.empties = [Empty(), Empty()]
    assert decode(Everything, version, encode(FULL, version)) == expected


@pytest.mark.parametrize("version", [0, 1])
def test_fields_that_a_version_lacks_hold_their_defaults(version: int) -> None:
    sent = copy.deepcopy(FULL)
    if version == 0:
        sent.note = "never null here"
    back = decode(Everything, version, encode(sent, version))
    assert (back.limit, back.home, back.words, back.hint, back.empties) == (1 << 40, Place(), [], None, [])
    assert back.topic_id == (bytes(16) if version == 0 else FULL.topic_id)
    assert (back.note, back.places, back.other) == (sent.note, FULL.places, FULL.other)


def test_tagged_fields_at_their_default_take_no_bytes_and_others_stand_in_order_of_tags() -> None:
    @message(versions=(0, 0), flexible_since=0)
    class Tagged:
        second: int = field(Int16, tag=2)
        first: str = field(String, tag=1)

    assert encode(Tagged(), 0) == b"\0"
    assert encode(Tagged(second=3, first="a"), 0) == bytes.fromhex("02 01 02 02 61 02 02 00 03")


def test_unknown_tagged_fields_are_skipped() -> None:
    assert decode(Name, 1, b"\x02a\x02\x00\x01!\x63\x00") == Name(text="a")


def test_decoding_tells_where_it_stopped() -> None:
    assert decoder(Name, 0)(memoryview(b"??\0\1arest"), 2) == (Name(text="a"), 5)


def test_bytes_left_over_are_refused_by_decode() -> None:
    with pytest.raises(MalformedMessage, match="1 bytes too many"):
        decode(Name, 0, b"\0\1ab")


def test_records_are_a_view_of_the_frame() -> None:
    frame = bytearray(encode(Everything(note="", records=b"abc"), 0))
    back, _ = decoder(Everything, 0)(memoryview(frame), 0)
    assert isinstance(back.records, memoryview)
    assert back.records.obj is frame


@pytest.mark.parametrize(
    ("version", "data", "why"),
    [
        (0, b"", "ends too early"),
        (0, b"\xff\xff", "null"),
        (0, b"\xff\xfe", "negative"),
        (0, b"\0\2a", "past the end"),
        (0, b"\0\1\xff", "utf-8"),
        (1, b"\0\0", "null"),
        (1, b"\x04a\0", "past the end"),
        (1, b"\x02\xc3\0", "utf-8"),
        (1, b"\x02a", "ends too early"),
        (1, b"\x81\x80\x02" + b"a" * 32768 + b"\0", "too long"),
        (1, b"\xff\xff\xff\xff\xff\x01", "varint"),
        (1, b"\xff\xff\xff\xff\x1f", "varint"),
        (1, b"\x02a\xe9\x07" + bytes(4000), "1001 tagged"),
        (1, b"\x02a\x01\x00\x05", "past the end"),
    ],
)
def test_wrong_bytes_say_what_is_wrong(version: int, data: bytes, why: str) -> None:
    with pytest.raises(MalformedMessage, match=why):
        decode(Name, version, data)


def test_a_known_tagged_field_must_fill_the_size_it_claims() -> None:
    @message(versions=(0, 0), flexible_since=0)
    class Tagged:
        number: int = field(Int16, tag=0)

    assert decode(Tagged, 0, b"\1\0\2\0\7").number == 7
    for wrong in (b"\1\0\1\0\7", b"\1\0\3\0\7\0"):
        with pytest.raises(MalformedMessage, match="does not fill"):
            decode(Tagged, 0, wrong)


@pytest.mark.parametrize(
    ("version", "count"), [(0, b"\x40\0\0\0"), (0, b"\0\0\0\4"), (1, b"\xff\xff\xff\xff\x07"), (1, b"\5")]
)
def test_a_count_is_bounded_by_the_bytes_that_follow(version: int, count: bytes) -> None:
    with pytest.raises(MalformedMessage, match="more elements than the rest can hold"):
        decode(Counts, version, count + bytes(15))


@pytest.mark.parametrize(
    "wrong",
    [
        Name(text=None),  # type: ignore[arg-type]
        Name(text=5),  # type: ignore[arg-type]
        Name(text="\ud800"),
        Name(text="x" * 32768),
        Counts(numbers=[1 << 31]),
        Counts(numbers=None),  # type: ignore[arg-type]
        Everything(note="", topic_id=bytes(15)),
        Everything(note="", ids=[bytes(17)]),
    ],
)
def test_what_a_version_cannot_carry_is_refused_and_leaves_the_buffer_as_it_was(wrong: object) -> None:
    out = bytearray(b"before")
    with pytest.raises(MalformedMessage):
        encoder(type(wrong), 1)(wrong, out)
    assert out == b"before"


@message(versions=(0, 1), flexible_since=1)
class Nullables:
    text: str | None = field(String, nullable_since=0)
    body: bytes | None = field(Bytes, nullable_since=0)
    words: list[str] | None = field(Array(String), nullable_since=0)
    place: Counts | None = field(Counts, nullable_since=0)


@pytest.mark.parametrize("position", [0, 2, 6, 10])
def test_only_minus_one_stands_for_null(position: int) -> None:
    nulls = bytearray(b"\xff" * 11)
    assert decode(Nullables, 0, nulls) == Nullables(text=None, body=None, words=None, place=None)
    nulls[{0: 1, 2: 5, 6: 9, 10: 10}[position]] = 0xFE
    with pytest.raises(MalformedMessage, match="negative length"):
        decode(Nullables, 0, nulls)


def test_a_count_of_elements_of_one_byte_is_bounded_too() -> None:
    assert decode(Nullables, 1, b"\0\0\3\1\1\xff\0").words == ["", ""]
    with pytest.raises(MalformedMessage, match="more elements than the rest can hold"):
        decode(Nullables, 1, b"\0\0\6\1\1\xff\0")


def test_null_is_refused_in_versions_before_it_was_allowed() -> None:
    assert decode(Everything, 1, encode(Everything(), 1)).note is None
    with pytest.raises(MalformedMessage):
        encode(Everything(), 0)


def test_a_struct_has_the_versions_of_its_message() -> None:
    assert encode(Place(name="a", row=1), 1) == b"\0\1a\0\0\0\1"
    assert encode(Place(name="a", row=1), 2) == b"\2a\0\0\0\1\0"
    assert schema_of(Place).versions == (0, 3)


def test_a_version_that_the_message_lacks_is_a_value_error() -> None:
    for version in (-1, 4):
        with pytest.raises(ValueError, match="no version"):
            encoder(Everything, version)


def test_messages_are_mutable_slotted_comparable_and_readable() -> None:
    place = Place(name="a")
    assert place == Place(name="a", row=-1)
    assert place != Place(name="b")
    assert place != Name(text="a")
    assert repr(place) == "Place(name='a', row=-1)"
    place.row = 4
    assert copy.deepcopy(place) == place == pickle.loads(pickle.dumps(place))
    with pytest.raises(AttributeError):
        place.rows = 4  # type: ignore[attr-defined]
    with pytest.raises(TypeError):
        Place(rows=4)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        hash(place)


def test_defaults_that_can_change_are_not_shared() -> None:
    first, second = Everything(), Everything()
    first.numbers.append(1)
    first.place.row = 7
    assert second.numbers == [] and second.place.row == -1
    decoded = [decode(Everything, 0, encode(Everything(note=""), 0)) for _ in range(2)]
    decoded[0].home.row = 7
    assert decoded[1].home.row == -1


def test_a_traceback_shows_the_generated_line() -> None:
    try:
        decode(Name, 0, b"\xff\xff")
    except MalformedMessage as fault:
        text = "".join(traceback.format_exception(fault))
    assert "<ottla decode Name v0>" in text
    assert "raise Malformed('Name v0: text is null" in text


@given(st.integers(0, (1 << 32) - 1), st.binary(max_size=3))
def test_varints_come_back_with_their_end(value: int, rest: bytes) -> None:
    out = bytearray()
    put_varint(out, value)
    assert len(out) == max(1, (value.bit_length() + 6) // 7)
    assert read_varint(memoryview(out + rest), 0) == (value, len(out))


def test_skipping_tags_ends_behind_them() -> None:
    assert skip_tags(memoryview(b"?\2\0\1x\5\0rest"), 1) == 7
