"""Questions to stores and their answers: a key, a range, a prefix, windows, sessions. Pure.

The stores are those of the partitions at hand: of a running instance, or read from a changelog.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import date, datetime, time
from decimal import Decimal
from itertools import islice
from typing import Any

from ottla.streams.errors import SerdeError, TopologyError
from ottla.streams.graph import Topology
from ottla.streams.naming import nearest
from ottla.streams.serdes import Serde
from ottla.streams.stores import JoinStore, KeyValueStore, OrderedStore, SessionStore, Store, WindowStore
from ottla.streams.values import Stamped, Windowed

NEWEST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Query:
    """The rows to find. Ends are included; None leaves one open. Times are those of windows and sessions."""

    key: Any = None
    first: Any = None
    last: Any = None
    prefix: str | bytes | None = None
    since_ms: int | None = None
    """Windows that begin then or later; sessions that end then or later."""
    until_ms: int | None = None
    """Windows and sessions that begin then or earlier."""
    limit: int = 1_000


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a store. `key` is a Windowed in stores of windows and sessions."""

    key: Any
    value: Any
    timestamp: int


@dataclass(frozen=True, slots=True)
class Age:
    """The age of an answer."""

    lag: int
    """The records of the application's input that the answer does not know yet, at most."""
    as_of_ms: int
    """The time of day at which the lag was measured."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The rows found; `more` says that there are others beyond the limit."""

    store: str
    rows: tuple[Row, ...]
    more: bool
    partitions: tuple[int, ...]
    """The partitions that were asked."""
    of: int
    """The number of partitions of the store: of another instance where it is larger."""
    age: Age

    def plain(self) -> dict[str, Any]:
        """The answer as JSON has it."""
        rows = [
            {"key": plain(row.key), "value": plain(row.value), "timestamp": row.timestamp}
            if not isinstance(row.key, Windowed)
            else {
                "key": plain(row.key.key),
                "window": {"start": row.key.start, "end": row.key.end},
                "value": plain(row.value),
                "timestamp": row.timestamp,
            }
            for row in self.rows
        ]
        return {
            "store": self.store, "rows": rows, "more": self.more, "partitions": list(self.partitions), "of": self.of,
            "age": asdict(self.age),
        }  # fmt: skip


def found(stores: Iterable[Store], query: Query) -> tuple[tuple[Row, ...], bool]:
    """The rows of a store's partitions, and whether there are more than the limit."""
    if query.limit < 1:
        raise TopologyError(f"limit={query.limit}: the least is 1")
    rows = (row for store in stores for row in _rows(store, query))
    taken = tuple(islice(rows, query.limit + 1))
    return taken[: query.limit], len(taken) > query.limit


def checked(topology: Topology, name: str) -> Store:
    """An empty store of that name, to know its kind and serdes; TopologyError if it cannot be asked."""
    if name not in topology.stores:
        raise TopologyError(f"the topology has no store {name}{nearest(name, topology.stores)}")
    store = topology.stores[name]()
    if isinstance(store, JoinStore | OrderedStore):
        raise TopologyError(f"the store {name} holds records that wait in a join or in suppress(): it has no rows")
    return store


def from_texts(store: Store, texts: dict[str, str], **others: Any) -> Query:
    """A query whose keys are texts, as a command line and a URL have them: `key`, `first`, `last`, `prefix`."""
    assert not isinstance(store, OrderedStore)
    given: dict[str, Any] = {
        name: text if name == "prefix" else key_of(store.key, text) for name, text in texts.items()
    }
    return Query(**given, **others)


def key_of(serde: Serde, text: str) -> Any:
    """A key from its text: as it is for text and bytes, else as JSON."""
    if serde.name == "text":
        return text
    if serde.name == "bytes":
        return text.encode()
    try:
        key = json.loads(text)
        serde.write(float(key) if serde.name.startswith("float") and isinstance(key, int) else key)
    except (ValueError, TypeError, SerdeError) as fault:
        raise TopologyError(f"{text!r} is not a key of the serde {serde.name}: {fault}") from None
    return float(key) if serde.name.startswith("float") else key


def plain(value: Any) -> Any:
    """A value as JSON has it: bytes as text where they are UTF-8, else in hex; times in ISO's form."""
    if isinstance(value, bytes | bytearray | memoryview):
        try:
            return bytes(value).decode()
        except UnicodeDecodeError:
            return bytes(value).hex()
    if isinstance(value, dict):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    return str(value) if isinstance(value, Decimal) else value


def _rows(store: Store, query: Query) -> Iterator[Row]:
    _refuse(store, query)
    if isinstance(store, KeyValueStore):
        return _of_keys(store, query)
    low = 0 if query.since_ms is None else query.since_ms
    high = NEWEST if query.until_ms is None else query.until_ms
    if isinstance(store, WindowStore):
        if query.key is None:
            return (_row(window, stamped) for window, stamped in store.all_within(low, high))
        size = store.size_ms
        return (
            _row(Windowed(query.key, start, start + size), stamped)
            for start, stamped in store.within(query.key, low, high)
        )
    assert isinstance(store, SessionStore)
    sessions: Iterable[tuple[Windowed, Any]]
    if query.key is None:
        sessions = ((session, value) for session, value in store.ended_within(low, NEWEST) if session.start <= high)
    else:
        sessions = store.find(query.key, low, high)
    return (Row(session, value, session.end) for session, value in sessions)


def _of_keys(store: KeyValueStore, query: Query) -> Iterator[Row]:
    if query.key is not None:
        stamped = store.get(query.key)
        return iter(() if stamped is None else (_row(query.key, stamped),))
    if query.prefix is not None:
        start = query.prefix.encode() if isinstance(query.prefix, str) else query.prefix
        return (_row(key, stamped) for key, stamped in store.prefix(start))
    return (_row(key, stamped) for key, stamped in store.range(query.first, query.last))


def _row(key: Any, stamped: Stamped) -> Row:
    return Row(key, stamped.value, stamped.timestamp)


def _refuse(store: Store, query: Query) -> None:
    """TopologyError for what a store of this kind cannot be asked."""
    ways = [name for name in ("key", "prefix") if getattr(query, name) is not None]
    if query.first is not None or query.last is not None:
        ways.append("first and last")
    if len(ways) > 1:
        raise TopologyError(f"{' and '.join(ways)} exclude each other: name one")
    if isinstance(store, KeyValueStore):
        if query.since_ms is not None or query.until_ms is not None:
            raise TopologyError(f"the store {store.name} has no windows: leave since and until out")
        if query.prefix is not None and store.key.name not in ("text", "bytes"):
            raise TopologyError(f"a prefix needs keys of text or bytes, and those of {store.name} are {store.key.name}")
    elif ways and ways != ["key"]:
        raise TopologyError(f"the store {store.name} has windows: ask for a key, or for times by since and until")


def answer(name: str, stores: Sequence[tuple[int, Store]], query: Query, of: int, age: Age) -> Answer:
    """The answer of a store's partitions at hand."""
    rows, more = found((store for _, store in stores), query)
    return Answer(name, rows, more, tuple(partition for partition, _ in stores), of, age)
