"""Measures what one large KIP-848 group costs a broker: heartbeats, a join, a topic that grows, many departures.

    python -m bench.group_members                      1,000 members of a topic with 1,000 partitions
    python -m bench.group_members --members 100        fewer
    python -m bench.group_members --out FILE           the figures as JSON too

The broker is a process of `ottla start` with its defaults; the members live in this process, each on a connection of
its own. They behave as consumers do: a heartbeat in the interval that the broker names, and one at once after they have
given up or taken partitions. Their heartbeats are spread over the interval, as those of members that started at
different times are. The group has settled when every member is in the newest epoch and every partition is read by one
of them, as they see it themselves.

A member hears of a new target only in the answer to its next heartbeat, by default 5 s after the one before, as with
Apache Kafka. A join into a large group therefore does not settle in under 5 s: some members have just sent a heartbeat
when it comes. Where partitions move, the new owner takes them with a heartbeat after that of the old owner, which may
be another interval. The broker itself adds at most `group.consumer.assignment.interval.ms` (1 s) before it computes the
target.

On a machine that has other things to do, the processor time of the broker says more than the clock.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from bench.brokers import OttlaBroker
from ottla.client.aio.cluster import AsyncConnection
from ottla.client.model import ClientSettings, Destination
from ottla.kernel.errors import ErrorCode
from ottla.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    OwnedTopicPartitions,
)
from ottla.messages.find_coordinator import FindCoordinatorRequest

GROUP, TOPIC = "many", "t"
WITHIN_S = 300.0
_REBALANCE_MS = 60_000
_LOOK_EVERY_S = 0.05
_CONNECTING = 50
_IDLE_S = 30.0
_AGAIN_S = 0.2
_PASSING = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
)


class Member:
    """One member of the group; `run` is its story until it is told to leave."""

    def __init__(self, connection: AsyncConnection, sent: Counter[str], place: float) -> None:
        """`place`, from 0 to 1, is the point in the heartbeat interval at which this member sends."""
        self.epoch = 0
        self._place = place
        self.owned: set[tuple[bytes, int]] = set()
        self._id = str(uuid.uuid4())
        self._connection = connection
        self._sent = sent
        self._leaving = asyncio.Event()

    async def run(self) -> None:
        """Join and send heartbeats; leave at the end."""
        last_owned: set[tuple[bytes, int]] | None = None
        while not self._leaving.is_set():
            says = self.owned if self.owned != last_owned or self.epoch == 0 else None
            joins = self.epoch == 0
            answer = await self._beat(says)
            if answer.error_code in _PASSING:
                await asyncio.sleep(_AGAIN_S)
                continue
            if answer.error_code:
                raise RuntimeError(f"{ErrorCode(answer.error_code).name}: {answer.error_message}")
            last_owned = self.owned if says is not None else last_owned
            self.epoch = answer.member_epoch
            if answer.assignment is not None:
                self.owned = {
                    (each.topic_id, index) for each in answer.assignment.topic_partitions for index in each.partitions
                }
            if self.owned == last_owned:
                await self._rest(answer.heartbeat_interval_ms / 1000 * (self._place if joins else 1))
        self.epoch, self.owned = -1, set()
        await self._beat(None)
        self._connection.close()

    def leave(self) -> None:
        self._leaving.set()

    async def _rest(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._leaving.wait()
        except TimeoutError:
            return

    async def _beat(self, owned: set[tuple[bytes, int]] | None) -> ConsumerGroupHeartbeatResponse:
        joins = self.epoch == 0
        self._sent["heartbeats"] += 1
        by_topic: dict[bytes, list[int]] = {}
        for topic, index in owned or ():
            by_topic.setdefault(topic, []).append(index)
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=self._id,
            member_epoch=self.epoch,
            rebalance_timeout_ms=_REBALANCE_MS if joins else -1,
            subscribed_topic_names=[TOPIC] if joins else None,
            topic_partitions=None
            if owned is None
            else [OwnedTopicPartitions(topic_id=topic, partitions=indexes) for topic, indexes in by_topic.items()],
        )
        answer: ConsumerGroupHeartbeatResponse = await self._connection.request(request)
        return answer


class Run:
    """One run over all measures."""

    def __init__(self, broker: OttlaBroker, members: int, partitions: int, leaving: int) -> None:
        self._broker = broker
        self._wanted, self._partitions, self._leaving = members, partitions, leaving
        self._admin = AdminClient({"bootstrap.servers": broker.address, "log_level": 0})
        self._epoch = 1
        """The group epoch that the last change leads to."""
        self._members: dict[Member, asyncio.Task[None]] = {}
        self._sent: Counter[str] = Counter()
        self.figures: dict[str, float] = {}

    async def run(self) -> None:
        created = self._admin.create_topics([NewTopic(TOPIC, self._partitions, 1)])
        await asyncio.to_thread(created[TOPIC].result, WITHIN_S)
        await self._coordinator()
        connections = []
        for number in range(0, self._wanted, _CONNECTING):
            connections += await self._connect(number)
        await self._measure(f"{self._wanted} members join at once", lambda: self._start(connections))
        await self._idle()
        (more,) = await self._connect(self._wanted - 1)
        await self._measure("one more member joins", lambda: self._start([more]))
        await self._measure(f"the topic grows to {2 * self._partitions} partitions", self._grow)
        await self._measure(f"{self._leaving} members leave", self._leave)
        for member in self._members:
            member.leave()
        await asyncio.gather(*self._members.values())

    async def _coordinator(self) -> None:
        """Create the offsets topic, so that the one broker coordinates the group."""
        (connection,) = await self._connect(self._wanted - 1)
        end = time.monotonic() + WITHIN_S
        while (await connection.request(FindCoordinatorRequest(key=GROUP), 0)).error_code:
            if time.monotonic() > end:
                raise RuntimeError("no coordinator in time")
            await asyncio.sleep(_AGAIN_S)
        connection.close()

    async def _connect(self, first: int) -> list[AsyncConnection]:
        host, _, port = self._broker.address.rpartition(":")
        settings = ClientSettings(client_id="members")
        opening = (
            AsyncConnection.open(Destination(host, int(port)), settings)
            for _ in range(first, min(first + _CONNECTING, self._wanted))
        )
        return await asyncio.gather(*opening)

    def _start(self, connections: list[AsyncConnection]) -> None:
        self._epoch += len(connections)
        for number, connection in enumerate(connections):
            member = Member(connection, self._sent, number / len(connections))
            self._members[member] = asyncio.create_task(member.run())

    def _grow(self) -> None:
        self._partitions *= 2
        self._epoch += 1
        self._admin.create_partitions([NewPartitions(TOPIC, self._partitions)])[TOPIC].result(WITHIN_S)

    def _leave(self) -> None:
        self._epoch += self._leaving
        for member in list(self._members)[: self._leaving]:
            member.leave()
            self._members.pop(member).add_done_callback(asyncio.Task.result)

    # Measures

    async def _measure(self, name: str, change: Callable[[], None]) -> None:
        """Make a change; report how long the group took to settle, and the broker's processor time."""
        began, burned, sent = time.monotonic(), self._broker.cpu_seconds(), self._sent["heartbeats"]
        change()
        while not self._settled():
            if time.monotonic() > began + WITHIN_S:
                raise RuntimeError(f"{name}: not settled in time")
            for task in self._members.values():
                if task.done():
                    task.result()
            await asyncio.sleep(_LOOK_EVERY_S)
        self._say(f"{name}: settled after, s", time.monotonic() - began)
        self._say(f"{name}: processor time of the broker, s", self._broker.cpu_seconds() - burned)
        self._say(f"{name}: heartbeats", self._sent["heartbeats"] - sent)

    def _settled(self) -> bool:
        if any(member.epoch != self._epoch for member in self._members):
            return False
        return len(set().union(*(member.owned for member in self._members))) == self._partitions

    async def _idle(self) -> None:
        began, burned, sent = time.monotonic(), self._broker.cpu_seconds(), self._sent["heartbeats"]
        await asyncio.sleep(_IDLE_S)
        took = time.monotonic() - began
        self._say("idle: heartbeats in a second", (self._sent["heartbeats"] - sent) / took)
        self._say("idle: the broker, % of a core", 100 * (self._broker.cpu_seconds() - burned) / took)

    def _say(self, name: str, figure: float) -> None:
        self.figures[name] = round(figure, 3)
        print(f"{name:<62} {figure:10.2f}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, default=1000, help="how many (default 1000)")
    parser.add_argument("--partitions", type=int, help="of the topic (default: as many as members)")
    parser.add_argument("--leaving", type=int, help="how many leave in the end (default: a tenth)")
    parser.add_argument("--out", type=Path, help="write the figures there, as JSON")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ottla-members-") as folder:
        broker = OttlaBroker(Path(folder) / "broker")
        broker.start()
        try:
            leaving = options.leaving or max(options.members // 10, 1)
            run = Run(broker, options.members, options.partitions or options.members, leaving)
            asyncio.run(run.run())
        finally:
            broker.stop()
    if options.out is not None:
        options.out.write_text(json.dumps(run.figures, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
