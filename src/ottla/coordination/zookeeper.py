"""The metadata log in a ZooKeeper ensemble, through kazoo (rules C5, C6).

The broker's loop calls the methods of `Coordination`; one thread makes the calls to ZooKeeper and fills their slots on
the loop, another does what takes long (snapshots). The log's nodes are in `zookeeper_log.py`; here are the session,
the watches and `live/ID`, which is ephemeral and advice only.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import socket
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import (
    ConnectionClosedError,
    ConnectionLoss,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    SessionExpiredError,
)
from kazoo.handlers.threading import KazooTimeoutError, SequentialThreadingHandler
from kazoo.security import ACL, make_digest_acl

from ottla.coordination.zookeeper_log import FAILED, ZookeeperLog
from ottla.kernel.ids import BrokerId
from ottla.kernel.seams import Conflict, LogEntry, StoreDamaged, StoredSnapshot, Unknown, Written
from ottla.kernel.story import Slot
from ottla.tls.contexts import FollowedContext, client_context
from ottla.tls.settings import TlsSettings

T = TypeVar("T")
Outcome = Written | Conflict | Unknown
FIRST_CONNECTION_S = 15.0
"""The time for which a starting broker waits for the ensemble, also after a dropped connection."""
_LOST = (ConnectionLoss, ConnectionClosedError, SessionExpiredError, KazooTimeoutError)
_LOOK_S = 0.05

log = logging.getLogger("ottla.zookeeper")


class ZookeeperCoordination:
    """One broker's access to the ensemble."""

    def __init__(
        self,
        hosts: str,
        broker_id: BrokerId,
        call_soon_threadsafe: Callable[[Callable[[], None]], object],
        *,
        session_timeout_ms: int = 6000,
        chroot: str = "",
        digest: tuple[str, str] | None = None,
        tls: TlsSettings | None = None,
        first_connection_s: float = FIRST_CONNECTION_S,
    ) -> None:
        """Connects in the background; requests before that wait for it, then fail with OSError. StoreUnreadable where
        the files of `tls` cannot be used.

        `digest` is a user and a password: no other user may read or write the nodes.
        """
        self._hosts = hosts
        self._session_timeout_ms = session_timeout_ms
        self._root = chroot or "/ottla"
        self.name = f"ZooKeeper at {hosts}{self._root}"
        self._broker_id = broker_id
        self._call_soon = call_soon_threadsafe
        self._listener: Callable[[], None] | None = None
        self._live: frozenset[BrokerId] = frozenset()
        self._closing = False
        self._ready = False
        self._preparing = threading.Lock()
        self._patient_until = time.monotonic() + first_connection_s
        self._client = _client(hosts, session_timeout_ms, digest, tls)
        self._connection = _Connection(self._client)
        seconds, silent = session_timeout_ms / 1000, self._connection.drop
        # A silent server is left while the lease is still valid; large requests may take longer.
        self._log = ZookeeperLog(self._client, self._root, patience_s=seconds / 4, on_silence=silent)
        self._snapshots = ZookeeperLog(self._client, self._root, patience_s=seconds, on_silence=silent)
        self._client.add_listener(self._state_changed)
        self._client.start_async()
        self._calls = _Worker("ottla-metadata")
        self._long_calls = _Worker("ottla-snapshots")

    # Coordination, on the broker's loop

    def append(self, entries: Sequence[bytes], expected_version: int) -> Slot[Outcome]:
        bodies = list(entries)
        return self._submit(lambda: self._log.append(bodies, expected_version))

    def read(self, after_version: int, limit: int = 1000) -> Slot[list[LogEntry]]:
        return self._submit(lambda: self._log.read(after_version, limit), again=True)

    def head(self) -> Slot[int]:
        return self._submit(self._log.head, again=True)

    def load_snapshot(self) -> Slot[StoredSnapshot | None]:
        return self._submit(self._snapshots.load_snapshot, self._long_calls, again=True)

    def save_snapshot(self, snapshot: StoredSnapshot) -> Slot[None]:
        return self._submit(lambda: self._snapshots.save_snapshot(snapshot), self._long_calls)

    def raise_age(self, name: str, age: int) -> Slot[int]:
        return self._submit(lambda: self._log.raise_age(name, age), again=True)

    def on_change(self, listener: Callable[[], None]) -> None:
        self._listener = listener

    def live(self) -> frozenset[BrokerId]:
        return self._live

    def close(self) -> None:
        """End all queued work and the session; others see this broker gone."""
        if not self._closing:
            self._closing = True
            self._calls.end()
            self._long_calls.end()
            self._client.stop()
            self._client.close()

    def _submit(self, run: Callable[[], T], worker: _Worker | None = None, *, again: bool = False) -> Slot[T]:
        """`again`: the call may be repeated, and is, if the connection drops while the broker starts."""
        slot: Slot[T] = Slot()

        def work() -> None:
            try:
                value = self._do(run, again)
            except FAILED as failure:
                self._on_loop(partial(slot.fail, OSError(self._why(failure))))
            except (LookupError, OSError, ValueError, StoreDamaged) as error:
                self._on_loop(partial(slot.fail, error))
            else:
                self._on_loop(lambda: slot.fill(value))

        if self._closing:
            slot.fail(OSError("the metadata store is closed"))
        else:
            (worker or self._calls).work.put(work)
        return slot

    def _why(self, failure: BaseException) -> str:
        if isinstance(failure, NoAuthError):
            return f"ZooKeeper refuses: the nodes under {self._root} are another user's (is zookeeper.digest right?)"
        return f"ZooKeeper at {self._hosts}: {failure!r}"

    # On the worker threads

    def _do(self, run: Callable[[], T], again: bool) -> T:
        while True:
            try:
                self._prepare()
                return run()
            except _LOST:
                if not again or self._closing or time.monotonic() >= self._patient_until:
                    raise
            time.sleep(_LOOK_S)

    def _prepare(self) -> None:
        """The nodes, our presence and the watches, once per session and reconnection."""
        while not self._client.connected and not self._closing and time.monotonic() < self._patient_until:
            time.sleep(_LOOK_S)
        with self._preparing:
            if self._ready:
                return
            if not self._client.connected:
                raise OSError(f"ZooKeeper at {self._hosts} cannot be reached")
            self._ready = True
            try:
                self._log.make_nodes("/live", "/ages")
                self._connection.check_timeout(self._session_timeout_ms)
                self._be_present()
                self._look_at_live()
                self._watch_head()
            except BaseException:
                self._ready = False
                raise

    def _be_present(self) -> None:
        """A node of an earlier session would go with that session: replace it."""
        path = f"{self._root}/live/{self._broker_id}"
        with contextlib.suppress(NoNodeError):
            stat = self._log.answer(self._client.get_async(path))[1]
            session = self._client.client_id
            if session is None:
                raise ConnectionLoss  # lost since the answer came
            if stat.ephemeralOwner == session[0]:
                return
            self._log.answer(self._client.delete_async(path))
        with contextlib.suppress(NodeExistsError):  # another of our number was quicker: ours is made when that is gone
            self._log.answer(self._client.create_async(path, ephemeral=True))

    def _look_at_live(self) -> None:
        names = self._log.answer(self._client.get_children_async(f"{self._root}/live", watch=self._live_changed))
        self._live = frozenset(BrokerId(int(name)) for name in names if name.isdigit())  # other users may write there
        if self._broker_id not in self._live:  # another broker of our number has replaced our node, and is gone
            self._be_present()

    def _watch_head(self) -> None:
        self._log.answer(self._client.get_async(f"{self._root}/head", watch=self._head_changed))

    # On kazoo's thread: nothing but notes to others

    def _state_changed(self, state: str) -> None:
        self._ready = False
        if state == KazooState.CONNECTED:
            self._calls.work.put(partial(self._look_again, self._prepare))

    def _head_changed(self, event: object) -> None:
        self._calls.work.put(partial(self._look_again, self._watch_head))

    def _live_changed(self, event: object) -> None:
        self._calls.work.put(partial(self._look_again, self._look_at_live))

    def _look_again(self, look: Callable[[], None]) -> None:
        with contextlib.suppress(OSError, *FAILED):
            look()
        if self._listener is not None:
            self._on_loop(self._listener)

    def _on_loop(self, callback: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: no request waits any more
            self._call_soon(callback)


def bring(
    hosts: str, chroot: str, snapshot: StoredSnapshot, mark: bytes, *, session_timeout_ms: int,
    digest: tuple[str, str] | None = None, tls: TlsSettings | None = None,
) -> bool:  # fmt: skip
    """Begin the log there with the content of another store; False if another cluster's log is there.

    Waits for the ensemble. OSError if that failed or the outcome is unknown: it may be tried again with the same mark.
    """
    client = _client(hosts, session_timeout_ms, digest, tls)
    log = ZookeeperLog(client, chroot or "/ottla", patience_s=FIRST_CONNECTION_S, on_silence=_Connection(client).drop)
    try:
        client.start(timeout=FIRST_CONNECTION_S)
        log.make_nodes("/live")
        return log.begin_with(snapshot, mark)
    except FAILED as failure:
        raise OSError(f"ZooKeeper at {hosts}: {failure!r}") from None
    finally:
        client.stop()
        client.close()


class _Worker:
    """A thread that does one thing after the other."""

    def __init__(self, name: str) -> None:
        self.work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while (work := self.work.get()) is not None:
            work()

    def end(self) -> None:
        self.work.put(None)
        self._thread.join(timeout=10)


class _Connection:
    """Values that kazoo keeps to itself: the session timeout that the ensemble granted, and the socket."""

    def __init__(self, client: Any) -> None:
        self._timeout_ms: float | None = None
        self._connection = client._connection
        connect = self._connection._connect

        def connect_and_note(*arguments: Any) -> Any:
            read_timeout_ms, connect_timeout_ms = connect(*arguments)
            self._timeout_ms = read_timeout_ms * 1.5
            return read_timeout_ms, connect_timeout_ms

        self._connection._connect = connect_and_note

    def check_timeout(self, wanted_ms: int) -> None:
        """OSError where it is shorter: a session would end before the lease that rests on it (rule A12)."""
        if self._timeout_ms is not None and self._timeout_ms < wanted_ms - 1:
            raise OSError(
                f"ZooKeeper ends sessions after {self._timeout_ms:.0f} ms and the broker counts on {wanted_ms} ms: "
                "raise maxSessionTimeout in zoo.cfg or lower broker.session.timeout.ms"
            )

    def drop(self) -> None:
        """Leave a server that does not answer. By itself kazoo would wait as long as there is something to send."""
        connected = self._connection._socket
        if connected is not None:
            with contextlib.suppress(OSError):
                connected.shutdown(socket.SHUT_RDWR)


class _Handler(SequentialThreadingHandler):  # type: ignore[misc]
    """A server that does not answer must not use up the session before another is tried."""

    def __init__(self, connect_s: float, tls: FollowedContext | None) -> None:
        super().__init__()
        self._connect_s = connect_s
        self._tls = tls

    def select(self, rlist: Any, wlist: Any, xlist: Any, timeout: float | None = None) -> Any:
        """Tell of bytes that TLS has decrypted too, as where several answers came in one record: select() sees none."""
        decrypted = [each for each in rlist if isinstance(each, ssl.SSLSocket) and each.pending()]
        found = super().select(rlist, wlist, xlist, 0 if decrypted else timeout)
        return [*decrypted, *(each for each in found[0] if each not in decrypted)], found[1], found[2]

    def create_connection(self, *arguments: Any, **named: Any) -> Any:
        """A connection, with TLS by our own context: kazoo's reads PEM files alone, once."""
        named["timeout"] = self._connect_s
        plain = super().create_connection(*arguments, **named)
        if self._tls is None:
            return plain
        self._tls.follow()
        try:
            return self._tls.context.wrap_socket(plain, server_hostname=named["hostname"])
        except (ssl.SSLError, ssl.CertificateError) as fault:
            plain.close()
            log.warning("ZooKeeper at %s: no TLS: %s", named["hostname"], fault)
            raise


def _client(hosts: str, session_timeout_ms: int, digest: tuple[str, str] | None, tls: TlsSettings | None) -> Any:
    followed = None
    if tls is not None:
        followed = FollowedContext(tls, client_context, lambda why: log.warning("TLS to ZooKeeper: %s", why))
    acl: list[ACL] | None = [make_digest_acl(*digest, all=True)] if digest else None
    seconds = session_timeout_ms / 1000
    return KazooClient(
        hosts,
        timeout=seconds,
        handler=_Handler(seconds / (2 * (hosts.count(",") + 1)), followed),
        default_acl=acl,
        auth_data=[("digest", ":".join(digest))] if digest else None,
        connection_retry={"max_tries": -1, "delay": 0.05, "max_delay": 1.0},
        command_retry={"max_tries": 0},
        logger=log,
    )
