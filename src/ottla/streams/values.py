"""Values that travel between the nodes of a topology.

Keys and values of records belong to the user, so their type is `Any`. Values that are made for each record are not
frozen, which would cost four times as much to make; nobody changes one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Headers = tuple[tuple[str, bytes | None], ...]
NO_TIMESTAMP = -1


@dataclass(slots=True, unsafe_hash=True)
class Record:
    """A key and a value with a timestamp in milliseconds, on their way through a topology."""

    key: Any
    value: Any
    timestamp: int
    headers: Headers = ()

    def with_key(self, key: Any) -> Record:
        """The same record under another key."""
        return Record(key, self.value, self.timestamp, self.headers)

    def with_value(self, value: Any) -> Record:
        """The same record with another value."""
        return Record(self.key, value, self.timestamp, self.headers)

    def with_timestamp(self, timestamp: int) -> Record:
        """The same record at another time."""
        return Record(self.key, self.value, timestamp, self.headers)


@dataclass(slots=True, unsafe_hash=True)
class Change:
    """A row of a table before and after an update; None stands for no row.

    `latest` is false where a newer version of the row was known already, in versioned tables only.
    """

    new: Any
    old: Any
    latest: bool = True


@dataclass(frozen=True, slots=True, order=True)
class Windowed:
    """A key with its window; `end` belongs to sessions and sliding windows, but not to time windows."""

    key: Any
    start: int
    end: int


@dataclass(slots=True, unsafe_hash=True)
class Place:
    """The topic, partition and offset that a record was read from."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}@{self.offset}"


@dataclass(slots=True, unsafe_hash=True)
class Stamped:
    """A value of a store with its timestamp."""

    value: Any
    timestamp: int


@dataclass(slots=True, unsafe_hash=True)
class Input:
    """A record as a topic holds it, and its place."""

    place: Place
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: Headers = ()
