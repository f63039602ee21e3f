"""Sending a producer's batches: one request per leader with what is ready, then what to do with each answer.

Comes from `blocking_producer` and `aio_producer`, which keep the accumulator and say when.
"""

from __future__ import annotations

from collections.abc import Sequence

from ottla.client import transfer
from ottla.client.accumulator import Accumulator, OutgoingBatch, ProducerSettings
from ottla.client.asks import Ask, AskAll
from ottla.client.errors import ClientError, RequestTimedOut, may_retry, refused
from ottla.client.model import Broker, Produced
from ottla.client.plan import ClusterPlan
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.messages.produce import ProduceRequest, ProduceResponse

Outcome = tuple[OutgoingBatch, Produced | Exception]

_FORGOTTEN = (ErrorCode.UNKNOWN_PRODUCER_ID,)


class Sender:
    """Sends batches of one accumulator. `send` is a story, `settle` is not and changes the accumulator."""

    def __init__(self, plan: ClusterPlan, accumulator: Accumulator) -> None:
        self.plan = plan
        self.accumulator = accumulator
        self.settings: ProducerSettings = accumulator.settings

    async def identify(self, batches: Sequence[OutgoingBatch]) -> None:
        """Give a producer id to the partitions that need one; one id serves all that need it at this moment."""
        needy = [batch.partition for batch in batches if self.accumulator.needs_identity(batch)]
        if needy:
            identity = await transfer.init_producer_id(self.plan)
            for partition in needy:
                self.accumulator.identify(partition, identity)

    async def send(self, batches: Sequence[OutgoingBatch]) -> list[Outcome]:
        """Send each batch to its leader; what became of each, retriable errors included."""
        outcomes: list[Outcome] = []
        try:
            await self.identify(batches)
        except (ApiError, ClientError) as fault:
            return [(batch, fault) for batch in batches]
        groups: dict[Broker, list[OutgoingBatch]] = {}
        for batch in batches:
            try:
                leader = await self.plan.leader(*batch.partition)
            except (ApiError, ClientError) as fault:
                outcomes.append((batch, fault))
            else:
                groups.setdefault(leader, []).append(batch)
        requests = [(broker, part) for broker, group in groups.items() for part in self._portions(group)]
        answers = await AskAll([self._ask(broker, part) for broker, part in requests])
        for (_, part), answer in zip(requests, answers, strict=True):
            outcomes += self._read(part, answer)
        return outcomes

    def settle(self, outcomes: Sequence[Outcome]) -> list[OutgoingBatch]:
        """Take outcomes in: batches that may be tried again wait, the others are finished and returned."""
        now_ms = self.plan.now_ms()
        finished = []
        for batch, found in outcomes:
            outcome = found
            if isinstance(outcome, Exception):
                forgotten = isinstance(outcome, ApiError) and outcome.code in _FORGOTTEN
                if may_retry(outcome) or forgotten:
                    base, most = self.plan.settings.retry_backoff_ms, self.plan.settings.retry_backoff_max_ms
                    retry_at = now_ms + min(base * 2.0**batch.attempts, most)
                    if retry_at < batch.created_ms + self.settings.delivery_timeout_ms:
                        self.accumulator.again(batch, retry_at, fresh_identity=forgotten)
                        continue
                    outcome = self._too_late(batch, outcome)
            self.accumulator.finish(batch, outcome)
            finished.append(batch)
        return finished

    def _portions(self, batches: Sequence[OutgoingBatch]) -> list[list[OutgoingBatch]]:
        """Batches of one leader as requests of at most `max_request_size`, at least one batch each."""
        portions: list[list[OutgoingBatch]] = []
        size = 0
        for batch in batches:
            length = len(self.accumulator.frame(batch))
            if not portions or size + length > self.settings.max_request_size:
                portions.append([])
                size = 0
            portions[-1].append(batch)
            size += length
        return portions

    def _ask(self, broker: Broker, batches: Sequence[OutgoingBatch]) -> Ask[ProduceResponse]:
        parts = [(*batch.partition, self.accumulator.frame(batch)) for batch in batches]
        timeout_ms = self.settings.request_timeout_ms
        return Ask(
            broker.destination("produce"),
            ProduceRequest,
            ProduceResponse,
            transfer.produce_build(self.plan, parts, self.settings.acks, timeout_ms),
            min_version=3,
            max_version=transfer.produce_version(self.plan, [batch.partition.topic for batch in batches], None),
            timeout_ms=timeout_ms + 5_000,
        )

    def _read(self, batches: Sequence[OutgoingBatch], answer: ProduceResponse | Exception | None) -> list[Outcome]:
        if isinstance(answer, Exception):
            for batch in batches:
                self.plan.metadata.doubt(batch.partition.topic)
            return [(batch, answer) for batch in batches]
        if answer is None:
            return [(batch, Produced(-1)) for batch in batches]
        parts = {}
        for topic in answer.responses:
            name = topic.name or self.plan.metadata.names.get(bytes(topic.topic_id), "")
            for part in topic.partition_responses:
                parts[name, part.index] = part
        outcomes: list[Outcome] = []
        for batch in batches:
            found = parts.get((batch.partition.topic, batch.partition.partition))
            if found is None:
                fault = refused(ErrorCode.UNKNOWN_SERVER_ERROR, f"produce to {batch.partition}: not answered")
                outcomes.append((batch, fault))
            elif found.error_code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
                outcomes.append((batch, Produced(-1)))
            else:
                outcomes.append((batch, transfer.read_produced(self.plan, batch.partition.topic, found, answer)))
        return outcomes

    def _too_late(self, batch: OutgoingBatch, last: Exception) -> Exception:
        return RequestTimedOut(
            f"{batch.builder.records_count} records for {batch.partition} could not be delivered within "
            f"{self.settings.delivery_timeout_ms:.0f} ms; the last error: {last}"
        )
