"""A simulated disk: writes are in the page cache; synced ones survive a crash; the others may survive in part.

Stands in for storage/disk/local.py. A crash keeps, per file, any of the un-synced 512-byte sectors and size changes,
and, per directory, any of the un-synced names; `crash` draws one legal state, `legal_states` walks through all of them.
"""

from __future__ import annotations

import errno
import posixpath
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from random import Random

from ottla.kernel.seams import Buffer, FailedSync, OpenFile
from ottla.sim.disk_crashes import crash, legal_trees, plant
from ottla.sim.disk_faults import FailingDisk, PowerCut
from ottla.sim.disk_nodes import DirectoryNode, FileNode, settle_below


class SimFile:
    """An open file of the simulated disk; dead after a crash."""

    __slots__ = ("_born", "_disk", "_file", "_holders", "path")

    def __init__(self, disk: SimDisk, path: str, file: FileNode) -> None:
        self.path = path
        self._disk = disk
        self._file = file
        self._holders = 1
        self._born = disk.crashes

    def fileno(self) -> int:
        return -1

    def write_at(self, position: int, parts: Sequence[Buffer]) -> None:
        self._alive()
        piece = b"".join(parts)
        room = self._disk.room(self._file, position, len(piece))
        short = self._disk.take_fault("short write", self.path)
        if short is not None:
            self._file.note_write(position, piece[: len(piece) // 2])
            raise short
        self._disk.operate("write", self.path)
        if room < len(piece):
            self._file.note_write(position, piece[:room])
            raise OSError(errno.ENOSPC, "no space left on the simulated disk", self.path)
        self._file.note_write(position, piece)
        self._file.modified_ms = self._disk.wall_ms()

    def read_at(self, position: int, length: int) -> bytes:
        self._alive()
        if (fault := self._disk.take_fault("read", self.path)) is not None:
            raise fault
        return bytes(memoryview(self._file.body)[position : position + length])

    def size(self) -> int:
        self._alive()
        self._disk.refuse_broken(self.path)
        return len(self._file.body)

    def truncate(self, size: int) -> None:
        self._alive()
        self._disk.operate("truncate", self.path)
        if size != len(self._file.body):
            self._file.note_size(size)

    def sync(self, *, at_once: bool = False) -> None:
        """A failed sync drops the pages: the next one succeeds without them (fsyncgate)."""
        self._alive()
        try:
            self._disk.operate("sync", self.path)
        except OSError as fault:
            self._file.pending = []
            self._disk.note_failed_sync(self.path)
            raise _failed_sync(fault, self.path) from fault
        if at_once or not self._disk.put_off():
            self._file.settle()

    def hold(self) -> None:
        assert self._holders > 0, f"{self.path} is closed"
        self._holders += 1

    def release(self) -> None:
        assert self._holders > 0 or self._born != self._disk.crashes, f"{self.path} is closed"
        self._holders -= 1

    def _alive(self) -> None:
        if self._born != self._disk.crashes:
            raise OSError(errno.EIO, "opened before the crash", self.path)
        assert self._holders > 0, f"{self.path} is closed"


class SimDisk(FailingDisk):
    """Files, directories and crashes; everything drawn comes from the caller's random numbers."""

    def __init__(self, *, wall_ms: Callable[[], int] = lambda: 0, capacity_bytes: int = 1 << 62) -> None:
        super().__init__()
        self.root = DirectoryNode()
        self.wall_ms = wall_ms
        self.capacity_bytes = capacity_bytes
        """The most bytes of all files together; beyond it, writes are short and raise ENOSPC.

        May be changed at any time.
        """
        self.crashes = 0
        self._gathering = False
        self._put_off = False
        """True if a sync was put off since `gathered` began."""
        self._untold: set[str] = set()
        """The file systems, one for each name at the root, with a failed sync since the last sync of all of it.

        That one tells of it, as syncfs does.
        """

    # -- what tests and worlds do to it ---

    def room(self, file: FileNode, position: int, length: int) -> int:
        """The number of `length` bytes to write that still fit."""
        grows = position + length - len(file.body)
        if grows <= 0 or not self.is_limited:
            return length
        free = self.capacity_bytes - self.used_bytes()
        return max(0, length - max(0, grows - max(free, 0)))

    @property
    def is_limited(self) -> bool:
        """True while there is a limit to what fits on it."""
        return self.capacity_bytes < 1 << 62

    def used_bytes(self) -> int:
        return sum(len(file.body) for _, file in self._walk(self.root, ""))

    def flip_bit(self, path: str, position: int, bit: int = 0) -> None:
        """Flip a bit at rest: in the page cache and on the disk."""
        file = self._file(path)
        file.settle()
        file.body[position] ^= 1 << bit
        file.disk_body[position] ^= 1 << bit

    def copied(self, path: str) -> DirectoryNode:
        """A directory as processes see it now."""
        return self._directory(path).copied()

    def put_back(self, path: str, copy: DirectoryNode) -> None:
        """Replace a directory, which no process has open, by the copy."""
        self.replace(path)
        directory, name = self._parent(path)
        directory.change(None, name, copy.copied())
        directory.settle()

    def replace(self, path: str) -> None:
        """Replace what is mounted at the path by another, empty disk, which works."""
        self.broken.pop(path, None)
        directory, name = self._parent(path)
        directory.change(name, None, None)
        directory.settle()

    # -- crashes ---

    def crash(self, random: Random) -> None:
        """Cut the power and reboot: one legal state is drawn, all open files are dead."""
        crash(self.root, random)
        self._reboot()

    def lose_unsynced(self) -> None:
        """Crash in the harshest way: everything un-synced is lost."""
        crash(self.root, None)
        self._reboot()

    def _reboot(self) -> None:
        self.crashes += 1
        self._untold.clear()
        self.forget_faults()

    def legal_states(self, limit: int = 100_000) -> Iterator[SimDisk]:
        """A disk for every state that a crash now may leave; ValueError if there are more than `limit`."""
        for tree in list(legal_trees(self.root, limit)):
            disk = SimDisk(wall_ms=self.wall_ms, capacity_bytes=self.capacity_bytes)
            plant(disk.root, tree)
            disk.crashes = self.crashes + 1
            yield disk

    # -- the Disk seam ---

    def open(self, path: str, *, create: bool = False) -> OpenFile:
        directory, name = self._parent(path)
        node = directory.names.get(name)
        if node is None:
            if not create:
                raise FileNotFoundError(errno.ENOENT, "no such file", path)
            self.operate("create", path)
            node = FileNode(self.wall_ms())
            directory.change(None, name, node)
        self.refuse_broken(path)
        if isinstance(node, DirectoryNode):
            raise IsADirectoryError(errno.EISDIR, "is a directory", path)
        return SimFile(self, path, node)

    def read(self, path: str) -> bytes:
        if (fault := self.take_fault("read", path)) is not None:
            raise fault
        return bytes(self._file(path).body)

    def exists(self, path: str) -> bool:
        return self._find(path) is not None

    def list(self, directory: str) -> list[str]:
        if (fault := self.take_fault("list", directory)) is not None:
            raise fault
        return sorted(self._directory(directory).names)

    def is_directory(self, path: str) -> bool:
        return isinstance(self._find(path), DirectoryNode)

    def misfits(self, directory: str) -> Sequence[str]:
        return [name for name in self.list(directory) if self.is_directory(posixpath.join(directory, name))]

    def make_directory(self, path: str) -> None:
        at = self.root
        for name in _names(path):
            node = at.names.get(name)
            if node is None:
                self.operate("create", path)
                node = DirectoryNode()
                at.change(None, name, node)
            if not isinstance(node, DirectoryNode):
                raise NotADirectoryError(errno.ENOTDIR, "not a directory", path)
            at = node

    def rename(self, old: str, new: str) -> None:
        from_directory, old_name = self._parent(old)
        to_directory, new_name = self._parent(new)
        node = from_directory.names.get(old_name)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", old)
        self.rename_begins(old)
        self.operate("rename", new)
        self.refuse_broken(old)
        if from_directory is to_directory:
            from_directory.change(old_name, new_name, node)
        else:
            to_directory.change(None, new_name, node)
            from_directory.change(old_name, None, None)

    def remove(self, path: str) -> None:
        if self._find(path) is not None:
            self.operate("remove", path)
            directory, name = self._parent(path)
            directory.change(name, None, None)

    def remove_tree(self, path: str) -> None:
        node = self._find(path)
        if isinstance(node, DirectoryNode):
            for name in sorted(node.names):
                self.remove_tree(posixpath.join(path, name))
        self.remove(path)

    def sync_directory(self, path: str) -> None:
        self.operate("sync names", path)
        if not self.put_off():
            self._directory(path).settle()

    @contextmanager
    def gathered(self, *paths: str) -> Iterator[None]:
        """Put off all syncs to the end, when everything below the paths is synced: a power cut before that may keep any
        of the changes."""
        assert not self._gathering
        self._gathering, self._put_off = True, False
        try:
            yield
        except PowerCut:
            self._put_off = False
            raise
        finally:
            self._gathering = False
            if self._put_off:
                self._sync_below(paths)

    def lost_writes(self, path: str) -> bool:
        """Syncs nothing, as it need not; but as with the real disk a sync may fail here, which drops all pages."""
        lost = _names(path)[0] in self._untold
        self._untold.discard(_names(path)[0])
        try:
            self.operate("sync", path)
        except OSError:
            lost = True
            for _, file in self._walk(self._directory(path), path):
                file.pending = []
        return lost

    def note_failed_sync(self, path: str) -> None:
        """Keep the failure until the next sync of all: the process may be killed before it hears of it."""
        self._untold.add(_names(path)[0])

    def alone_in(self, directory: str) -> AbstractContextManager[None]:
        """Do nothing: here every look-up is an operation, so that each can fail."""
        return nullcontext()

    def put_off(self) -> bool:
        """True if a sync waits for the end of `gathered`."""
        self._put_off = self._put_off or self._gathering
        return self._gathering

    def _sync_below(self, paths: tuple[str, ...]) -> None:
        """Sync everything below the paths, each file by itself; pages of a failed sync are dropped.

        Also raises if a file's sync has failed before, to tell of it once.
        """
        fault: OSError | None = None
        for path in paths:
            if _names(path)[0] in self._untold:
                self._untold.remove(_names(path)[0])
                fault = _failed_sync(OSError(errno.EIO, "an earlier one"), path)
            directory = self._directory(path)
            try:
                self.operate("sync", path)
            except OSError as error:
                fault = _failed_sync(error, path)
                for _, file in self._walk(directory, path):
                    file.pending = []
            else:
                self._settle_names_to(path)
                settle_below(directory)
        if fault is not None:
            raise fault

    def _settle_names_to(self, path: str) -> None:
        at = self.root
        for name in _names(path):
            at.settle()
            node = at.names[name]
            assert isinstance(node, DirectoryNode)
            at = node

    def file_size(self, path: str) -> int:
        self.refuse_broken(path)
        return len(self._file(path).body)

    def modified_ms(self, path: str) -> int:
        self.refuse_broken(path)
        return self._file(path).modified_ms

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        self.refuse_broken(path)
        self._file(path).modified_ms = modified_ms

    def cache_id(self, path: str) -> str:
        return str(self.crashes)

    def refuse_unwritable(self, path: str) -> None:
        if (fault := self.take_fault("rights", path)) is not None:
            raise fault

    def free_files(self) -> int:
        return 1 << 30

    def free_bytes(self, path: str) -> int:
        return max(0, self.capacity_bytes - self.used_bytes())

    def _find(self, path: str) -> FileNode | DirectoryNode | None:
        at: FileNode | DirectoryNode | None = self.root
        for name in _names(path):
            if not isinstance(at, DirectoryNode):
                return None
            at = at.names.get(name)
        return at

    def _parent(self, path: str) -> tuple[DirectoryNode, str]:
        return self._directory(posixpath.dirname(path)), posixpath.basename(path)

    def _directory(self, path: str) -> DirectoryNode:
        node = self._find(path)
        if not isinstance(node, DirectoryNode):
            raise FileNotFoundError(errno.ENOENT, "no such directory", path)
        return node

    def _file(self, path: str) -> FileNode:
        node = self._find(path)
        if not isinstance(node, FileNode):
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        return node

    def _walk(self, directory: DirectoryNode, path: str) -> Iterator[tuple[str, FileNode]]:
        for name, node in sorted(directory.names.items()):
            if isinstance(node, DirectoryNode):
                yield from self._walk(node, f"{path}/{name}")
            else:
                yield f"{path}/{name}", node


def _failed_sync(fault: OSError, path: str) -> OSError:
    """Make the same error as the real disk, for any cause of a failed sync."""
    return FailedSync(errno.EIO, f"a sync failed: {fault.strerror}", path)


def _names(path: str) -> list[str]:
    return [name for name in path.split("/") if name]
