"""The syncer in virtual time: the pieces of a sync reach the disk one by one, at times drawn from the seed.

Stands in for server/sync_loop.py, with the same turns: a sync begins at the end of the turn in which a log was
submitted; logs submitted meanwhile share the next. Writes that come after the time of their file are not covered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

from ottla.kernel.seams import Clock, Disk, OpenFile, Syncable, SyncWork
from ottla.kernel.unawaited import Unawaited
from ottla.sim.loop import SimLoop

Works = list[tuple[Syncable, SyncWork]]
Guard = Callable[[Callable[[], None]], Callable[[], None]]


class SimSyncer:
    """`kernel.seams.Syncer` of one incarnation of a broker."""

    def __init__(self, loop: SimLoop, clock: Clock, disk: Disk, random: Random, guard: Guard) -> None:
        """`guard` wraps callbacks that must not run once the incarnation is gone."""
        self._loop = loop
        self._clock = clock
        self._disk = disk
        self._random = random
        self._guard = guard
        self._dirty: dict[Syncable, None] = {}
        self._unawaited = Unawaited(self.submit)
        self._busy = False
        self.delay_us = (100, 1000)
        """The bounds of the time that one sync takes."""
        self.syncs = 0
        self.failures = 0
        self.on_nothing: Callable[[Syncable], None] = no_matter
        """Called with a log that has nothing to sync, while no sync of it is under way."""

    def submit(self, log: Syncable) -> None:
        if not self._dirty and not self._busy:
            self._busy = True
            self._clock.call_soon(self._begin)
        self._dirty[log] = None

    def submit_later(self, log: Syncable) -> None:
        if log not in self._dirty and (wait_ms := self._unawaited.add(log, self._loop.now_us / 1000)) is not None:
            self.after(round(wait_ms * 1000), lambda: self._unawaited.ring(self._loop.now_us / 1000))

    def hurry(self, log: Syncable) -> None:
        self._unawaited.hurry(log)

    def _begin(self) -> None:
        dirty, self._dirty = self._dirty, {}
        works = []
        for log in dirty:
            if (work := log.begin_sync()) is not None:
                works.append((log, work))
            else:
                self.on_nothing(log)
        if not works:
            self._busy = False
            return
        _Sync(self, works)

    def begin_pieces(self, works: Works) -> tuple[list[Callable[[], None]], int]:
        """The pieces of a sync, file by file and then directory by directory, and the time that they take."""
        files: list[OpenFile] = list(dict.fromkeys(file for _, work in works for file in work.files))
        self._random.shuffle(files)
        directories = sorted({directory for _, work in works for directory in work.directories})
        pieces: list[Callable[[], None]] = [file.sync for file in files]
        pieces += [lambda path=path: self._sync_names(path) for path in directories]  # type: ignore[misc]
        return pieces, self._random.randint(*self.delay_us)

    def after(self, delay_us: int, callback: Callable[[], None]) -> None:
        self._loop.call_after_us(delay_us, self._guard(callback))

    def moments(self, count: int, within_us: int) -> list[int]:
        return sorted(self._random.randint(0, within_us) for _ in range(count))

    def _sync_names(self, path: str) -> None:
        if self._disk.is_directory(path):  # else it was deleted meanwhile and need not be kept
            self._disk.sync_directory(path)

    def finish(self, works: Works, error: OSError | None) -> None:
        self.syncs += 1
        self.failures += error is not None
        self._busy = False
        if self._dirty:
            self._busy = True
            self._begin()
        _tell(iter(works), error)


def no_matter(_: Syncable) -> None:
    """Do nothing, by default."""


def _tell(ends: Iterator[tuple[Syncable, SyncWork]], error: OSError | None) -> None:
    """Tell every log that its sync has ended, even if another one raises; not after a power cut."""
    for log, work in ends:
        try:
            log.end_sync(work, error)
        except Exception:
            _tell(ends, error)
            raise


class _Sync:
    """One sync on its way."""

    def __init__(self, syncer: SimSyncer, works: Works) -> None:
        self._syncer = syncer
        self._works = works
        self._error: OSError | None = None
        pieces, within_us = syncer.begin_pieces(works)
        for piece, at_us in zip(pieces, syncer.moments(len(pieces), within_us), strict=True):
            syncer.after(at_us, lambda piece=piece: self._do(piece))  # type: ignore[misc]
        syncer.after(within_us + 1, self._end)

    def _do(self, piece: Callable[[], None]) -> None:
        if self._error is None:
            try:
                piece()
            except OSError as error:
                self._error = error

    def _end(self) -> None:
        self._syncer.finish(self._works, self._error)
