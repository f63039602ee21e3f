"""Scenes with a fake wall clock: broker processes start with it, or it is set while they run; then all is read back.

The clock is that of a small library that is compiled here and preloaded (fake_clock.c). Nothing that was acknowledged
may be gone, every broker whose clock is off says so once, and `ottla clock accept` ends the doubt.
"""

from __future__ import annotations

import json
import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tests.damage.brokers import BrokerProcess, Brokers, until
from tests.damage.reading import SETTINGS
from tests.damage.values import Start
from tests.forked_program import run_program

from ottla.client.blocking.admin import Admin
from ottla.client.blocking.cluster import Cluster
from ottla.client.errors import ClientError
from ottla.client.model import CommittedOffset
from ottla.kernel.errors import ApiError
from ottla.kernel.ids import TopicPartition
from ottla.records.builder import build_batch
from ottla.records.reader import Record, read_run

DAY_MS = 86_400_000
OFFS_MS = {"-1 day": -DAY_MS, "+1 day": DAY_MS, "+30 days": 30 * DAY_MS, "+1 year": 365 * DAY_MS}
WHO = ("one", "all of three", "a follower that leads later", "the leader")
WHEN = ("at start", "later")
GROUP = "readers"
YOUNG, ANY_AGE = TopicPartition("young", 0), TopicPartition("any-age", 0)
IN_2100_MS = 4_102_444_800_000
_COUNT = 60
_NOTICES_WITHIN_S = 40
_AFTER_S = 4
"""Some rounds of retention, which come twice a second here."""
_EARLIEST, _LATEST = -2, -1


class Scene(NamedTuple):
    who: str
    when: str
    off: str

    @property
    def name(self) -> str:
        return f"{self.who}: clock {self.off} {self.when}"


SCENES = [Scene(who, when, off) for who in WHO for when in WHEN for off in OFFS_MS]


def library(folder: Path) -> Path:
    """The compiled clock."""
    made = folder / "fake_clock.so"
    if not made.exists():
        source = Path(__file__).with_name("fake_clock.c")
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", made, source, "-ldl"], check=True)
    return made


class FakeClocks:
    """Brokers, each with a wall clock that can be set."""

    def __init__(self, folder: Path, count: int) -> None:
        self.folder = folder
        self.brokers = Brokers(folder, count, scrubs=False)
        for number, broker in self.brokers.of.items():
            self.set(number, 0)
            broker.options |= {"offsets.retention.check.interval.ms": "500"}
            broker.environment = {"LD_PRELOAD": str(library(folder)), "FAKE_CLOCK": str(self._file(number))}

    def _file(self, number: int) -> Path:
        return self.folder / f"clock-{number}"

    def set(self, number: int, off_ms: int) -> None:
        """Written in place: a running broker has the file mapped."""
        with self._file(number).open("r+b" if self._file(number).exists() else "wb") as file:
            file.write(struct.pack("<q", off_ms))

    def start(self, *numbers: int) -> None:
        began = self.brokers.start(*numbers)
        assert set(began.values()) == {Start.READY}, (began, self.brokers.lines()[-5:])


def play(scene: Scene, folder: Path) -> list[str]:
    """Play one scene; return what was wrong."""
    folder.mkdir(parents=True, exist_ok=True)
    place = FakeClocks(folder, 1 if scene.who == "one" else 3)
    try:
        place.start()
        leader = _write(place.brokers)
        if scene.who == "a follower that leads later":
            chosen = [next(number for number in place.brokers.of if number != leader)]
        else:
            chosen = [leader] if scene.who == "the leader" else list(place.brokers.of)
        return list(_findings(place, scene, chosen))
    finally:
        place.brokers.kill()


def _findings(place: FakeClocks, scene: Scene, chosen: list[int]) -> Iterator[str]:
    off_ms = OFFS_MS[scene.off]
    if scene.when == "at start":
        for number in chosen:
            place.brokers.of[number].stop()
    for number in chosen:
        place.set(number, off_ms)
    if scene.when == "at start":
        place.start(*chosen)
    for number in chosen:
        if not until(lambda number=number: _warnings(place.brokers.of[number]), _NOTICES_WITHIN_S):  # type: ignore[misc]
            yield f"broker {number} says nothing of its clock"
    time.sleep(_AFTER_S)  # that nothing happens cannot be waited for
    if scene.who == "a follower that leads later":
        for number, broker in place.brokers.of.items():
            if number not in chosen:
                broker.kill()
        time.sleep(_AFTER_S)
    yield from _what_is_gone(place.brokers)
    for number in chosen:
        if len(said := _warnings(place.brokers.of[number])) > 1:
            yield f"broker {number} speaks of its clock {len(said)} times"
    if scene.who != "a follower that leads later":
        yield from _doubt_ends(place.brokers, off_ms, chosen)


def _warnings(broker: BrokerProcess) -> list[str]:
    return [line.text for line in broker.lines() if line.level == "warning" and "ottla clock accept" in line.text]


def _write(brokers: Brokers) -> int:
    """Write records that are young, records of any age where they may be kept, and a group's offset."""
    now_ms = int(time.time() * 1000)
    replicas = min(len(brokers.of), 3)
    with Admin(brokers.bootstrap, settings=SETTINGS) as admin:
        admin.create_topic(YOUNG.topic, replication_factor=replicas)
        admin.create_topic(ANY_AGE.topic, replication_factor=replicas, configs={
            "retention.ms": "-1", "message.timestamp.after.max.ms": str((1 << 63) - 1)})  # fmt: skip
        cluster = admin.cluster
        for number in range(_COUNT):
            value, age_ms = b"%d" % number, (0, now_ms, IN_2100_MS)[number % 3]
            cluster.produce(YOUNG.topic, YOUNG.partition, build_batch([Record(0, now_ms, b"k", value)]))
            cluster.produce(ANY_AGE.topic, ANY_AGE.partition, build_batch([Record(0, age_ms, b"k", value)]))
        cluster.commit_offsets(GROUP, {YOUNG: CommittedOffset(_COUNT)})
        leader: int = cluster.topics()[YOUNG.topic].partitions[YOUNG.partition].leader
        return leader


def _what_is_gone(brokers: Brokers) -> Iterator[str]:
    with Admin(brokers.bootstrap, settings=SETTINGS) as admin:
        for log in (YOUNG, ANY_AGE):
            wanted = [b"%d" % number for number in range(_COUNT)]
            if (found := _read(admin.cluster, log)) != wanted:
                yield f"{log}: {len(found)} of {_COUNT} records are there"
        until(lambda: _offset(admin) == _COUNT, 20)
        if (offset := _offset(admin)) != _COUNT:
            yield f"the group's offset is {offset}, not {_COUNT}"


def _offset(admin: Admin) -> int | None:
    with suppress(ApiError, ClientError):
        held = admin.cluster.committed_offsets(GROUP).get(YOUNG)
        return None if held is None else held.offset
    return None


def _read(cluster: Cluster, log: TopicPartition) -> list[bytes]:
    """All values, from the leader's first offset to its end, once it has a leader."""
    until(lambda: _led(cluster, log), 60)
    first, end = (cluster.list_offsets([log], spec)[log].offset for spec in (_EARLIEST, _LATEST))
    pieces = cluster.fetch_range(log.topic, log.partition, first, end) if first < end else ()
    return [record.value or b"" for piece in pieces for record in read_run(piece.records)]


def _led(cluster: Cluster, log: TopicPartition) -> bool:
    with suppress(ApiError, ClientError):
        return cluster.topics()[log.topic].partitions[log.partition].leader >= 0
    return False


def _doubt_ends(brokers: Brokers, off_ms: int, chosen: list[int]) -> Iterator[str]:
    """An administrator says that it is the time of the clocks that are off."""
    said = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + off_ms / 1000))
    _ottla(brokers, "accept", "--time", said)
    told = _ottla(brokers, "describe", "--format", "json")
    if not told.stdout:
        yield f"`ottla clock describe` says nothing: {told.stderr}"
        return
    for clock in json.loads(told.stdout):
        if clock["broker"] in chosen and (clock["ahead_ms"] or clock["behind_ms"]):
            yield f"the doubt of broker {clock['broker']} has not ended: {clock}"


def _ottla(brokers: Brokers, *words: str) -> subprocess.CompletedProcess[str]:
    ran = run_program(["clock", *words, "-b", brokers.bootstrap])
    return subprocess.CompletedProcess(ran.args, ran.returncode, ran.stdout.decode(), ran.stderr.decode())
