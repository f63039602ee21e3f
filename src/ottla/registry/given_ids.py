"""The greatest id that each context has given, kept in a topic of its own: a witness that `_schemas` went back.

An id is noted here before its schema is appended to the registry's topic. Where that topic was deleted, emptied, or
replaced by an older copy, the registry goes on above the noted ids, so that none gets a second meaning. Each id is a
record with a key of its own, which compaction cannot replace by a lower one that a slow instance writes later; the
record of the id before is deleted.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterable, Iterator, Mapping

from ottla.client.aio.cluster import Cluster
from ottla.client.core.transfer import produce
from ottla.client.model import EARLIEST, LATEST
from ottla.jobs.state_topic_setup import UnusableTopic, open_topic
from ottla.kernel.ids import TopicPartition
from ottla.records.batch import iterate_batches
from ottla.records.builder import build_batch
from ottla.records.faults import CorruptRecords
from ottla.records.reader import Record as LogRecord
from ottla.records.reader import read_records
from ottla.registry.records import Record, SchemaValue
from ottla.registry.state import RegistryState
from ottla.registry.subjects import context_of
from ottla.registry.topic import WORDS

SUFFIX = "_ids"
"""Behind the name of the registry's topic: the name of this one."""
MAX_BYTES = 1024 * 1024
_PARTITION = 0
_log = logging.getLogger(__name__)


class GivenIds:
    """The ids that were given by any instance, or were about to be."""

    def __init__(self, cluster: Cluster, topic: str, *, replication_factor: int, timeout_ms: int) -> None:
        self.topic = topic + SUFFIX
        self.greatest: dict[str, int] = {}
        """By context, the greatest id that is noted, as far as this instance has read or written."""
        self._cluster = cluster
        self._replication_factor = replication_factor
        self._timeout_ms = timeout_ms

    async def open(self) -> None:
        """Read the topic to its end; create it where it does not exist."""
        await open_topic(self._cluster, self.topic, self._replication_factor, WORDS)
        partition = TopicPartition(self.topic, _PARTITION)
        position = (await self._cluster.list_offsets([partition], EARLIEST))[partition].offset
        end = (await self._cluster.list_offsets([partition], LATEST))[partition].offset
        while position < end:
            piece = await self._cluster.fetch(self.topic, _PARTITION, position, max_bytes=MAX_BYTES)
            if piece.error:
                raise self._unreadable(position, piece.error.name)
            for key, value in self._pairs(piece.records):
                self._take(key, value)
            position = piece.next_offset

    async def note(self, ids: Mapping[str, int]) -> None:
        """Note ids that are to be given, before they are; nothing is written for those that are noted already."""
        new = {context: number for context, number in ids.items() if number > self.greatest.get(context, 0)}
        if not new:
            return
        now_ms = int(time.time() * 1000)
        records = [LogRecord(0, now_ms, _key(context, number), b"{}") for context, number in new.items()]
        replaced = [(context, self.greatest[context]) for context in new if context in self.greatest]
        records += [LogRecord(0, now_ms, _key(context, number), None) for context, number in replaced]
        story = produce(
            self._cluster.plan, self.topic, _PARTITION, build_batch(records), delivery_timeout_ms=self._timeout_ms
        )
        await self._cluster.run(story)
        self.greatest |= new

    def _pairs(self, body: memoryview) -> Iterator[tuple[bytes, bytes | None]]:
        try:
            for batch in iterate_batches(body):
                if not batch.crc_holds():
                    raise self._unreadable(batch.base_offset, "its CRC does not fit")
                if not batch.is_control:
                    yield from ((record.key or b"", record.value) for record in read_records(batch))
        except CorruptRecords as fault:
            raise self._unreadable(None, str(fault)) from fault

    def _take(self, key: bytes, value: bytes | None) -> None:
        try:
            parsed = json.loads(key)
            context, number = parsed["context"], parsed["id"]
        except (ValueError, TypeError, KeyError):
            _log.warning("%s: a record with an unknown key is left out: %r", self.topic, key)
            return
        if value is not None and isinstance(context, str) and isinstance(number, int):
            self.greatest[context] = max(number, self.greatest.get(context, 0))

    def _unreadable(self, offset: int | None, why: str) -> UnusableTopic:
        place = "" if offset is None else f" at offset {offset}"
        return UnusableTopic(
            f"the topic {self.topic} is damaged{place} ({why}). It holds the greatest ids that were given, so that "
            "none is given twice. Restore it; or, if the registry's own topic is whole, delete this one by `ottla "
            f"topic delete --internal {self.topic}` and start again"
        )


def ids_in(records: Iterable[Record]) -> dict[str, int]:
    """By context, the greatest id that records give."""
    found: dict[str, int] = {}
    for _, value in records:
        if isinstance(value, SchemaValue):
            context = context_of(value.subject)
            found[context] = max(value.id, found.get(context, 0))
    return found


def missing_ids(state: RegistryState, given: Mapping[str, int]) -> dict[str, tuple[int, int]]:
    """By context, the greatest id of the registry's topic and a greater one that was given; empty if all is there."""
    return {
        context: (state.greatest_id(context), number)
        for context, number in sorted(given.items())
        if number > state.greatest_id(context)
    }


def _key(context: str, number: int) -> bytes:
    return json.dumps({"keytype": "GIVEN_ID", "context": context, "id": number}, separators=(",", ":")).encode()
