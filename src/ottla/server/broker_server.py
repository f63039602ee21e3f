"""A whole broker in this process: a node over real seams, its listeners, its metrics page.

`ottla start` runs one as its own process; ottla.testing runs one in a thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from ottla.broker.control.peers import DEFAULT_LISTENER
from ottla.broker.node import Lock, Node
from ottla.broker.replicas.log_directories import METADATA_DIRECTORY, OURS_TOO
from ottla.broker.replicas.syncers import Syncers
from ottla.config.resolve import Layers
from ottla.config.security import PROTOCOLS, ListenerSecurity, listener_security
from ottla.config.zookeeper import zookeeper_tls
from ottla.coordination.zookeeper_address import SCHEME
from ottla.kernel.errors import ApiError, InvariantBroken
from ottla.kernel.ids import BrokerId
from ottla.kernel.seams import Coordination, Disk, StoreDamaged
from ottla.kernel.story import Slot, run_story
from ottla.metadata.broker_state import Listener as RegisteredListener
from ottla.metadata.entries import UnknownEntry
from ottla.server import open_files
from ottla.server.clock import LoopClock, SystemEntropy, system_uptime
from ottla.server.cold_reads import ColdReads
from ottla.server.compaction_child import CompactionChild
from ottla.server.connection_limits import connection_limits
from ottla.server.dialer import Dialer
from ottla.server.entrance import acls_limit, look_at_listener, take_first_users
from ottla.server.freed_space import FreedSpace
from ottla.server.kept_ports import PORT_FILE, KeptPorts
from ottla.server.links import about_link
from ottla.server.listener import Listener
from ottla.server.loop_delay import LoopDelay
from ottla.server.off_loop import off_loop
from ottla.server.outside_sides import outside_sides
from ottla.server.scrub_child import ScrubChild
from ottla.server.stores import open_store, store_directory
from ottla.server.sync_loop import SyncLoop
from ottla.server.tls_listener import TlsListener
from ottla.storage.directory.directory import HeldLock
from ottla.storage.directory.ownership import LOCK, DirectoryRefused, opened_lock, refuse_foreign
from ottla.storage.disk.local import LocalDisk
from ottla.tls.contexts import FollowedContext, client_context
from ottla.wire.frame import FramePool

if TYPE_CHECKING:
    from ottla.access.login import Login
    from ottla.access.mechanisms.base import ServerSide
    from ottla.config.broker import BrokerConfig
    from ottla.server.audit_log import AuditLog
    from ottla.server.http_pages import BrokerPages

T = TypeVar("T")
FRAME_BUDGET_BYTES = 256 << 20
_EVERYWHERE = ("0.0.0.0", "::")

log = logging.getLogger("ottla.server")


class CannotStart(Exception):
    """The reason why a broker cannot start, in a sentence for the user of the command."""


async def ended(slot: Slot[T]) -> T:
    """Await a broker's slot from asyncio."""
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
        preferred_port: int | None = None,
    ) -> None:
        """`join`: the coordination store shared with other brokers, unless this broker has its own.

        `preferred_port`: the port of a listener on port 0 that keeps none or keeps this one, if it can be had.
        """
        self._loop = loop
        self._layers = Layers(texts)
        self._config: BrokerConfig = self._layers.broker()
        self._memory = memory
        self._join = join
        self._http_port = http_port
        self._preferred_port = preferred_port
        self._pages: BrokerPages | None = None
        self._audit: AuditLog | None = None
        self._listeners: list[Listener] = []
        self._cold = ColdReads(loop)
        self._freed = FreedSpace()
        self._dialer = Dialer(loop)
        self._sync_loops: dict[str, SyncLoop] = {}
        self._loop_delay = LoopDelay(loop)
        self._coordination: Coordination | None = None
        self.node: Node | None = None
        self.warnings: list[str] = []
        self.on_fatal: Callable[[], None] = _nothing
        self.fatal: str | None = None
        self.addresses: dict[str, tuple[str, int]] = {}
        self.metrics_description = "off"
        self.directories = _directories(self._config.data_directories)
        self.directory = self.directories[0]
        """The first directory that can be used; it keeps the broker's port."""

    def callback_failed(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Handle an exception of the loop's callbacks (timers, ends of syncs). A broken invariant stops the process."""
        error = context.get("exception")
        if self.node is not None and isinstance(error, InvariantBroken):
            self.node.around.broken(error)
        else:
            log.error("a fault of the broker's own: %s", context.get("message"), exc_info=error)

    def thread_failed(self, ended: threading.ExceptHookArgs) -> None:
        """Stop, as a thread ended by an unforeseen error: its work for the broker is not done any more."""
        threading.__excepthook__(ended)
        name = "" if ended.thread is None else ended.thread.name
        if name.startswith("ottla-"):
            why = f"its thread {name} ended: {ended.exc_type.__name__}: {ended.exc_value}"
            with contextlib.suppress(RuntimeError):  # the loop is closed: the broker stops already
                self._loop.call_soon_threadsafe(self._fail, why)

    @property
    def data_description(self) -> str:
        return "in memory: nothing is kept" if self._memory else ", ".join(self.directories)

    @property
    def client_address(self) -> str:
        """HOST:PORT of the first listener for a client on this machine, an IPv6 address in brackets."""
        name, (bound, bound_port) = next(iter(self.addresses.items()))
        here = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(bound, bound)
        host, port = self._advertised().get(name, (here, bound_port))
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    @property
    def client_protocol(self) -> str:
        """The security protocol of `client_address`."""
        return self._security(next(iter(self.addresses))).protocol

    async def start(self) -> None:
        """Take the ports, recover, register, listen; CannotStart names the obstacle."""
        try:
            await self._start()
        except CannotStart:
            raise
        except (OSError, ValueError, DirectoryRefused, ApiError, StoreDamaged, UnknownEntry) as fault:
            raise CannotStart(f"{fault}{about_link(fault)}") from fault

    async def _start(self) -> None:
        disk, lock = self._lock_directories()
        self._count_files()
        self._look_for_compiled_part()
        pool = FramePool(FRAME_BUDGET_BYTES)
        self._open_listeners(pool)
        for path in self.directories:
            self._sync_loops[path] = SyncLoop(self._loop, path if not self._memory else os.sep)
        self._begin_audit()
        clock = LoopClock(self._loop)
        coordination = self._open_coordination()
        node = Node(
            layers=self._layers,
            clock=clock,
            entropy=SystemEntropy(),
            disk=disk,
            syncer=Syncers(self._sync_loops) if len(self._sync_loops) > 1 else self._sync_loops[self.directory],
            coordination=coordination,
            data_directories=self.directories,
            on_fatal=self._fail,
            compaction=None if self._memory else CompactionChild(self._loop),
            scrub=None if self._memory else ScrubChild(self._loop),
            network=self._dialer,
            needed_directory=self._needed_directory(),
            uptime=system_uptime,
            audit=None if self._audit is None else self._audit.note,
        )
        self.node = node
        node.doubts.look_closer = getattr(coordination, "look_now", None)  # some stores cannot
        if node.doubts.look_closer is None:
            node.fence_early()
        if not self._memory:
            node.replicas.directories.volume_bytes = LocalDisk().total_bytes
            node.replicas.moves.warm = self._cold.warm_slice
        node.dispatch.times.now_ns = node.services.quotas.now_ns = time.monotonic_ns
        node.gate.off_loop = partial(off_loop, self._loop)
        node.around.certificates.of = {
            listener.name: listener.tls for listener in self._listeners if listener.tls is not None
        }.get
        host = self._config.broker_host or socket.gethostname()
        self._dial_as_brokers_listen()
        await ended(node.start(host, self._registered_listeners(), lock))
        if self._config.first_users is not None:
            await ended(run_story(take_first_users(node, self._config.first_users)))
        for listener in self._listeners:
            try:
                serve = node.gate.serve if listener.has_logins else node.dispatch.serve
                listener.start(self._config.socket_listen_backlog_size, serve)
            except OSError as fault:
                address, port = self.addresses[listener.name]
                raise CannotStart(self._port_taken(address, port, None, fault)) from fault
        await self._start_http()

    def _begin_audit(self) -> None:
        """Open the audit log, if there is to be one."""
        if self._config.audit_log is None:
            return
        from ottla.server.audit_log import AuditLog

        self._audit = AuditLog(os.path.abspath(self._config.audit_log), self._config.node_id)
        for listener in self._listeners:
            listener.tell_login = self._audit.certificate_shown

    def _lock_directories(self) -> tuple[Disk, Lock | None]:
        """The disk, and the directories' locks, which are taken before anything in them is read.

        A directory that cannot be locked is tried again when the node opens it, which may go on without it.
        """
        if self._memory:
            from ottla.storage.disk.memory import MemoryDisk

            return MemoryDisk(), None
        disk = LocalDisk(self._freed.take)
        held: dict[str, HeldLock] = {}
        for path in self.directories:
            try:
                refuse_foreign(disk, path, OURS_TOO)
                os.makedirs(path, exist_ok=True)
                taken = opened_lock(disk.lock, os.path.join(path, LOCK))
            except OSError:
                if len(self.directories) == 1 or path == self._needed_directory():
                    raise
                continue
            if taken is None:
                raise DirectoryRefused(
                    f"{path} is in use: another process (a second ottla, or Apache Kafka) holds its {LOCK} file"
                )
            held[os.path.join(path, LOCK)] = taken
        locked = [path for path in self.directories if os.path.join(path, LOCK) in held]
        self.directory = locked[0] if locked else self.directory
        return disk, lambda path: held.get(path) or disk.lock(path)

    def _count_files(self) -> None:
        """CannotStart where the limit of open files is too low for the logs that are here."""
        why = None if self._memory else open_files.too_few(self.directories)
        if why is not None:
            raise CannotStart(why)
        if (value := open_files.warning()) is not None:
            self.warnings.append(value)

    def _look_for_compiled_part(self) -> None:
        from ottla.records import compiled

        if (why := compiled.missing()) is not None:
            self.warnings.append(
                f"{why}; records are read and checked in pure Python, many times slower: install a C compiler and "
                "Python's headers, then ottla again (OTTLA_PURE=1 says that this is wanted)"
            )

    def _needed_directory(self) -> str | None:
        """The log directory in which the metadata store lies, if it lies in one."""
        store = store_directory(self._join, os.path.join(self.directories[0], METADATA_DIRECTORY))
        if store is None or self._memory:
            return None
        around = os.path.realpath(store)
        return next((path for path in self.directories if _is_inside(around, os.path.realpath(path))), None)

    def _open_coordination(self) -> Coordination:
        broker = BrokerId(self._config.node_id)
        if self._memory:
            from ottla.coordination.memory import MemoryCoordination, MemoryStore

            return MemoryCoordination(MemoryStore(), broker)
        if (self._join or "").startswith(SCHEME) and self._config.zookeeper_digest is None:
            self.warnings.append(
                "everyone who reaches ZooKeeper may read and change the brokers' data there, their secret too: "
                "set zookeeper.digest"
            )
        return open_store(
            self._join,
            os.path.join(self.directories[0], METADATA_DIRECTORY),
            broker,
            self._loop.call_soon_threadsafe,
            session_timeout_ms=self._config.broker_session_timeout_ms,
            digest=self._config.zookeeper_digest,
            tls=zookeeper_tls(self._layers.static)[0],
        )

    def _between_brokers(self, names: Sequence[str]) -> str:
        """The listener on which other brokers come."""
        name = self._config.inter_broker_listener_name or DEFAULT_LISTENER
        return name if name in names else names[0]

    def _open_listeners(self, pool: FramePool) -> None:
        names = [listed.partition("://")[0] for listed in self._config.listeners]
        limits = connection_limits(
            lambda: self._config if self.node is None else self.node.around.config,
            lambda: {} if self.node is None else self.node.metadata.quotas,
            self._layers.static,
            names,
            between_brokers=self._between_brokers(names),
        )
        ports = None if self._memory else KeptPorts(self.directory, self.warnings.append)
        for listed in self._config.listeners:
            name, _, address = listed.partition("://")
            host, _, port_text = address.rpartition(":")
            port = int(port_text)
            security = self._security(name)
            listener = Listener(
                self._loop,
                name=name,
                pool=pool,
                cold=self._cold,
                max_frame_bytes=self._config.socket_request_max_bytes,
                limits=limits,
                max_idle_ms=self._config.connections_max_idle_ms,
                tls=None
                if security.tls is None
                else TlsListener(self._loop, name, security.tls, security.mapping_rules),
                logins=partial(self._login, security, outside_sides(security)) if security.has_sasl else None,
                most_bytes_unproven=security.most_bytes,
            )
            bound = self._bind(listener, host, port, ports)
            self._listeners.append(listener)
            self.addresses[name] = bound
            if port == 0 and ports is not None:
                ports.keep(name, bound)
            said_so, limited = self._config.insecure, acls_limit(self._config)
            self.warnings += look_at_listener(name, bound, security, insecure=said_so, limited=limited)

    def _security(self, name: str) -> ListenerSecurity:
        security, problems = listener_security(self._layers.static, name)
        if problems:
            raise CannotStart("; ".join(problems))
        return security

    def _dial_as_brokers_listen(self) -> None:
        """Speak TLS to other brokers where their listener for it does."""
        tls = self._security(self._between_brokers(list(self.addresses))).tls
        if tls is not None:
            followed = FollowedContext(tls, client_context, lambda why: log.warning("between brokers: %s", why))
            self._dialer.tls = followed

    def _login(self, security: ListenerSecurity, sides: Mapping[str, Callable[[], ServerSide]]) -> Login:
        assert self.node is not None
        return self.node.gate.login(security, sides)

    def _bind(self, listener: Listener, host: str, port: int, ports: KeptPorts | None) -> tuple[str, int]:
        """Bind a listener; for port 0 to the kept port, else to the preferred one, else to a free one."""
        kept = ports.port(listener.name) if port == 0 and ports is not None else None
        preferred = self._preferred_port if port == 0 else None
        wanted = kept or preferred or port
        try:
            return listener.open(host.strip("[]"), wanted)
        except OSError as fault:
            if wanted != preferred:
                raise CannotStart(self._port_taken(host, wanted, kept, fault)) from fault
        return listener.open(host.strip("[]"), 0)

    def _port_taken(self, host: str, port: int, kept: int | None, fault: OSError) -> str:
        if kept is not None:
            return (
                f"port {port}, which this directory was given before, is taken ({fault.strerror}); stop what uses it, "
                f"or remove {os.path.join(self.directory, PORT_FILE)} to be given another"
            )
        return f"cannot listen on {host or '*'}:{port}: {fault.strerror}; choose another with --port (0: a free one)"

    def _advertised(self) -> dict[str, tuple[str, int]]:
        """The addresses of advertised.listeners; without a host there it is this machine, with port 0 the bound one."""
        advertised = {}
        for listed in self._config.advertised_listeners:
            name, _, address = listed.partition("://")
            host, _, port = address.rpartition(":")
            if name in self.addresses:
                advertised[name] = (host.strip("[]") or socket.gethostname(), int(port) or self.addresses[name][1])
        return advertised

    def _registered_listeners(self) -> tuple[RegisteredListener, ...]:
        advertised = self._advertised()
        found = []
        for name, (bound, bound_port) in self.addresses.items():
            reachable = socket.gethostname() if bound in _EVERYWHERE else bound
            told = advertised.get(name, (reachable, bound_port))
            protocol = PROTOCOLS[self._security(name).protocol]
            found.append(RegisteredListener(name, told[0], told[1], protocol))
        return tuple(found)

    async def _start_http(self) -> None:
        if self._http_port == 0:
            return
        from ottla.server.http_pages import BrokerPages

        assert self.node is not None
        self._loop_delay.start()
        self._pages = BrokerPages(self.node, self._listeners, self._sync_loops, self._loop_delay)
        self.warnings += await self._pages.open(self._config, self._http_port, self._layers.static)
        self.metrics_description = self._pages.description

    def _fail(self, why: str) -> None:
        if self.fatal is None:
            self.fatal = why
            self.on_fatal()

    async def stop(self) -> None:
        """Answer requests that need not wait any more, sync everything, close. Safe at any stage of a start."""
        self._loop_delay.stop()
        if self._pages is not None:
            await self._pages.close()
        if self.node is not None and self.fatal is None:
            await ended(self.node.hand_over())
        for listener in self._listeners:
            listener.stop()
        for sync_loop in self._sync_loops.values():
            sync_loop.stop()
        if self.node is not None:
            await ended(self.node.stop(clean=self.fatal is None))
        self._dialer.stop()
        self._cold.stop()
        self._freed.stop()
        if self._audit is not None:
            self._audit.stop()


def _directories(paths: tuple[str, ...]) -> tuple[str, ...]:
    """The log directories as absolute paths; raise if one is named twice or lies in another."""
    found = tuple(os.path.abspath(path) for path in paths)
    if not found:
        raise CannotStart("log.dirs names no directory")
    real = [os.path.realpath(path) for path in found]
    for number, path in enumerate(real):
        for other in real[:number]:
            if _is_inside(path, other) or _is_inside(other, path):
                raise CannotStart(f"log.dirs names {path} and {other}: each must be a directory of its own")
    return found


def _is_inside(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory.rstrip(os.sep) + os.sep)


def _nothing() -> None:
    pass
