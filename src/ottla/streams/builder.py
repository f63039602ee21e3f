"""Builds topologies by Kafka Streams' operations; begin with `stream`, `table` or `global_table`."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ottla.streams.draft import Draft
from ottla.streams.engine.tables import TableSettings, TableSource
from ottla.streams.errors import TopologyError
from ottla.streams.graph import EARLIEST, TimestampExtractor, Topology
from ottla.streams.grouped import Windows, window_store
from ottla.streams.serdes import JSON, TEXT, Serde
from ottla.streams.stores import KeyValueStore, VersionedStore
from ottla.streams.stream import Stream
from ottla.streams.table import GlobalTable, Table, source_table
from ottla.streams.windows import not_negative


class StreamsBuilder:
    """Holds what is being built; `key` and `value` are the serdes where an operation names none.

    builder = StreamsBuilder()
    words = builder.stream("lines", value=TEXT).flat_map_values(str.split)
    words.group_by(lambda _, word: word).count().to_stream().to("counts", value=INT64)
    topology = builder.build()
    """

    def __init__(self, *, key: Serde = TEXT, value: Serde = JSON) -> None:
        self._draft = Draft(key, value)

    def stream(
        self,
        topics: str | Iterable[str] | re.Pattern[str],
        *,
        key: Serde | None = None,
        value: Serde | None = None,
        timestamp: TimestampExtractor | None = None,
        offset_reset: str = EARLIEST,
        name: str | None = None,
    ) -> Stream:
        """The records of one topic, of several, or of all whose names a compiled pattern matches as a whole.

        A new application reads them all, or new ones by "latest". Topics that match a pattern later are read too, from
        their beginnings.
        """
        pattern = _pattern(topics) if isinstance(topics, re.Pattern) else None
        named = () if isinstance(topics, re.Pattern) else (topics,) if isinstance(topics, str) else tuple(topics)
        node = self._draft.numbers.node("KSTREAM-SOURCE-", name)
        self._draft.source(node, named, key, value, timestamp=timestamp, offset_reset=offset_reset, pattern=pattern)
        return Stream(self._draft, node, key or self._draft.key, value or self._draft.value)

    def table(
        self,
        topic: str,
        *,
        key: Serde | None = None,
        value: Serde | None = None,
        timestamp: TimestampExtractor | None = None,
        offset_reset: str = EARLIEST,
        store: str | None = None,
        history_ms: int | None = None,
        name: str | None = None,
    ) -> Table:
        """A topic as a table: the newest value of each key; kept if it has a `store` or a join looks rows up.

        With `history_ms` the table is versioned: it keeps old values for so long in stream time, and streams that join
        it meet the value that was valid at their own time.
        """
        if history_ms is not None:
            not_negative("history_ms", history_ms)
        numbers = self._draft.numbers
        kept = store or numbers.store(topic + "-")
        source = numbers.node("KSTREAM-SOURCE-", name, "-source")
        node = numbers.node("KTABLE-SOURCE-", name)
        self._draft.source(source, (topic,), key, value, timestamp=timestamp, offset_reset=offset_reset)
        key, value = key or self._draft.key, value or self._draft.value
        return source_table(self._draft, node, source, key, value, kept, keep=store is not None, history_ms=history_ms)

    def global_table(
        self,
        topic: str,
        *,
        key: Serde | None = None,
        value: Serde | None = None,
        store: str | None = None,
        name: str | None = None,
    ) -> GlobalTable:
        """A topic as a table that every task holds whole."""
        numbers = self._draft.numbers
        kept = store or numbers.store(topic + "-")
        source = numbers.node("KSTREAM-SOURCE-", name, "-source")
        node = numbers.node("KTABLE-SOURCE-", name)
        self._draft.source(source, (topic,), key, value, global_store=True)
        key_serde, value_serde = key or self._draft.key, value or self._draft.value
        self._draft.store(kept, lambda: KeyValueStore(kept, key_serde, value_serde))
        self._draft.processor(node, (source,), lambda: TableSource(TableSettings(kept)), stores=(kept,))
        return GlobalTable(self._draft, kept)

    def add_store(
        self, name: str, *, key: Serde | None = None, value: Serde | None = None, windows: Windows | None = None,
        retention_ms: int | None = None, history_ms: int | None = None,
    ) -> str:  # fmt: skip
        """A store for processors of the user's own: of one value a key, or one a window or session of a key.

        With `history_ms` it is versioned, and keeps old values for so long.
        """
        key_serde, value_serde = key or self._draft.key, value or self._draft.value
        if windows is None and retention_ms is not None:
            raise TopologyError(
                f"retention_ms={retention_ms} is for windows: name windows=, or history_ms= for versions"
            )
        if windows is not None and history_ms is not None:
            raise TopologyError("windows= and history_ms= are two kinds of stores: name one of them")
        if windows is not None:
            return self._draft.store(name, window_store(name, key_serde, value_serde, windows, retention_ms))
        if history_ms is not None:
            kept_ms = not_negative("history_ms", history_ms)
            return self._draft.store(name, lambda: VersionedStore(name, key_serde, value_serde, kept_ms))
        return self._draft.store(name, lambda: KeyValueStore(name, key_serde, value_serde))

    def build(self) -> Topology:
        """The topology, checked; TopologyError says what to change."""
        return self._draft.finish()


def _pattern(given: re.Pattern[str]) -> re.Pattern[str]:
    """The pattern; TopologyError for one of bytes or with flags, which its text alone does not tell."""
    if not isinstance(given.pattern, str) or given.flags != re.UNICODE:
        raise TopologyError(f"the pattern of topics {given.pattern!r} must be text and have no flags: write it without")
    return given
