"""Maps of bytes as Java writes them: recorded from FileOffsetBackingStore of Kafka 4.3.1."""

import pytest

from ottla.connect.java.byte_map import read_map, written_map

RECORDED = (
    b"\xac\xed\x00\x05sr\x00\x11java.util.HashMap\x05\x07\xda\xc1\xc3\x16`\xd1\x03\x00\x02F\x00\nloadFactorI\x00\t"
    b"thresholdxp?@\x00\x00\x00\x00\x00\x0cw\x08\x00\x00\x00\x10\x00\x00\x00\x03ur\x00\x02[B\xac\xf3\x17\xf8\x06\x08T\xe0"
    b'\x02\x00\x00xp\x00\x00\x00%["lines-in",{"filename":"/\xc3\xbc/2.txt"}]uq\x00~\x00\x02\x00\x00\x00\x0e{"position":7}'
    b'uq\x00~\x00\x02\x00\x00\x00%["lines-in",{"filename":"/\xc3\xbc/0.txt"}]uq\x00~\x00\x02\x00\x00\x00\x0e{"position":5}'
    b'uq\x00~\x00\x02\x00\x00\x00%["lines-in",{"filename":"/\xc3\xbc/1.txt"}]px'
)
ENTRIES = [
    ('["lines-in",{"filename":"/ü/2.txt"}]'.encode(), b'{"position":7}'),
    ('["lines-in",{"filename":"/ü/0.txt"}]'.encode(), b'{"position":5}'),
    ('["lines-in",{"filename":"/ü/1.txt"}]'.encode(), None),
]


def test_a_map_that_java_wrote_is_read_and_written_byte_for_byte():
    assert read_map(RECORDED) == ENTRIES
    assert written_map(ENTRIES) == RECORDED


@pytest.mark.parametrize(("count", "buckets"), [(0, 16), (12, 16), (13, 32), (24, 32), (25, 64)])
def test_a_map_has_the_buckets_that_java_gives_it(count, buckets):
    entries = [(b"%d" % number, b"v") for number in range(count)]
    written = written_map(entries)
    assert written.index(b"w\x08") + 2 == written.index(buckets.to_bytes(4) + count.to_bytes(4))
    assert read_map(written) == entries


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (RECORDED.replace(b"HashMap", b"TreeMap"), "is not a java.util.HashMap"),
        (RECORDED.replace(b"w\x08", b"w\x09"), "no count of its entries"),
        (RECORDED.replace(b"[B", b"[J"), r"something else than byte\[\] at byte"),
        (RECORDED[:-1], "ends at byte 284, in the middle"),
        (RECORDED[:-30], "in the middle of the map"),
        (RECORDED + b"p", "does not end at byte 285"),
        (RECORDED[:-1] + b"px", "does not end at byte"),
        (written_map([(None, b"v")]), "a key is null"),
        (RECORDED.replace(b"\x00\x00\x00%[", b"\xff\xff\xff%["), "in the middle of the map"),
    ],
)
def test_another_object_is_refused_by_its_place(content, sentence):
    with pytest.raises(ValueError, match=sentence):
        read_map(content)
