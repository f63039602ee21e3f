"""Sends a producer's batches: one request per leader with those that are ready, and takes in each answer.

Driven by blocking/producer.py and aio/producer.py, which keep the accumulator and say when to send.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from ottla.client.core import transfer
from ottla.client.core.effects import Ask, AskAll
from ottla.client.core.plan import ClusterPlan
from ottla.client.errors import (
    ClientError,
    InvalidTransactionState,
    MetadataMissing,
    RequestTimedOut,
    may_retry,
    refused,
)
from ottla.client.model import Broker, Produced
from ottla.client.produce.accumulator import Accumulator, OutgoingBatch, ProducerSettings
from ottla.client.produce.transacting import Transactor
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.messages.produce import ProduceRequest, ProduceResponse

Outcome = tuple[OutgoingBatch, Produced | Exception]

_FORGOTTEN = (ErrorCode.UNKNOWN_PRODUCER_ID,)


def with_transactions(
    settings: ProducerSettings | None, transactional_id: str | None, timeout_ms: int | None
) -> ProducerSettings:
    """The settings, completed by the given arguments about transactions."""
    chosen = settings or ProducerSettings()
    if transactional_id is not None:
        chosen = replace(chosen, transactional_id=transactional_id)
    return chosen if timeout_ms is None else replace(chosen, transaction_timeout_ms=timeout_ms)


class Sender:
    """Sends batches of one accumulator. `send` is a story, `settle` is not and changes the accumulator."""

    def __init__(self, plan: ClusterPlan, accumulator: Accumulator) -> None:
        self.plan = plan
        self.accumulator = accumulator
        self.settings: ProducerSettings = accumulator.settings
        self.transactor: Transactor | None = None
        """For a producer with a transactional id: all its batches belong to transactions."""
        if self.settings.transactional_id is not None:
            timeout_ms = self.settings.transaction_timeout_ms
            self.transactor = Transactor(plan, self.settings.transactional_id, timeout_ms=timeout_ms)

    def known_partitions(self, topic: str, partition: int | None = None) -> tuple[Sequence[int], int] | None:
        """The topic's partitions with a leader, and how many it has.

        None where none is known to have a leader, or no partition of the number asked for.
        """
        view = self.plan.metadata.topics.get(topic)
        if view is None or view.error or (partition is not None and partition >= len(view.partitions)):
            return None
        available = [index for index, each in view.partitions.items() if each.leader >= 0]
        return (available, len(view.partitions)) if available else None

    async def find_partitions(self, topic: str, partition: int | None = None) -> tuple[Sequence[int], int]:
        """Like `known_partitions`, asked for; waits for the first leader, but not for a partition that there is not."""
        if self.known_partitions(topic) is not None and self.known_partitions(topic, partition) is None:
            await self.plan.refresh([topic])
        create, timeout_ms = self.settings.allow_auto_create_topics, self.settings.max_block_ms
        led = partial(self.known_partitions, topic)
        await self.plan.ensure([topic], create=create, timeout_ms=timeout_ms, enough=lambda: led() is not None)
        found = led()
        if found is None:
            raise MetadataMissing(f"topic {topic!r} has no partition with a leader")
        return found

    async def identify(self, batches: Sequence[OutgoingBatch]) -> None:
        """Give a producer id to the partitions that need one; one id serves all that need it at this moment."""
        if self.transactor is not None:
            await self.transactor.add({batch.partition for batch in batches})
        needy = [batch.partition for batch in batches if self.accumulator.needs_identity(batch)]
        if needy:
            transactor = self.transactor
            identity = await transfer.init_producer_id(self.plan) if transactor is None else transactor.identity
            for partition in needy:
                self.accumulator.identify(partition, identity)

    async def send(self, batches: Sequence[OutgoingBatch]) -> list[Outcome]:
        """Send each batch to its leader; return the outcome of each, retriable errors included."""
        outcomes: list[Outcome] = []
        try:
            await self.identify(batches)
        except (ApiError, ClientError) as fault:
            return [(batch, fault) for batch in batches]
        groups: dict[Broker, list[OutgoingBatch]] = {}
        leaders = await self.plan.leaders([batch.partition for batch in batches])
        for batch in batches:
            leader = leaders[batch.partition]
            if isinstance(leader, Exception):
                outcomes.append((batch, leader))
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
                forgotten = self._is_forgotten(outcome)
                if may_retry(outcome) or forgotten:
                    base, most = self.plan.settings.retry_backoff_ms, self.plan.settings.retry_backoff_max_ms
                    retry_at = now_ms + min(base * 2.0**batch.attempts, most)
                    if retry_at < batch.created_ms + self.settings.delivery_timeout_ms:
                        self.accumulator.again(batch, retry_at, fresh_identity=forgotten)
                        continue
                    outcome = self._too_late(batch, outcome)
                if self.transactor is not None:
                    self.transactor.state.batch_failed(outcome, was_sent=batch.was_sent)
            self.accumulator.finish(batch, outcome)
            finished.append(batch)
        return finished + self._give_up(now_ms)

    def _give_up(self, now_ms: float) -> list[OutgoingBatch]:
        """Fail the batches that wait and whose time is over, tried or not; return them."""
        expired = self.accumulator.expired(now_ms)
        for batch in expired:
            fault = self._too_late(batch, None)
            if self.transactor is not None:
                self.transactor.state.batch_failed(fault, was_sent=batch.was_sent)
            self.accumulator.finish(batch, fault)
        return expired

    def require_transactor(self) -> Transactor:
        """Raise if the producer has no transactional id."""
        if self.transactor is None:
            raise InvalidTransactionState("transactions need a transactional_id")
        return self.transactor

    def require_open(self) -> None:
        """Raise if a record cannot be taken now, because it would belong to no transaction."""
        if self.transactor is not None:
            self.transactor.state.require_open()

    def drop_waiting(self, fault: Exception) -> list[OutgoingBatch]:
        """Fail the batches that are not under way, as their transaction is being aborted; return them."""
        dropped = self.accumulator.drop_waiting(fault)
        for batch in dropped:
            self.require_transactor().state.batch_failed(fault, was_sent=batch.was_sent)
        return dropped

    def _is_forgotten(self, outcome: Exception) -> bool:
        """True if the broker no longer knows the producer id; within a transaction another id would not do."""
        return self.transactor is None and isinstance(outcome, ApiError) and outcome.code in _FORGOTTEN

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
        transaction = None if self.transactor is None else self.transactor.in_transaction
        topics = [batch.partition.topic for batch in batches]
        least, most = transfer.produce_versions(self.plan, topics, transaction)
        return Ask(
            broker.destination("produce"),
            ProduceRequest,
            ProduceResponse,
            transfer.produce_build(self.plan, parts, self.settings.acks, timeout_ms, transaction),
            min_version=least,
            max_version=most,
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

    def _too_late(self, batch: OutgoingBatch, last: Exception | None) -> Exception:
        return RequestTimedOut(
            f"{batch.builder.records_count} records for {batch.partition} could not be delivered within "
            f"{self.settings.delivery_timeout_ms:.0f} ms; "
            + (f"the last error: {last}" if last is not None else "those before them took too long")
        )
