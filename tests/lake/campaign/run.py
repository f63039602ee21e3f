"""A campaign from beginning to end: one place after another under kills, then the last loads and the verdicts."""

from __future__ import annotations

import contextlib
import os
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.lake.campaign.kills import Siege, kinds
from tests.lake.campaign.places import PLACES, Place, PlainFiles
from tests.lake.campaign.processes import BrokerProcess, Stuck
from tests.lake.campaign.producing import Feed, topic_differences
from tests.lake.campaign.topics import TOPICS, Topic
from tests.lake.campaign.verdict import Verdict, judge
from tests.lake.campaign.watcher import Watcher
from tests.ports import free_port

from ottla.client.blocking.admin import Admin
from ottla.registry.server import RegistryThread

VALUES = ("json", "avro", "protobuf")


@dataclass(frozen=True)
class Scale:
    """The size of a campaign."""

    rows: int
    kills: int
    seed: int
    places: tuple[str, ...] = tuple(PLACES)
    values: tuple[str, ...] = VALUES
    minutes: float = float("inf")
    """The kills end after this time."""


@dataclass
class Outcome:
    """The result of one lake."""

    place: str
    values: str
    siege: Siege
    looks: int = 0
    verdict: Verdict = field(default_factory=Verdict)

    @property
    def differences(self) -> list[str]:
        return [f"{self.place} {self.values}: {each}" for each in self.siege.differences + self.verdict.differences]


@dataclass
class Ended:
    """The results of all lakes."""

    outcomes: list[Outcome]
    differences: list[str]


class Campaign:
    """The broker, the registry and the producer that all places share."""

    def __init__(self, scale: Scale, folder: Path, tell: Callable[[str], None]) -> None:
        self.scale, self.folder, self.tell = scale, folder, tell
        self.topics = [each for each in TOPICS if each.kind in scale.values]
        self._chance = random.Random(scale.seed)
        self._began = time.monotonic()
        self._left = len(scale.places) * len(scale.values)
        self._kills_left = scale.kills

    def run(self) -> Ended:
        for name in [name for name in os.environ if name.startswith(("AWS_", "HADOOP_"))]:
            del os.environ[name]
        outcomes: list[Outcome] = []
        with contextlib.ExitStack() as stack:
            self._broker = BrokerProcess(self.folder, free_port())
            stack.callback(self._broker.kill)
            admin = Admin(self._broker.bootstrap)
            for topic in self.topics:
                admin.create_topic(topic.name, topic.partitions)
            self._registry = stack.enter_context(RegistryThread(self._broker.bootstrap, port=0))
            self._feed = Feed(self._broker.bootstrap, self._registry.url, self.topics, self.scale.rows)
            places = []
            for name in self.scale.places:
                places.append(PLACES[name](self.folder))
                stack.callback(places[-1].close)
            for place in places:
                outcomes += [self._besiege(place, kind) for kind in self.scale.values]
            return Ended(outcomes, self._judged(places, outcomes))

    def _besiege(self, place: Place, kind: str) -> Outcome:
        """Load one lake while the processes that it needs are killed."""
        self._feed.allow(1 / (len(self.scale.places) * len(self.scale.values)))
        self.tell(f"{place.name} {kind}: begins, {self._feed.sent:,} records sent")
        share = 0 if self._minutes() > self.scale.minutes else -(-self._kills_left // self._left)
        self._left -= 1
        siege = Siege(place, self._broker, self._arguments(place, kind), self.folder, self._chance, self.tell)
        outcome = Outcome(place.name, kind, siege)
        if not share:
            return outcome
        siege.begin()
        strikes = kinds(place, self._chance)
        watcher = Watcher(place, kind, random.Random(self._chance.random())) if isinstance(place, PlainFiles) else None
        try:
            with watcher or contextlib.nullcontext():
                for _ in range(share):
                    if self._minutes() > self.scale.minutes:
                        break
                    self._feed.hurry()
                    siege.strike(next(strikes))
                    self._kills_left -= 1
                siege.end()
        except Stuck as stuck:
            siege.differences.append(str(stuck))
        finally:
            siege.abandon()
        if watcher is not None:
            outcome.looks = watcher.looks
            siege.differences += watcher.faults
        return outcome

    def _arguments(self, place: Place, kind: str) -> list[str]:
        names = [each.name for each in self.topics if each.kind == kind]
        options = [
            *names, "--to", place.url(kind), "-b", self._broker.bootstrap, "--continuous",
            "--max-offsets", str(max(1_000, self.scale.rows // 20)), "--dead-letter", self._dead_letter(place, kind),
            "--values", kind, *place.options(kind),
        ]  # fmt: skip
        return options if kind == "json" else [*options, "--registry", self._registry.url]

    def _judged(self, places: Sequence[Place], outcomes: Sequence[Outcome]) -> list[str]:
        """All differences, after a last load into each lake."""
        self._feed.finish()
        bootstrap = self._broker.bootstrap
        self.tell(f"{self._feed.sent:,} records sent; comparing the topics with what was acknowledged")
        differences = [*self._feed.faults, *topic_differences(bootstrap, self._feed)]
        by_name = {place.name: place for place in places}
        for outcome in outcomes:
            place, kind = by_name[outcome.place], outcome.values
            self.tell(f"{place.name} {kind}: last load")
            try:
                outcome.siege.last_load()
                topics: list[Topic] = [each for each in self.topics if each.kind == kind]
                letters = self._dead_letter(place, kind)
                outcome.verdict = judge(place, kind, topics, self._feed, bootstrap, letters)
            except Exception as fault:  # a reader that fails is a finding, and the other lakes are still to be judged
                outcome.siege.differences.append(f"it cannot be judged: {fault!r}")
            for each in outcome.differences:
                self.tell(f"DIFFERENCE {each}")
            differences += outcome.differences
        return differences

    def _minutes(self) -> float:
        return (time.monotonic() - self._began) / 60

    @staticmethod
    def _dead_letter(place: Place, kind: str) -> str:
        return f"dead.{place.name}.{kind}"
