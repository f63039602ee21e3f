"""The lake's memory on disk, `DIR/_ottla`: one loader at a time, plans before data, publications before names.

    plan-N.json      ranges of round N; synced before any of their records are written
    publish-N.json   the finished temporary files of round N and their final names
    commit-N.json    round N is visible; holds where the lake stands
    tmp/N/           temporary files of round N, which no reader of the lake looks at

Comes from loader.py. Every file appears whole, by rename, and is on disk before the next step is taken.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from ottla.lake.plans import Commit, LakeFile, LoadPlan, Publication
from ottla.lake.stores.base import LakeRefused

STATE = "_ottla"
KEPT_ROUNDS = 50


class LakeState:
    """The state of one lake directory; holds its lock from `__init__` to `close`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.home = directory / STATE
        self.home.mkdir(parents=True, exist_ok=True)
        self._lock = os.open(self.home / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            owner = os.read(self._lock, 64).decode("ascii", "replace").strip()
            os.close(self._lock)
            raise LakeRefused(f"another loader (process {owner or 'unknown'}) is at work on {directory}") from None
        os.ftruncate(self._lock, 0)
        os.write(self._lock, f"{os.getpid()}\n".encode())

    def close(self) -> None:
        """Let the next loader in."""
        os.close(self._lock)

    def __enter__(self) -> LakeState:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def committed(self) -> Commit:
        """Where the lake stands."""
        last = self._last("commit")
        return Commit() if last is None else Commit.from_json(self._read("commit", last))

    def unfinished(self) -> Publication | LoadPlan | None:
        """What the last loader left: a publication to carry through, a plan to do over, or nothing."""
        number = self.committed().number + 1
        if self._path("publish", number).exists():
            return Publication.from_json(self._read("publish", number))
        if self._path("plan", number).exists():
            return LoadPlan.from_json(self._read("plan", number))
        return None

    def write_plan(self, plan: LoadPlan) -> None:
        """Put a plan on disk, over one of the same number whose columns had to be widened."""
        self._write("plan", plan.number, plan.to_json())

    def temporary(self, plan: LoadPlan) -> str:
        """The directory of the plan's temporary files, relative to the lake; emptied of an earlier attempt's."""
        relative = f"{STATE}/tmp/{plan.number}"
        shutil.rmtree(self.directory / relative, ignore_errors=True)
        (self.directory / relative).mkdir(parents=True)
        return relative

    def write_publication(self, publication: Publication) -> None:
        """From here on the round is carried through. Its temporary files are on disk already, their names too."""
        if (self.directory / STATE / "tmp" / str(publication.plan.number)).is_dir():
            sync_directory(self.directory / STATE / "tmp" / str(publication.plan.number))
        self._write("publish", publication.plan.number, publication.to_json())

    def reveal(self, files: Iterable[LakeFile]) -> None:
        """Give files their final names; those that have them from an earlier attempt are left alone."""
        touched: set[Path] = set()
        for file in files:
            final, temporary = self.directory / file.final, self.directory / file.temporary
            if not temporary.exists():
                if not final.exists():
                    raise LakeRefused(f"{final} is missing, and {temporary} too: somebody removed them")
                continue
            self._make_directories(final.parent, touched)
            os.rename(temporary, final)
            touched.add(final.parent)
        for directory in sorted(touched):
            sync_directory(directory)

    def write_commit(self, commit: Commit) -> None:
        """The round is done; what older rounds left behind goes."""
        self._write("commit", commit.number, commit.to_json())
        shutil.rmtree(self.home / "tmp" / str(commit.number), ignore_errors=True)
        for old in sorted(self._numbers("commit")):
            if old <= commit.number - KEPT_ROUNDS:
                for kind in ("plan", "publish", "commit"):
                    self._path(kind, old).unlink(missing_ok=True)

    def _make_directories(self, directory: Path, touched: set[Path]) -> None:
        if directory.is_dir():
            return
        self._make_directories(directory.parent, touched)
        directory.mkdir(exist_ok=True)
        touched.add(directory.parent)

    def _path(self, kind: str, number: int) -> Path:
        return self.home / f"{kind}-{number:010d}.json"

    def _numbers(self, kind: str) -> list[int]:
        return [int(path.stem.split("-")[1]) for path in self.home.glob(f"{kind}-*.json")]

    def _last(self, kind: str) -> int | None:
        return max(self._numbers(kind), default=None)

    def _read(self, kind: str, number: int) -> Mapping[str, object]:
        stored = json.loads(self._path(kind, number).read_text("utf-8"))
        if not isinstance(stored, dict):
            raise LakeRefused(f"{self._path(kind, number)} is damaged")
        return stored

    def _write(self, kind: str, number: int, content: Mapping[str, object]) -> None:
        path = self._path(kind, number)
        temporary = path.with_suffix(".tmp")
        with open(temporary, "w", encoding="utf-8") as out:
            json.dump(content, out)
            out.flush()
            os.fsync(out.fileno())
        os.rename(temporary, path)
        sync_directory(self.home)


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
