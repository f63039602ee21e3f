"""A lake in HDFS, through hdfs-native: renames reveal, and a rename that overwrites nothing is the fence.

A file is written under a hidden name beside its own, synced on the datanodes (hsync), closed and renamed: under its own
name it is never visible in part. The name node is HADOOP_CONF_DIR's where the URL names a service; the user is
HADOOP_USER_NAME, a Kerberos ticket's, or that of the process.
"""

from __future__ import annotations

import contextlib
import posixpath
import re
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from urllib.parse import quote, unquote

import pyarrow as pa
from hdfs_native import Client, FileStatus, FileWriter, WriteOptions

from ottla.stores.base import FinishedFile, LakeRefused, StoredFile, StoreUnreachable
from ottla.stores.lease import Claim, LoaderLease, SeenClaim, lease_seconds, take
from ottla.stores.ranges import TAIL_BYTES, RangeFile
from ottla.stores.urls import LakeUrlParts

LEASE = "_ottla/lease"
_PATIENCE = {
    "dfs.client.failover.max.attempts": "8",
    "dfs.client.failover.sleep.base.millis": "200",
    "dfs.client.failover.sleep.max.millis": "5000",
}
"""Tries of the client until the name node counts as unreachable: about 20 seconds."""

_PLAIN = (FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError, PermissionError)
_REMOTE = re.compile(r'RPCError\("(?P<kind>[\w.$]+)", "(?P<message>.*?)(\\n|")', re.DOTALL)
_PASSING = ("SafeModeException", "StandbyException", "RetriableException", "RetryStartFileException")


class HdfsStore:
    """A folder of HDFS; made with its parents where it is missing."""

    def __init__(self, place: LakeUrlParts) -> None:
        self.url = f"hdfs://{place.bucket}/{place.path}"
        self._folder = f"/{place.path}"
        with hdfs_asked(self.url):
            self._client = Client(f"hdfs://{place.bucket}", _PATIENCE)

    def create(self, name: str, body: bytes) -> bool:
        """The name node lets one of several racing renames through; the others find the winner's body."""
        temporary = self._written(name, body)
        try:
            with hdfs_asked(f"creating {self.url}/{name}"):
                self._client.rename(temporary, self._path(name), False)
            return True
        except FileExistsError:
            return self.read(name) == body
        except FileNotFoundError:  # the client repeated a rename whose answer was lost
            if self.read(name) == body:
                return True
            raise
        finally:
            self._forget(temporary)

    def replace(self, name: str, body: bytes) -> None:
        temporary = self._written(name, body)
        try:
            with hdfs_asked(f"replacing {self.url}/{name}"):
                self._client.rename(temporary, self._path(name), True)
        except FileNotFoundError:
            if self.read(name) != body:
                raise
        except OSError:
            self._forget(temporary)
            raise

    def read(self, name: str) -> bytes | None:
        try:
            with hdfs_asked(f"reading {self.url}/{name}"):
                reader = self._client.read(self._path(name))
                return bytes(reader.read_range(0, len(reader))) if len(reader) else b""
        except FileNotFoundError:
            return None

    def entries(self, prefix: str, *, deep: bool = True) -> list[StoredFile]:
        found = [entry for status in self._listed(prefix, deep) if (entry := self._entry(status)) is not None]
        return sorted(found, key=lambda entry: entry.name)

    def _listed(self, prefix: str, deep: bool) -> list[FileStatus]:
        """All in a folder, or below it; listed anew where a folder below it went meanwhile."""
        path = self._path(prefix)
        with hdfs_asked(f"listing {self.url}/{prefix}"):
            while True:
                try:
                    return list(self._client.list_status(path, deep))
                except FileNotFoundError:
                    if not self._is_there(path):
                        return []

    def _is_there(self, path: str) -> bool:
        try:
            self._client.get_file_info(path)
        except FileNotFoundError:
            return False
        return True

    def _entry(self, status: FileStatus) -> StoredFile | None:
        if status.isdir or _hidden(status.path):
            return None
        return StoredFile(status.path[len(self._folder.rstrip("/")) + 1 :], status.length)

    def remove(self, names: Iterable[str]) -> None:
        for name in names:
            self._delete(self._path(name), recursive=False)

    def remove_folder(self, prefix: str) -> None:
        self._delete(self._path(prefix), recursive=True)

    def _delete(self, path: str, *, recursive: bool) -> None:
        with contextlib.suppress(FileNotFoundError), hdfs_asked(f"deleting {path} from {self.url}"):
            self._client.delete(path, recursive)

    def reveal(self, moves: Sequence[FinishedFile]) -> None:
        for folder in sorted({posixpath.dirname(self._path(move.final)) for move in moves}):
            self._make_folder(folder)
        for move in moves:
            size = self._size(move.temporary)
            if size is None:
                self._refuse_missing(move)
                continue
            if size != move.bytes:
                raise LakeRefused(f"{self.url}/{move.temporary} has {size} bytes, planned were {move.bytes}")
            try:
                with hdfs_asked(f"revealing {self.url}/{move.final}"):
                    self._client.rename(self._path(move.temporary), self._path(move.final), True)
            except FileNotFoundError:
                self._refuse_missing(move)

    def _refuse_missing(self, move: FinishedFile) -> None:
        if self._size(move.final) != move.bytes:
            raise LakeRefused(
                f"{self.url}/{move.final} is missing or has another size, and {move.temporary} is gone: "
                "somebody removed them"
            )

    def open_output(self, name: str) -> HdfsOutput:
        return HdfsOutput(self, self._client, self._path(name))

    def open_input(self, name: str) -> pa.NativeFile:
        with hdfs_asked(f"opening {self.url}/{name}"):
            reader = self._client.read(self._path(name))
            size = len(reader)
            start = max(0, size - TAIL_BYTES)
            tail = reader.read_range(start, size - start) if size else b""

        def fetch(start: int, end: int) -> bytes:
            with hdfs_asked(f"reading {self.url}/{name}"):
                return reader.read_range(start, end - start)

        return RangeFile(size, fetch, tail).opened()

    def hold(self, owner: str) -> LoaderLease:
        return take(_HdfsCell(self._client, self._path(LEASE)), owner, self.url, lease_seconds())

    def _path(self, name: str) -> str:
        return posixpath.join(self._folder, name).rstrip("/")

    def _size(self, name: str) -> int | None:
        try:
            with hdfs_asked(f"looking for {self.url}/{name}"):
                return self._client.get_file_info(self._path(name)).length
        except FileNotFoundError:
            return None

    def _make_folder(self, folder: str) -> None:
        with hdfs_asked(f"making {folder}"):
            self._client.mkdirs(folder, create_parent=True)

    def _written(self, name: str, body: bytes) -> str:
        output = HdfsOutput(self, self._client, self._path(name))
        try:
            output.sink.write(body)
            output.close()
        except OSError:
            output.abandon()
            raise
        return output.temporary

    def _forget(self, path: str) -> None:
        with contextlib.suppress(OSError):
            self._delete(path, recursive=False)


class HdfsOutput:
    """A file under a hidden name until it is whole."""

    def __init__(self, store: HdfsStore, client: Client, path: str) -> None:
        self._store = store
        self._client = client
        self._path = path
        folder, name = posixpath.split(path)
        self.temporary = f"{folder}/.{name}.{uuid.uuid4().hex}.tmp"
        with hdfs_asked(f"writing {path} to {store.url}"):
            writer = client.create(self.temporary, WriteOptions(overwrite=False, create_parent=True))
        self._file = _Written(writer, path)
        self.sink = pa.PythonFile(self._file, mode="w")

    def close(self) -> None:
        """The file is whole on the datanodes, still under its hidden name."""
        self.sink.close()
        self._file.settle()

    def finish(self) -> int:
        self.close()
        try:
            with hdfs_asked(f"naming {self._path}"):
                self._client.rename(self.temporary, self._path, True)
        except FileNotFoundError:  # the client repeated a rename whose answer was lost
            with hdfs_asked(f"looking for {self._path}"):
                if self._client.get_file_info(self._path).length != self._file.bytes:
                    raise
        return self._file.bytes

    def abandon(self) -> None:
        with contextlib.suppress(OSError), hdfs_asked(f"giving up {self._path}"):
            self._client.delete(self.temporary, False)


class _Written:
    """The Python file under the sink; the client keeps bytes that are not yet a whole packet."""

    def __init__(self, writer: FileWriter, path: str) -> None:
        self._writer = writer
        self._path = path
        self.bytes = 0
        self.closed = False

    def write(self, data: object) -> int:
        view = memoryview(data).cast("B")  # type: ignore[arg-type]
        with hdfs_asked(f"writing {self._path}"):
            self._writer.write(view)
        self.bytes += len(view)
        return len(view)

    def settle(self) -> None:
        """Sync the last block on its datanodes and close the file at the name node."""
        with hdfs_asked(f"closing {self._path}"):
            if self.bytes:
                self._writer.hsync()
            self._writer.close()

    def tell(self) -> int:
        return self.bytes

    def flush(self) -> None:
        """The client sends whole packets."""

    def close(self) -> None:
        self.closed = True

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False


class _HdfsCell:
    """A lease as the name of the one file in a folder: a rename that finds its source is the compare-and-swap."""

    def __init__(self, client: Client, folder: str) -> None:
        self._client = client
        self._folder = folder

    def look(self) -> SeenClaim | None:
        try:
            with hdfs_asked(f"reading the lease {self._folder}"):
                names = [posixpath.basename(status.path) for status in self._client.list_status(self._folder)]
        except FileNotFoundError:
            return None
        for name in names:
            if (claim := _claim_named(name)) is not None:
                return SeenClaim(claim, (name,))
        raise LakeRefused(f"{self._folder} holds no lease: remove that folder when no loader is running")

    def swap(self, seen: SeenClaim | None, claim: Claim) -> tuple[str, ...] | None:
        wanted = _name_of(claim)
        if seen is None:
            return (wanted,) if self._first(wanted) else None
        try:
            with hdfs_asked(f"writing the lease {self._folder}"):
                self._client.rename(f"{self._folder}/{seen.version[0]}", f"{self._folder}/{wanted}", False)
        except (FileNotFoundError, FileExistsError):
            return None
        return (wanted,)

    def _first(self, wanted: str) -> bool:
        """A folder with the claim in it takes the place that is free: of racing renames one finds no folder there."""
        prepared = f"{posixpath.dirname(self._folder)}/.lease.{uuid.uuid4().hex}.tmp"
        try:
            with hdfs_asked(f"writing the lease {self._folder}"):
                self._client.create(f"{prepared}/{wanted}", WriteOptions(create_parent=True)).close()
                self._client.rename(prepared, self._folder, False)
            return True
        except (FileExistsError, FileNotFoundError):  # the second where the client repeated a lost rename: `take` looks
            return False
        finally:
            with contextlib.suppress(OSError), hdfs_asked("cleaning up"):
                self._client.delete(prepared, True)


_LONGEST_OWNER = 160


def _name_of(claim: Claim) -> str:
    """A file name may have 255 bytes."""
    owner = quote(claim.owner, safe=" @-_")[:_LONGEST_OWNER].replace(".", "%2E")
    return f"{claim.token}.{claim.count}.{round(claim.seconds * 1000)}.{owner}"


def _claim_named(name: str) -> Claim | None:
    parts = name.split(".")
    if len(parts) != 4 or not (parts[1].isdigit() and parts[2].isdigit()):
        return None
    return Claim(unquote(parts[3], errors="replace"), parts[0], int(parts[1]), int(parts[2]) / 1000)


def _hidden(path: str) -> bool:
    """True if some part of a path is one of our own unfinished files."""
    return any(part.startswith(".") and part.endswith(".tmp") for part in path.split("/"))


@contextmanager
def hdfs_asked(doing: str) -> Iterator[None]:
    """Errors of hdfs-native as the protocol's: it raises bare OSErrors for the network, RuntimeError for the rest."""
    try:
        yield
    except _PLAIN:
        raise
    except (OSError, TimeoutError) as fault:
        if isinstance(fault, StoreUnreachable):
            raise
        raise StoreUnreachable(f"{doing}: {fault}") from None
    except RuntimeError as fault:
        raise _as_os_error(str(fault), doing) from None


def _as_os_error(text: str, doing: str) -> OSError | LakeRefused:
    found = _REMOTE.search(text)
    if found is None:
        if "No NameNode hosts" in text:
            return LakeRefused(f"{doing}: no name node is known; write hdfs://host:port/path, or set HADOOP_CONF_DIR")
        return OSError(f"{doing}: {text[:400]}")
    kind, sentence = found["kind"].rpartition(".")[2], f"{doing}: {found['message'][:400]}"
    if kind in ("AccessControlException", "AuthorizationException"):
        return PermissionError(sentence)
    if kind == "FileAlreadyExistsException":
        return FileExistsError(sentence)
    return StoreUnreachable(sentence) if kind in _PASSING else OSError(sentence)
