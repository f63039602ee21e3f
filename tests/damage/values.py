"""Values passed between the parts of the campaign: records written, records seen afterwards, and findings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from ottla.kernel.ids import TopicPartition

ONE, FIRST, LAST, ALONE = "one", "first", "last", "alone"
CLEAN, KILL = "clean", "kill"


class Content(NamedTuple):
    """A record without its offset."""

    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


OFFSETS_TOPIC, TRANSACTIONS_TOPIC = "__consumer_offsets", "__transaction_state"
PROBE = Content(1, b"probe", b"written after the start")
"""The record that is written to each partition after the start."""


class Case(NamedTuple):
    """One damage to one file."""

    kind: str
    harm: str
    stop: str
    """`clean` or `kill`: how the brokers ended before it."""
    setting: str
    """`one` broker, or three with the damaged one started `first`, `last` or `alone` at first."""
    path: str
    stratum: str = ""
    """The part of the file in which the bit lies."""

    @property
    def name(self) -> str:
        harm = f"{self.harm} {self.stratum}" if self.stratum else self.harm
        return f"{self.kind}:{harm}:{self.stop}:{self.setting}:{self.path}"


@dataclass(frozen=True)
class Written:
    """One partition as it was read before the damage, all of it acknowledged."""

    start: int
    end: int
    records: Mapping[int, Content]
    compacted: bool = False
    earlier: Mapping[int, Content] = field(default_factory=dict)
    """Records that compaction has removed; a replica that has not compacted yet may still show them."""
    times: Mapping[int, int] = field(default_factory=dict)
    """Answers of ListOffsets to some timestamps."""
    last_batch: bytes = b""
    """The last batch of an idempotent producer; sent again, it must get its first offset."""
    last_batch_offset: int = -1

    @property
    def last_contents(self) -> list[Content]:
        """The records of that batch."""
        return [content for offset, content in self.records.items() if offset >= self.last_batch_offset >= 0]


@dataclass(frozen=True)
class Known:
    """Everything that must be there afterwards."""

    logs: Mapping[TopicPartition, Written]
    offsets: Mapping[str, Mapping[TopicPartition, int]]
    configs: Mapping[str, Mapping[str, str]]


@dataclass
class LogView:
    """One partition as one broker showed it."""

    error: str = ""
    """The reason why nothing of the log could be read."""
    start: int = -1
    visible_to: int = -1
    """The high watermark."""
    records: dict[int, Content] = field(default_factory=dict)
    refused: dict[int, str] = field(default_factory=dict)
    """Offsets at which a fetch got an error."""
    garbled: set[int] = field(default_factory=set)
    """Offsets at which a fetch got bytes that differ from their checksum."""
    times: dict[int, int] = field(default_factory=dict)


@dataclass
class View:
    """The cluster as clients saw it at one moment."""

    when: str
    logs: dict[TopicPartition, LogView] = field(default_factory=dict)
    leaders: dict[TopicPartition, int] = field(default_factory=dict)
    offsets: dict[str, Mapping[TopicPartition, int] | str] = field(default_factory=dict)
    """Committed offsets by group; a text is the error."""
    configs: dict[str, Mapping[str, str] | str] = field(default_factory=dict)
    final: bool = True
    """True if all brokers that can run were running, so that nothing may still come late."""


class Start(Enum):
    READY = "ready"
    ENDED = "ended"
    HUNG = "hung"


class Line(NamedTuple):
    """One line of a broker's log."""

    broker: int
    level: str
    text: str


class Probe(NamedTuple):
    """The result of one write after the start: its offset, or the error."""

    log: TopicPartition
    offset: int
    error: str = ""
    again: bool = False
    """True if this was the last batch from before the damage, sent again."""


class Told(NamedTuple):
    """The exit code and the output of a command."""

    code: int
    text: str


@dataclass
class Outcome:
    """Everything that was seen in one case."""

    views: list[View] = field(default_factory=list)
    probes: list[Probe] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    starts: dict[int, Start] = field(default_factory=dict)
    stops: dict[int, int | None] = field(default_factory=dict)
    """Exit statuses after SIGTERM; None if a broker had to be killed."""
    fell: list[int] = field(default_factory=list)
    """Brokers that were ready and ended by themselves."""
    changed: list[str] = field(default_factory=list)
    """Segments of sound replicas, or of a broker that refused to start, that lost bytes."""
    out_of_sync: list[TopicPartition] = field(default_factory=list)
    differing: list[TopicPartition] = field(default_factory=list)
    """Partitions of which another client read something else than ours."""
    checked: Told | None = None
    """`ottla log check` of the damaged log directory, before the start."""
    doctored: Told | None = None
    """`ottla doctor`, once all was read."""
    restored: bool = False
    """True if the damaged file has the same bytes as before when the case is over."""
    took_s: float = 0.0


class Finding(NamedTuple):
    """One thing that a judge condemns."""

    word: str
    what: str
