"""A whole broker in this process: a node over real seams, its listeners, its metrics page.

`ottla start` runs one as its own process; ottla.testing runs one in a thread.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from ottla.broker.node import Lock, Node
from ottla.broker.replicas import METADATA_DIRECTORY, OURS_TOO
from ottla.config.resolve import Layers
from ottla.coordination.zookeeper_address import SCHEME
from ottla.kernel.errors import ApiError, broke_an_invariant
from ottla.kernel.ids import BrokerId
from ottla.kernel.seams import Coordination, Disk
from ottla.kernel.story import Slot
from ottla.metadata.state import Listener as RegisteredListener
from ottla.server.clock import LoopClock, SystemEntropy
from ottla.server.cold_reads import ColdReads
from ottla.server.compaction_child import CompactionChild
from ottla.server.dialer import Dialer
from ottla.server.http import HttpServer, Page
from ottla.server.listener import Listener
from ottla.server.scrub_child import ScrubChild
from ottla.server.stores import open_store
from ottla.server.sync_loop import SyncLoop
from ottla.storage.directory import LOCK, DirectoryRefused, refuse_foreign
from ottla.wire.frame import FramePool

if TYPE_CHECKING:
    from ottla.config.broker import BrokerConfig

T = TypeVar("T")
FRAME_BUDGET_BYTES = 256 << 20
_PORT_FILE = "port"
_EVERYWHERE = ("0.0.0.0", "::")
_PLAINTEXT = 0

log = logging.getLogger("ottla.server")


class CannotStart(Exception):
    """Why not, in a sentence for whoever typed the command."""


async def ended(slot: Slot[T]) -> T:
    """Await a broker's slot from the loop's side."""
    if not slot.full:
        future = asyncio.get_running_loop().create_future()

        def wake() -> None:
            if not future.done():
                future.set_result(None)

        slot.when_full(wake)
        await future
    return slot.result()


class BrokerServer:
    """`start`, then `client_address` serves; `stop` ends it cleanly. `on_fatal` tells of a failed disk."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        texts: Mapping[str, str],
        *,
        memory: bool = False,
        join: str | None = None,
        http_port: int = 0,
    ) -> None:
        """`join`: the coordination store shared with other brokers, where it is not this one's own."""
        self._loop = loop
        self._layers = Layers(texts)
        self._config: BrokerConfig = self._layers.broker()
        self._memory = memory
        self._join = join
        self._http_port = http_port
        self._http: HttpServer | None = None
        self._listeners: list[Listener] = []
        self._cold = ColdReads(loop)
        self._dialer = Dialer(loop)
        self._sync_loop: SyncLoop | None = None
        self._coordination: Coordination | None = None
        self.node: Node | None = None
        self.warnings: list[str] = []
        self.on_fatal: Callable[[], None] = _nothing
        self.fatal: str | None = None
        self.addresses: dict[str, tuple[str, int]] = {}
        self.metrics_description = "off"
        directories = self._config.log_dirs or self._config.log_dir
        if len(directories) != 1:
            raise CannotStart(f"one log directory is served, not {len(directories)}: {', '.join(directories)}")
        self.directory = os.path.abspath(directories[0])

    def callback_failed(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """A callback of the loop, a timer or a sync's end, has raised: where an invariant is broken, all stops."""
        error = context.get("exception")
        if self.node is not None and isinstance(error, Exception) and broke_an_invariant(error):
            self.node.broken(error)
        else:
            log.error("a fault of the broker's own: %s", context.get("message"), exc_info=error)

    @property
    def data_description(self) -> str:
        return "in memory: nothing is kept" if self._memory else self.directory

    @property
    def client_address(self) -> tuple[str, int]:
        """An address of the first listener that a client on this machine can use."""
        host, port = next(iter(self.addresses.values()))
        for listener in self._config.advertised_listeners:
            name, _, address = listener.partition("://")
            if name == next(iter(self.addresses)):
                host, _, text = address.rpartition(":")
                return host, int(text)
        return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host), port

    async def start(self) -> None:
        """Recover, register, listen; CannotStart says what is in the way."""
        try:
            await self._start()
        except CannotStart:
            raise
        except (OSError, ValueError, DirectoryRefused, ApiError) as fault:
            raise CannotStart(str(fault)) from fault

    async def _start(self) -> None:
        disk, lock = self._lock_directory()
        pool = FramePool(FRAME_BUDGET_BYTES)
        self._open_listeners(pool)
        syncer = self._sync_loop = SyncLoop(self._loop, self.directory if not self._memory else os.sep)
        clock = LoopClock(self._loop)
        coordination = self._open_coordination()
        node = Node(
            layers=self._layers,
            clock=clock,
            entropy=SystemEntropy(),
            disk=disk,
            syncer=syncer,
            coordination=coordination,
            data_directory=self.directory,
            on_fatal=self._fail,
            compaction=None if self._memory else CompactionChild(self._loop),
            scrub=None if self._memory else ScrubChild(self._loop),
            network=self._dialer,
        )
        self.node = node
        node.doubts.look_closer = getattr(coordination, "look_now", None)  # not every store can
        if node.doubts.look_closer is None:
            node.fence_early()
        node.syncs = lambda: syncer.syncs
        node.connections = lambda: sum(len(listener.channels) for listener in self._listeners)
        node.accepted = lambda: sum(listener.accepted for listener in self._listeners)
        host = self._config.broker_host or socket.gethostname()
        await ended(node.start(host, self._registered_listeners(), lock))
        for listener in self._listeners:
            listener.start()
        await self._start_http()

    def _lock_directory(self) -> tuple[Disk, Lock | None]:
        """The disk, and the directory's lock, taken before anything in it is looked at."""
        if self._memory:
            from ottla.storage.memory_disk import MemoryDisk

            return MemoryDisk(), None
        from ottla.storage.disk import LocalDisk

        disk = LocalDisk()
        refuse_foreign(disk, self.directory, OURS_TOO)
        os.makedirs(self.directory, exist_ok=True)
        held = disk.lock(os.path.join(self.directory, LOCK))
        if held is None:
            raise DirectoryRefused(
                f"{self.directory} is in use: another process (a second ottla, or Apache Kafka) holds its {LOCK} file"
            )
        return disk, lambda path: held

    def _open_coordination(self) -> Coordination:
        broker = BrokerId(self._config.node_id)
        if self._memory:
            from ottla.coordination.memory import MemoryCoordination, MemoryStore

            return MemoryCoordination(MemoryStore(), broker)
        if (self._join or "").startswith(SCHEME) and self._config.zookeeper_digest is None:
            self.warnings.append(
                "whoever reaches ZooKeeper may read what the brokers keep there, their secret too, and change it: "
                "set zookeeper.digest"
            )
        return open_store(
            self._join,
            os.path.join(self.directory, METADATA_DIRECTORY),
            broker,
            self._loop.call_soon_threadsafe,
            session_timeout_ms=self._config.broker_session_timeout_ms,
            digest=self._config.zookeeper_digest,
        )

    def _open_listeners(self, pool: FramePool) -> None:
        for said in self._config.listeners:
            name, _, address = said.partition("://")
            host, _, port_text = address.rpartition(":")
            port = int(port_text)
            kept = self._kept_port(name) if port == 0 else None
            listener = Listener(
                self._loop,
                self._serve,
                name=name,
                pool=pool,
                cold=self._cold,
                max_frame_bytes=self._config.socket_request_max_bytes,
                max_connections=self._config.max_connections,
                max_connections_per_ip=self._config.max_connections_per_ip,
                max_idle_ms=self._config.connections_max_idle_ms,
            )
            try:
                bound = listener.open(host.strip("[]"), kept or port, self._config.socket_listen_backlog_size)
            except OSError as fault:
                raise CannotStart(self._port_taken(host, kept or port, kept, fault)) from fault
            self._listeners.append(listener)
            self.addresses[name] = bound
            if port == 0:
                self._keep_port(name, bound[1])
            if not _is_loopback(bound[0]):
                self.warnings.append(
                    f"{name} listens on {bound[0]}:{bound[1]} and asks nobody who they are: "
                    "everybody who reaches it may read, write and delete"
                )

    def _port_taken(self, host: str, port: int, kept: int | None, fault: OSError) -> str:
        if kept is not None:
            return (
                f"port {port}, which this directory was given before, is taken ({fault.strerror}); stop what uses it, "
                f"or remove {self._port_path()} to be given another"
            )
        return f"cannot listen on {host or '*'}:{port}: {fault.strerror}; choose another with --port (0: a free one)"

    def _port_path(self) -> str:
        return os.path.join(self.directory, _PORT_FILE)

    def _kept_port(self, name: str) -> int | None:
        """The free port that this directory was given before."""
        if self._memory:
            return None
        try:
            with open(self._port_path(), encoding="utf-8") as file:
                kept = dict(line.split() for line in file if line.strip())
        except FileNotFoundError:
            return None
        return int(kept[name]) if name in kept else None

    def _keep_port(self, name: str, port: int) -> None:
        if self._memory:
            return
        os.makedirs(self.directory, exist_ok=True)
        path = self._port_path()
        kept: dict[str, str] = {}
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                kept = dict(line.split() for line in file if line.strip())
        kept[name] = str(port)
        with open(path + ".tmp", "w", encoding="utf-8") as file:
            file.writelines(f"{each} {number}\n" for each, number in sorted(kept.items()))
        os.replace(path + ".tmp", path)

    def _registered_listeners(self) -> tuple[RegisteredListener, ...]:
        advertised = {}
        for said in self._config.advertised_listeners:
            name, _, address = said.partition("://")
            host, _, port = address.rpartition(":")
            advertised[name] = (host.strip("[]"), int(port))
        found = []
        for name, (bound, bound_port) in self.addresses.items():
            reachable = socket.gethostname() if bound in _EVERYWHERE else bound
            told = advertised.get(name, (reachable, bound_port))
            found.append(RegisteredListener(name, told[0], told[1], _PLAINTEXT))
        return tuple(found)

    def _serve(self, connection: object, frame: memoryview) -> None:
        assert self.node is not None
        self.node.dispatch.serve(connection, frame)  # type: ignore[arg-type]

    async def _start_http(self) -> None:
        if self._http_port == 0:
            return
        self._http = HttpServer({"/metrics": self._metrics})
        try:
            host, port = await self._http.open("127.0.0.1", self._http_port)
        except OSError as fault:
            self.warnings.append(f"no /metrics: cannot listen on 127.0.0.1:{self._http_port} ({fault.strerror})")
            self.metrics_description = "off: the port is taken"
            return
        self.metrics_description = f"http://{host}:{port}/metrics"

    def _metrics(self) -> Page:
        from ottla.broker.measures import gather
        from ottla.metrics.exposition import CONTENT_TYPE, render

        assert self.node is not None
        return 200, CONTENT_TYPE, render(gather(self.node)).encode()

    def _fail(self, why: str) -> None:
        if self.fatal is None:
            self.fatal = why
            self.on_fatal()

    async def stop(self) -> None:
        """Answer what waits no more, put everything on disk, close. Safe to call at any stage of a start."""
        if self._http is not None:
            self._http.close()
        if self.node is not None and self.fatal is None:
            await ended(self.node.hand_over())
        for listener in self._listeners:
            listener.stop()
        if self.node is not None:
            await ended(self.node.stop(clean=self.fatal is None))
        self._dialer.stop()
        if self._sync_loop is not None:
            self._sync_loop.stop()
        self._cold.stop()


def _is_loopback(host: str) -> bool:
    return host.startswith("127.") or host == "::1"


def _nothing() -> None:
    pass
