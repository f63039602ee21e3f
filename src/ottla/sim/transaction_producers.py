"""Transactional producers of the simulated workload: they commit, abort, fall silent, or go on as zombies.

transaction_client.py speaks to the brokers; transactions.py starts these stories.
"""

from __future__ import annotations

import itertools
from random import Random
from typing import TYPE_CHECKING

from ottla.kernel.errors import ErrorCode
from ottla.messages.end_txn import EndTxnRequest
from ottla.records.compression import Codec
from ottla.sim.checkers.history import Failed, LogKey
from ottla.sim.producers import Producer
from ottla.sim.transaction_client import VERSION_1, VERSION_2, TransactionClient, Verdict

if TYPE_CHECKING:
    from ottla.sim.setting import KnownTopic, Ledger

COMMITTED = "transaction committed"
ABORTED = "transaction aborted"
SILENT = "transaction left open"
SUCCEEDED = "transactional producer succeeded by another"
FENCED = "transactional producer fenced"
ENDED_TWICE = "transaction ended twice"
ENDED_LATE = "transaction ended late"
FORSAKEN = "transaction forsaken"
TRANSACTION_ACTS = (COMMITTED, ABORTED, SILENT, SUCCEEDED, FENCED, ENDED_TWICE, ENDED_LATE, FORSAKEN)
"""Acts of transactional producers, and events that happen to them."""
_VERSION_1_SHARE = 0.4
_SUCCESSOR_SHARE = 0.06
_SILENT_SHARE = 0.05
ABORT_SHARE = 0.2
_TWICE_SHARE = 0.15
_LATE_SHARE = 0.2
_GIVES_UP_SHARE = 0.5
_ZOMBIE_STEPS = 5
_STALE_US = (100_000, 800_000)
_LONGEST_MS = 900_000
"""`transaction.max.timeout.ms`: a longer timeout is refused."""
_FORSAKEN_EVERY_US = (500_000, 4_000_000)


class Owner:
    """One transactional id, and the processes that own it one after the other."""

    def __init__(self, transactional_id: str, transactions: Ledger) -> None:
        self.transactional_id = transactional_id
        self.transactions = transactions
        self.workload = transactions.workload
        self.random = Random(f"{transactional_id}-{self.workload.plan.seed}")
        self._lives = 0
        self._values = 0

    async def run(self) -> None:
        while not self.workload.ending:
            client = self.new_client()
            if await client.own() is not Verdict.DONE:
                continue
            await self._live(client)
        await self._conclude()

    def new_client(self) -> TransactionClient:
        self._lives += 1
        name = f"{self.transactional_id}.{self._lives}"
        versions = self.random.choice(VERSION_1) if self.random.random() < _VERSION_1_SHARE else VERSION_2
        timeout_ms = self.random.randint(*self.transactions.plan.timeout_ms)
        return TransactionClient(name, self.transactional_id, self.workload, versions, timeout_ms)

    async def _live(self, client: TransactionClient) -> None:
        """Run transactions until the client is fenced, or another client takes over while this one goes on."""
        while not self.workload.ending:
            if self.random.random() < _SUCCESSOR_SHARE:
                self.transactions.count(SUCCEEDED)
                self.transactions.spawn(f"zombie {client.name}", self._haunt(client))
                return
            if not await self._step(client):
                client.peer.close()
                return
            await client.peer.sleep_us(self.random.randint(*self.transactions.pause_us))
        client.peer.close()

    async def _haunt(self, client: TransactionClient) -> None:
        """Go on as a process that does not know that another has taken over, and for a little while after it knows."""
        for _ in range(_ZOMBIE_STEPS):
            if not await self._step(client):
                self.transactions.count(FENCED)
            await client.peer.sleep_us(client.random.randint(*_STALE_US))
        client.peer.close()

    async def _step(self, client: TransactionClient) -> bool:
        """Run one transaction; False if another process owns the transactional id."""
        raise NotImplementedError

    async def _conclude(self) -> None:
        """Run a last transaction after the end of the faults, with a longer timeout for each try.

        A transaction over all partitions takes many syncs, one after the other, which on a slow disk outlasts its first
        timeout.
        """
        for patience in itertools.count(1):
            client = self.new_client()
            client.timeout_ms = min(client.timeout_ms * patience, _LONGEST_MS)
            if await client.own() is Verdict.DONE and await self._last_step(client):
                client.peer.close()
                return

    async def _last_step(self, client: TransactionClient) -> bool:
        raise NotImplementedError

    def new_values(self, client: TransactionClient) -> tuple[bytes, ...]:
        values = []
        for _ in range(client.random.randint(1, 3)):
            self._values += 1
            size = client.random.randint(*self.workload.plan.value_bytes)
            values.append(f"{client.transaction}:{self._values}:".encode().ljust(size, b"."))
        return tuple(values)

    # --- how a transaction ends ---

    async def finish(self, client: TransactionClient, verdict: Verdict, *, committed: bool) -> bool:
        """End the open transaction as far as possible; False if another process owns the transactional id."""
        if verdict is Verdict.DONE:
            verdict = await self._end(client, committed=committed)
            if verdict is Verdict.DONE:
                self.transactions.count(COMMITTED if committed else ABORTED)
            if verdict is Verdict.DONE and not client.in_doubt:
                return True
        elif client.versions.bumps and client.random.random() < _GIVES_UP_SHARE:
            verdict = await client.end(committed=False)
            if verdict is Verdict.DONE:
                return True
        # Version 1 cannot tell late requests from new ones: only another epoch can.
        return await client.own() is Verdict.DONE

    async def _end(self, client: TransactionClient, *, committed: bool) -> Verdict:
        request = client.ending(committed=committed)
        verdict = await client.end(committed=committed)
        if verdict is Verdict.DONE and client.random.random() < _TWICE_SHARE:
            await self._end_again(client, request)
        return verdict

    async def _end_again(self, client: TransactionClient, request: EndTxnRequest) -> None:
        """Send the same EndTxn once more: the answer must be the same, or tell nothing."""
        answer = await client.say_again(request)
        self.transactions.count(ENDED_TWICE)
        if answer is None or answer.error_code or not client.versions.bumps:
            return
        if (answer.producer_id, answer.producer_epoch) != client.producer:
            what = f"{client.name} is told {answer.producer_id}, {answer.producer_epoch} after {client.producer}"
            self.workload.saw(Failed(client.now_us, what, "ended-otherwise"))


class Transactor(Owner):
    """Writes to several partitions of the ledger in each transaction."""

    def __init__(self, transactional_id: str, transactions: Ledger) -> None:
        super().__init__(transactional_id, transactions)
        self._before: EndTxnRequest | None = None

    async def _step(self, client: TransactionClient) -> bool:
        ledger = self.transactions.ledger
        count = client.random.randint(1, min(3, ledger.plan.partitions))
        chosen = sorted(client.random.sample(range(ledger.plan.partitions), count))
        verdict = await self.write(client, chosen)
        if verdict is Verdict.DONE and client.random.random() < _SILENT_SHARE:
            self.transactions.count(SILENT)
            await client.peer.sleep_us(client.timeout_ms * 1500)
        await self._send_late(client)
        ending = client.ending(committed=client.random.random() >= ABORT_SHARE)
        done = await self.finish(client, verdict, committed=ending.committed)
        self._before = ending if client.versions.bumps else None
        return done

    async def write(self, client: TransactionClient, partitions: list[int]) -> Verdict:
        ledger = self.transactions.ledger
        client.begin()
        verdict = await client.add([(ledger, partition) for partition in partitions])
        for partition in partitions:
            if verdict is Verdict.DONE:
                batches = [self.new_values(client) for _ in range(client.random.randint(1, 3))]
                verdict = await client.put(ledger, partition, batches)
        return verdict

    async def _send_late(self, client: TransactionClient) -> None:
        """Send the EndTxn of the transaction before, or its contrary, while this transaction is open."""
        before, self._before = self._before, None
        if before is None or not client.versions.bumps or client.random.random() >= _LATE_SHARE:
            return
        if client.random.random() < 0.5:
            before.committed = not before.committed
        self.transactions.count(ENDED_LATE)
        await client.say_again(before)

    async def _last_step(self, client: TransactionClient) -> bool:
        """Commit a transaction over all partitions."""
        verdict = await self.write(client, list(range(self.transactions.ledger.plan.partitions)))
        return verdict is Verdict.DONE and await client.end(committed=True) is Verdict.DONE


class Forsaker:
    """Leaves transactions open, each under a transactional id that is not used again: only a timeout ends them."""

    def __init__(self, name: str, transactions: Ledger) -> None:
        self.name = name
        self.transactions = transactions
        self.random = Random(f"{name}-{transactions.workload.plan.seed}")
        self._forsaken = 0

    async def run(self) -> None:
        workload, ledger = self.transactions.workload, self.transactions.ledger
        while not workload.ending:
            self._forsaken += 1
            owner = Transactor(f"{self.name}-{self._forsaken}", self.transactions)
            client = owner.new_client()
            if await client.own() is Verdict.DONE:
                await owner.write(client, [self.random.randrange(ledger.plan.partitions)])
                self.transactions.count(FORSAKEN)
            await client.peer.sleep_us(self.random.randint(*_FORSAKEN_EVERY_US))
            client.peer.close()


class Bystander(Producer):
    """Writes to the ledger without transactions, once each."""

    async def stand_by(self, transactions: Ledger) -> None:
        while not self.workload.ending:
            partition = self.random.randrange(transactions.ledger.plan.partitions)
            await self._write(transactions.ledger, partition)
            await self.peer.sleep_us(self.random.randint(*transactions.pause_us))
        self.peer.close()

    async def _write(self, ledger: KnownTopic, partition: int) -> None:
        peer = await self.peer.leader(ledger.plan.name, partition)
        if peer is None or not await peer.connect():
            self.peer.forget(ledger.plan.name, partition)
            return
        log = LogKey(ledger.topic_id.hex(), partition)
        batch = self.new_batch()
        self.sent(batch, log, -1, idempotent=False)
        request = self.request(batch, ledger, partition, -1, (-1, -1), Codec.NONE)
        if self.answered(log, batch, await peer.send(request, most=self.version(ledger))) is not ErrorCode.NONE:
            self.peer.forget(ledger.plan.name, partition)
