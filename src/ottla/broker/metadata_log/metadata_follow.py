"""Follows the metadata log: applies its entries to the one state, and appends the entries decided here.

Handlers and machines `submit` commands; `cluster/decide.py` turns them into entries, the coordination engine stores
these, and once all entries in the log are applied, the node is told to reconcile (rules C1 and C2).
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from itertools import islice
from typing import Any

from ottla.broker.metadata_log.command_queue import APPEND_COMMANDS, Applied, CommandQueue, Outcome, Pending
from ottla.broker.metadata_log.lease import Lease
from ottla.broker.metadata_log.store_trouble import StoreTrouble
from ottla.broker.waiting import Deadlines
from ottla.cluster.broker_commands import NewCluster, RegisterBroker
from ottla.cluster.caretaker import BrokerIncarnation, Caretaker
from ottla.cluster.commands import Command, CommandWriter
from ottla.cluster.decide import decide
from ottla.cluster.upkeep import Upkeep
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.kernel.ids import BrokerEpoch, BrokerId, new_id, topic_id_text
from ottla.kernel.seams import Clock, Conflict, Coordination, Entropy, LogEntry, StoreDamaged, Unknown, Written
from ottla.kernel.story import Slot, run_story
from ottla.metadata.broker_state import BrokerState, Listener
from ottla.metadata.changes import Changes
from ottla.metadata.entries import UNREGISTERED, Body, UnknownEntry, encode_entry
from ottla.metadata.growth import LogGrowth
from ottla.metadata.reading import take_entry, take_snapshot_of
from ottla.metadata.seal import read_entry, sealed_append
from ottla.metadata.snapshot import take_snapshot
from ottla.metadata.state import Metadata
from ottla.records.checksum import crc32c

COMMAND_TIMEOUT_MS = 30_000
_RETRY_MS = 100
_BACK_OFF_MS = 20
_PATIENT_CONFLICTS = 3
_READ_LIMIT = 1000
_READS_TO_THE_END = 8


class MetadataFollow:
    """One broker's view of the cluster, and its only way to change it."""

    def __init__(
        self,
        coordination: Coordination,
        clock: Clock,
        deadlines: Deadlines,
        entropy: Entropy,
        broker: BrokerId,
        *,
        session_timeout_ms: int,
    ) -> None:
        self.metadata = Metadata()
        self.broker = broker
        self.broker_epoch = BrokerEpoch(UNREGISTERED)
        """The broker epoch of this incarnation, once its registration is applied."""
        self.on_reconcile: Callable[[Changes], None] = _ignore
        """Called when all entries read are applied; looks at the state and makes the broker fit it."""
        self.on_fatal: Callable[[str], None] = _raise
        """Called with a sentence when this broker must stop, because the log has an entry that it cannot read."""
        self.refusing: Callable[[], frozenset[BrokerIncarnation]] = frozenset
        """Incarnations that closed their connections and refuse new ones (rule C8)."""
        self.upkeep: Upkeep | None = None
        """The caretaker's work in a cluster without faults; nothing of it is done before this is set."""
        self.conflicts = 0
        self._coordination = coordination
        self._clock = clock
        self._deadlines = deadlines
        self._entropy = entropy
        self.incarnation = entropy.bytes(16)
        """The id that tells the registration of this run from those of other runs."""
        self._last_entry: bytes | None = None
        """The entry of the applied version; None if that came with a snapshot."""
        self._sequence = int.from_bytes(entropy.bytes(7), "big")
        self.lease = Lease(clock, deadlines, session_timeout_ms * 2 // 3)
        self._reconciled = 0
        self._acting = False
        self._tick_ms = max(10, session_timeout_ms // 6)
        self._reading = False
        self._read_again = False
        self._queue = CommandQueue()
        self._writing = False
        self._sought: tuple[int, int] | None = None
        self._found_version = 0
        self._caretaker = Caretaker(broker)
        self._handled: set[Command] = set()
        self._write_trouble = StoreTrouble("written")
        self._read_trouble = StoreTrouble("read")
        self._growth = LogGrowth()
        self._closed = False

    # Coming up and going down

    async def start(self) -> None:
        """Read the log to its end; raise OSError if the store cannot be reached."""
        await self._load_snapshot()
        await self._read_to_end()
        self._coordination.on_change(self._changed)

    def registration(self, *, host: str, rack: str | None, listeners: tuple[Listener, ...]) -> RegisterBroker:
        """A registration of this run; the caller adds the state of its replicas."""
        new_cluster = NewCluster(topic_id_text(new_id(self._entropy)), self._entropy.bytes(32))
        return RegisterBroker(self.broker, self.incarnation, host, rack, listeners, new_cluster)

    async def register(self, command: RegisterBroker) -> BrokerEpoch:
        """Register with the cluster (the first broker makes it): logs are recovered by now (rule A7).

        Raise ApiError if refused, OSError if the store could not be written.
        """
        outcome = await self.submit(command)
        if isinstance(outcome, ApiError):
            raise self._write_trouble.error or outcome
        self._tick()
        return self.broker_epoch

    async def catch_up(self) -> None:
        """Apply all entries in the log; raise OSError if the store cannot be reached."""
        await self._read_to_end()

    def close(self) -> None:
        """Take no more commands, and refuse those that wait."""
        self._closed = True
        self.lease.close()
        for pending in self._queue.take_all():
            pending.deadline.cancel()
            pending.slot.fill(ApiError(ErrorCode.BROKER_NOT_AVAILABLE, "The broker is stopping."))

    # Questions

    def lease_valid(self) -> bool:
        """True if this broker may still answer as leader or coordinator (rule A12)."""
        return self._acting and self.lease.holds()

    def is_stale(self) -> bool:
        """True if other brokers may have changed the cluster for a while without this broker knowing."""
        return len(self.metadata.brokers) > 1 and not self.lease.holds()

    def entry_crc(self) -> int | None:
        """The checksum of the last applied entry; None if it came with a snapshot."""
        return None if self._last_entry is None else crc32c(self._last_entry)

    async def entry_crc_at(self, version: int) -> int | None:
        """The checksum of the entry at a version below the log's end; None if the log no longer has it."""
        try:
            entries = await self._coordination.read(version - 1, 1)
        except LookupError:
            return None
        return crc32c(entries[0].body) if entries else None

    def writer(self) -> CommandWriter:
        return CommandWriter(self.broker, self.broker_epoch)

    def rank(self) -> int:
        """The rank of this broker among the live ones; 0 for the caretaker."""
        return self._caretaker.rank(self.metadata, self._coordination.live())

    # Commands

    def submit(self, command: Command, timeout_ms: int = COMMAND_TIMEOUT_MS) -> Slot[Outcome]:
        """Have a command decided and appended; the slot is filled when its entries are applied here, or with the error.

        REQUEST_TIMED_OUT leaves open whether it happened.
        """
        if self._closed:
            refused: Slot[Outcome] = Slot()
            refused.fill(ApiError(ErrorCode.BROKER_NOT_AVAILABLE, "The broker is stopping."))
            return refused
        pending = Pending(command, self._deadlines, timeout_ms)
        self._queue.put(pending)
        if not self._writing:
            self._writing = True
            self._drive(self._write())
        return pending.slot

    async def _write(self) -> None:
        """Keep one append in flight, for as many commands as can share it; urgent ones go first (rule A4)."""
        conflicts = 0
        while self._queue:
            first = next(iter(self._queue))
            if first.slot.full:
                self._queue.remove(first)
                continue
            try:
                lost = await self._write_some()
            except OSError:
                await self._sleep(_RETRY_MS)
                continue
            conflicts = conflicts + 1 if lost else 0
            self.conflicts += lost
            if conflicts >= _PATIENT_CONFLICTS:
                await self._sleep(_BACK_OFF_MS * (1 + self.rank()))
        self._writing = False

    async def _write_some(self) -> bool:
        """Decide the first commands and append their entries; True if another broker's append came first."""
        version = self.metadata.version
        batch = self._queue.first_decided(lambda command: decide(command, self.metadata, self.writer()), self._encode)
        if not batch:
            await self._end_without_entries(version)
            return False
        bodies = [body for pending in batch for body in pending.bodies]
        data = sealed_append([entry for pending in batch for entry in pending.data], bodies, self.metadata)
        sent_ms = self._clock.mono_ms()
        first_version = await self._append(data, version)
        if not first_version:
            return True
        self._apply_own(first_version, bodies, data)
        self.lease.renew(sent_ms)
        for pending in batch:
            self._done(pending)
        for pending in batch:
            pending.slot.fill(Applied(first_version, tuple(pending.bodies)))
            first_version += len(pending.bodies)
        return False

    def _done(self, pending: Pending) -> None:
        if not self._closed:  # after a close the queue is empty already
            self._queue.remove(pending)
            pending.deadline.cancel()

    def _encode(self, body: Body) -> bytes:
        self._sequence += 1
        return encode_entry(body, broker_epoch=self.broker_epoch, sequence=self._sequence)

    async def _end_without_entries(self, version: int) -> None:
        """End commands that gave an error or no entries; False if the log had newer entries, to decide them again.

        One read of the log is enough for all commands that waited when it began.
        """
        asked = list(islice(self._queue, APPEND_COMMANDS))
        await self._read_to_end()
        for pending in asked:
            if self.metadata.version != version or self._closed:
                return
            decided = decide(pending.command, self.metadata, self.writer())
            if decided and not isinstance(decided, ApiError):
                return
            self._done(pending)
            pending.slot.fill(decided if isinstance(decided, ApiError) else Applied(version + 1, ()))

    async def _append(self, data: list[bytes], expected: int) -> int:
        """Append; return the first entry's version, or 0 after a conflict. Repeat while the outcome is unknown."""
        mark = read_entry(LogEntry(expected + 1, data[0]))
        self._sought, self._found_version = (mark.broker_epoch, mark.sequence), 0
        outcome: Written | Conflict | Unknown | None = None
        while True:
            try:
                outcome = await self._coordination.append(data, expected)
                self._write_trouble.worked()
            except OSError as error:
                self._write_trouble.failed(error)
                if outcome is None:
                    raise  # nothing of it was sent
            if isinstance(outcome, Written):
                return expected + 1
            while not self._closed:  # the outcome must be known before anything else is tried
                try:
                    await self._read_to_end()
                    break
                except OSError:
                    await self._sleep(_RETRY_MS)
            if self._found_version:  # the answer was lost, but the entries are there (rule C1)
                return self._found_version
            if isinstance(outcome, Conflict) or self.metadata.version > expected or self._closed:
                return 0
            await self._sleep(_RETRY_MS)

    def _apply_own(self, first_version: int, bodies: list[Body], data: list[bytes]) -> None:
        """Apply our own entries, except those that a read has brought already."""
        for version, (body, entry) in enumerate(zip(bodies, data, strict=True), first_version):
            if version == self.metadata.version + 1:
                self.metadata.apply(version, body)
                self._applied(entry)
        self._reconcile()

    # Reading

    def _changed(self) -> None:
        """The store reports that there may be new entries, or that a broker may have died."""
        if not self._closed:
            self.look_after_brokers()
            self._read_on()

    def _read_on(self) -> None:
        if self._reading:
            self._read_again = True
        else:
            self._reading = True
            self._drive(self._read_rounds())

    async def _read_rounds(self) -> None:
        self._read_again = True
        while self._read_again and not self._closed:
            self._read_again = False
            try:
                await self._read_to_end()
            except OSError:
                break  # the next tick tries again
        self._reading = False

    async def _read_to_end(self) -> None:
        """Apply all entries in the log at the time of the call, then reconcile (rule C2). Several may read at once.

        The end is reached when a read brings nothing. While others append faster than this broker reads, that does not
        happen: after some reads the present head counts as the end. Else the lease would run out.
        """
        for _ in range(_READS_TO_THE_END):
            if await self._read_some():
                break
        else:
            sent_ms, head = self._clock.mono_ms(), await self._coordination.head()
            while self.metadata.version < head:
                await self._read_some()
            self.lease.renew(sent_ms)
        self._reconcile()

    async def _read_some(self) -> bool:
        """Apply the next entries; True if there were none, which renews the lease."""
        sent_ms = self._clock.mono_ms()
        after = self.metadata.version
        try:
            entries = await self._coordination.read(after, _READ_LIMIT)
        except LookupError:
            await self._load_snapshot()
            if self.metadata.version <= after:
                why = "it is missing, and no snapshot holds it"
                raise StoreDamaged(self._coordination.name, f"entry {after + 1}", why) from None
            return False
        for entry in entries:
            if entry.version > self.metadata.version:
                self._take(entry)
        if not entries:
            self.lease.renew(sent_ms)
        return not entries

    async def _load_snapshot(self) -> None:
        snapshot = await self._coordination.load_snapshot()
        if snapshot is None or snapshot.version <= self.metadata.version:
            return
        self.metadata = take_snapshot_of(self._coordination.name, snapshot)
        self._last_entry = None
        self._growth.restart(len(snapshot.body))
        self._note_own_state()
        self.on_reconcile(self.metadata.take_changes()._replace(everything=True))

    def _take(self, entry: LogEntry) -> None:
        decoded = take_entry(self.metadata, entry, self._coordination.name)
        if self._sought == (decoded.broker_epoch, decoded.sequence):
            self._found_version = entry.version
        self._applied(entry.body)

    def _applied(self, entry: bytes) -> None:
        self._last_entry = entry
        self._growth.add(entry)
        self._note_own_state()

    def _note_own_state(self) -> None:
        """Note this broker's incarnation, and whether it may act."""
        me = self.metadata.brokers.get(self.broker)
        if me is None or me.incarnation != self.incarnation:
            if self.broker_epoch != UNREGISTERED:
                self._acting = False
                self._stop(f"{_why_replaced(self.broker, me)}: this process stops.")
            return
        self.broker_epoch = me.epoch
        self._acting = not me.fenced

    def _reconcile(self) -> None:
        if self._closed:
            return  # the read ended after the broker has closed its logs
        self._reconciled = self.metadata.version
        changes = self.metadata.take_changes()
        if changes.any:
            self.on_reconcile(changes)
        if self._growth.calls_for_snapshot and not self._closed and self.rank() == 0:
            snapshot = take_snapshot(self.metadata)
            self._growth.restart(len(snapshot.body))
            self._coordination.save_snapshot(snapshot).when_full(_nothing)

    # The lease, and deaths of brokers

    def _tick(self) -> None:
        """Renew the lease by a read of the head: a full disk does not end it (rule A12)."""
        if self._closed:
            return
        self._drive(self._look_at_head())
        self.look_after_brokers()
        self._deadlines.after(self._tick_ms, self._tick)

    async def _look_at_head(self) -> None:
        sent_ms, applied = self._clock.mono_ms(), self.metadata.version
        try:
            head = await self._coordination.head()
        except OSError as error:
            self._read_trouble.failed(error)
            return
        self._read_trouble.worked()
        if head < applied:
            self._stop(f"The metadata log ends at {head}, and {applied} of its entries were applied here: it is lost.")
        elif head <= self._reconciled:
            self.lease.renew(sent_ms)
        else:
            self._read_on()

    def look_after_brokers(self) -> None:
        """Act on brokers that have died, or are suspected to."""
        if self.broker_epoch == UNREGISTERED or self._closed:
            return
        live = self._coordination.live()
        now_ms = self._clock.mono_ms()
        commands = self._caretaker.turn(self.metadata, live, self.broker_epoch, now_ms, self.refusing())
        if self.upkeep is not None:
            first = self._acting and self._caretaker.rank(self.metadata, live) == 0
            commands += self.upkeep.turn(self.metadata, first=first, now_ms=now_ms)
        for command in commands:
            if command not in self._handled:
                self._handled.add(command)
                self.submit(command).when_full(partial(self._handled.discard, command))

    # Stories

    def _drive(self, coroutine: Coroutine[Slot[Any], None, None]) -> None:
        """Run a story. An unknown entry stops the broker, and so does a bug, with its traceback in the log."""
        story = run_story(coroutine)

        def ended() -> None:
            why = "The broker failed while it followed the metadata log."
            try:
                story.result()
                why = ""
            except (UnknownEntry, StoreDamaged) as fault:
                why = str(fault)
            finally:
                if why:
                    self._stop(why)

        story.when_full(ended)

    def _stop(self, why: str) -> None:
        self.close()
        self.on_fatal(why)

    async def _sleep(self, delay_ms: int) -> None:
        slot: Slot[None] = Slot()
        self._deadlines.after(delay_ms, lambda: slot.fill(None))
        await slot


def _why_replaced(broker: BrokerId, registered: BrokerState | None) -> str:
    """The reason why this process is a broker no more, by what is registered under its number."""
    if registered is None:
        return f"Broker {broker} was unregistered by an administrator, and registers again when it is started"
    return f"Another process has registered as broker {broker}"


def _ignore(changes: Changes) -> None:
    """Do nothing, until the node has set its own callback."""


def _raise(why: str) -> None:
    raise RuntimeError(why)


def _nothing() -> None:
    pass
