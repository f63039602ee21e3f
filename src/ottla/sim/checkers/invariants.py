"""Invariants that hold at every moment, seen from inside: looked at after each turn of the loop in which a broker did
something, after each change of the metadata, and after each loss of power.

The offsets of one broker's log are in order and do not go back. One incarnation leads in an epoch. Committed records
are the same bytes on every replica that calls them committed. They are on the disk, safe from a loss of power, of each
replica that the metadata counts as in sync, and of at least `min.insync.replicas` replicas.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from ottla.broker.node import Node
from ottla.broker.replicas.partition import Partition
from ottla.cluster.partitions import min_in_sync
from ottla.kernel.ids import BrokerId, TopicId
from ottla.metadata.entries import UNREGISTERED
from ottla.metadata.partition_state import PartitionState
from ottla.metadata.seal import read_entry
from ottla.metadata.state import Metadata
from ottla.sim.checkers.decay import Decay, Flipped
from ottla.sim.checkers.history import Anomaly
from ottla.sim.peek import batches, checkpointed, first_offset, holds_topic, homes, is_synced, newest_epoch
from ottla.storage.checkpoint import LOG_START
from ottla.storage.segment.names import LOG

if TYPE_CHECKING:
    from ottla.coordination.memory import MemoryStore
    from ottla.kernel.seams import Syncable
    from ottla.sim.machine import Machine, MachineRun

Key = tuple[bytes, int]


class _Lines(NamedTuple):
    """The offsets and the role of a replica when it was last looked at."""

    start: int
    watermark: int
    synced: int
    end: int
    leads: bool
    epoch: int


_UNSEEN: tuple[Partition | None, _Lines | None] = (None, None)


class _Lost(NamedTuple):
    """A lost disk, or a lost log directory."""

    epoch: int
    """The broker epoch of the last registration by a process that still had the disk."""
    ended: frozenset[bytes]
    """The incarnations of these processes: their registrations may still be under way, and arrive after the loss."""


class _Committed:
    """The records that any replica has called committed."""

    def __init__(self) -> None:
        self.batches: dict[int, tuple[int, bytes]] = {}
        """By base offset: next offset and bytes."""
        self.start = 0
        """The latest start of any replica's log so far: the other replicas delete up to there later."""
        self.end = 0


class Invariants:
    """All machines of one world, and the metadata as the store has it."""

    def __init__(
        self, store: MemoryStore, machines: dict[BrokerId, Machine], required: int, keeps_up_ms: int | None = None
    ) -> None:
        """`required`: min.insync.replicas.

        `keeps_up_ms`: the time beside its leader after which no broker may be dropped as lagging; None if any may.
        """
        self._store = store
        self._machines = machines
        self._required = required
        self._keeps_up_ms = keeps_up_ms
        self._lost: dict[BrokerId, _Lost] = {}
        """Brokers with a lost disk.

        Until a later process of theirs registers, the metadata counts on records that are gone.
        """
        self._may_be_older: dict[BrokerId, bool] = {}
        """True if a directory of the broker's present process may have been restored from a copy before its start."""
        self._metadata = Metadata()
        self._before: dict[tuple[bytes, int], PartitionState] = {}
        self._nodes: dict[BrokerId, Node] = {}
        self._seen: dict[BrokerId, dict[Key, tuple[Partition, _Lines]]] = {}
        self._leaders: dict[tuple[bytes, int, int], MachineRun] = {}
        self._committed: dict[Key, _Committed] = {}
        self.decay = Decay()
        self.on_moved: Callable[[Machine, Partition], None] = lambda machine, partition: None
        """Hears of each replica whose offsets or role have changed."""
        self.keep_disks = False
        self.elections = 0

    # --- one broker ---

    def after_turn(self, machine: Machine) -> Iterator[Anomaly]:
        """The broken invariants of a machine that did something."""
        current = machine.current
        if current is None:
            return
        if self._nodes.get(machine.broker_id) is not current.node:
            self._nodes[machine.broker_id] = current.node
            self._seen[machine.broker_id] = {}
            self._may_be_older[machine.broker_id] = self.is_lost(machine.broker_id)
        if not self._may_be_older[machine.broker_id] and current.node.replicas.directories.incarnations.older:
            yield Anomaly("older", f"broker {machine.broker_id} wrongly takes a directory for an older one")
        seen = self._seen[machine.broker_id]
        for key, partition in current.node.replicas.by_id.items():
            bounds = partition.log.bounds
            now = (  # no _Lines yet, as mostly nothing has changed
                bounds.start,
                bounds.high_watermark,
                bounds.synced,
                bounds.end,
                partition.leader is not None,
                partition.leader_epoch,
            )
            held, before = seen.get(key, _UNSEEN)
            if held is not partition:
                before = None  # another object: the replica was removed and made anew
            if before != now:
                lines = _Lines(*now)
                seen[key] = partition, lines
                self.on_moved(machine, partition)
                yield from self._broken_in(current, key, partition, before, lines)

    def _broken_in(
        self, current: MachineRun, key: Key, partition: Partition, before: _Lines | None, now: _Lines
    ) -> Iterator[Anomaly]:
        caching = partition.log.write_caching
        where = f"{partition.topic}-{partition.index} on broker {current.machine.broker_id}: {now}"
        if not now.start <= now.watermark <= now.end:
            yield Anomaly("lines", f"{where}: out of order")
        if not now.synced <= now.end:
            yield Anomaly("lines", f"{where}: synced beyond the end")
        if now.watermark > max(now.synced, now.start) and not caching:
            yield Anomaly("not-on-disk", f"{where}: readers see what is not on disk")
        if before is not None and now.watermark < before.watermark and (now.leads or not caching):
            yield Anomaly("lines", f"{where}: the watermark was at {before.watermark}")
        if before is not None and now.start < before.start and not caching:
            yield Anomaly("lines", f"{where}: the start was at {before.start}")
        if now.leads and self._leaders.setdefault((*key, now.epoch), current) is not current:
            yield Anomaly("two-leaders", f"{where}: another broker has led in this epoch")
        takes_writes = now.leads and not partition.log.refusing  # its directory may fail when it begins to lead
        begins = takes_writes and (before is None or not before.leads or before.epoch != now.epoch)
        if begins and newest_epoch(current.machine.disk, partition.log.directory) < now.epoch:
            yield Anomaly("epoch-not-on-disk", f"{where}: leads in an epoch that a power cut may take")
        if not caching:
            committed = self._committed.setdefault(key, _Committed())
            committed.start = max(committed.start, now.start)
            if before is not None and now.end < before.end and now.end < committed.end:
                state = self._metadata.partition(TopicId(key[0]), key[1])
                if state is not None and current.machine.broker_id in state.in_sync:
                    yield Anomaly(
                        "cut-committed", f"{where}: in sync, and cut below {committed.end}, which was committed"
                    )
            known = max(committed.start, before.watermark if before is not None else 0)
            if now.watermark > known:
                yield from self._committed_here(current.machine, key, partition, known, now.watermark, where)

    def nothing_to_sync(self, machine: Machine, log: Syncable) -> Iterator[Anomaly]:
        """Judge a log that reports nothing to sync while no sync of it is under way: all of it must be on disk."""
        current = machine.current
        served = [] if current is None else [each.log for each in current.node.replicas.by_id.values()]
        for each in served:
            if each is log and not (each.refusing or is_synced(machine.disk, each.active.path(LOG))):
                where = f"{posixpath.basename(each.directory)} on broker {machine.broker_id}"
                yield Anomaly("never-synced", f"{where}: its end is not on disk, and no sync is due")

    # --- what is committed ---

    def _committed_here(
        self, machine: Machine, key: Key, partition: Partition, known: int, watermark: int, where: str
    ) -> Iterator[Anomaly]:
        committed = self._committed[key]
        directory = partition.log.directory
        for first, last in self._right(machine.broker_id, key, directory, known, watermark):
            end = first
            for base, following, body in batches(machine.disk, directory, first, durable=False):
                if base >= last:
                    break
                if following > watermark:
                    yield Anomaly("lines", f"{where}: the watermark lies inside the batch at {base}")
                told = committed.batches.setdefault(base, (following, body))
                if told != (following, body):
                    yield Anomaly("other-bytes", f"{where}: other bytes are committed at {base}")
                end = following
            if end < last:
                yield Anomaly("other-bytes", f"{where}: no batch is readable at {end}")
        if watermark > committed.end:
            before, committed.end = committed.end, watermark
            yield from self._on_disks(key, partition, max(before, committed.start), where)

    def _on_disks(self, key: Key, partition: Partition, known: int, where: str) -> Iterator[Anomaly]:
        """Check that records committed from `known` on are on the disks that must hold them."""
        topic = partition.topic
        state = self._metadata.partition(TopicId(key[0]), key[1])
        if state is None:
            return  # the topic was deleted meanwhile
        holds = 0
        for broker in state.replicas:
            excused = self.is_lost(broker) or self._is_thought_whole(broker, partition)
            missing = None if excused else self._missing(broker, key, topic, known)
            holds += missing is None
            if missing is not None and broker in state.in_sync:
                yield Anomaly("not-on-disk", f"{where}: committed, and {missing}, which is in sync")
        if holds < min(self._required, len(state.replicas) - state.arriving):
            yield Anomaly("not-on-disk", f"{where}: committed, but on {holds} disks only")

    def _missing(self, broker: BrokerId, key: Key, topic: str, known: int) -> str | None:
        """The committed records at or above `known` that a broker's disk lacks; None if it has them all."""
        whys = [self._missing_in(home, broker, key, topic, known) for home in self._homes(broker, key, topic)]
        return None if None in whys else whys[0]

    def _homes(self, broker: BrokerId, key: Key, topic: str) -> list[str]:
        """The log directories that may hold the replica: the one it is served from; if it is not served, both
        directories of an interrupted move, until the next start chooses."""
        machine = self._machines[broker]
        served = None if machine.current is None else machine.current.node.replicas.by_id.get(key)
        if served is not None:
            return [posixpath.dirname(served.log.directory)]
        return homes(machine.disk, machine.directories, f"{topic}-{key[1]}") or [machine.directories[0]]

    def _missing_in(self, home: str, broker: BrokerId, key: Key, topic: str, known: int) -> str | None:
        committed = self._committed[key]
        directory = f"{home}/{topic}-{key[1]}"
        for first, last in self._right(broker, key, directory, max(known, committed.start), committed.end):
            expected = first
            for base, following, body in batches(self._machines[broker].disk, directory, first, durable=True):
                if base > expected or expected >= last:
                    break
                if base in committed.batches and committed.batches[base] != (following, body):
                    return f"other bytes are at {base} on the disk of broker {broker}"
                expected = following
            if expected < last:
                return f"{expected} to {last} is not on the disk of broker {broker}"
        return None

    def _right(self, broker: BrokerId, key: Key, directory: str, first: int, last: int) -> Iterator[tuple[int, int]]:
        """The parts of these offsets without a flipped bit in this folder."""
        flips = self.decay.on(broker, key, directory) if self._flips() else []
        for flipped in sorted(flips, key=lambda each: each.base_offset):
            if first < flipped.base_offset:
                yield first, min(last, flipped.base_offset)
            first = max(first, flipped.end(self._machines[broker].disk, last))
        if first < last:
            yield first, last

    # --- the metadata ---

    def after_append(self) -> Iterator[Anomaly]:
        """Apply new entries of the metadata log, and judge changed in-sync sets."""
        metadata = self._metadata
        if self._store.head == metadata.version:
            return
        try:
            entries = self._store.read(metadata.version, 1 << 30)
        except LookupError:
            return  # entries were cut off before they were read; worlds are too short for that
        for entry in entries:
            metadata.apply(entry.version, read_entry(entry).body)
        for broker, lost in self._lost.items():
            if broker in metadata.brokers and metadata.brokers[broker].incarnation in lost.ended:
                self._lost[broker] = lost._replace(epoch=self.epoch(broker))
        for topic_id in sorted(metadata.take_changes().topics):
            topic = metadata.topics.get(topic_id)
            for state in topic.partitions if topic is not None else ():
                yield from self._changed(topic.name if topic is not None else "", (topic_id, state.partition), state)

    def _changed(self, topic: str, key: Key, state: PartitionState) -> Iterator[Anomaly]:
        before = self._before.get(key)
        self._before[key] = state
        if before is None:
            return
        self.elections += state.has_leader and state.leader_epoch > before.leader_epoch
        if key in self._committed:
            for broker in state.in_sync:
                if broker in before.in_sync or self.is_lost(broker):
                    continue
                if (missing := self._missing(broker, key, topic, 0)) is not None:
                    yield Anomaly(
                        "not-on-disk", f"{topic}-{key[1]}: broker {broker} joins the in-sync set, but {missing}"
                    )
        for broker in set(state.in_sync) - set(before.in_sync):
            if not self._metadata.is_active(broker) or broker in state.offline:
                yield Anomaly(
                    "joins-dead", f"{topic}-{key[1]}: broker {broker} joins the in-sync set, but is not alive"
                )
        if state.leader_epoch == before.leader_epoch:
            yield from self._left(topic, before, state)

    def _left(self, topic: str, before: PartitionState, state: PartitionState) -> Iterator[Anomaly]:
        """A broker that served beside its leader for longer than `keeps_up_ms` stays in the in-sync set (rule A5)."""
        if self._keeps_up_ms is None or not state.has_leader:
            return
        for broker in before.in_sync:
            if broker in state.in_sync or broker not in state.replicas or not self._metadata.is_active(broker):
                continue
            machine = self._machines[broker]
            worked_us = machine.loop.now_us - machine.working_since_us
            if machine.serving is not None and not machine.paused and worked_us > self._keeps_up_ms * 1000:
                yield Anomaly(
                    "evicted", f"{topic}-{state.partition}: broker {broker} was dropped as lagging, but did not lag"
                )

    def on_the_way(self) -> list[str]:
        """Brokers that do not serve, failed log directories of running brokers, and replicas on the move."""
        found = [machine.host for machine in self._machines.values() if machine.serving is None]
        running = [machine.serving.node for machine in self._machines.values() if machine.serving is not None]
        found += [path for node in running for path in node.replicas.directories.failed]
        return found + [
            f"{move.partition.topic}-{move.partition.index}" for node in running for move in node.replicas.moves
        ]

    def not_in_sync(self) -> list[tuple[str, int]]:
        """Partitions with a replica that is not in sync."""
        return [
            (topic.name, state.partition)
            for topic in self._metadata.visible_topics()
            for state in topic.partitions
            if set(state.in_sync) != set(state.replicas)
        ]

    # --- power ---

    def after_power_cut(self, machine: Machine) -> Iterator[Anomaly]:
        """Check after a power cut that committed records are still on the disks that must hold them."""
        if self.is_lost(machine.broker_id):
            return
        starts = {home: checkpointed(machine.disk, f"{home}/{LOG_START}") for home in machine.directories}
        for topic_id in sorted(self._metadata.topics):
            topic = self._metadata.topics[topic_id]
            for state in topic.partitions:
                key = (topic_id, state.partition)
                if machine.broker_id in state.in_sync and key in self._committed:
                    whys = []
                    for home in self._homes(machine.broker_id, key, topic.name):
                        start = starts[home].get((topic.name, state.partition), 0)  # a retention was interrupted
                        if "retention.bytes" in topic.configs:  # on a full disk the files go first, one by one
                            start = max(start, first_offset(machine.disk, f"{home}/{topic.name}-{state.partition}"))
                        whys.append(self._missing_in(home, machine.broker_id, key, topic.name, start))
                    if None not in whys:
                        yield Anomaly("not-on-disk", f"{topic.name}-{key[1]}: after the loss of power {whys[0]}")

    def may_evict(self) -> None:
        """Note a disturbance, unknown to the plan, that may keep replicas from following."""
        self._keeps_up_ms = None

    # --- flipped bits ---

    def _flips(self) -> list[Flipped]:
        """The bits that are still flipped."""
        decay = self.decay
        if decay.now:
            decay.now = [each for each in decay.now if not self._is_right(each)]
        return decay.now

    def _is_right(self, flipped: Flipped) -> bool:
        """True if the segment is right again. Its own log start counts, as other replicas may have deleted more.

        Where its topic is deleted nobody repairs it any more; it is there until its broker has deleted it, too.
        """
        if self._metadata.partition(TopicId(flipped.key[0]), flipped.key[1]) is None:
            return not flipped.is_there(self._machines[flipped.broker].disk)
        seen = self._seen.get(flipped.broker, {}).get(flipped.key)
        start = 0 if seen is None else seen[1].start
        return flipped.is_right(self._machines[flipped.broker].disk, self._committed[flipped.key].batches, start)

    def may_flip(self, flipped: Flipped) -> bool:
        """True if the whole segment is committed, and another replica in sync holds it unharmed.

        The other's disk has room and no pending errors: else its broker may fail to open it.
        """
        committed = self._committed.get(flipped.key)
        state = self._metadata.partition(TopicId(flipped.key[0]), flipped.key[1])
        if committed is None or state is None or any(each.key == flipped.key for each in self._flips()):
            return False
        if (
            flipped.base_offset < committed.start
            or flipped.next_offset > committed.end
            or any(map(self.is_lost, self._lost))
        ):
            return False
        return any(
            self._missing(broker, flipped.key, flipped.topic, flipped.base_offset) is None
            for broker in state.in_sync
            for disk in [self._machines[broker].disk]
            if broker != flipped.broker and not disk.to_fail and not disk.is_limited
        )

    def bit_flipped_beside(self, broker: BrokerId) -> bool:
        """True while a bit is flipped on another broker's disk: this broker may hold the only sound copy."""
        return any(each.broker != broker for each in self._flips())

    def flipped_bits(self) -> int:
        return len(self._flips())

    # --- lost disks ---

    def may_lose_disk(self, broker: BrokerId) -> bool:
        """True if every partition of the broker has another in-sync or eligible replica that is surely safe.

        A replica is safe if its folder is durably on a disk that has room and no pending errors: else its broker may
        leave the set when it registers, or fail to open it. False while a store is an older one: no broker could report
        the loss beside a directory that is new, or as old. False while min.insync.replicas is being edited or is 1: a
        replica that is cut off leaves the set then, and the one without its disk would be the last. False while another
        lost disk is not registered, or another broker has flipped bits.
        """
        if self.keep_disks or any(machine.store_is_older for machine in self._machines.values()):
            return False
        if any(self.is_lost(other) for other in self._lost) or self.bit_flipped_beside(broker):
            return False
        for topic in self._metadata.topics.values():
            for state in topic.partitions:
                others = {*state.in_sync, *state.eligible} - {broker}
                stays = min_in_sync(self._metadata, topic) > 1
                whole = any(self._is_safe(one, topic.name, state) for one in others)
                if broker in state.replicas and not (stays and whole):
                    return False
        return True

    def _is_safe(self, broker: BrokerId, topic: str, state: PartitionState) -> bool:
        """True if the broker has the folder of this very topic durably, and nothing keeps it from opening it.

        An older topic may have had the same name.
        """
        machine, name = self._machines[broker], f"{topic}-{state.partition}"
        folders = [f"{root}/{name}" for root in homes(machine.disk, machine.directories, name)]
        made = any(holds_topic(machine.disk, folder, state.topic_id) for folder in folders)
        return made and not machine.disk.to_fail and not machine.disk.is_limited

    def disk_lost(self, broker: BrokerId) -> None:
        """Note that a broker's disk was lost; call it after its processes have ended."""
        ended = frozenset(one.node.follow.incarnation for one in self._machines[broker].past)
        self._lost[broker] = _Lost(self.epoch(broker), ended)

    def is_lost(self, broker: BrokerId) -> bool:
        """True if the broker has lost a disk, or a log directory, and has not registered since."""
        return broker in self._lost and self._lost[broker].epoch == self.epoch(broker)

    def _is_thought_whole(self, broker: BrokerId, partition: Partition) -> bool:
        """True if a broker is back without its disk and the leader does not know: an old receipt may arrive late."""
        leader, lost = partition.leader, self._lost.get(broker)
        if leader is None or lost is None or broker not in leader.registered:
            return False
        return leader.registered[broker] <= lost.epoch

    def has_closed(self, machine: Machine) -> bool:
        """True if the metadata says that the broker closed all its log directories cleanly and has stopped."""
        registered = self._metadata.brokers.get(machine.broker_id)
        held = () if registered is None or not registered.fenced else registered.held
        return len(held) == len(machine.directories) and all(one.closed for one in held)

    def epoch(self, broker: BrokerId) -> int:
        """The broker epoch of its registration, or UNREGISTERED."""
        registered = self._metadata.brokers.get(broker)
        return UNREGISTERED if registered is None else registered.epoch
