"""The meaning of a record as one number, which is the same for a produced record and for its row in a lake.

Types may widen on the way: 1 and 1.0 have the same meaning. A missing, null or empty field is left out.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime

OWN = frozenset({"key", "headers", "partition", "offset", "timestamp", "date"})
"""Columns of a row that are not fields of the value: the record's own, and the lake's."""


def meaning(key: bytes, timestamp_ms: int, value: Mapping[str, object] | None) -> int:
    """63 bits of a hash of a record; None is a record without a value."""
    plain = _plain(value or {})
    text = json.dumps([key.decode(), timestamp_ms, plain], sort_keys=True, separators=(",", ":"))
    return digest(text.encode())


def meaning_of_row(row: Mapping[str, object]) -> int:
    """The meaning of a row of a lake."""
    timestamp, key = row["timestamp"], row["key"]
    assert isinstance(timestamp, datetime) and isinstance(key, bytes)
    return meaning(key, _micros(timestamp) // 1000, {name: each for name, each in row.items() if name not in OWN})


def digest(content: bytes) -> int:
    """63 bits of a hash."""
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "big") >> 1


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        members = ((name, _plain(member)) for name, member in value.items())
        return {name: member for name, member in members if member is not None} or None
    if isinstance(value, list):
        return [_plain(item) for item in value] or None
    if isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, datetime):
        return _micros(value)
    return value


def _micros(when: datetime) -> int:
    """Microseconds of a time; one without a zone is in UTC."""
    since = (when if when.tzinfo else when.replace(tzinfo=UTC)) - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
