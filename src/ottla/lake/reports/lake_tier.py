"""Sends the lake's own counts of each round to the audit topic, as tier `lake`, by topic and window.

A round's messages are the same each time that they are made, numbered by the round. They are sent after its commit
and, for the last round, once more when a loader starts: a reader counts them once.
"""

from __future__ import annotations

from collections.abc import Callable

from ottla.client.blocking.producer import Producer
from ottla.client.model import ClientSettings
from ottla.client.produce.audit_trail import WINDOW_MS, AuditMessage
from ottla.client.produce.settings import ProducerSettings
from ottla.lake.columns.windows import MOST_WINDOWS, OLDER, Tally
from ottla.lake.notes.plans import Publication
from ottla.lake.reports.tiers import LAKE_TIER
from ottla.rows.kafka_settings import KafkaSettings

PATIENCE_MS = 10_000


class LakeTier:
    """Sends the messages of rounds; those that fail wait for the next time."""

    def __init__(self, kafka: KafkaSettings, topic: str, loader: str, clock: Callable[[], int]) -> None:
        self._kafka = kafka
        self._topic = topic
        self._loader = loader
        self._clock = clock
        self._unsent: list[AuditMessage] = []

    def send(self, publication: Publication) -> None:
        """Send a round's messages. Raises ApiError and ClientError.

        Messages about the audit topic itself are not sent: where the lake loads it, they would never end.
        """
        messages = round_messages(publication, self._loader, self._clock())
        self._unsent += [each for each in messages if each.topic != self._topic]
        self.send_waiting()

    def send_waiting(self) -> None:
        """Send the messages that could not be sent before."""
        if not self._unsent:
            return
        patience = ProducerSettings(delivery_timeout_ms=PATIENCE_MS, max_block_ms=PATIENCE_MS)
        client = ClientSettings(security=self._kafka.security)
        with Producer(self._kafka.bootstrap_servers, producer=patience, settings=client) as producer:
            waiting = [producer.produce(self._topic, each.encode(), each.topic) for each in self._unsent]
            for delivery in waiting:
                delivery.result(2 * PATIENCE_MS / 1000)
        self._unsent = []


def round_messages(publication: Publication, loader: str, now_ms: int) -> list[AuditMessage]:
    """A message for each topic and window of a round.

    Dead letters and filtered records count, as they were read from the broker, too.
    """
    found = []
    for topic, tally in publication.windows.items():
        for place, window in enumerate(tally.windows):
            if window != OLDER:
                found.append(_message(publication.plan.number, topic, tally, place, loader, now_ms))
    return found


def _message(number: int, topic: str, tally: Tally, place: int, loader: str, now_ms: int) -> AuditMessage:
    start = tally.windows[place] * WINDOW_MS
    return AuditMessage(
        tier=LAKE_TIER,
        topic=topic,
        window_start=start,
        window_end=start + WINDOW_MS,
        count=tally.records[place],
        bytes=tally.bytes[place],
        host=loader,
        service=f"ottla-lake/{topic}",
        seq=number * MOST_WINDOWS + place,
        sent_at=now_ms,
    )
