"""The loader on a disk whose power is cut before any of its operations: every record is in the lake once.

The topics exist only as numbers, and an attempt writes its files in this process, without Spark. Rounds, their notes,
their publication and the next loader's recovery are the loader's own code, on the simulated disk.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import ClassVar

import pytest
from sim_files import SimFiles

from ottla.kernel.ids import TopicId, TopicPartition
from ottla.lake.notes.plans import HeldRows, LoadPlan, Publication, RangeCount, WrittenFile, counted, named_files
from ottla.lake.notes.state import LakeState
from ottla.lake.rounds import attempt, loader
from ottla.lake.rounds.loader import Loader
from ottla.lake.rounds.settings import LoadSettings, load_settings
from ottla.rows.plan import OffsetRange, split
from ottla.rows.workers import Here
from ottla.sim.disk import SimDisk
from ottla.sim.disk_faults import PowerCut
from ottla.stores.local import LocalStore

LAKE = Path("/srv/lake")
ID = TopicId(b"0123456789abcdef")
A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
MOST_STATES = 2
"""The most states after one cut that the test continues from, drawn at random if there are more."""

Topics = dict[TopicPartition, int]


class NoOthers:
    def check(self) -> None:
        """Do nothing: a power cut ends all processes of the machine."""

    def release(self) -> None:
        """Do nothing: this lease has no file."""


class SimLake(LocalStore):
    """A lake on the simulated disk, used by one process at a time."""

    def __init__(self, disk: SimDisk) -> None:
        super().__init__(LAKE, SimFiles(disk))

    def hold(self, owner: str) -> NoOthers:
        return NoOthers()


class OnPaper:
    """A survey without a cluster: topics that begin at 0 and end at the offsets in `ends`."""

    ends: ClassVar[Topics] = {}
    cluster = None

    def assigned(self, **_: object) -> dict[TopicPartition, TopicId]:
        return dict.fromkeys(self.ends, ID)

    def latest(self, assigned: Topics, known: Topics) -> tuple[Topics, Topics]:
        return dict(self.ends), dict.fromkeys(self.ends, 0)

    def truncated(self, start: object, epochs: Topics) -> Topics:
        return {}

    def earliest(self, partitions: object) -> Topics:
        return dict.fromkeys(self.ends, 0)


class InThisProcess:
    """An attempt: files with a line for each offset. Each attempt at a range makes another number of files."""

    store: SimLake
    attempts = itertools.count()

    def __init__(self, settings: LoadSettings, plan: LoadPlan, known: object, folder: str, *_: object) -> None:
        self.settings, self.plan, self.folder = settings, plan, folder

    def publication(self) -> Publication:
        parts = 1 + next(self.attempts) % 3
        spans = split(list(self.plan.ranges), min_partitions=parts * len(self.plan.ranges), max_records=None)
        files = [self._file(f"{self.folder}{at}", span) for at, span in enumerate(spans)]
        named = named_files(self.plan.number, files, self.settings.shape.layout)
        counts = counted(self.plan, [RangeCount(span, span.size) for span in self.plan.ranges], files)
        return Publication(self.plan, named, (), counts, {}, self.folder)

    def _file(self, name: str, span: OffsetRange) -> WrittenFile:
        output = self.store.open_output(name)
        rows = "".join(f"{span.topic_partition}:{offset}\n" for offset in range(span.start, span.end))
        output.sink.write(rows.encode())
        held = HeldRows(span.partition, span.size, span.start, span.end - 1)
        return WrittenFile(span.topic, name, ("1970-01-01",), span.size, output.finish(), (held,))


class Quiet:
    """A reporter that drops everything."""

    def __init__(self, *_: object) -> None:
        pass

    def asked(self, *_: object) -> None: ...

    def committed(self, *_: object) -> None: ...

    def caught_up(self, *_: object) -> None: ...

    def close(self) -> None: ...


@pytest.fixture
def catch_up(monkeypatch: pytest.MonkeyPatch) -> Callable[[SimDisk, Topics], Loader]:
    """One run of the loader, as `ottla lake load` makes it."""
    monkeypatch.setattr(loader, "cluster", lambda kafka: None)
    monkeypatch.setattr(loader, "Survey", lambda *_, **__: OnPaper())
    monkeypatch.setattr(attempt, "RoundAttempt", InThisProcess)
    monkeypatch.setattr(loader, "Reporter", Quiet)
    monkeypatch.setattr(loader, "past_due", lambda *_: [])
    settings = load_settings(["a", "b"], LAKE, {"max_offsets": 6})

    def run(disk: SimDisk, ends: Topics) -> Loader:
        monkeypatch.setattr(OnPaper, "ends", ends)
        monkeypatch.setattr(InThisProcess, "store", SimLake(disk), raising=False)
        with LakeState(SimLake(disk)) as state:
            running = Loader(settings, state, lambda plan: Here(), lambda text: None)
            running.catch_up()
        return running

    return run


def rows(disk: SimDisk) -> Counter[str]:
    """Every line that a reader of the lake sees."""
    store = SimLake(disk)
    seen: Counter[str] = Counter()
    for entry in store.entries(""):
        if re.fullmatch(r"topic=[^/]+/date=[^/]+/[^/_.][^/]*\.parquet", entry.name):
            seen.update((store.read(entry.name) or b"").decode().splitlines())
    return seen


def all_of(ends: Topics) -> Counter[str]:
    return Counter(f"{partition}:{offset}" for partition, end in ends.items() for offset in range(end))


def ends_whole(catch_up: Callable[[SimDisk, Topics], Loader], disk: SimDisk, ends: Topics) -> None:
    """Check that the next run loads every record, and that the one after it only tidies up."""
    for _ in range(2):
        committed = catch_up(disk, ends).loaded.committed
        assert rows(disk) == all_of(ends)
        assert committed.offsets == ends and committed.rows == ends
    assert SimLake(disk).entries("_ottla/tmp/") == []


def cuts(
    catch_up: Callable[[SimDisk, Topics], Loader], ends: Topics, before: Callable[[], SimDisk], random: Random
) -> Iterator[tuple[int, SimDisk]]:
    """(operation, disk) for each state that a power cut at each operation of a run may leave."""
    whole = before()
    began = whole.operations
    catch_up(whole, ends)
    for cut in range(whole.operations - began):
        disk = before()
        disk.cut_after = disk.operations + cut
        with pytest.raises(PowerCut):
            catch_up(disk, ends)
        states = list(disk.legal_states())
        yield from ((cut, state) for state in random.sample(states, min(MOST_STATES, len(states))))


FIRST, THEN = {A0: 5, B0: 4}, {A0: 9, A1: 2, B0: 4}


def test_a_first_load_is_carried_through_from_every_cut(catch_up):
    seen, many = set(), 0
    for cut, disk in cuts(catch_up, FIRST, SimDisk, Random(1)):
        found = rows(disk)
        assert found <= all_of(FIRST), "a row twice, or of no topic"
        seen.add(found.total())
        many = cut
        ends_whole(catch_up, disk, FIRST)
    assert many > 100 and {0, sum(FIRST.values())} < seen


def test_a_lake_that_stands_takes_more_from_every_cut_and_loses_nothing(catch_up):
    def stands() -> SimDisk:
        disk = SimDisk()
        catch_up(disk, FIRST)
        disk.lose_unsynced()
        assert rows(disk) == all_of(FIRST)
        return disk

    for _, disk in cuts(catch_up, THEN, stands, Random(2)):
        assert all_of(FIRST) <= rows(disk) <= all_of(THEN)
        ends_whole(catch_up, disk, THEN)


def test_a_loader_that_is_cut_again_and_again_comes_to_an_end_with_every_record_once(catch_up):
    """Each run continues from the cut before it, gets a little further and is cut as well."""
    for seed in range(25):
        random = Random(seed)
        disk = SimDisk()
        grown = random.randrange(7)
        for at in range(random.randrange(2, 7)):
            disk.cut_after = disk.operations + random.randrange(120)
            try:
                catch_up(disk, THEN if at >= grown else FIRST)
            except PowerCut:
                disk = random.choice(list(disk.legal_states()))
            else:
                disk.cut_after = None
            assert rows(disk) <= all_of(THEN)
        ends_whole(catch_up, disk, THEN)
