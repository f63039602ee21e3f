"""The seams: the only places through which the world enters the broker, so that a simulated one can stand in.

`Disk` and its `OpenFile` (synchronous file calls), `Syncer` (the one asynchronous thing about storage), `Transport`,
`Network` (connections to other brokers), `Clock`, `Entropy`, `Coordination`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from ottla.kernel.ids import BrokerId
from ottla.kernel.story import Slot

Buffer = bytes | bytearray | memoryview


class FailedSync(OSError):
    """A sync failed: what it was to put on disk may be gone, whatever the next sync says (rule B3)."""


class OpenFile(Protocol):
    """One open file. Counted: born with one holder; `hold` adds one, the last `release` closes it.

    Every call raises OSError as the operating system would.
    """

    path: str

    def fileno(self) -> int:
        """The descriptor for `sendfile`; -1 where the file is simulated, and then `read_at` serves."""

    def write_at(self, position: int, parts: Sequence[Buffer]) -> None:
        """Write all parts one after the other from `position`; a short write raises OSError(ENOSPC or EIO)."""

    def read_at(self, position: int, length: int) -> bytes:
        """Up to `length` bytes from `position`; fewer only at the end of the file."""

    def size(self) -> int: ...

    def truncate(self, size: int) -> None: ...

    def sync(self, *, at_once: bool = False) -> None:
        """Put everything written so far on disk (fdatasync); `at_once` even where syncs are gathered."""

    def hold(self) -> None: ...

    def release(self) -> None: ...


class Disk(Protocol):
    """Files and directories, by absolute path; synchronous. Names become durable only by `sync_directory`.

    An OSError names the path in its `filename`: by it a failed log directory is told from the others.
    """

    def open(self, path: str, *, create: bool = False) -> OpenFile:
        """Open for reading and writing; FileNotFoundError unless `create`."""

    def read(self, path: str) -> bytes: ...

    def exists(self, path: str) -> bool: ...

    def list(self, directory: str) -> list[str]:
        """Names in a directory, sorted."""

    def is_directory(self, path: str) -> bool: ...

    def misfits(self, directory: str) -> Sequence[str]:
        """Names in a directory that lead to no regular file: directories, pipes, sockets, devices, links to nothing."""

    def make_directory(self, path: str) -> None:
        """With parents; no error where it exists."""

    def rename(self, old: str, new: str) -> None: ...

    def remove(self, path: str) -> None:
        """A file; no error where it is gone already."""

    def remove_tree(self, path: str) -> None: ...

    def sync_directory(self, path: str) -> None: ...

    def gathered(self, *paths: str) -> AbstractContextManager[None]:
        """Syncs that this thread asks for inside are durable when it ends, and not before: for many new files.

        All of them must lie under the paths.
        """

    def lost_writes(self, path: str) -> bool:
        """True if a sync under the path has failed and nobody was told: the process may have been killed during it.

        The next syncs skip the pages that a failed one has dropped. What is not synced yet may stay so.
        """

    def alone_in(self, directory: str) -> AbstractContextManager[None]:
        """Inside, names in the directory change by calls of this disk alone: it may answer from one listing."""

    def file_size(self, path: str) -> int: ...

    def modified_ms(self, path: str) -> int: ...

    def set_modified_ms(self, path: str, modified_ms: int) -> None: ...

    def free_bytes(self, path: str) -> int: ...

    def cache_id(self, path: str) -> str:
        """A text that changes if unsynced writes under the path may be gone; empty if that cannot be known."""

    def refuse_unwritable(self, path: str) -> None:
        """Raise where writing a file, or changing names in a directory, is refused: no rights, or a read-only disk."""

    def free_files(self) -> int:
        """The number of files that may still be opened."""


class FileSlice:
    """`length` bytes of an open file from `position`, held open until `release`: what a read hands out."""

    __slots__ = ("file", "length", "position")

    def __init__(self, file: OpenFile, position: int, length: int) -> None:
        file.hold()
        self.file = file
        self.position = position
        self.length = length

    def release(self) -> None:
        self.file.release()

    def read(self) -> bytes:
        """The bytes themselves, for those who must look inside; the transport sends without this."""
        return self.file.read_at(self.position, self.length)


class SyncWork(NamedTuple):
    """The part of a log that one sync must cover: fixed when the sync begins (rule B1)."""

    end_offset: int
    files: tuple[OpenFile, ...]
    directories: tuple[str, ...]


class Syncable(Protocol):
    """A log, as the syncer sees it. All is called on the broker's loop."""

    @property
    def directory(self) -> str:
        """The folder of its files."""

    def begin_sync(self) -> SyncWork | None:
        """The dirty files now, or None where nothing is dirty; files inside are held until `end_sync`."""

    def end_sync(self, work: SyncWork, error: OSError | None) -> None:
        """The sync that began with `work` has ended."""


class Syncer(Protocol):
    """Puts logs on disk off the loop; all that is submitted while a sync runs shares the next one."""

    def submit(self, log: Syncable) -> None: ...

    def submit_later(self, log: Syncable) -> None:
        """Submit a log for whose sync nobody waits: a little later, together with others like it (unawaited.py)."""

    def hurry(self, log: Syncable) -> None:
        """Submit a log at once that was submitted for later: somebody waits for its sync from now on."""


class Transport(Protocol):
    """The sending half of one connection."""

    def send(self, parts: list[bytes | FileSlice]) -> None:
        """Queue parts to leave in order. Slices are released once sent or once the connection is gone."""

    def close(self) -> None: ...


class Dialled(Protocol):
    """The broker's side of a connection that it asked for. Everything is called on the loop."""

    def connected(self, transport: Transport, certificate_hash: bytes = b"") -> None:
        """`certificate_hash`: the SHA-256 of the other side's certificate, empty without TLS."""

    def received(self, frame: memoryview) -> None:
        """One whole answer without its length; the memory is the receiver's own from now on."""

    def lost(self, error: OSError) -> None:
        """Never connected, or closed by the other side or by `Transport.close`: the last call."""


class Network(Protocol):
    """Connections to other brokers."""

    def dial(self, host: str, port: int, receiver: Dialled, *, timeout_ms: int, max_frame_bytes: int) -> None:
        """Connect; `receiver` hears of success or failure, never before this returns."""


class Timer(Protocol):
    def cancel(self) -> None: ...


class Clock(Protocol):
    """Time and turns of the loop. Monotonic for timeouts, leases, machines; wall for records and retention."""

    def mono_ms(self) -> int: ...

    def wall_ms(self) -> int: ...

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> Timer: ...

    def call_soon(self, callback: Callable[[], None]) -> None:
        """In the next turn of the loop."""


class Entropy(Protocol):
    def bytes(self, count: int) -> bytes: ...


class Written(NamedTuple):
    """An append is in the log; the log's last version is now `version`."""

    version: int


class Conflict(NamedTuple):
    """Somebody else appended first: nothing was written. The head was at `version` then."""

    version: int


class Unknown(NamedTuple):
    """The answer was lost: the entries are there or not; read on to find out (rule C1)."""

    why: str


class LogEntry(NamedTuple):
    version: int
    body: bytes


class StoredSnapshot(NamedTuple):
    """The state as of `version`, encoded by `metadata/snapshot.py`."""

    version: int
    body: bytes


class StoreDamaged(Exception):
    """The store holds something else than was written there. The text names it, and says what to do."""

    def __init__(self, store: str, what: str, why: str) -> None:
        super().__init__(
            f"The metadata store is damaged: {what} in {store} is not what was written ({why}). "
            "Stop the brokers that use this store, keep it aside, and put back a backup of it."
        )


class Coordination(Protocol):
    """The metadata log in a linearizable, durable store; entries are opaque bytes numbered from 1.

    Slots are filled on the broker's loop. A store that cannot be reached fails a slot with OSError, one that is damaged
    with StoreDamaged.
    """

    name: str
    """The store's place, for messages."""

    def append(self, entries: Sequence[bytes], expected_version: int) -> Slot[Written | Conflict | Unknown]:
        """Append all entries or none, if the last version is `expected_version` (0: empty)."""

    def read(self, after_version: int, limit: int = 1000) -> Slot[list[LogEntry]]:
        """Entries after a version, in order; LookupError where they have been cut: load the snapshot."""

    def head(self) -> Slot[int]:
        """The last version."""

    def load_snapshot(self) -> Slot[StoredSnapshot | None]: ...

    def save_snapshot(self, snapshot: StoredSnapshot) -> Slot[None]:
        """Keep a snapshot and cut the log below the previous one."""

    def raise_age(self, name: str, age: int) -> Slot[int]:
        """Keep a number under a name if it is greater than the one kept there; the greater of the two."""

    def on_change(self, listener: Callable[[], None]) -> None:
        """`listener` runs on the loop whenever the log may have grown or the live set changed; a hint, no more."""

    def live(self) -> frozenset[BrokerId]:
        """Brokers that seem alive: advice (architecture, decision 3)."""

    def close(self) -> None: ...
