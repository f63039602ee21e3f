"""The producer of a campaign, librdkafka in a thread, and an exact record of what was acknowledged."""

from __future__ import annotations

import threading
from array import array
from collections.abc import Sequence
from functools import partial

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from tests.lake.campaign.meaning import digest, meaning
from tests.lake.campaign.topics import FIRST_DAY, STAGES, Topic, maker

DAYS, DAY_MS = 3, 86_400_000
FIRST_MS = int(FIRST_DAY.timestamp() * 1000)
CHUNKS = 400
PACE_S = 0.5
SILENT_LOOKS = 120


class Acknowledged:
    """The records of one partition that were acknowledged."""

    def __init__(self) -> None:
        self.offsets, self.meanings, self.digests = array("q"), array("q"), array("q")
        self.poison: set[int] = set()

    def add(self, offset: int, sense: int, content: int, *, poison: bool) -> None:
        self.offsets.append(offset)
        self.meanings.append(sense)
        self.digests.append(content)
        if poison:
            self.poison.add(offset)

    @property
    def rows(self) -> dict[int, int]:
        """Offset -> meaning of what a lake must hold."""
        pairs = zip(self.offsets, self.meanings, strict=True)
        return {offset: sense for offset, sense in pairs if offset not in self.poison}


class Feed:
    """Produces `rows` records to all topics, chunk by chunk, as far as `allow` permits."""

    def __init__(self, bootstrap: str, registry_url: str, topics: Sequence[Topic], rows: int) -> None:
        self.acknowledged = {(each.name, part): Acknowledged() for each in topics for part in range(each.partitions)}
        self.faults: list[str] = []
        self.sent = 0
        self._makers = [(each.name, maker(each, registry_url)) for each in topics]
        self._rows = rows
        self._chunk = max(len(topics), rows // CHUNKS)
        self._allowed, self._at_once = 0, 0
        self._changed = threading.Condition()
        self._producer = Producer({
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "linger.ms": 20,
            "delivery.timeout.ms": 900_000,
            "queue.buffering.max.messages": 200_000,
            "logger": _Quiet(),
        })  # fmt: skip
        self._thread = threading.Thread(target=self._run, daemon=True, name="campaign-feed")
        self._thread.start()

    def allow(self, share: float, *, at_once: float = 0.5) -> None:
        """Permit a further share of all rows; a part of it is sent without pauses between chunks."""
        with self._changed:
            self._allowed = min(self._rows, self._allowed + int(share * self._rows) + 1)
            self._at_once = int(at_once * share * self._rows)
            self._changed.notify_all()

    def hurry(self) -> None:
        """Send the next chunks at once, even beyond the permitted share, so that there is something to load."""
        with self._changed:
            self._allowed = min(self._rows, max(self._allowed, self.sent + 2 * self._chunk))
            self._changed.notify_all()

    def finish(self) -> None:
        """Send the rest, and return once all is acknowledged."""
        with self._changed:
            self._allowed = self._at_once = self._rows
            self._changed.notify_all()
        self._thread.join()
        unplaced = self._producer.flush()
        if unplaced:
            self.faults.append(f"{unplaced} records were never acknowledged")

    def _run(self) -> None:
        while self.sent < self._rows:
            with self._changed:
                while self.sent >= self._allowed:
                    self._changed.wait(0.05)
                    self._producer.poll(0)
                hurried = self._at_once > 0
                self._at_once -= self._chunk
            for _ in range(min(self._chunk, self._rows - self.sent)):
                self._send(self.sent)
                self.sent += 1
            self._producer.poll(0)
            if not hurried:
                self._pause()

    def _pause(self) -> None:
        with self._changed:
            self._changed.wait(PACE_S)

    def _send(self, number: int) -> None:
        topic, make = self._makers[number % len(self._makers)]
        made = make(number // len(self._makers), number * STAGES // self._rows)
        key, when = b"%d" % number, FIRST_MS + number % DAYS * DAY_MS + number
        sense = meaning(key, when, made.document)
        told = partial(self._delivered, topic, sense, digest(key + (made.value or b"")), made.poison)
        while True:
            try:
                self._producer.produce(topic, made.value, key, timestamp=when, on_delivery=told)
                break
            except BufferError:
                self._producer.poll(0.1)

    def _delivered(
        self, topic: str, sense: int, content: int, poison: bool, fault: KafkaError | None, message: object
    ) -> None:
        if fault is not None or message.offset() < 0:  # type: ignore[attr-defined]
            self.faults.append(f"{topic}: a record was not acknowledged: {fault or 'no offset'}")
            return
        partition, offset = message.partition(), message.offset()  # type: ignore[attr-defined]
        self.acknowledged[topic, partition].add(offset, sense, content, poison=poison)


class _Quiet:
    """A logger that drops librdkafka's messages: the broker is expected to be away at times."""

    def log(self, *_: object) -> None:
        pass


def topic_differences(bootstrap: str, feed: Feed) -> list[str]:
    """Differences between the topics, read by librdkafka, and what was acknowledged."""
    found = []
    for (topic, partition), told in feed.acknowledged.items():
        there = {m.offset(): digest(m.key() + (m.value() or b"")) for m in read_partition(bootstrap, topic, partition)}
        expected = dict(zip(told.offsets, told.digests, strict=True))
        if len(told.offsets) != len(expected):
            found.append(f"{topic}-{partition}: two records were acknowledged under one offset")
        if there != expected:
            wrong = sorted(at for at in there.keys() | expected.keys() if there.get(at) != expected.get(at))
            found.append(f"{topic}-{partition}: the topic differs from what was acknowledged at offsets {wrong[:5]}")
    return found


def read_partition(bootstrap: str, topic: str, partition: int) -> list[object]:
    """All records of a partition, by librdkafka."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "campaign", "enable.auto.commit": False})
    try:
        place = TopicPartition(topic, partition, 0)
        _, end = consumer.get_watermark_offsets(place, timeout=60)
        consumer.assign([place])
        messages: list[object] = []
        silent = 0
        while end and (not messages or messages[-1].offset() < end - 1):  # type: ignore[attr-defined]
            found = consumer.consume(min(10_000, end), timeout=0.5)
            silent = 0 if found else silent + 1
            assert silent < SILENT_LOOKS, f"{topic}-{partition}: nothing came any more"
            messages += found
        return messages
    finally:
        consumer.close()
