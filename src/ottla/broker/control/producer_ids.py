"""Hands out producer ids from blocks that the metadata log gave to this broker alone.

Called by broker/handlers/init_producer_id.py. Ids of a block that are left when a broker stops are never used.
"""

from __future__ import annotations

from ottla.broker.metadata_log.metadata_follow import MetadataFollow
from ottla.cluster.commands import AllocateProducerIds
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.kernel.ids import ProducerId
from ottla.kernel.story import Slot, run_story
from ottla.metadata.entries import ProducerIdsAllocated


class ProducerIds:
    """Hands out each id once, over all brokers and restarts."""

    def __init__(self, follow: MetadataFollow) -> None:
        self._follow = follow
        self._next = 0
        self._end = 0
        self._waiting: list[Slot[ProducerId | ErrorCode]] = []
        self._spare: ProducerId | None = None
        """Ids fetched for callers that cannot wait."""

    def take(self) -> Slot[ProducerId | ErrorCode]:
        """The next id; from a new block if this one is used up."""
        slot: Slot[ProducerId | ErrorCode] = Slot()
        if self._next < self._end:
            slot.fill(self._step())
            return slot
        self._waiting.append(slot)
        if len(self._waiting) == 1:
            run_story(self._refill())
        return slot

    def take_now(self) -> ProducerId | None:
        """The next id for a caller that cannot wait; None if none is ready, and then one is fetched."""
        if self._next < self._end:
            return self._step()
        spare, self._spare = self._spare, None
        if spare is None:
            run_story(self.ready())
        return spare

    async def ready(self) -> ErrorCode:
        """Wait until `take_now` has an id, unless others are faster; return the error if none can be had."""
        if self._next >= self._end and self._spare is None:
            taken = await self.take()
            if isinstance(taken, ErrorCode):
                return taken
            self._spare = taken
        return ErrorCode.NONE

    def _step(self) -> ProducerId:
        self._next += 1
        return ProducerId(self._next - 1)

    async def _refill(self) -> None:
        while self._waiting:
            outcome = await self._follow.submit(AllocateProducerIds())
            waiting, self._waiting = self._waiting, []
            if isinstance(outcome, ApiError):
                # every client asks again on this code, and only on codes of its kind
                for slot in waiting:
                    slot.fill(ErrorCode.COORDINATOR_NOT_AVAILABLE)
                continue
            for body in outcome.entries:
                assert isinstance(body, ProducerIdsAllocated)
                self._next, self._end = body.first, body.first + body.count
            ready = min(len(waiting), self._end - self._next)
            self._waiting = waiting[ready:]
            for slot in waiting[:ready]:
                slot.fill(self._step())
