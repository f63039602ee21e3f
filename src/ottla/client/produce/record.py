"""The parts of a record as callers give them: text becomes UTF-8, headers may be a dict; other things are refused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ottla.client.model import Header

Content = bytes | str | bytearray | memoryview
"""Bytes of a record, or text, which is encoded as UTF-8."""
Headers = Mapping[str, Content | None] | Iterable[tuple[str, Content | None]]
"""The headers of a record: a dict, or pairs where a name comes more than once."""


def read_record(
    topic: Any, value: Any, key: Any, headers: Any, partition: Any, timestamp: Any
) -> tuple[bytes | None, bytes | None, list[Header]]:
    """Value, key and headers of a record as bytes; TypeError names what cannot be taken.

    Most records are bytes and nothing else: the first comparisons are all that they pay.
    """
    if type(value) is not bytes:
        value = content(value, "the value of a record")
    if key is not None and type(key) is not bytes:
        key = content(key, "the key of a record")
    if type(topic) is not str or not topic or partition is not None or timestamp is not None:
        require_place(topic, partition, timestamp)
    return value, key, [] if headers == () else header_pairs(headers)


def content(given: Any, part: str) -> bytes | None:
    """The bytes of a key, a value or a header's value; TypeError where they are neither bytes nor text."""
    if given is None or isinstance(given, bytes):
        return given
    if isinstance(given, str):
        return given.encode()
    if isinstance(given, bytearray | memoryview):
        return bytes(given)
    remedy = "str(...)" if isinstance(given, int | float) else "json.dumps(...)"
    raise TypeError(
        f"{part} is bytes, text or None, not {_shown(given)}, which is of type {type(given).__name__}: "
        f"encode it first, for example with {remedy}"
    )


def header_pairs(given: Any) -> list[Header]:
    """Headers as pairs of text and bytes; TypeError says what is wrong with them."""
    if given is None:
        return []
    pairs = given.items() if isinstance(given, Mapping) else given
    if isinstance(given, str | bytes) or not isinstance(pairs, Iterable):
        raise _no_headers(given)
    found: list[Header] = []
    for pair in pairs:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise _no_headers(pair)
        name, value = pair
        if not isinstance(name, str):
            raise TypeError(f"the name of a header is text, not {_shown(name)}, which is of type {type(name).__name__}")
        found.append((name, content(value, f"the header {name!r}")))
    return found


def require_place(topic: Any, partition: Any, timestamp: Any) -> None:
    """Raise where a topic is no text, a partition no number, or a timestamp no whole milliseconds."""
    if not isinstance(topic, str) or not topic:
        raise TypeError(f"the topic is text, not {_shown(topic)}")
    if partition is not None and (not isinstance(partition, int) or isinstance(partition, bool)):
        raise TypeError(f"the partition is a number, or None to leave it to the partitioner, not {_shown(partition)}")
    if timestamp is not None and (not isinstance(timestamp, int) or isinstance(timestamp, bool)):
        raise TypeError(
            f"the timestamp is a whole number of milliseconds since 1970, not {_shown(timestamp)}; "
            "int(when.timestamp() * 1000) makes one of a datetime"
        )


def require_callback(given: Any) -> None:
    """Raise where an `on_delivery` cannot be called: the sending thread would find that out too late."""
    if given is not None and not callable(given):
        raise TypeError(f"on_delivery is a function of the outcome, or None, not {_shown(given)}")


def _no_headers(given: object) -> TypeError:
    return TypeError(f"headers are a dict, or pairs of name and value, not {_shown(given)}")


def _shown(given: object) -> str:
    shown = repr(given)
    return shown if len(shown) <= 80 else f"{shown[:77]}..."
