"""Steps of a script that are about one broker's disk: its room, its directories, its files, and how soon it syncs."""

from __future__ import annotations

import errno
import posixpath
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from ottla.kernel.ids import TopicPartition
from ottla.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from ottla.sim.checkers.decay import Flipped
from ottla.sim.disk import DirectoryNode
from ottla.sim.machine import Machine
from ottla.sim.peek import within
from ottla.storage.log import Log
from ottla.storage.segment.names import LOG

if TYPE_CHECKING:
    from tests.sim.scripts.player import Story

_ALL = 1 << 62


class DiskSteps:
    """Part of `Story`."""

    def __init__(self, story: Story) -> None:
        self._story = story
        self._world = story.world
        self._copies: dict[int, tuple[str, DirectoryNode]] = {}
        """By broker, a log directory's path and what it held."""
        self.verbs: dict[str, Callable[..., Awaitable[Any]]] = {
            "empty disk of": self._empty_disk,
            "empty directory of": self._empty_directory,
            "copy directory of": self._copy_directory,
            "put back directory of": self._put_back_directory,
            "move": self._move,
            "leave room at": self._leave_room,
            "make room at": self._make_room,
            "syncs take": self._syncs_take,
            "fail a sync of": self._fail_sync,
            "stops": self._stops,
            "starts": self._starts,
            "holds": self._holds,
            "ends": self._ends,
            "committed are noted at": self._committed_are_noted,
            "flip a bit of": self._flip,
        }

    # --- what is done to it ---

    async def _empty_disk(self, broker: int) -> None:
        """Replace the disk of a stopped broker by an empty one."""
        machine = self._machine(broker)
        machine.lose_disk()
        self._world.invariants.disk_lost(machine.broker_id)

    async def _empty_directory(self, broker: int) -> None:
        """Replace the log directory of a stopped broker that holds the replica by an empty one."""
        machine = self._machine(broker)
        machine.lose_directory(self._holding(machine))
        self._world.invariants.disk_lost(machine.broker_id)

    async def _copy_directory(self, broker: int) -> None:
        """Keep a copy of the log directory that holds the replica, as it is now."""
        machine = self._machine(broker)
        path = self._holding(machine)
        self._copies[broker] = path, machine.disk.copied(path)

    async def _put_back_directory(self, broker: int) -> None:
        """Put the copy in the place of the directory of a stopped broker; its other directory stays as it is."""
        machine, (path, copy) = self._machine(broker), self._copies[broker]
        machine.disk.put_back(path, copy)
        self._world.invariants.disk_lost(machine.broker_id)

    async def _move(self, broker: int) -> None:
        """Send the replica to the broker's other log directory, and wait until it is there."""
        machine, topic = self._machine(broker), self._place.topic
        before = posixpath.dirname(self._log(broker).directory)
        (target,) = (path for path in machine.directories if path != before)
        moved = AlterReplicaLogDirTopic(name=topic, partitions=[0])
        asked = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=target, topics=[moved])])
        peer = self._story.teller.by_broker[machine.broker_id]
        response = await peer.ask(asked)
        assert response is not None and not response.results[0].partitions[0].error_code
        await self._story.until(lambda: posixpath.dirname(self._log(broker).directory) == target)

    async def _leave_room(self, broker: int, count: int) -> None:
        """Let the broker's disk take `count` more bytes."""
        disk = self._machine(broker).disk
        disk.capacity_bytes = disk.used_bytes() + count

    async def _make_room(self, broker: int) -> None:
        self._machine(broker).disk.capacity_bytes = _ALL

    async def _syncs_take(self, broker: int, count_ms: int) -> None:
        """From now on each sync of the broker's logs takes so long; those of its checkpoints take no time."""
        self._machine(broker).set_sync_us((count_ms * 1000, count_ms * 1000))

    async def _fail_sync(self, file: str, broker: int) -> None:
        """Let the broker's next sync of a file whose path has `file` in it fail; its log directory fails by that."""
        self._machine(broker).disk.fail("sync", errno.EIO, where=file)

    async def _flip(self, broker: int, offset: int, at: int) -> None:
        """Flip a bit in a batch of a closed segment, `at` bytes after its beginning, in the cache and on the disk."""
        machine, log = self._machine(broker), self._log(broker)
        (segment,) = (each for each in log.segments[:-1] if each.base_offset <= offset < each.next_offset)
        held = list(within(machine.disk, log.directory, segment.base_offset))
        position = sum(len(body) for _, following, body in held if following <= offset)
        machine.disk.flip_bit(segment.path(LOG), position + at)
        key = (log.topic_id, log.partition)
        flipped = Flipped(machine.broker_id, key, log.topic, log.directory, segment.base_offset, segment.next_offset)
        self._world.invariants.decay.note(flipped)

    # --- what it comes to ---

    async def _stops(self, broker: int) -> None:
        """Wait until the broker has stopped by itself."""
        await self._story.until(lambda: self._machine(broker).serving is None)

    async def _starts(self, broker: int, offset: int) -> None:
        """Wait until the broker's log starts at `offset`."""
        await self._until(broker, lambda log: log.log_start_offset == offset)

    async def _holds(self, broker: int, end: int) -> None:
        """Wait until the broker's log ends at `end`, all of it on disk."""
        await self._until(broker, lambda log: log.synced_offset == end)

    async def _ends(self, broker: int, end: int) -> None:
        """Wait until the broker's log ends at `end`, on disk or not."""
        await self._until(broker, lambda log: log.end_offset == end)

    async def _committed_are_noted(self, broker: int, offset: int) -> None:
        """Wait until the broker's checkpoint says that all below `offset` is committed."""

        def noted() -> bool:
            current = self._machine(broker).serving
            directories = current.node.replicas.directories.online if current is not None else []
            return any(one.offsets.high_watermark(self._place) == offset for one in directories)

        await self._story.until(noted)

    async def _until(self, broker: int, holds: Callable[[Log], bool]) -> None:
        def seen() -> bool:
            found = self._story.replica(broker)
            return found is not None and holds(found.log)

        await self._story.until(seen)

    def _machine(self, broker: int) -> Machine:
        (machine,) = self._story.machines((broker,))
        return machine

    def _holding(self, machine: Machine) -> str:
        """The log directory in which the replica is."""
        folder = f"{self._place}"
        (holding,) = (path for path in machine.directories if machine.disk.exists(posixpath.join(path, folder)))
        return holding

    def _log(self, broker: int) -> Log:
        replica = self._story.replica(broker)
        assert replica is not None
        return replica.log

    @property
    def _place(self) -> TopicPartition:
        return TopicPartition(self._story.topic.plan.name, 0)
