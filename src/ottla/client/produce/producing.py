"""Sends a producer's batches: stories that run at the same time, one for each leader, and what is done with their ends.

Driven by blocking/producer.py and aio/producer.py, which keep the accumulator and say when to begin.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping, Sequence
from enum import Enum
from functools import partial
from typing import NamedTuple

from ottla.client.core import transfer
from ottla.client.core.effects import Ask, AskAll, ClientStory
from ottla.client.core.plan import ClusterPlan
from ottla.client.errors import (
    AWAY,
    ClientError,
    InvalidTransactionState,
    MetadataMissing,
    Refused,
    RequestTimedOut,
    may_retry,
    refused,
)
from ottla.client.model import Broker, ClientSettings, Produced, TopicView
from ottla.client.produce.accumulator import Accumulator, OutgoingBatch
from ottla.client.produce.settings import ProducerSettings
from ottla.client.produce.transacting import Transactor
from ottla.client.settings import completed, field_names, require_kind, require_known
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.kernel.ids import TopicPartition
from ottla.messages.produce import ProduceRequest, ProduceResponse

log = logging.getLogger("ottla.client")

Outcome = tuple[OutgoingBatch, Produced | Exception]

_ARGUMENTS = ("bootstrap", "producer", "settings")
_TOO_LARGE = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)
_FORGOTTEN = (ErrorCode.UNKNOWN_PRODUCER_ID,)


class Errand(Enum):
    """A story that sends no batches."""

    PREPARE = "find leaders, and add partitions to the transaction"
    REFRESH = "look for added partitions"


Purpose = Broker | Errand
"""The purpose of a story: the broker that it sends to, or an errand. One story of a purpose runs at a time."""


class StoryEnded(NamedTuple):
    """The end of one story: the outcomes of batches, retriable errors included, and those that may be sent now."""

    purpose: Purpose
    outcomes: Sequence[Outcome] = ()
    prepared: Sequence[OutgoingBatch] = ()


def settings_from(
    producer: ProducerSettings | None, settings: ClientSettings | None, options: Mapping[str, object]
) -> tuple[ProducerSettings, ClientSettings]:
    """The settings of a producer and of its connections, completed by single ones; TypeError for those there are not.

    `request_timeout_ms` is one of both.
    """
    require_kind("producer", producer, ProducerSettings)
    require_kind("settings", settings, ClientSettings)
    require_known("Producer", options, [*field_names(ProducerSettings), *field_names(ClientSettings), *_ARGUMENTS])
    return completed(producer or ProducerSettings(), options), completed(settings or ClientSettings(), options)


class Sender:
    """Sends batches of one accumulator. `begin` gives stories; it and `settle` change the accumulator."""

    def __init__(self, plan: ClusterPlan, accumulator: Accumulator) -> None:
        self.plan = plan
        self.accumulator = accumulator
        self.settings: ProducerSettings = accumulator.settings
        self._under_way: set[Purpose] = set()
        self._troubled: dict[TopicPartition, str] = {}
        """The words of the log about each partition whose batches are tried again and again."""
        self._known: dict[str, tuple[TopicView, Sequence[int]]] = {}
        """The partitions with a leader, for each topic by the view that they were found in."""
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
        known = self._known.get(topic)
        if known is None or known[0] is not view:  # it is asked for each record, and changes with the metadata only
            known = self._known[topic] = (view, [index for index, at in view.partitions.items() if at.leader >= 0])
        return (known[1], len(view.partitions)) if known[1] else None

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

    def begin(self, *, flush: bool) -> list[ClientStory[StoryEnded]]:
        """Begin to send the batches that may leave: stories to run at the same time, each with its end for `settle`.

        Each broker has one story at a time, with its own connection. So a broker that does not answer holds back only
        the batches that it leads.
        """
        now_ms = self.plan.now_ms()
        groups: dict[Purpose, list[OutgoingBatch]] = {}
        for batch in self.accumulator.ready(now_ms, flush=flush, free=self._is_free):
            groups.setdefault(self._purpose(batch), []).append(batch)
        stories = [
            self._prepare(group) if isinstance(purpose, Errand) else self._send(purpose, group)
            for purpose, group in groups.items()
        ]
        self._under_way.update(groups)
        aged = self._aged(groups, now_ms)
        if aged and Errand.REFRESH not in self._under_way:
            self._under_way.add(Errand.REFRESH)
            stories.append(self._refresh(aged))
        return stories

    def next_begin_ms(self, *, flush: bool) -> float:
        """The time at which `begin` will have something even if no story ends; infinity where nothing waits."""
        return self.accumulator.next_ready_ms(flush=flush, free=self._is_free)

    def begins(self, batch: OutgoingBatch) -> bool:
        """True if the sending thread is to look after this batch: it is new, or full, and waits for no story to end."""
        return (batch.sealed or batch.builder.records_count == 1) and self.may_begin(batch.partition)

    def may_begin(self, partition: TopicPartition) -> bool:
        """True if a batch of this partition waits for no story to end."""
        first = self.accumulator.first(partition)
        return first is not None and not first.under_way and self._is_free(first)

    def settle(self, ended: Sequence[StoryEnded]) -> list[OutgoingBatch]:
        """Take the ends of stories in: batches that may be tried again wait, the others are finished and returned."""
        now_ms = self.plan.now_ms()
        finished = []
        for end in ended:
            self._under_way.discard(end.purpose)
            for batch in end.prepared:
                self.accumulator.put_back(batch)
            finished += [batch for batch, outcome in end.outcomes if self._finish(batch, outcome, now_ms)]
        return finished + self._give_up(now_ms)

    def _finish(self, batch: OutgoingBatch, outcome: Produced | Exception, now_ms: float) -> bool:
        """Finish a batch; False where it waits to be tried again."""
        if self._is_divisible(batch, outcome):
            self.accumulator.split(batch)
            return False
        if isinstance(outcome, Exception):
            forgotten = self._is_forgotten(outcome)
            if may_retry(outcome) or forgotten:
                base, most = self.plan.settings.retry_backoff_ms, self.plan.settings.retry_backoff_max_ms
                retry_at = now_ms + min(base * 2.0**batch.attempts, most)
                if retry_at < batch.created_ms + self.settings.delivery_timeout_ms:
                    self._tell_trouble(batch, outcome)
                    self.accumulator.again(batch, retry_at, outcome, fresh_identity=forgotten)
                    return False
                outcome = self._too_late(batch, outcome)
            if self.transactor is not None:
                self.transactor.state.batch_failed(outcome, was_sent=batch.was_sent)
        elif self._troubled.get(batch.partition):
            log.warning("%s: records are delivered again", batch.partition)
        self._troubled.pop(batch.partition, None)
        self.accumulator.finish(batch, outcome)
        return True

    def _is_divisible(self, batch: OutgoingBatch, outcome: Produced | Exception) -> bool:
        """True if a batch was refused as too large, at its first attempt, and smaller ones may not be.

        After a further attempt the broker may hold it, if the topic's limit has changed meanwhile.
        """
        too_large = isinstance(outcome, ApiError) and outcome.code in _TOO_LARGE
        return too_large and batch.builder.records_count > 1 and not batch.attempts

    def _tell_trouble(self, batch: OutgoingBatch, fault: Exception) -> None:
        """Say once what keeps a partition's records from being delivered; the first retry often mends it, unsaid."""
        if batch.attempts and self._troubled.get(batch.partition) != str(fault):
            self._troubled[batch.partition] = str(fault)
            most_s = self.settings.delivery_timeout_ms / 1000
            log.warning("%s; trying again until the records are %.0f s old", str(fault).rstrip("."), most_s)

    def _is_free(self, batch: OutgoingBatch) -> bool:
        return self._purpose(batch) not in self._under_way

    def _purpose(self, batch: OutgoingBatch) -> Purpose:
        """The story that a batch needs next.

        A batch that failed waits for fresh metadata while its topic is in doubt. Others go to the leader that is known:
        else one broker that is away would let all batches of its topics wait.
        """
        metadata, partition = self.plan.metadata, batch.partition
        leader = metadata.leader(*partition)
        if leader is None or (batch.attempts and not metadata.is_led(*partition)):
            return Errand.PREPARE
        if self.transactor is not None and not self.transactor.state.takes(partition):
            return Errand.PREPARE
        return leader

    def _aged(self, groups: Mapping[Purpose, Sequence[OutgoingBatch]], now_ms: float) -> list[str]:
        """The topics of batches to known leaders whose metadata is so old that partitions may have been added."""
        oldest_ms = now_ms - self.plan.settings.metadata_max_age_ms
        sent = [group for purpose, group in groups.items() if not isinstance(purpose, Errand)]
        topics = {batch.partition.topic for group in sent for batch in group}
        return sorted(topic for topic in topics if self.plan.metadata.taken_ms.get(topic, 0.0) <= oldest_ms)

    async def _refresh(self, topics: Sequence[str]) -> StoryEnded:
        """Fetch metadata of these topics; what is known will do where no broker answers."""
        with contextlib.suppress(ApiError, ClientError):
            await self.plan.refresh(topics, patience_ms=0)
        return StoryEnded(Errand.REFRESH)

    async def _prepare(self, batches: Sequence[OutgoingBatch]) -> StoryEnded:
        """Add the partitions to the transaction, and find their leaders."""
        try:
            if self.transactor is not None:
                await self.transactor.add({batch.partition for batch in batches})
        except (ApiError, ClientError) as fault:
            return StoryEnded(Errand.PREPARE, [(batch, fault) for batch in batches])
        leaders = await self.plan.leaders([batch.partition for batch in batches])
        outcomes: list[Outcome] = []
        prepared = []
        for batch in batches:
            leader = leaders[batch.partition]
            if isinstance(leader, Exception):
                outcomes.append((batch, leader))
            else:
                prepared.append(batch)
        return StoryEnded(Errand.PREPARE, outcomes, prepared)

    async def _send(self, broker: Broker, batches: Sequence[OutgoingBatch]) -> StoryEnded:
        """Send batches to their leader, all requests before the first answer is awaited."""
        if self.transactor is not None:
            try:
                await self.transactor.add({batch.partition for batch in batches})  # without a request: see `_purpose`
            except (ApiError, ClientError) as fault:
                return StoryEnded(broker, [(batch, fault) for batch in batches])
        self.plan.turns.asked(broker.destination(), self.plan.now_ms())
        needy = [batch for batch in batches if self.accumulator.needs_identity(batch)]
        outcomes: list[Outcome] = []
        try:
            await self._identify(broker, needy)
        except (ApiError, ClientError) as fault:
            outcomes = self._failed(needy, fault)
            batches = [batch for batch in batches if batch not in needy]
        portions = self._portions(batches)
        answers = await AskAll([self._ask(broker, portion) for portion in portions])
        if not all(isinstance(answer, AWAY) for answer in answers):
            self.plan.turns.answered(broker.destination())
        for portion, answer in zip(portions, answers, strict=True):
            outcomes += self._read(portion, answer)
        return StoryEnded(broker, outcomes)

    async def _identify(self, broker: Broker, batches: Sequence[OutgoingBatch]) -> None:
        """Give a producer id to the partitions of these batches, one to all.

        Every broker has ids. The leader of the batches is asked, so that they wait for no other broker.
        """
        if not batches:
            return
        if self.transactor is not None:
            identity = self.transactor.identity
        else:
            identity = await transfer.init_producer_id(self.plan, where=broker.destination("produce"))
        for batch in batches:
            self.accumulator.identify(batch.partition, identity)

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

    def _failed(self, batches: Sequence[OutgoingBatch], fault: Exception) -> list[Outcome]:
        """The outcomes of batches whose leader did not answer, or refused them all."""
        for batch in batches:
            self.plan.metadata.doubt(batch.partition.topic)
        return [(batch, fault) for batch in batches]

    def _read(self, batches: Sequence[OutgoingBatch], answer: ProduceResponse | Exception | None) -> list[Outcome]:
        if isinstance(answer, Exception):
            return self._failed(batches, answer)
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
                produced = transfer.read_produced(self.plan, batch.partition.topic, found, answer)
                if isinstance(produced, Exception):
                    outcomes.append((batch, _with_size(produced, batch, len(self.accumulator.frame(batch)))))
                else:
                    outcomes.append((batch, produced))
        return outcomes

    def _too_late(self, batch: OutgoingBatch, last: Exception | None) -> Exception:
        """The error of a batch whose time is over; without a `last` one it waited for those before it."""
        why = batch.last_fault if last is None else f"; the last error: {str(last).rstrip('.')}"
        return RequestTimedOut(
            f"{batch.builder.records_count} records for {batch.partition} could not be delivered within "
            f"{self.settings.delivery_timeout_ms:.0f} ms{why or '; those before them took too long'}"
        )


def _with_size(fault: Exception, batch: OutgoingBatch, size: int) -> Exception:
    """MESSAGE_TOO_LARGE with the size of what was refused; other errors as they are."""
    if not isinstance(fault, Refused) or fault.code is not ErrorCode.MESSAGE_TOO_LARGE:
        return fault
    count = batch.builder.records_count
    held = f"one record of {size} bytes" if count == 1 else f"a batch of {count} records and {size} bytes"
    reason = (fault.reason or "it is larger than the topic's max.message.bytes").rstrip(".")
    return Refused(fault.code, fault.about, f"{held} was refused: {reason}")
