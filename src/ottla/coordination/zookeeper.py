"""The metadata log in a ZooKeeper ensemble, through kazoo (rules C5, C6).

A worker thread makes every call; the broker's loop calls the methods of `Coordination`, and the worker fills their
slots there. Under the chroot: `head` {version, first, snapshot}; `log/BUCKET/VERSION`; `snapshots/VERSION-CHUNK`;
`live/ID`, ephemeral, advice only.
"""

from __future__ import annotations

import contextlib
import json
import queue
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypedDict, TypeVar

from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import BadVersionError, KazooException, NodeExistsError, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.security import ACL, make_digest_acl

from ottla.kernel.ids import BrokerId
from ottla.kernel.seams import Conflict, LogEntry, StoredSnapshot, Unknown, Written
from ottla.kernel.story import Slot

T = TypeVar("T")
Outcome = Written | Conflict | Unknown
BUCKET = 1000
CHUNK_BYTES = 512 * 1024
APPEND_BYTES = 900 * 1024
"""An append must fit into one packet of 1 MiB, names included."""
READ_BYTES = 8 * 1024 * 1024
_CUT_AT_ONCE = 200
_FAILED = (KazooException, KazooTimeoutError)


class Head(TypedDict):
    version: int
    first: int
    snapshots: list[list[int]]
    """[version, chunks], the older first; at most two."""


class ZookeeperCoordination:
    """One broker's way into the ensemble."""

    def __init__(
        self,
        hosts: str,
        broker_id: BrokerId,
        call_soon_threadsafe: Callable[[Callable[[], None]], object],
        *,
        session_timeout_ms: int = 6000,
        chroot: str = "",
        digest: tuple[str, str] | None = None,
    ) -> None:
        """Connects in the background: until it has, slots fail with OSError."""
        self._patience = session_timeout_ms / 1000
        self._root = chroot or "/ottla"
        self._broker_id = broker_id
        self._call_soon = call_soon_threadsafe
        self._listener: Callable[[], None] | None = None
        self._live: frozenset[BrokerId] = frozenset()
        acl: list[ACL] | None = [make_digest_acl(*digest, all=True)] if digest else None
        self._client = KazooClient(
            hosts,
            timeout=self._patience,
            default_acl=acl,
            auth_data=[("digest", ":".join(digest))] if digest else None,
            connection_retry={"max_tries": -1, "delay": 0.05, "max_delay": 1.0},
            command_retry={"max_tries": 0},
        )
        self._client.add_listener(self._state_changed)
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._closing = False
        self._ready = False
        self._client.start_async()
        self._thread = threading.Thread(target=self._run, name="ottla-metadata", daemon=True)
        self._thread.start()

    # Coordination, on the broker's loop

    def append(self, entries: Sequence[bytes], expected_version: int) -> Slot[Outcome]:
        bodies = list(entries)
        return self._submit(lambda: self._append(bodies, expected_version))

    def read(self, after_version: int, limit: int = 1000) -> Slot[list[LogEntry]]:
        return self._submit(lambda: self._read(after_version, limit))

    def head(self) -> Slot[int]:
        return self._submit(lambda: self._head()[0]["version"])

    def load_snapshot(self) -> Slot[StoredSnapshot | None]:
        return self._submit(self._load_snapshot)

    def save_snapshot(self, snapshot: StoredSnapshot) -> Slot[None]:
        return self._submit(lambda: self._save_snapshot(snapshot))

    def on_change(self, listener: Callable[[], None]) -> None:
        self._listener = listener

    def live(self) -> frozenset[BrokerId]:
        return self._live

    def close(self) -> None:
        """Ends what is queued and the session; others see this broker gone."""
        if not self._closing:
            self._closing = True
            self._work.put(None)
            self._thread.join(timeout=10)
            self._client.stop()
            self._client.close()

    def _submit(self, run: Callable[[], T]) -> Slot[T]:
        slot: Slot[T] = Slot()

        def work() -> None:
            try:
                self._prepare()
                value = run()
            except (LookupError, OSError) as error:
                self._on_loop(partial(slot.fail, error))
            except _FAILED as failure:
                self._on_loop(partial(slot.fail, OSError(f"ZooKeeper: {failure!r}")))
            else:
                self._on_loop(lambda: slot.fill(value))

        if self._closing:
            slot.fail(OSError("the metadata store is closed"))
        else:
            self._work.put(work)
        return slot

    # The worker thread

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            work()

    def _get(self, asked: Any) -> Any:
        """The answer of a call that was sent, bounded in time."""
        return asked.get(timeout=self._patience)

    def _prepare(self) -> None:
        """The nodes, our presence and the watches, once per session and reconnection."""
        if self._ready:
            return
        if not self._client.connected:
            raise OSError("ZooKeeper cannot be reached")
        self._ready = True
        try:
            for path in ("", "/log", "/snapshots", "/live"):
                with contextlib.suppress(NodeExistsError):
                    self._get(self._client.create_async(self._root + path, makepath=True))
            empty = json.dumps(Head(version=0, first=1, snapshots=[])).encode()
            with contextlib.suppress(NodeExistsError):
                self._get(self._client.create_async(f"{self._root}/head", empty))
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
            stat = self._get(self._client.get_async(path))[1]
            if stat.ephemeralOwner == self._client.client_id[0]:
                return
            self._get(self._client.delete_async(path))
        self._get(self._client.create_async(path, ephemeral=True))

    def _look_at_live(self) -> None:
        names = self._get(self._client.get_children_async(f"{self._root}/live", watch=self._live_changed))
        self._live = frozenset(BrokerId(int(name)) for name in names)

    def _watch_head(self) -> None:
        self._get(self._client.get_async(f"{self._root}/head", watch=self._head_changed))

    def _head(self) -> tuple[Head, int]:
        """What the log's head says after all that was written before this was asked."""
        synced = self._client.sync_async(f"{self._root}/head")
        asked = self._client.get_async(f"{self._root}/head")
        self._get(synced)
        body, stat = self._get(asked)
        head: Head = json.loads(body)
        return head, stat.version

    def _append(self, bodies: list[bytes], expected_version: int) -> Outcome:
        if sum(map(len, bodies)) > APPEND_BYTES:
            raise OSError(f"an append of more than {APPEND_BYTES} bytes does not fit into one packet of ZooKeeper")
        head, stat_version = self._head()
        if head["version"] != expected_version:
            return Conflict(head["version"])
        last = expected_version + len(bodies)
        for bucket in range((expected_version + 1) // BUCKET, last // BUCKET + 1):
            if bucket == (expected_version + 1) // BUCKET and (expected_version + 1) % BUCKET and expected_version:
                continue  # made by the append that began it
            with contextlib.suppress(NodeExistsError):
                self._get(self._client.create_async(f"{self._root}/log/{bucket}"))
        transaction = self._client.transaction()
        head["version"] = last
        transaction.set_data(f"{self._root}/head", json.dumps(head).encode(), version=stat_version)
        for version, body in enumerate(bodies, expected_version + 1):
            transaction.create(self._entry(version), body)
        try:
            results = self._get(transaction.commit_async())
        except _FAILED as failure:
            return Unknown(f"ZooKeeper: {failure!r}")
        if len(results) == len(bodies) + 1 and not any(isinstance(result, Exception) for result in results):
            return Written(last)
        if any(isinstance(result, BadVersionError | NodeExistsError) for result in results):
            return Conflict(self._head()[0]["version"])
        return Unknown(f"ZooKeeper: {results!r}"[:500])

    def _entry(self, version: int) -> str:
        return f"{self._root}/log/{version // BUCKET}/{version}"

    def _read(self, after_version: int, limit: int) -> list[LogEntry]:
        head, _ = self._head()
        if after_version + 1 < head["first"]:
            raise LookupError(f"the metadata log has been cut below {head['first']}")
        last, found, size = min(head["version"], after_version + limit), list[LogEntry](), 0
        for start in range(after_version + 1, last + 1, 16):
            versions = range(start, min(start + 16, last + 1))
            asked = [self._client.get_async(self._entry(version)) for version in versions]
            try:
                bodies = [self._get(one)[0] for one in asked]
            except NoNodeError:
                raise LookupError("the metadata log was cut meanwhile") from None
            found += map(LogEntry, versions, bodies)
            size += sum(map(len, bodies))
            if size >= READ_BYTES:
                break
        return found

    def _load_snapshot(self) -> StoredSnapshot | None:
        head, _ = self._head()
        if not head["snapshots"]:
            return None
        version, chunks = head["snapshots"][-1]
        try:
            parts = [self._get(self._client.get_async(self._chunk(version, index)))[0] for index in range(chunks)]
        except NoNodeError:
            raise OSError("the snapshot was replaced while it was read") from None
        return StoredSnapshot(version, b"".join(parts))

    def _chunk(self, version: int, index: int) -> str:
        return f"{self._root}/snapshots/{version}-{index}"

    def _save_snapshot(self, snapshot: StoredSnapshot) -> None:
        """Chunks first, then head names them; then what lies below the snapshot before is cut."""
        head, _ = self._head()
        if head["snapshots"] and head["snapshots"][-1][0] >= snapshot.version:
            return
        parts = [snapshot.body[at : at + CHUNK_BYTES] for at in range(0, max(1, len(snapshot.body)), CHUNK_BYTES)]
        for index, part in enumerate(parts):
            try:
                self._get(self._client.create_async(self._chunk(snapshot.version, index), part))
            except NodeExistsError:
                self._get(self._client.set_async(self._chunk(snapshot.version, index), part))
        while True:
            head, stat_version = self._head()
            if head["snapshots"] and head["snapshots"][-1][0] >= snapshot.version:
                return
            old, first = head["snapshots"], head["first"]
            head["snapshots"] = [*old[-1:], [snapshot.version, len(parts)]]
            if old:
                head["first"] = old[-1][0] + 1
            with contextlib.suppress(BadVersionError):
                body = json.dumps(head).encode()
                self._get(self._client.set_async(f"{self._root}/head", body, version=stat_version))
                break
        gone = [self._chunk(version, index) for version, chunks in old[:-1] for index in range(chunks)]
        gone += [self._entry(version) for version in range(first, head["first"])]
        gone += [f"{self._root}/log/{bucket}" for bucket in range(first // BUCKET, head["first"] // BUCKET)]
        self._remove(gone)

    def _remove(self, paths: list[str]) -> None:
        for start in range(0, len(paths), _CUT_AT_ONCE):
            for asked in [self._client.delete_async(path) for path in paths[start : start + _CUT_AT_ONCE]]:
                with contextlib.suppress(NoNodeError):
                    self._get(asked)

    # On kazoo's thread: nothing but notes to others

    def _state_changed(self, state: str) -> None:
        self._ready = False
        if state == KazooState.CONNECTED:
            self._work.put(partial(self._look_again, self._prepare))

    def _head_changed(self, event: object) -> None:
        self._work.put(partial(self._look_again, self._watch_head))

    def _live_changed(self, event: object) -> None:
        self._work.put(partial(self._look_again, self._look_at_live))

    def _look_again(self, look: Callable[[], None]) -> None:
        with contextlib.suppress(OSError, *_FAILED):
            look()
        if self._listener is not None:
            self._on_loop(self._listener)

    def _on_loop(self, callback: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._call_soon(callback)
