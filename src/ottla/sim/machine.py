"""A machine with a broker on it: the disk outlives the broker, and each start is a new incarnation of the real Node.

world.py owns machines; callbacks of an incarnation are dropped once it is gone (`guard`).
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from ottla.broker.node import Node
from ottla.broker.replicas.syncers import Syncers
from ottla.config.resolve import Layers
from ottla.config.security import SASL_PLAINTEXT, listener_security
from ottla.coordination.memory import MemoryStore
from ottla.kernel.errors import ApiError
from ottla.kernel.ids import BrokerId
from ottla.kernel.seams import StoreDamaged, Syncable, Syncer, Timer
from ottla.kernel.story import Slot, run_story
from ottla.metadata.broker_state import Listener
from ottla.sim.coordination import CALM, CoordinationFaults, SimCoordination
from ottla.sim.dialling import Dialler, Find, Guard
from ottla.sim.disk import SimDisk
from ottla.sim.loop import SimLoop
from ottla.sim.network import SHARED_BYTES, Network, PoisonedPool, ServerEnd
from ottla.sim.syncer import SimSyncer, no_matter
from ottla.storage.directory.ownership import DirectoryRefused
from ottla.wire.connection import ServerConnection

DATA = "/data"
PORT = 9092
_POOL_BYTES = 64 << 20


class SimEntropy:
    """`kernel.seams.Entropy` from a seed."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def bytes(self, count: int) -> bytes:
        return self._random.randbytes(count)


class _Clock:
    """The world's clock as one incarnation sees it, through its machine's wall clock."""

    def __init__(self, machine: Machine, guard: Guard) -> None:
        self._machine = machine
        self._loop = machine.loop
        self._guard = guard

    def mono_ms(self) -> int:
        return self._loop.mono_ms()

    def wall_ms(self) -> int:
        return self._machine.wall_ms

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> Timer:
        return self._loop.call_later(delay_ms, self._guard(callback))

    def call_soon(self, callback: Callable[[], None]) -> None:
        self._loop.call_soon(self._guard(callback))


class MachineRun:
    """One run of the broker, from its start to its end."""

    def __init__(self, machine: Machine, number: int) -> None:
        self.machine = machine
        self.alive = True
        self.serving = False
        self.leaving = False
        self.fatal: str | None = None
        self.disk_failed = False
        """True if the process stopped, or could not start, because its disk failed."""
        self.seen_to = False
        """True once a restart is planned for the log directories that the process does without."""
        self.shared = memoryview(bytearray(SHARED_BYTES))
        self.pool = PoisonedPool(_POOL_BYTES)
        self.address = (machine.host, PORT)
        self.ends: dict[ServerEnd, None] = {}
        self._missed: list[Callable[[], None]] = []
        loop, seed = machine.loop, machine.seed
        self.clock = _Clock(machine, self.guard)
        where = f"{seed}-{machine.broker_id}-{number}"
        names = {DATA: f"syncer-{where}", **{path: f"syncer-{where}-{path}" for path in machine.more_directories}}
        self.syncers = {
            path: SimSyncer(loop, self.clock, machine.disk, Random(name), self.guard) for path, name in names.items()
        }
        for each in self.syncers.values():
            each.on_nothing = machine.on_nothing
        self.set_sync_us(machine.sync_us)
        syncer: Syncer = Syncers(self.syncers) if machine.more_directories else self.syncers[DATA]
        self.coordination = SimCoordination(
            machine.store,
            machine.broker_id,
            loop,
            hash_free(f"coordination-{where}"),
            machine.coordination_faults,
            session_us=machine.session_us,
            guard=self.guard,
        )
        self.coordination.cut = machine.coordination_cut
        self.dialler = machine.dialler(self.guard)
        self.node = Node(
            layers=Layers(machine.texts),
            clock=self.clock,
            entropy=SimEntropy(Random(f"entropy-{where}")),
            disk=machine.disk,
            syncer=syncer,
            coordination=self.coordination,
            data_directories=machine.directories,
            needed_directory=None if machine.store_elsewhere else DATA,
            on_fatal=self._fatal,
            network=self.dialler,
        )
        if machine.session_us:  # else the store reports a death at once
            self.node.fence_early()
        self.max_frame_bytes = self.node.config.socket_request_max_bytes
        self.started: Slot[None] = Slot()
        self._finds_older_store = False
        """True if the start found an older store: it may refuse for that even if the newer one is back by then."""

    def lease_ended_us(self) -> int:
        """The latest possible end of the lease, by the answers of the store so far (rule A12)."""
        session_ms = self.node.config.broker_session_timeout_ms
        return self.coordination.heard_us + (session_ms * 2 // 3 + 1) * 1000

    def set_sync_us(self, bounds: tuple[int, int]) -> None:
        for syncer in self.syncers.values():
            syncer.delay_us = bounds

    def start(self) -> None:
        host, port = self.address
        self._finds_older_store = self.machine.store_is_older
        self.started = self.node.start(host, (Listener("PLAINTEXT", host, port, 0),))
        self.started.when_full(self._started)

    def _started(self) -> None:
        try:
            self.started.result()
        except OSError as error:  # an error of the store or the disk: the supervisor tries again
            self.disk_failed = error.errno is not None
            self._fatal(f"could not start: {error}")
            return
        except (ApiError, StoreDamaged) as error:
            self._fatal(f"could not start: {error}")
            return
        except DirectoryRefused as error:
            if not self._finds_older_store:
                raise
            self._fatal(f"could not start: {error}")
            return
        self.serving = self.alive
        self.machine.working_since_us = self.machine.loop.now_us

    def _fatal(self, why: str) -> None:
        if self.fatal is None:
            self.fatal = why
            self.serving = False
            self.disk_failed |= why.startswith("the log directory")

    # as network.Server

    def serve(self, connection: ServerConnection, frame: memoryview) -> None:
        if connection.login is None:
            self.node.dispatch.serve(connection, frame)
        else:
            self.node.gate.serve(connection, frame)

    def ask_who(self, connection: ServerConnection) -> None:
        """Treat a connection as server/listener.py does on a listener with SASL."""

        def proven() -> None:
            connection.reader.max_frame_bytes = self.max_frame_bytes

        security, problems = listener_security(self.machine.texts, SASL_PLAINTEXT)
        assert not problems, problems
        connection.login = self.node.gate.login(security)
        connection.reader.max_frame_bytes = security.most_bytes
        connection.proven = proven

    def guard(self, callback: Callable[[], None]) -> Callable[[], None]:
        def guarded() -> None:
            if self.alive and not self.machine.power_gone:
                if self.machine.paused:
                    self._missed.append(callback)
                else:
                    self.machine.touched = True
                    callback()

        return guarded

    def go_on(self) -> None:
        """Run the callbacks that came during a pause, in their order."""
        missed, self._missed = self._missed, []
        for callback in missed:
            self.clock.call_soon(callback)

    def joined(self, end: ServerEnd) -> None:
        self.ends[end] = None

    def left(self, end: ServerEnd) -> None:
        self.ends.pop(end, None)

    # the end

    def vanish(self) -> None:
        """End the process at once, without notice."""
        self.alive = self.serving = False
        self.coordination.crash()
        if self.dialler is not None:
            self.dialler.vanish()
        for end in list(self.ends):
            end.wire.server_closed()
        self.ends.clear()

    def stop(self, *, clean: bool) -> Slot[None]:
        """Stop like server/broker_server.py after it has handed over: listeners first."""
        self.serving = False
        for end in list(self.ends):
            end.connection.close()
        return self.node.stop(clean=clean)

    def leave(self) -> Slot[None]:
        """Stop like server/broker_server.py on a signal: other brokers take over what they can lead first."""
        return run_story(self._leave())

    async def _leave(self) -> None:
        await self.node.hand_over()
        await self.stop(clean=True)


class Machine:
    """One broker's machine: a disk, a way to the coordination store, and at most one incarnation alive."""

    def __init__(
        self, broker_id: BrokerId, loop: SimLoop, store: MemoryStore, seed: int, texts: dict[str, str]
    ) -> None:
        self.broker_id = broker_id
        self.loop = loop
        self.store = store
        self.seed = seed
        self.texts = texts
        self.wall_off_ms = 0
        """The offset of this machine's wall clock from the true time; changed by `set_clock`."""
        self.clock_changes = 0
        self._most_off_ms = 0
        self.disk = self._new_disk()
        self.more_directories: tuple[str, ...] = ()
        """The log directories besides DATA."""
        self.store_elsewhere = False
        """True if DATA holds no metadata store, so that the broker may go on without DATA."""
        self.store_is_older = False
        """True while a copy is in the place of the metadata store: the broker must refuse to start."""
        self.sync_us = (100, 1000)
        self.coordination_faults: CoordinationFaults = CALM
        self.coordination_cut = False
        self.session_us = 0
        """The time between the end of the machine's broker and its notice by others."""
        self.paused = False
        self.working_since_us = 0
        """The time since which the machine's broker serves without a pause."""
        self.touched = False
        """True if the broker has done something since the judges last looked."""
        self.on_nothing: Callable[[Syncable], None] = no_matter
        """Called for a judge, with a log that has nothing to sync."""
        self._dialler_of: Callable[[Guard], Dialler] | None = None
        self.current: MachineRun | None = None
        self.past: list[MachineRun] = []
        """Earlier incarnations, kept until the world ends, so that none is finalized in the middle of a run."""

    def _new_disk(self) -> SimDisk:
        return SimDisk(wall_ms=lambda: self.wall_ms)

    def set_clock(self, off_ms: int) -> None:
        """Set the wall clock, by its offset from the true time."""
        self.wall_off_ms = off_ms
        self.clock_changes += 1
        self._most_off_ms = max(self._most_off_ms, off_ms)

    @property
    def wall_ms(self) -> int:
        return self.loop.wall_ms() + self.wall_off_ms

    @property
    def latest_wall_ms(self) -> int:
        """A time that the wall clock has not passed so far, however it was set."""
        return self.loop.wall_ms() + self._most_off_ms

    def lose_disk(self) -> None:
        """Replace the disk by an empty one; the broker's process must have ended."""
        assert self.current is None
        self.disk = self._new_disk()

    def lose_directory(self, path: str) -> None:
        """Replace the disk of one log directory."""
        assert self.current is None
        self.disk.replace(path)

    @property
    def directories(self) -> tuple[str, ...]:
        return (DATA, *self.more_directories)

    @property
    def power_gone(self) -> bool:
        """Note that the operation was reached at which the power goes."""
        disk = self.disk
        return disk.cut_after is not None and disk.operations >= disk.cut_after

    @property
    def serving(self) -> MachineRun | None:
        current = self.current
        return current if current is not None and current.serving and not self.power_gone else None

    @property
    def host(self) -> str:
        return f"broker-{self.broker_id}"

    def dialler(self, guard: Guard) -> Dialler | None:
        """An incarnation's connections to other brokers; None without a network."""
        return None if self._dialler_of is None else self._dialler_of(guard)

    def join_network(self, network: Network, find: Find) -> None:
        """Let later incarnations reach the brokers that `find` knows by address."""
        self._dialler_of = lambda guard: Dialler(self.loop, network, self.host, find, guard)

    def pause(self) -> None:
        """Stop the process but not the machine (SIGSTOP). Others see its session end by its timeout."""
        self.paused = True
        stopped = self.current
        if stopped is not None:
            self.loop.call_after_us(self.session_us, lambda: self._expire(stopped))

    def _expire(self, stopped: MachineRun) -> None:
        if self.paused and self.current is stopped:
            stopped.coordination.expire()

    def go_on(self) -> None:
        """Let the process go on (SIGCONT)."""
        if self.paused:
            self.working_since_us = self.loop.now_us
        self.paused = False
        if self.current is not None:
            self.current.coordination.revive()
            self.current.go_on()

    def start(self) -> MachineRun:
        assert self.current is None
        self.current = MachineRun(self, len(self.past))
        self.current.start()
        return self.current

    def vanish(self) -> None:
        """End the broker's process; the machine stays."""
        self.paused = False
        current, self.current = self.current, None
        if current is not None:
            current.vanish()
            self.past.append(current)

    def set_sync_us(self, bounds: tuple[int, int]) -> None:
        self.sync_us = bounds
        if self.current is not None:
            self.current.set_sync_us(bounds)

    def set_coordination(self, faults: CoordinationFaults, *, cut: bool) -> None:
        self.coordination_faults, self.coordination_cut = faults, cut
        if self.current is not None:
            self.current.coordination.faults = faults
            self.current.coordination.cut = cut


def hash_free(text: str) -> int:
    """A number from a text, the same in every interpreter."""
    return int.from_bytes(Random(text).randbytes(6), "big")
