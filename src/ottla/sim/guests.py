"""Guests of the simulated cluster: users who are granted the use of one topic, lose it again, and go on asking.

All other clients are super users, so that an authorizer changes nothing for them. Each guest is a user of its own, with
rights that are granted once and revoked once: a request to grant that arrives late can let in nobody else.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from random import Random
from typing import TYPE_CHECKING, Any

from ottla.kernel.acls import WILDCARD, Operation, PatternType, Permission, ResourceKind
from ottla.kernel.errors import ErrorCode
from ottla.messages.create_acls import AclCreation, CreateAclsRequest
from ottla.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from ottla.records.compression import Codec
from ottla.sim.checkers.history import Admitted, BatchRefused, Dismissed, Dismissing, LogKey
from ottla.sim.doorkeeper import Doorkeeper
from ottla.sim.logins import LOGIN_ACTS, Logins
from ottla.sim.plan import GUARDED
from ottla.sim.producers import Producer
from ottla.sim.readers import Reader
from ottla.sim.tokens import TOKEN_ENDED, TokenDesk

if TYPE_CHECKING:
    from ottla.sim.peer import Caller
    from ottla.sim.setting import Guarded, KnownTopic, Setting

ADMITTED, DISMISSED, TURNED_AWAY = "guest admitted", "guest dismissed", "batch of a guest refused"
GUEST_ACTS = (ADMITTED, DISMISSED, TURNED_AWAY, *LOGIN_ACTS, TOKEN_ENDED)
_ALL = -1
_BY_NAME = 12
_AGAIN_US = 30_000
_STAYS_US = (200_000, 1_200_000)
"""The time for which a guest goes on, once it is admitted and again once it is dismissed."""
_STAYS_LOGGED_IN_US = (600_000, 2_200_000)
"""The same for guests that log in, so that sessions end meanwhile."""
_WAITS_MS = (300, 800, 1500)
_USES = (Operation.READ, Operation.WRITE)


class Guests:
    """Lets guests in and out, one after the other; `done` counts what came of it."""

    def __init__(self, setting: Guarded) -> None:
        self._setting = setting
        self._random = Random(f"guests-{setting.plan.seed}")
        self._keeper = Doorkeeper(setting, setting.peer("doorkeeper"))
        self._stays_us = _STAYS_LOGGED_IN_US if setting.plan.guests_log_in else _STAYS_US
        self.done = dict.fromkeys(GUEST_ACTS, 0)

    async def run(self) -> None:
        number = 0
        while not self._setting.ending:
            topic = next((each for each in self._setting.topics() if each.plan.name == GUARDED), None)
            if topic is None:
                await self._keeper.peer.sleep_us(_AGAIN_US)
                continue
            number += 1
            await self._one(f"guest{number}", topic)
        self._keeper.peer.close()

    async def _one(self, name: str, topic: KnownTopic) -> None:
        """One guest, from the first right to the last refusal."""
        setting, saw = self._setting, self._setting.saw
        granted = await self._keeper.ask(self._grant(name), lambda answer: [each.error_code for each in answer.results])
        if granted is None:
            return
        saw(Admitted(setting.loop.now_us, name, topic.topic_id.hex()))
        self.done[ADMITTED] += 1
        desk = self._desk(name) if setting.plan.guests_log_in else None
        caller = _principal(name) if desk is None else desk.logins
        guest = _Guest(name, setting, topic, caller, self._turned_away)
        setting.spawn(f"{name} writes", guest.write())
        setting.spawn(f"{name} reads", guest.read())
        await self._stay()
        saw(Dismissing(setting.loop.now_us, name))
        if await self._revoke(name) and granted.surely_once:
            saw(Dismissed(setting.loop.now_us, name))
            self.done[DISMISSED] += 1
        await self._stay()
        guest.over = True
        if desk is not None:
            desk.over = True

    async def _stay(self) -> None:
        await self._keeper.peer.sleep_us(self._random.randint(*self._stays_us))

    def _desk(self, name: str) -> TokenDesk:
        """The desk that gives a guest its tokens from now on."""
        desk = TokenDesk(name, self._setting, Logins(name, self._setting, self._count), self._count)
        self._setting.spawn(f"tokens of {name}", desk.run())
        return desk

    def _count(self, act: str) -> None:
        self.done[act] += 1

    def _turned_away(self) -> None:
        self._count(TURNED_AWAY)

    async def _revoke(self, name: str) -> bool:
        """Take the rights away, or deny them; True once every broker knows."""
        if self._random.random() < 0.5:
            denied = [_creation(name, use, Permission.DENY) for use in _USES]
            request: Any = CreateAclsRequest(creations=denied)
            made = await self._keeper.ask(request, lambda answer: [each.error_code for each in answer.results])
        else:
            request = DeleteAclsRequest(filters=[_filter(name, use) for use in _USES])
            made = await self._keeper.ask(request, lambda answer: [each.error_code for each in answer.filter_results])
        return made is not None

    def _grant(self, name: str) -> CreateAclsRequest:
        """The uses of the topic, and to know of it, which stays."""
        uses = (*_USES, Operation.DESCRIBE)
        return CreateAclsRequest(creations=[_creation(name, use, Permission.ALLOW) for use in uses])


def _creation(name: str, use: Operation, permission: Permission) -> AclCreation:
    return AclCreation(
        resource_type=ResourceKind.TOPIC,
        resource_name=GUARDED,
        resource_pattern_type=PatternType.LITERAL,
        principal=_principal(name),
        host=WILDCARD,
        operation=use,
        permission_type=permission,
    )


def _filter(name: str, use: Operation) -> DeleteAclsFilter:
    return DeleteAclsFilter(
        resource_type_filter=ResourceKind.TOPIC,
        resource_name_filter=GUARDED,
        pattern_type_filter=PatternType.LITERAL,
        principal_filter=_principal(name),
        host_filter=WILDCARD,
        operation=use,
        permission_type=Permission.ALLOW,
    )


def _principal(name: str) -> str:
    return f"User:{name}"


class _Guest:
    """One guest's two clients, until `over`."""

    def __init__(
        self, name: str, setting: Setting, topic: KnownTopic, caller: Caller, turned_away: Callable[[], None]
    ) -> None:
        self.over = False
        self._setting = setting
        self._writer = _Writer(name, setting, topic, caller, turned_away)
        self._reader = _Reader(name, setting, caller)

    async def write(self) -> None:
        await self._go_on(self._writer.send_one)
        self._writer.peer.close()

    async def read(self) -> None:
        await self._go_on(self._reader.poll)
        self._reader.peer.close()

    async def _go_on(self, act: Callable[[], Coroutine[Any, None, None]]) -> None:
        while not self._setting.ending and not self.over:
            await act()
            await self._writer.rest()


class _Writer(Producer):
    def __init__(
        self, name: str, setting: Setting, topic: KnownTopic, caller: Caller, turned_away: Callable[[], None]
    ) -> None:
        super().__init__(name, setting, caller=caller)
        self._topic = topic
        self._turned_away = turned_away

    async def send_one(self) -> None:
        topic, partition = self._topic, self.random.randrange(self._topic.plan.partitions)
        peer = await self.peer.leader(topic.plan.name, partition)
        if peer is None or not await peer.connect():
            self.peer.forget(topic.plan.name, partition)
            return
        log = LogKey(topic.topic_id.hex(), partition)
        batch = self.new_batch()
        self.sent(batch, log, _ALL, idempotent=False)
        request = self.request(batch, topic, partition, _ALL, (-1, -1), Codec.NONE)
        error = self.answered(log, batch, await peer.send(request, most=self.version(topic)))
        if error is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            self.workload.saw(BatchRefused(self.workload.loop.now_us, self.name, log, batch.number, int(error)))
            self._turned_away()
        elif error is not ErrorCode.NONE:
            self.peer.forget(topic.plan.name, partition)


class _Reader(Reader):
    waits_ms = _WAITS_MS

    def _followed(self) -> dict[str, KnownTopic]:
        return {name: topic for name, topic in super()._followed().items() if name == GUARDED}
