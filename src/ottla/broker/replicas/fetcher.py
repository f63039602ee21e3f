"""The follower's fetches: one story per leader, one fetch in flight, the next once all of the last is on disk (A2).

reconcile.py calls it when replicas begin or stop to follow; it uses peers.py to ask the leader, the machine
(replication/follower.py) to judge the answer, and the log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Protocol

from ottla.broker.replicas.fetch_places import FetchPlaces, Key, Place, end_of
from ottla.broker.replicas.throttle import Throttle, names
from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import BrokerId, EndOffset
from ottla.kernel.story import Slot, run_story
from ottla.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from ottla.records.header import LENGTH_AT
from ottla.replication.follower import (
    Answered,
    Append,
    BackOff,
    Failed,
    FollowerReplica,
    SentFetch,
    Stale,
    StartOver,
    Truncate,
)
from ottla.storage.log import FULL_DISK
from ottla.storage.values import Appended

if TYPE_CHECKING:
    from ottla.broker.control.peers import Peers
    from ottla.broker.environment import Environment
    from ottla.broker.replicas.log_upkeep import LogUpkeep
    from ottla.broker.replicas.partition import Partition
    from ottla.broker.replicas.short_leaders import ShortLeaders
    from ottla.storage.log import Log

log = logging.getLogger("ottla.replica_fetch")
FETCH_PURPOSES = ("replication", "replication too")
"""Two connections to a leader, so that a new fetch can overtake one that waits there; peers.py has one per purpose."""
VERSION = 18
Answer = Slot[FetchResponse]


class Followers(Protocol):
    """The replicas here, some of which follow: reconcile.py."""

    def together(self, count: int) -> AbstractContextManager[None]:
        """A block in which the syncs of `count` logs are gathered."""

    def start_on_disk(self, partition: Partition) -> int:
        """The log start offset that holds after a crash too."""

    def stopped(self, partition: Partition) -> None:
        """Take note of a log that was to be cut behind damage, and stays as it is."""


class ReplicaFetches:
    """All leaders that this broker follows."""

    def __init__(
        self,
        around: Environment,
        replicas: Followers,
        peers: Peers,
        throttle: Throttle,
        upkeep: LogUpkeep,
        short_leaders: ShortLeaders,
    ) -> None:
        """`throttle` limits the replicas here that catch up."""
        self.around = around
        self.replicas = replicas
        self.peers = peers
        self.throttle = throttle
        self.upkeep = upkeep
        self.short_leaders = short_leaders
        self.closed = False
        self._from: dict[BrokerId, LeaderFetch] = {}

    def follow(self, partition: Partition) -> None:
        """Fetch a partition from its present leader."""
        self.leave(partition)
        if not self.closed and partition.leader_id != self.around.broker:
            fetch = self._from.get(partition.leader_id)
            if fetch is None:
                fetch = self._from[partition.leader_id] = LeaderFetch(self, partition.leader_id)
            fetch.add(partition)

    def say_again(self, partition: Partition) -> None:
        """Tell the leader our position again though nothing has changed here: the leader may have dropped it."""
        fetch = self._from.get(partition.leader_id)
        if fetch is not None and not self.closed:
            fetch.add(partition)

    def leave(self, partition: Partition) -> None:
        for fetch in self._from.values():
            fetch.remove(partition)

    def silent_ms(self, leader: BrokerId) -> int:
        """The time since the leader last answered, or was first asked."""
        fetch = self._from.get(leader)
        return 0 if fetch is None else self.around.clock.mono_ms() - fetch.heard_ms

    def close(self) -> None:
        self.closed = True
        for fetch in self._from.values():
            fetch.wake()


class LeaderFetch:
    """The fetches from one leader, in one incremental session."""

    def __init__(self, fetches: ReplicaFetches, leader: BrokerId) -> None:
        self._fetches = fetches
        self._around = fetches.around
        self._replicas = fetches.replicas
        self._leader = leader
        self._places = FetchPlaces(fetches.around, fetches.replicas.start_on_disk)
        self._session_id = self._session_epoch = 0
        self.heard_ms = self._around.clock.mono_ms()
        self._running = False
        self._idle: Slot[None] | None = None
        self._way = 0
        self._waiting: Slot[Answer | None] | None = None
        """The slot of a fetch that may be overtaken."""
        self._more = False
        self._refused: dict[Key, int] = {}
        """The offset of each partition at which an append was last refused."""
        self._started: list[Key] = []
        """Partitions in which records were deleted because the leader has deleted them."""
        self._cuts: list[Callable[[], None]] = []
        """The truncations that the present answer requires."""
        self._lowered = False
        """True if these truncations have cut committed records off."""

    def add(self, partition: Partition) -> None:
        """Fetch the partition from now on; the leader's session may still have it from an earlier time."""
        key = (partition.topic_id, partition.index)
        self._places.add(key, partition)
        partition.tell_on_disk(partial(self._is_on_disk, key))
        if not self._more:  # all partitions added in this turn share a fetch
            self._more = True
            self._around.clock.call_soon(self._ask_for_more)

    def _ask_for_more(self) -> None:
        """Fetch added partitions at once, and overtake a fetch that waits at the leader, perhaps for long."""
        self._more = False
        if not self._running:
            self._running = True
            self.heard_ms = self._around.clock.mono_ms()
            self._report(run_story(self._run()))
            return
        self.wake()
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting.fill(None)

    def remove(self, partition: Partition) -> None:
        key = (partition.topic_id, partition.index)
        if self._places.remove(key):
            partition.tell_on_disk(None)
            self._refused.pop(key, None)
            self.wake()

    def _is_on_disk(self, key: Key) -> None:
        """A partition is on disk, often one of thousands of one sync: go on once none is left to wait for."""
        if self._places.all_on_disk(key):
            self.wake()

    def wake(self) -> None:
        idle, self._idle = self._idle, None
        if idle is not None:
            idle.fill(None)

    def _report(self, story: Slot[None]) -> None:
        def ended() -> None:
            """Stop the broker if the story has ended by a bug: else it would follow no leader without notice."""
            if isinstance(story.error, Exception):
                self._around.broken(story.error)
            else:
                story.result()

        story.when_full(ended)

    async def _run(self) -> None:
        while self._places.partitions and not self._fetches.closed:
            news = self._places.news()
            if news is None:
                await self._wait(self._places.rest_ms())
                continue
            request = self._request(*news)
            try:
                response = await self._fetch(request)
            except OSError as error:
                log.info("no answer of leader %d: %s", self._leader, error)
                self._forget_session()
                await self._wait(self._around.config.replica_fetch_backoff_ms)
                continue
            if self._fetches.closed:
                break
            if response is None:  # overtaken: the leader has this fetch, and waits for the session's next one
                self._session_epoch += 1
                continue
            if response.error_code != ErrorCode.NONE:
                self._forget_session()
                await self._wait(self._around.config.replica_fetch_backoff_ms)
                continue
            self._session_id = response.session_id
            self._session_epoch = self._session_epoch + 1 if response.session_id else 0
            self._take(response, self._places.told)
            if not response.session_id:
                self._forget_session()
        self._running = False

    async def _fetch(self, request: FetchRequest) -> FetchResponse | None:
        """The leader's answer, or None if more partitions were added first; then the answer is taken when it comes."""
        answer_in_ms = self._around.config.replica_socket_timeout_ms
        call: Answer = self._fetches.peers.call(self._leader, FETCH_PURPOSES[self._way], request, VERSION, answer_in_ms)
        if not request.session_id:
            return await call
        waiting: Slot[Answer | None] = Slot()
        self._waiting = waiting
        call.when_full(lambda: waiting.fill(call))
        answered = await waiting
        self._waiting = None
        if answered is not None:
            return answered.result()
        self._way = 1 - self._way
        places = dict(self._places.told)
        call.when_full(lambda: self._take_late(call, places))
        return None

    def _take_late(self, call: Answer, places: dict[Key, Place]) -> None:
        """Take the answer to an overtaken fetch: an error, or an answer that was already under way."""
        try:
            response = call.result()
        except OSError:
            return
        if response.error_code == ErrorCode.NONE and not self._fetches.closed:
            self._take(response, places)

    async def _wait(self, most_ms: int | None) -> None:
        """Wait until something is on disk, followed or left; at most `most_ms`."""
        slot = self._idle = Slot()
        timer = None if most_ms is None else self._around.deadlines.after(most_ms, lambda: slot.fill(None))
        await slot
        if timer is not None:
            timer.cancel()

    def _forget_session(self) -> None:
        self._session_id = self._session_epoch = 0
        self._places.forget()

    # --- asking ---

    def _request(self, changed: dict[Key, Place], gone: list[Key]) -> FetchRequest:
        topics: dict[bytes, FetchTopic] = {}
        for (topic_id, index), (asked, log_start) in changed.items():
            place = FetchPartition(
                partition=index,
                current_leader_epoch=asked.leader_epoch,
                fetch_offset=asked.offset,
                last_fetched_epoch=asked.last_epoch,
                log_start_offset=log_start,
                partition_max_bytes=self._most_bytes(self._places.partitions[topic_id, index]),
            )
            topics.setdefault(topic_id, FetchTopic(topic_id=topic_id, partitions=[])).partitions.append(place)
        config = self._around.config
        wait_ms = config.replica_fetch_wait_max_ms
        return FetchRequest(
            replica_state=ReplicaState(replica_id=self._around.broker, replica_epoch=self._around.follow.broker_epoch),
            max_wait_ms=min(wait_ms, self._places.rest_ms() or wait_ms),
            min_bytes=config.replica_fetch_min_bytes,
            max_bytes=config.replica_fetch_response_max_bytes,
            isolation_level=0,
            session_id=self._session_id,
            session_epoch=self._session_epoch,
            topics=list(topics.values()),
            forgotten_topics_data=[ForgottenTopic(topic_id=topic_id, partitions=[index]) for topic_id, index in gone],
            rack_id=config.broker_rack or "",
        )

    # --- taking the answer ---

    def _take(self, response: FetchResponse, places: Mapping[Key, Place]) -> None:
        self._started, self._cuts, self._lowered = [], [], False
        self.heard_ms = self._around.clock.mono_ms()
        count = sum(len(topic.partitions) for topic in response.responses)
        try:
            with self._replicas.together(count):  # the first records of an epoch: its start is synced
                for topic in response.responses:
                    for part in topic.partitions:
                        key = (bytes(topic.topic_id), part.partition_index)
                        partition, place = self._places.partitions.get(key), places.get(key)
                        if partition is not None and place is not None:
                            self._take_partition(key, partition, place[0], part)
            for cut in self._cuts:  # each syncs its steps one by one, as a crash must find them in order
                cut()
        except OSError as error:
            self._around.disk_failed(error)
        if self._started:
            self._fetches.upkeep.note_starts()
            self._places.look_at(self._started)
        if self._lowered:
            self._fetches.upkeep.note_lower_high_watermarks()

    def _take_partition(self, key: Key, partition: Partition, asked: SentFetch, part: PartitionData) -> None:
        follower, held = partition.follower, partition.log
        if follower is None:
            return
        diverging = (part.diverging_epoch.epoch, part.diverging_epoch.end_offset)
        answered = Answered(
            part.error_code,
            part.high_watermark,
            part.log_start_offset,
            diverging if diverging != (-1, -1) else None,
            bool(part.records),
        )
        end, last_epoch = end_of(held)
        todo = follower.on_answer(asked, answered, end_offset=end, last_epoch=last_epoch)
        if part.records or not isinstance(todo, Append):
            self._places.look_at([key])
        if isinstance(todo, Stale | Truncate | StartOver):
            self._places.hear_again(key)
        try:
            if isinstance(todo, Append):
                self._append(key, partition, part)
            elif isinstance(todo, Truncate | StartOver):
                self._cuts.append(partial(self._cut, key, partition, follower, todo))
            elif isinstance(todo, Failed):
                self._fetches.short_leaders.report(partition, todo.why)
            elif isinstance(todo, BackOff):
                self._places.rest(key)
        except OSError as error:
            self._around.disk_failed(error)

    def _cut(self, key: Key, partition: Partition, follower: FollowerReplica, todo: Truncate | StartOver) -> None:
        held = partition.log
        committed = held.high_watermark
        try:
            if isinstance(todo, Truncate):
                log.info("%s-%d: cutting back from %d to %d", partition.topic, partition.index, held.end_offset,
                         todo.offset)  # fmt: skip
                held.truncate_to(todo.offset)
                self._around.syncer.submit(held)
                if held.damaged_at is not None:
                    log.error("%s-%d is damaged below %d, and stops following", partition.topic, partition.index,
                              todo.offset)  # fmt: skip
                    self._around.clock.call_soon(lambda: self._replicas.stopped(partition))
            else:
                held.truncate_fully_to(todo.offset, wall_ms=self._around.clock.wall_ms())
                self._started.append(key)
                follower.on_started_over(todo.offset)
                held.set_high_watermark(follower.high_watermark)
        except OSError as error:
            if error.errno in FULL_DISK and not held.refusing:  # nothing was cut; tried again once there is room
                self._say_refused(key, held, str(error))
                self._places.rest(key)
                if isinstance(todo, StartOver) and partition.leader_starts(todo.offset):
                    self._started.append(key)  # retention drops what the leader has deleted: that makes room
            else:
                self._around.disk_failed(error)
        self._lowered |= held.high_watermark < committed

    def _append(self, key: Key, partition: Partition, part: PartitionData) -> None:
        """One check and one write for the whole run (rule E10)."""
        held = partition.log
        begins_inside, wall_ms = False, self._around.clock.wall_ms()
        if part.records:
            appended = held.append_run(part.records, wall_ms=wall_ms, newest_epoch=partition.leader_epoch)
            if not isinstance(appended, Appended):
                if appended == ErrorCode.OFFSET_OUT_OF_RANGE and self._starts_over(key, partition, part):
                    return
                self._say_refused(key, held, _what(appended))
                self._places.rest(key)
                return
            begins_inside = appended.base_offset < held.log_start_offset  # no segment's name tells this start
            if held.synced_offset < held.end_offset:
                self._around.syncer.submit(held)
        self._places.rested(key)
        if self._is_throttled(partition):
            self._hold_back(len(part.records or b""))
        partition.leader_said(part.high_watermark)
        if partition.leader_starts(part.log_start_offset) or begins_inside:
            self._started.append(key)

    def _say_refused(self, key: Key, held: Log, why: str) -> None:
        """Log a refused answer once, although the fetch is repeated again and again."""
        if self._refused.get(key) != held.end_offset:
            self._refused[key] = held.end_offset
            log.error("%s-%d: refused what its leader sent from offset %d on: %s", held.topic, held.partition,
                      held.end_offset, why)  # fmt: skip

    def _starts_over(self, key: Key, partition: Partition, part: PartitionData) -> bool:
        follower, held = partition.follower, partition.log
        assert follower is not None
        todo = follower.on_unfitting(
            part.log_start_offset,
            end_offset=EndOffset(held.end_offset),
            base_offset=int.from_bytes((part.records or b"")[:LENGTH_AT], "big"),
            cached=held.write_caching,
        )
        if todo is not None:
            self._places.hear_again(key)
            self._cuts.append(partial(self._cut, key, partition, follower, todo))
        return todo is not None

    def _is_throttled(self, partition: Partition) -> bool:
        """True if the replica is throttled: it is out of sync, and listed in the option (KIP-73)."""
        around, throttled = self._around, partition.config.follower_replication_throttled_replicas
        if not names(throttled, partition.index, around.broker):
            return False
        topic = around.metadata.topic_by_id(partition.topic_id)
        return topic is None or around.broker not in topic.partitions[partition.index].in_sync

    def _most_bytes(self, partition: Partition) -> int:
        most = self._around.config.replica_fetch_max_bytes
        return self._fetches.throttle.piece_bytes(most) if self._is_throttled(partition) else most

    def _hold_back(self, count: int) -> None:
        """Count bytes of throttled partitions; above the throttle, leave all of them out of the session for a while."""
        throttle = self._fetches.throttle
        throttle.took(count)
        if throttle.exceeded():
            for key, partition in self._places.partitions.items():
                if self._is_throttled(partition):
                    self._places.rest_until(key, throttle.free_at_ms)


def _what(error: ErrorCode) -> str:
    return "a batch is damaged" if error == ErrorCode.CORRUPT_MESSAGE else f"error {int(error)}"
