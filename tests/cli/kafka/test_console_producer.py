"""`kafka-console-producer` makes records of lines; the verdicts are those of Apache Kafka 4.3.1's LineMessageReader."""

from __future__ import annotations

import io

import pytest

from ottla.cli.faults import Misuse
from ottla.cli.kafka.console_producer import LineReader, LineRecord

HEADERS = {"parse.headers": "true"}


def read(text: bytes, properties: dict[str, str]) -> list[LineRecord]:
    return list(LineReader(properties).read(io.BytesIO(text), prompt=False))


def test_a_header_key_is_not_the_null_marker() -> None:
    with pytest.raises(Misuse, match="Header keys should not be equal to the null marker 'NULL' as they can't be null"):
        read(b"NULL:x\tk\tv\n", {**HEADERS, "parse.key": "true", "null.marker": "NULL"})


@pytest.mark.parametrize(
    ("text", "properties", "headers"),
    [
        (b"a:b,,\tv", {}, [("a", b"b")]),
        (b"a:b|c:d\tv", {"headers.separator": r"\|"}, [("a", b"b"), ("c", b"d")]),
        (b"a:b;;c:d\tv", {"headers.separator": ";+"}, [("a", b"b"), ("c", b"d")]),
        (b"x,y:1\tv", {"ignore.error": "true", "null.marker": "x"}, [("x", None), ("y", b"1")]),
        (b"x\tv", {"ignore.error": "true", "null.marker": "x"}, []),
        (b"a:x\tv", {"null.marker": "x"}, [("a", None)]),
    ],
)
def test_headers_are_split_as_java_splits(
    text: bytes, properties: dict[str, str], headers: list[tuple[str, bytes | None]]
) -> None:
    assert read(text, HEADERS | properties) == [LineRecord(None, b"v", headers)]


@pytest.mark.parametrize(
    ("text", "properties", "pair"),
    [(b",a:b\tv", {}, ""), (b"\tv", {}, ""), (b"a:b\tv", {"headers.separator": "|"}, "a")],
)
def test_a_pair_without_its_separator_is_refused(text: bytes, properties: dict[str, str], pair: str) -> None:
    with pytest.raises(Misuse, match=f"No header key separator found in pair '{pair}' on line number 1"):
        read(text, HEADERS | properties)


@pytest.mark.parametrize(
    ("properties", "pair"),
    [
        ({"key.separator": ",", "null.marker": ","}, "null.marker and key.separator"),
        ({"null.marker": ":"}, "null.marker and headers.key.separator"),
        ({"null.marker": ","}, "null.marker and headers.separator"),
        ({"headers.delimiter": "x", "null.marker": "x"}, "null.marker and headers.delimiter"),
        ({"headers.separator": ":"}, "headers.separator and headers.key.separator"),
        ({"headers.delimiter": ":"}, "headers.delimiter and headers.key.separator"),
        ({"headers.delimiter": ","}, "headers.delimiter and headers.separator"),
    ],
)
def test_separators_and_the_null_marker_differ(properties: dict[str, str], pair: str) -> None:
    with pytest.raises(Misuse, match=f"^{pair} may not be equal$"):
        LineReader(properties)


def test_a_carriage_return_alone_ends_a_line() -> None:
    assert [record.value for record in read(b"a\rb\r\nc\n", {})] == [b"a", b"b", b"c"]
