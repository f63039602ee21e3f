"""The records of a source task on their way into topics: sent in runs, acknowledged in their order."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.client.aio.runs import RunProducer
from ottla.client.errors import may_retry
from ottla.client.model import Produced
from ottla.client.produce.run import Run, RunPart
from ottla.connect.records import SourceRecord
from ottla.connect.tasks.conversion import Outgoing


class Made(NamedTuple):
    """A record of the source, and what is sent of it: nothing where it was dropped or refused."""

    record: SourceRecord
    outgoing: Outgoing | None


@dataclass(slots=True)
class Sent:
    """Records that were sent together, in their order."""

    records: list[SourceRecord]
    topic: str | None = None
    """None where nothing was sent of them."""
    parts: list[tuple[RunPart, list[SourceRecord]]] = field(default_factory=list)

    @property
    def done(self) -> bool:
        """True once each record is delivered or has failed."""
        return all(part.done for part, _ in self.parts)

    def failures(self) -> Iterator[tuple[SourceRecord, Exception]]:
        """The records that were not delivered, each with its error."""
        for part, records in self.parts:
            for index, record in enumerate(() if part.is_whole else records):
                outcome = part.outcome(index)
                if not isinstance(outcome, Produced):
                    assert outcome is not None
                    yield record, outcome


class Sending:
    """The records of one producer that are not acknowledged yet."""

    def __init__(self, producer: RunProducer) -> None:
        self.delivered = asyncio.Event()
        """Set whenever a batch has its outcome."""
        self._producer = producer
        self._sent: deque[Sent] = deque()
        self.pending = 0
        """The number of records that are not acknowledged yet."""

    async def send(self, made: Sequence[Made]) -> None:
        """Produce records."""
        begin = 0
        while begin < len(made):
            end = _end_of_run(made, begin)
            self._sent.append(await self._send_run(made[begin:end]))
            self.pending += end - begin
            begin = end

    async def acknowledged(self, undelivered: Callable[[SourceRecord, Exception], Awaitable[None]]) -> list[Sent]:
        """Take the records from the front that are safe: one counts once all before it are.

        A record that failed for a reason that may pass stays there, and so do all behind it. Another failure is told to
        `undelivered`, which may raise.
        """
        taken: list[Sent] = []
        self.delivered.clear()
        try:
            while self._sent and self._sent[0].done:
                for record, error in self._sent[0].failures():
                    if may_retry(error):
                        raise error
                    await undelivered(record, error)
                taken.append(self._sent.popleft())
        except BaseException:
            self._sent.extendleft(reversed(taken))
            raise
        self.pending -= sum(len(sent.records) for sent in taken)
        return taken

    async def _send_run(self, made: Sequence[Made]) -> Sent:
        sent = Sent([each.record for each in made])
        going = [each for each in made if each.outgoing is not None]
        if not going:
            self.delivered.set()
            return sent
        records, outgoing = [each.record for each in going], [each.outgoing for each in going if each.outgoing]
        sent.topic, first = outgoing[0].topic, outgoing[0]
        keys = [each.key for each in outgoing]
        if first.partition is not None or not any(key is not None for key in keys):
            groups: dict[int | None, Sequence[int]] = {first.partition: range(len(outgoing))}
        else:
            groups = _grouped(await self._producer.partitions_for(first.topic, keys))
        now_ms = int(time.time() * 1000)
        for partition, places in groups.items():
            run = Run(
                [outgoing[place].value for place in places],
                None if partition is None else [keys[place] for place in places],
                first.headers,
                [now_ms if (at := outgoing[place].timestamp) is None else at for place in places],
                partition,
            )
            for part in await self._producer.produce_run(first.topic, run):
                part.batch.listeners.append(self.delivered.set)
                own = places[part.start : part.start + part.records_count]
                sent.parts.append((part, [records[place] for place in own]))
        return sent


def _end_of_run(made: Sequence[Made], begin: int) -> int:
    """The end of the records from here on that go to one topic, with the same headers and the same wish of a partition.

    Records that are not sent belong to any run.
    """
    topic = partition = headers = None
    for place in range(begin, len(made)):
        outgoing = made[place].outgoing
        if outgoing is None:
            continue
        if topic is None:
            topic, partition, headers = outgoing.topic, outgoing.partition, outgoing.headers
        elif outgoing.topic != topic or outgoing.partition != partition or outgoing.headers != headers:
            return place
    return len(made)


def _grouped(partitions: Sequence[int]) -> dict[int | None, Sequence[int]]:
    """The places of the records of each partition, in their order."""
    groups: dict[int | None, list[int]] = {}
    for place, partition in enumerate(partitions):
        groups.setdefault(partition, []).append(place)
    return dict(groups.items())
