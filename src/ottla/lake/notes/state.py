"""The lake's memory, `_ottla/` on its store: one loader at a time, plans before data, publications before names.

    lake.json        how the lake is laid out, and the loader's name for good; put once
    plan-N.json      ranges of round N; put before any of their records are written
    publish-N.json   the finished files of round N and their final names
    commit-N.json    round N is visible; holds where the lake stands
    forgot-N.json    where the lake stood after round N, its records by window, and what was lost unread, in place of
                     the files of all rounds up to N
    tmp/N-ATTEMPT/   temporary files of one attempt at round N, which no reader of the lake looks at

Plans, publications and commits are put where none stands, never over another: of two loaders that believe themselves
alone one gets a step in, and the other finds it.
"""

from __future__ import annotations

import json
import os
import platform
import re
import uuid
from collections.abc import Mapping

from ottla.lake.columns.shape import LakeShape, difference
from ottla.lake.notes.history import Forgotten, History
from ottla.lake.notes.plans import FORMAT, Commit, LoadPlan, Publication, check_format
from ottla.stores.base import LakeRefused, Store

HOME = "_ottla/"
KEPT_ROUNDS = 50
FORGOTTEN_TOGETHER = 25
"""The rounds that are forgotten at a time, since their windows are added up and written anew each time."""
_READ_AGAIN = 5
_NUMBERED = re.compile(r"_ottla/(plan|publish|commit|forgot)-(\d{10})\.json")
_ATTEMPT = re.compile(r"_ottla/tmp/(\d+)-[0-9a-f]+/")


class LakeRecords:
    """Reads a lake's state, also while a loader is at work."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def shape(self) -> LakeShape | None:
        """The lake's shape; None where nothing was ever loaded."""
        stored = self._read(f"{HOME}lake.json")
        if stored is None:
            return None
        check_format(stored)
        return LakeShape.from_json(stored)

    def noted(self) -> Mapping[str, object]:
        """The options of earlier loads that hold until a load gives others."""
        return self._read(f"{HOME}options.json") or {}

    def is_empty(self) -> bool:
        """True where no round was ever published or committed, as after a first load that was refused."""
        return not self._numbers("commit") and not self._numbers("publish")

    def committed(self) -> Commit:
        """The lake's committed state."""
        last = max(self._numbers("commit"), default=None)
        return Commit() if last is None else Commit.from_json(self._known("commit", last))

    def unfinished(self, committed: Commit) -> Publication | LoadPlan | None:
        """The unfinished round of the last loader: a publication to carry through, a plan to do over, or nothing."""
        number = committed.number + 1
        if (published := self._read(_name("publish", number))) is not None:
            return Publication.from_json(published)
        if (planned := self._read(_name("plan", number))) is not None:
            return LoadPlan.from_json(planned)
        return None

    def publication(self, number: int) -> Publication | None:
        """The publication of a round; None where it is forgotten, or was never."""
        stored = self._read(_name("publish", number)) if number >= 0 else None
        return None if stored is None else Publication.from_json(stored)

    def history(self) -> History:
        """The rounds up to the commit; read again where a loader forgets some meanwhile."""
        for _ in range(_READ_AGAIN):
            found = self._history()
            if found is not None:
                return found
        raise LakeRefused(f"{self.store.url}: its rounds were removed while they were read; try again")

    def _history(self) -> History | None:
        """Read the rounds once; None if a file was removed between its listing and its reading.

        Because of the order of the listings a round that is committed meanwhile is left out, and rounds that are
        forgotten meanwhile are in the sum.
        """
        commits, planned, published, forgotten = map(self._numbers, ("commit", "plan", "publish", "forgot"))
        if not commits:
            return History(Commit(), Forgotten(), ())
        committed = self._read(_name("commit", commits[-1]))
        ledger = self._read(_name("forgot", forgotten[-1])) if forgotten else None
        through = forgotten[-1] if forgotten else -1
        bodies = [self._read(_name("publish", number)) for number in published if through < number <= commits[-1]]
        unplanned = [number for number in commits if number > through and number not in {*planned, *published}]
        others = [self._read(_name("commit", number)) for number in unplanned]
        if committed is None or None in (*bodies, *others) or (forgotten and ledger is None):
            return None
        rounds = tuple(Publication.from_json(body) for body in bodies if body is not None)
        before = Forgotten.from_json(ledger) if ledger is not None else self._before(rounds, commits)
        begun = tuple(Commit.from_json(body) for body in others if body is not None)
        return History(Commit.from_json(committed), before, rounds, begun)

    def _before(self, rounds: tuple[Publication, ...], commits: list[int]) -> Forgotten | None:
        """The state of the lake before its first kept round, without the sum of the removed ones."""
        first = rounds[0].plan.number if rounds else commits[-1] + 1
        if first == 0:
            return Forgotten()
        before = self._read(_name("commit", first - 1))
        return None if before is None else Forgotten(Commit.from_json(before))

    def _numbers(self, kind: str) -> list[int]:
        matches = (_NUMBERED.fullmatch(entry.name) for entry in self.store.entries(HOME, deep=False))
        return sorted(int(match[2]) for match in matches if match is not None and match[1] == kind)

    def _known(self, kind: str, number: int) -> Mapping[str, object]:
        stored = self._read(_name(kind, number))
        if stored is None:
            raise LakeRefused(f"{self.store.url}/{_name(kind, number)} was removed while the lake was read")
        return stored

    def _read(self, name: str) -> Mapping[str, object] | None:
        body = self.store.read(name)
        if body is None:
            return None
        try:
            stored = json.loads(body)
        except ValueError:
            stored = None
        if not isinstance(stored, dict):
            raise LakeRefused(f"{self.store.url}/{name} is damaged")
        return stored


class LakeState(LakeRecords):
    """The state of one lake for its one loader, from `__init__` to `close`."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._hold = store.hold(f"process {os.getpid()} on {platform.node()}")

    def close(self) -> None:
        """Let the next loader in."""
        self._hold.release()

    def __enter__(self) -> LakeState:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def settle(self, shape: LakeShape, *, loader: str = "") -> str:
        """Write the lake's layout, or compare it with the one that is there; returns the loader's final name.

        A new lake's loader is named `loader`, or anyhow. LakeRefused where a lake that stands is laid out otherwise:
        files of two layouts cannot be read as one.
        """
        described = shape.to_json()
        stored = self._read(f"{HOME}lake.json")
        if stored is None:
            if self._numbers("commit"):
                raise LakeRefused(f"{self.store.url}: lake.json is missing beside its rounds; it is damaged")
            stored = {"format": FORMAT, "loader": loader or uuid.uuid4().hex, **described}
            self._create(f"{HOME}lake.json", stored)
        check_format(stored)
        if other := difference(stored, described):
            raise LakeRefused(f"the lake at {self.store.url} {other}. Use the same options, or another --to")
        return str(stored["loader"])

    def shape_anew(self, shape: LakeShape) -> None:
        """Give another shape to a lake that holds nothing yet: the options of its first load were wrong."""
        stored = self._read(f"{HOME}lake.json")
        if stored is not None and self.is_empty() and difference(stored, shape.to_json()):
            check_format(stored)
            self.store.replace(f"{HOME}lake.json", json.dumps({**stored, **shape.to_json()}).encode())

    def adopt(self, commit: Commit) -> None:
        """Write a commit that no round made: the progress in tables after a lost state, or where new topics begin."""
        self._create(_name("commit", commit.number), commit.to_json())

    def note(self, options: Mapping[str, object]) -> None:
        """Keep options for the loads to come."""
        self.store.replace(f"{HOME}options.json", json.dumps(options).encode())

    def write_plan(self, plan: LoadPlan) -> None:
        """Put a plan down before anything of it is read."""
        self._create(_name("plan", plan.number), plan.to_json())

    def attempt(self, plan: LoadPlan) -> str:
        """A new folder for the temporary files of this attempt at a plan."""
        return f"{HOME}tmp/{plan.number}-{uuid.uuid4().hex[:12]}/"

    def write_publication(self, publication: Publication) -> None:
        """Publish a round, whose files are durable already; from here on it is carried through.

        The hold is checked again, because the store may have taken long: the next loader may have loaded the round
        itself meanwhile, and removed the publication that would have kept this one out.
        """
        self._hold.check()
        self._create(_name("publish", publication.plan.number), publication.to_json())
        self._hold.check()

    def write_commit(self, commit: Commit, publication: Publication) -> None:
        """Commit the round; remove the temporary files of this and older rounds."""
        self._create(_name("commit", commit.number), commit.to_json())
        if publication.temporary:
            self.store.remove_folder(publication.temporary)
        old = [number for number in self._numbers("commit") if number <= commit.number - KEPT_ROUNDS]
        if len(old) >= FORGOTTEN_TOGETHER:
            self._forget(old)

    def _forget(self, old: list[int]) -> None:
        """Replace the files of rounds by their sum. After a kill in between, the next call completes this."""
        history, last = self.history(), old[-1]
        rounds = [each for each in history.rounds if each.plan.number <= last]
        stood = Commit.from_json(self._known("commit", last))
        ledgers = self._numbers("forgot")
        before = history.forgotten or Forgotten()
        self._create(_name("forgot", last), before.and_also(rounds, stood).to_json())
        self.store.remove(_name("forgot", number) for number in ledgers)
        self.store.remove(_name(kind, number) for number in old for kind in ("plan", "publish", "commit"))

    def tidy(self, committed: Commit) -> None:
        """Delete temporary files of rounds that are done: loaders that were killed left them.

        The files of the round at work stay: a loader that lost the lake without knowing it may still publish them.
        """
        matches = (_ATTEMPT.match(entry.name) for entry in self.store.entries(f"{HOME}tmp/"))
        done = {match[0] for match in matches if match is not None and int(match[1]) <= committed.number}
        for folder in sorted(done):
            self.store.remove_folder(folder)

    def _create(self, name: str, content: Mapping[str, object]) -> None:
        if not self.store.create(name, json.dumps(content).encode()):
            raise LakeRefused(f"{self.store.url}/{name} is there already: another loader is at work on the lake")


def _name(kind: str, number: int) -> str:
    return f"{HOME}{kind}-{number:010d}.json"
