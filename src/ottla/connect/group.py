"""One worker as a member of its group: joins, beats, hands the leader's assignment to the worker.

The group's coordinator counts the members and ends the session of one that falls silent; the member with the lead
only assigns. The machine is the consumer's, under a protocol type of its own: the members of a group of Kafka's
workers speak another one, and the coordinator keeps them apart.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from ottla.client.aio.cluster import Cluster
from ottla.client.consume.assignors import Assignor
from ottla.client.consume.membership import Lost, Membership, MembershipSettings, MemberStanding
from ottla.client.core.effects import Ask
from ottla.client.errors import ClientError
from ottla.connect.machine.assignment import PROTOCOL, Unit, assign
from ottla.kernel.errors import ApiError
from ottla.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from ottla.messages.sync_group import SyncGroupRequest, SyncGroupResponse

R = TypeVar("R")
PROTOCOL_TYPE: Final = "ottla-connect"
_PAUSE_S: Final = 0.5
_log = logging.getLogger("ottla.connect")


class WorkerMembership:
    """The membership of one worker."""

    def __init__(
        self,
        cluster: Cluster,
        group_id: str,
        *,
        wanted: Callable[[], Awaitable[list[Unit]]],
        take: Callable[[set[Unit]], Awaitable[None]],
        session_timeout_ms: int = 10_000,
        heartbeat_interval_ms: int = 3_000,
        rebalance_timeout_ms: int = 60_000,
    ) -> None:
        """`wanted`: all work, as the configs topic ends; `take`: begin and end work, returns when what ended did."""
        self.held: set[Unit] = set()
        self.shared_out: list[Unit] = []
        """All work as of this member's last assignment, while it leads."""
        self._cluster, self._wanted, self._take = cluster, wanted, take
        self._all: list[Unit] = []
        assignor = Assignor(PROTOCOL, lambda counts, members: assign(self._all, members), cooperative=True)
        self._membership = Membership(
            MembershipSettings(
                group_id,
                (assignor,),
                session_timeout_ms,
                heartbeat_interval_ms,
                rebalance_timeout_ms,
                protocol_type=PROTOCOL_TYPE,
            )
        )
        self._stirred = asyncio.Event()
        self._heard_ms = 0.0

    @property
    def leads(self) -> bool:
        """True for the member that assigns."""
        return self._membership.leader and self._membership.standing is MemberStanding.MEMBER

    @property
    def generation(self) -> int:
        """The generation of the group that this member is in."""
        return max(self._membership.generation, 0)

    def rejoin(self) -> None:
        """Have the work shared out again."""
        self._membership.rejoin()
        self._stirred.set()

    async def run(self) -> None:
        """Be a member until cancelled. Work is given up when the group cannot be reached for a session's time."""
        self._heard_ms = self._cluster.plan.now_ms()
        while True:
            try:
                if self._membership.standing is MemberStanding.MEMBER:
                    await self._beat()
                else:
                    await self._join()
            except (ApiError, ClientError) as fault:
                _log.warning("the group %s: %s", self._membership.settings.group_id, fault)
                if self._cluster.plan.now_ms() - self._heard_ms > self._membership.settings.session_timeout_ms:
                    self._membership.reset()
                    await self._hold(set())
                await asyncio.sleep(_PAUSE_S)

    async def leave(self) -> None:
        """Leave the group, so that the others take the work over at once."""
        build = self._membership.leave("the worker stops")
        group = self._membership.settings.group_id
        await self._cluster.run(
            self._cluster.plan.ask_coordinator(
                group,
                lambda where: Ask(where, LeaveGroupRequest, LeaveGroupResponse, build),
                lambda answer: answer.error_code,
                timeout_ms=5_000,
            )
        )

    async def _beat(self) -> None:
        member, now_ms = self._membership, self._cluster.plan.now_ms()
        try:
            async with asyncio.timeout(max(0, member.heartbeat_at_ms - now_ms) / 1000):
                await self._stirred.wait()
        except TimeoutError:
            pass
        if self._stirred.is_set():
            self._stirred.clear()
            return
        generation = member.generation
        request = member.heartbeat_request(self._cluster.plan.now_ms())
        left_ms = member.settings.session_timeout_ms - (self._cluster.plan.now_ms() - self._heard_ms)
        answer = await self._ask(HeartbeatRequest, HeartbeatResponse, request, max(int(left_ms), 1))
        if member.answered(int(answer.error_code), generation) is Lost.EVERYTHING:
            await self._hold(set())

    async def _join(self) -> None:
        member = self._membership
        timeout_ms = member.settings.rebalance_timeout_ms + 5_000
        request = member.join_request((), sorted(self.held), "a worker joins")
        if not member.joined(await self._ask(JoinGroupRequest, JoinGroupResponse, request, timeout_ms)):
            if not member.member_id:
                await self._hold(set())
            return
        if member.leader:
            self._all = await self._wanted()
        sync = member.sync_request({})
        assigned = member.synced(
            await self._ask(SyncGroupRequest, SyncGroupResponse, sync, timeout_ms), self._cluster.plan.now_ms()
        )
        if assigned is None:
            return
        self.shared_out = self._all if member.leader else []
        given_up = self.held - set(assigned)
        await self._hold(set(assigned))
        if given_up:
            member.rejoin()

    async def _hold(self, units: set[Unit]) -> None:
        self.held = units
        await self._take(units)

    async def _ask(self, kind: type[Any], response: type[R], request: object, timeout_ms: int) -> R:
        answer = await self._cluster.run(
            self._cluster.plan.ask_coordinator(
                self._membership.settings.group_id,
                lambda where: Ask(where, kind, response, lambda _: request, timeout_ms=timeout_ms),
                lambda each: int(each.error_code),  # type: ignore[attr-defined]
                purpose="group",
                timeout_ms=timeout_ms,
            )
        )
        self._heard_ms = self._cluster.plan.now_ms()
        return answer
