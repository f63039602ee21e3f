"""The metadata log as nodes of a ZooKeeper ensemble (rule C6). Synchronous: `zookeeper.py` calls it from its threads.

Under the root: `head` says how far the log goes; `log/BUCKET/VERSION` are the entries; `staged/VERSION-MARK` the bodies
of entries whose append was larger than a packet; `snapshots/VERSION-MARK-CHUNK`; `brought` is there where the log was
begun elsewhere. One transaction sets `head` and makes the entries, so an append is there as a whole or not at all.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from kazoo.exceptions import BadVersionError, KazooException, NodeExistsError, NoNodeError, NotEmptyError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.security import OPEN_ACL_UNSAFE

from ottla.kernel.seams import Conflict, LogEntry, StoreDamaged, StoredSnapshot, Unknown, Written
from ottla.records.checksum import crc32c

LAYOUT = 1
BUCKET = 1000
CHUNK_BYTES = 512 * 1024
DIRECT_BYTES = 512 * 1024
"""The most bytes of an append whose bodies are part of its transaction; larger ones get nodes of their own first."""
PACKET_BYTES = 900 * 1024
"""A server takes a little less than 1 MiB at once (`jute.maxbuffer`)."""
READ_BYTES = 8 * 1024 * 1024
_STAGED_FROM_BYTES = 256
_NODE_OVERHEAD_BYTES = 192
"""The bytes of one node in a transaction beside its body: path, access list, lengths."""
_AT_ONCE = 16
_REMOVED_AT_ONCE = 200
_HERE, _STAGED = b"\0", b"\1"
FAILED = (KazooException, KazooTimeoutError)


class SnapshotName(NamedTuple):
    """The nodes that hold a snapshot. The mark keeps two brokers that save the same version apart."""

    version: int
    mark: str
    chunks: int


class Head(NamedTuple):
    """The log's last version, its first one, and its snapshots, the older first; at most two."""

    version: int
    first: int
    snapshots: tuple[SnapshotName, ...]

    def encoded(self) -> bytes:
        """The node's text, with a checksum that earlier releases ignore."""
        body = json.dumps({"layout": LAYOUT, **self._asdict()})
        return f'{body[:-1]}, "crc": {crc32c(body.encode())}}}'.encode()


def decode_head(data: bytes) -> Head:
    """Parse the node.

    OSError if a newer release, or another program, has written it; StoreDamaged if its checksum does not hold.

    A node that an earlier release wrote has no checksum.
    """
    try:
        found = json.loads(data)
        body, _, checksum = data.rpartition(b', "crc": ')
        if "crc" in found and crc32c(body + b"}") != int(checksum[:-1]):
            raise StoreDamaged("ZooKeeper", "the node head", f"its checksum does not hold: {data[:80]!r}")
        if found["layout"] > LAYOUT:
            raise OSError(f"the metadata log in ZooKeeper was written by a newer release (layout {found['layout']})")
        snapshots = tuple(SnapshotName(*name) for name in found["snapshots"])
        return Head(int(found["version"]), int(found["first"]), snapshots)
    except (ValueError, KeyError, TypeError):
        raise OSError(f"the node head in ZooKeeper holds no metadata log: {data[:80]!r}") from None


class ZookeeperLog:
    """One client's view. Every call may raise what is in `FAILED`, and then nothing was written that counts."""

    def __init__(self, client: Any, root: str, *, patience_s: float, on_silence: Callable[[], None]) -> None:
        """`on_silence` is called when an answer has not come for `patience_s`."""
        self._client = client
        self._root = root
        self._patience_s = patience_s
        self._on_silence = on_silence
        self._known: tuple[Head, int] | None = None
        """The last head seen and its version as a node: a guess that saves a round trip."""

    def answer(self, asked: Any) -> Any:
        """The answer of a request that was sent, bounded in time."""
        try:
            return asked.get(timeout=self._patience_s)
        except KazooTimeoutError:
            self._on_silence()
            raise

    def make_nodes(self, *names: str) -> None:
        """Make the empty log, and other folders, if they are missing. Nodes above the root stay open to all users."""
        above = self._root.split("/")[1:-1]
        for depth in range(1, len(above) + 1):
            with contextlib.suppress(NodeExistsError):
                path = "/" + "/".join(above[:depth])
                self.answer(self._client.create_async(path, acl=OPEN_ACL_UNSAFE))
        for name in ("", "/log", "/staged", "/snapshots", *names):
            with contextlib.suppress(NodeExistsError):
                self.answer(self._client.create_async(self._root + name))
        with contextlib.suppress(NodeExistsError):
            self.answer(self._client.create_async(f"{self._root}/head", Head(0, 1, ()).encoded()))

    def head(self) -> int:
        return self._look()[0].version

    def raise_age(self, name: str, age: int) -> int:
        """Keep a number under a name if it is greater than the one kept there; the greater of the two."""
        path = f"{self._root}/ages/{name}"
        while True:
            synced, asked = self._client.sync_async(path), self._client.get_async(path)
            self.answer(synced)
            try:
                data, stat = self.answer(asked)
                kept = int(data)
                if age <= kept:
                    return kept
                self.answer(self._client.set_async(path, str(age).encode(), version=stat.version))
                return age
            except NoNodeError:
                if age <= 0:
                    return 0
                with contextlib.suppress(NodeExistsError):
                    self.answer(self._client.create_async(path, str(age).encode()))
                    return age
            except BadVersionError:
                continue

    def _look(self) -> tuple[Head, int]:
        """The head after all writes before this request."""
        synced = self._client.sync_async(f"{self._root}/head")
        asked = self._client.get_async(f"{self._root}/head")
        self.answer(synced)
        data, stat = self.answer(asked)
        known = (decode_head(data), int(stat.version))
        self._known = known
        return known

    # Appending

    def append(self, bodies: Sequence[bytes], expected_version: int) -> Written | Conflict | Unknown:
        known = self._known
        head, stat_version = known if known and known[0].version == expected_version else self._look()
        nodes: list[bytes] = []
        while head.version == expected_version:
            nodes = nodes or self._as_nodes(bodies, expected_version + 1)
            outcome = self._commit(nodes, head, stat_version)
            if outcome is not None:
                return outcome
            head, stat_version = self._look()
        self._remove(f"{self._root}/staged/{node[1:].decode()}" for node in nodes if node[:1] == _STAGED)
        return Conflict(head.version)

    def _as_nodes(self, bodies: Sequence[bytes], first: int) -> list[bytes]:
        """The text of each entry's node: the body, or its place. No broker reads a staged body before the append."""
        for bucket in {version // BUCKET for version in range(first, first + len(bodies))}:
            if first % BUCKET == 0 or first == 1 or bucket != first // BUCKET:  # else it was made with its first entry
                with contextlib.suppress(NodeExistsError):
                    self.answer(self._client.create_async(f"{self._root}/log/{bucket}"))
        overhead = len(bodies) * (_NODE_OVERHEAD_BYTES + len(self._root))
        if sum(map(len, bodies)) + overhead <= DIRECT_BYTES:
            return [_HERE + body for body in bodies]
        nodes = []
        for version, body in enumerate(bodies, first):
            if len(body) <= _STAGED_FROM_BYTES:
                nodes.append(_HERE + body)
                continue
            name = f"{version}-{os.urandom(8).hex()}"
            if len(body) > PACKET_BYTES:
                raise ValueError(f"an entry of {len(body)} bytes")
            self.answer(self._client.create_async(f"{self._root}/staged/{name}", body))
            nodes.append(_STAGED + name.encode())
        if sum(map(len, nodes)) + overhead > PACKET_BYTES:
            raise ValueError(f"an append of {len(bodies)} entries does not fit into one transaction")
        return nodes

    def _commit(self, nodes: list[bytes], head: Head, stat_version: int) -> Written | Unknown | None:
        """None if `head` has changed since, or has other snapshots."""
        last = head.version + len(nodes)
        after = head._replace(version=last)
        transaction = self._client.transaction()
        transaction.set_data(f"{self._root}/head", after.encoded(), version=stat_version)
        for version, node in enumerate(nodes, head.version + 1):
            transaction.create(self._entry(version), node)
        self._known = None
        try:
            results = self.answer(transaction.commit_async())
        except FAILED as failure:
            return Unknown(f"ZooKeeper: {failure!r}")
        refused = [result for result in results if isinstance(result, Exception)]
        if any(isinstance(result, BadVersionError) for result in refused):
            return None
        if refused:  # one transaction: nothing of it was done
            raise OSError(f"ZooKeeper refused an append: {refused!r}"[:500])
        if len(results) != len(nodes) + 1:
            return Unknown(f"ZooKeeper: {results!r}"[:500])
        self._known = (after, int(results[0].version))
        return Written(last)

    def _entry(self, version: int) -> str:
        return f"{self._root}/log/{version // BUCKET}/{version}"

    # Reading

    def read(self, after_version: int, limit: int) -> list[LogEntry]:
        head, _ = self._look()
        if after_version + 1 < head.first:
            raise LookupError(f"the metadata log has been cut below {head.first}")
        last, found, size = min(head.version, after_version + limit), list[LogEntry](), 0
        for start in range(after_version + 1, last + 1, _AT_ONCE):
            versions = range(start, min(start + _AT_ONCE, last + 1))
            try:
                bodies = self._bodies(versions)
            except NoNodeError:
                raise LookupError("the metadata log was cut meanwhile") from None
            found += map(LogEntry, versions, bodies)
            size += sum(map(len, bodies))
            if size >= READ_BYTES:
                break
        return found

    def _bodies(self, versions: Iterable[int]) -> list[bytes]:
        nodes = self._get_all([self._entry(version) for version in versions])
        staged = {node: f"{self._root}/staged/{node[1:].decode()}" for node in nodes if node[:1] == _STAGED}
        bodies = dict(zip(staged, self._get_all(list(staged.values())), strict=True))
        return [bodies[node] if node in bodies else node[1:] for node in nodes]

    def _get_all(self, paths: list[str]) -> list[bytes]:
        asked = [self._client.get_async(path) for path in paths]
        return [self.answer(one)[0] for one in asked]

    # Snapshots

    def load_snapshot(self) -> StoredSnapshot | None:
        named: SnapshotName | None = None
        while True:
            snapshots = self._look()[0].snapshots
            if not snapshots:
                return None
            if snapshots[-1] == named:
                raise OSError(f"snapshot {named.version} of the metadata log is not whole in ZooKeeper")
            named = snapshots[-1]
            paths = [self._chunk(named, index) for index in range(named.chunks)]
            with contextlib.suppress(NoNodeError):  # replaced, twice, while it was read: take the new one
                parts = [self._get_all(paths[at : at + _AT_ONCE]) for at in range(0, len(paths), _AT_ONCE)]
                return StoredSnapshot(named.version, b"".join(part for some in parts for part in some))

    def save_snapshot(self, snapshot: StoredSnapshot) -> None:
        """Write the chunks first, then let head name them; then remove nodes that are not needed any more."""
        head, stat_version = self._look()
        name: SnapshotName | None = None
        while not head.snapshots or head.snapshots[-1].version < snapshot.version:
            name = name or self._write_chunks(snapshot)
            old = head.snapshots[-1:]
            after = head._replace(snapshots=(*old, name), first=max(head.first, old[0].version + 1 if old else 1))
            with contextlib.suppress(BadVersionError):
                self.answer(self._client.set_async(f"{self._root}/head", after.encoded(), version=stat_version))
                break
            head, stat_version = self._look()
        self._sweep()

    def _write_chunks(self, snapshot: StoredSnapshot) -> SnapshotName:
        parts = [snapshot.body[at : at + CHUNK_BYTES] for at in range(0, max(1, len(snapshot.body)), CHUNK_BYTES)]
        name = SnapshotName(snapshot.version, os.urandom(8).hex(), len(parts))
        for index, part in enumerate(parts):
            self.answer(self._client.create_async(self._chunk(name, index), part))
        return name

    def begin_with(self, snapshot: StoredSnapshot, mark: bytes) -> bool:
        """Begin the empty log behind a snapshot of another store; False if it is not empty.

        True too if it was begun with the same mark before: the caller need not know how the last try ended.
        """
        path = f"{self._root}/brought"
        with contextlib.suppress(NoNodeError):
            return bool(self.answer(self._client.get_async(path))[0] == mark)
        head, stat_version = self._look()
        if head.version:
            return False
        first = snapshot.version + 1
        after = Head(snapshot.version, first, (self._write_chunks(snapshot),))
        with contextlib.suppress(NodeExistsError):
            self.answer(self._client.create_async(f"{self._root}/log/{first // BUCKET}"))
        transaction = self._client.transaction()
        transaction.set_data(f"{self._root}/head", after.encoded(), version=stat_version)
        transaction.set_data(f"{self._root}/log", b"%d" % first)
        transaction.create(path, mark)
        self._known = None
        results = self.answer(transaction.commit_async())
        refused = [result for result in results if isinstance(result, Exception)]
        if any(isinstance(result, BadVersionError | NodeExistsError) for result in refused):
            return False
        if refused or len(results) != 3:
            raise OSError(f"ZooKeeper refused to begin a log: {results!r}"[:500])
        return True

    def _chunk(self, name: SnapshotName, index: int) -> str:
        return f"{self._root}/snapshots/{name.version}-{name.mark}-{index}"

    def _sweep(self) -> None:
        """Remove nodes that head does not name, also those that a broker left which died while sweeping or writing.

        `log` itself holds the version below which no entry is left.
        """
        head, _ = self._look()
        swept = int(self.answer(self._client.get_async(f"{self._root}/log"))[0] or 1)
        self._remove(self._entry(version) for version in range(swept, head.first))
        self._remove(f"{self._root}/log/{bucket}" for bucket in range(swept // BUCKET, head.first // BUCKET))
        self._remove(self._below("staged", head.first, keep=set()))
        if head.snapshots:
            named = {(name.version, name.mark) for name in head.snapshots}
            self._remove(self._below("snapshots", head.snapshots[-1].version + 1, keep=named))
        if head.first > swept:
            self.answer(self._client.set_async(f"{self._root}/log", b"%d" % head.first))

    def _below(self, folder: str, version: int, *, keep: set[tuple[int, str]]) -> list[str]:
        """Nodes of a folder that belong to an earlier version: few, so that they may be listed."""
        names: list[str] = self.answer(self._client.get_children_async(f"{self._root}/{folder}"))
        split = [(name, name.split("-")) for name in names]
        return [
            f"{self._root}/{folder}/{name}"
            for name, parts in split
            if int(parts[0]) < version and (int(parts[0]), parts[1]) not in keep
        ]

    def _remove(self, paths: Iterable[str]) -> None:
        waiting = list(paths)
        for start in range(0, len(waiting), _REMOVED_AT_ONCE):
            for asked in [self._client.delete_async(path) for path in waiting[start : start + _REMOVED_AT_ONCE]]:
                with contextlib.suppress(NoNodeError, NotEmptyError):
                    self.answer(asked)
