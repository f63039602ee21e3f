"""An operator who limits single clients by quotas, changes the quotas again and again, and takes them away in the end.

A client over its quota waits, asks again over other connections, and must still lose nothing.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from ottla.kernel.quotas import CONSUMER_BYTE_RATE, PRODUCER_BYTE_RATE
from ottla.messages.alter_client_quotas import (
    AlterClientQuotasEntry,
    AlterClientQuotasRequest,
    AlteredQuotaEntity,
    QuotaOperation,
)

if TYPE_CHECKING:
    from ottla.sim.setting import Setting

LIMITED = "quota of a client changed"
_EVERY_US = (100_000, 800_000)
_AGAIN_US = 30_000
_RATES = (2000.0, 8000.0, 50_000.0)
"""Bytes a second: less than a client moves, about as much, and more."""
_REMOVED_SHARE = 0.3
_Quota = tuple[str, str]
"""A client id with the quota's key."""


class LimitingOperator:
    """One such operator; `done` counts the edits."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._random = Random(f"limits-{setting.plan.seed}")
        self._peer = setting.peer("limiting operator")
        self._set: dict[_Quota, None] = {}
        self.done = {LIMITED: 0}

    async def run(self) -> None:
        while not self._setting.ending:
            await self._peer.sleep_us(self._random.randint(*_EVERY_US))
            if not self._setting.ending:
                quota = self._random.choice(self._quotas())
                removed = self._random.random() < _REMOVED_SHARE
                rate = self._random.choice(_RATES)
                self._set[quota] = None  # also where no answer comes
                await self._edit(quota, None if removed else rate)
        for quota in self._set:
            while not await self._edit(quota, None):
                await self._peer.sleep_us(_AGAIN_US)
        self._peer.close()

    def _quotas(self) -> list[_Quota]:
        """The quotas that ordinary clients may have; a client has an id for its connections to each broker."""
        plan = self._setting.plan
        writers = [f"i{number}" for number in range(plan.idempotent_producers)]
        writers += [f"p{number}" for number in range(plan.plain_producers)]
        readers = [f"r{number}" for number in range(plan.readers)]
        ids = [(each, PRODUCER_BYTE_RATE) for each in writers] + [(each, CONSUMER_BYTE_RATE) for each in readers]
        if plan.brokers == 1:
            return ids
        return [(f"{name}>{broker}", key) for name, key in ids for broker in range(1, plan.brokers + 1)]

    async def _edit(self, quota: _Quota, rate: float | None) -> bool:
        """Set a quota, or remove it; True if that was answered without an error."""
        client_id, key = quota
        entity = [AlteredQuotaEntity(entity_type="client-id", entity_name=client_id)]
        operation = QuotaOperation(key=key, value=rate or 0.0, remove=rate is None)
        request = AlterClientQuotasRequest(entries=[AlterClientQuotasEntry(entity=entity, ops=[operation])])
        answer = await self._peer.ask(request)
        if answer is None or answer.entries[0].error_code:
            return False
        self.done[LIMITED] += 1
        return True
