"""The transactions that this broker coordinates: a runner for each partition of `__transaction_state` that it leads.

Called by the handlers of the transaction APIs; based on coordinator.py. marker_sender.py gets the markers that leave
the shards.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from ottla.broker.coordinators.coordinator import Coordinator
from ottla.broker.coordinators.marker_sender import MarkerSender
from ottla.broker.coordinators.shard_runner import ShardRunner
from ottla.broker.replicas.partition import Partition
from ottla.cluster import features
from ottla.cluster.features import TRANSACTION_VERSION
from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import ProducerId, TopicPartition
from ottla.kernel.story import Slot
from ottla.transactions.shard import TransactionShard
from ottla.transactions.values import EPOCH_BUMPS, Markers, TransactionSettings, Verified

if TYPE_CHECKING:
    from ottla.broker.environment import Environment
    from ottla.config.broker import BrokerConfig

TRANSACTION_TOPIC = "__transaction_state"
COMMIT_TIMEOUT_MS = 5000
"""The longest wait of an answer for the commit of its entry; Kafka has no option for it either."""


class TransactionCoordinator(Coordinator[TransactionShard]):
    """Every transaction shard of this broker. `partitions` says how many the topic has, 0 while there is none."""

    def __init__(
        self,
        around: Environment,
        partitions: Callable[[], int],
        new_producer_id: Callable[[], ProducerId | None],
        sender: MarkerSender,
    ) -> None:
        """`new_producer_id` gives None where no id is at hand."""
        super().__init__(around, partitions)
        self._cluster = around
        self._new_producer_id = new_producer_id
        self._settings = settings_of(around.config)
        self._waiting: dict[str, list[Slot[bool]]] = {}
        """By transactional id, requests that wait for the end of the transaction before theirs."""
        self.sender = sender
        sender.when_written(self._marked)

    def _run(self, partition: Partition, answers_from_ms: Callable[[], int]) -> ShardRunner[TransactionShard]:
        return ShardRunner(
            partition,
            TransactionShard(self._settings_now(), self._new_producer_id),
            self._around,
            commit_timeout_ms=COMMIT_TIMEOUT_MS,
            on_deadline=self._wake_at,
            answers_from_ms=answers_from_ms,
            on_effect=self._send,
        )

    def _ended(self, runner: ShardRunner[TransactionShard]) -> None:
        self.sender.forget(runner)

    def _send(self, runner: ShardRunner[TransactionShard], effect: object) -> None:
        assert isinstance(effect, Markers)
        self.sender.send(runner, effect)

    def now_ms(self) -> int:
        return self._around.clock.mono_ms()

    def end_of_transaction(self, transactional_id: str, until_ms: int) -> Slot[bool]:
        """True once no markers of the transaction are on their way any more, False at `until_ms`.

        The transaction may have ended before this is called: the shard's answer was held until its commit.
        """
        slot: Slot[bool] = Slot()
        if self.now_ms() >= until_ms:
            slot.fill(False)
            return slot
        runner = self.runner_of(transactional_id)
        if runner is None or not _is_ending(runner, transactional_id):
            slot.fill(True)
            return slot
        self._waiting.setdefault(transactional_id, []).append(slot)
        self._around.deadlines.at(until_ms, lambda: self._give_up(transactional_id, slot))
        return slot

    def _give_up(self, transactional_id: str, slot: Slot[bool]) -> None:
        waiting = self._waiting.get(transactional_id, [])
        if slot in waiting:
            waiting.remove(slot)
            if not waiting:
                del self._waiting[transactional_id]
            slot.fill(False)

    def _marked(self, runner: ShardRunner[TransactionShard], transactional_id: str) -> None:
        if transactional_id not in self._waiting:
            return
        if not _is_ending(runner, transactional_id):
            for slot in self._waiting.pop(transactional_id):
                slot.fill(True)

    def _settings_now(self) -> TransactionSettings:
        return replace(self._settings, transaction_version=features.level(self._cluster.metadata, TRANSACTION_VERSION))

    def take_features(self) -> None:
        """Give the feature levels of the metadata to the shards that serve, too."""
        level = features.level(self._cluster.metadata, TRANSACTION_VERSION)
        for runner in self.runners():
            if runner.shard.settings.transaction_version != level:
                runner.shard.finalized(level)

    def reconfigure(self, config: BrokerConfig) -> None:
        """Take new options: they apply to shards loaded from now on."""
        self._settings = settings_of(config)


def _is_ending(runner: ShardRunner[TransactionShard], transactional_id: str) -> bool:
    """True while markers of a transaction are on their way."""
    current = runner.shard.transactions.get(transactional_id)
    return current is not None and current.prepared


def settings_of(config: BrokerConfig) -> TransactionSettings:
    return TransactionSettings(
        id_expiration_ms=config.transactional_id_expiration_ms,
        abort_check_ms=config.transaction_abort_timed_out_transaction_cleanup_interval_ms,
        expiration_check_ms=config.transaction_remove_expired_transaction_cleanup_interval_ms,
    )


async def add_partitions(
    coordinator: TransactionCoordinator,
    transactional_id: str,
    producer_id: int,
    producer_epoch: int,
    partitions: frozenset[TopicPartition],
    *,
    bumps: bool,
    patience_ms: int,
) -> ErrorCode:
    """Have the shard here add partitions; the answer is one for all of them.

    While the transaction before still ends, the request waits here for as long as `patience_ms`. Apache Kafka refuses
    at once; a client that is refused rests for 20 ms, several times as long as the markers take.
    """
    until_ms = coordinator.now_ms() + patience_ms
    while True:
        error: ErrorCode = await coordinator.ask(
            transactional_id,
            lambda shard, ticket, now: shard.add_partitions(
                transactional_id,
                producer_id,
                producer_epoch,
                partitions,
                version=EPOCH_BUMPS if bumps else 0,
                ticket=ticket,
                now=now,
            ),
        )
        busy = error == ErrorCode.CONCURRENT_TRANSACTIONS
        if not (busy and await coordinator.end_of_transaction(transactional_id, until_ms)):
            return error


def verify_partitions(
    coordinator: TransactionCoordinator,
    transactional_id: str,
    producer_id: int,
    producer_epoch: int,
    partitions: frozenset[TopicPartition],
) -> Slot[Verified | ErrorCode]:
    """Ask the shard here whether partitions are in a transaction."""
    return coordinator.ask(
        transactional_id,
        lambda shard, ticket, _: shard.verify_partitions(
            transactional_id, producer_id, producer_epoch, partitions, ticket=ticket
        ),
    )


def fenced_as(error: ErrorCode, *, known: bool) -> ErrorCode:
    """PRODUCER_FENCED, as versions say it that do not know the code."""
    return ErrorCode.INVALID_PRODUCER_EPOCH if error == ErrorCode.PRODUCER_FENCED and not known else error
