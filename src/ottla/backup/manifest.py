"""A backup as a value: topics, files with checksums, groups, rights; and its text in the store. Pure.

A manifest names every file of its backup. It is put last, where none stands, and never changed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from ottla.kernel.ids import TopicPartition

FORMAT: Final = 1
FOLDER: Final = "backups/"
DATA: Final = "data/"
GROUPS_TOPIC: Final = "__consumer_offsets"
"""Copied like any other topic, so that its transactions are cut where those of the other topics are."""
LEFT_OUT: Final = frozenset(
    {"__transaction_state", "__cluster_metadata", "__remote_log_metadata", "__share_group_state"}
)
"""Topics that say nothing without the cluster whose they are."""
Transaction = tuple[int, int]
"""A producer's id and the epoch of its batches: one transaction, since each has an epoch of its own (KIP-890)."""


class BackupRefused(Exception):
    """The backup or the restore cannot go on by itself; the sentence says what to do."""


@dataclass(frozen=True, slots=True)
class BackupFile:
    """Committed batches of one partition, byte for byte as the broker has them, between two offsets."""

    name: str
    first: int
    """The offset that was asked for: the first batch is there or behind."""
    end: int
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class PartitionCopy:
    """One partition: its offsets when the backup was taken, and the files that hold its records."""

    start: int
    """The first offset that the cluster kept."""
    end: int
    """The last stable offset: all below is decided."""
    files: tuple[BackupFile, ...] = ()
    last_batch: tuple[int, int] | None = None
    """Base offset and CRC of the last batch that was copied: the next backup looks whether it is still there."""
    whole_bytes: int = 0
    """The size of the files when the partition was last copied as a whole."""

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)


@dataclass(frozen=True, slots=True)
class TopicCopy:
    """One topic: its id and configurations, and its partitions by number."""

    id: str
    replication: int
    configs: dict[str, str]
    partitions: dict[int, PartitionCopy]


@dataclass(frozen=True, slots=True)
class Backup:
    """All of a backup."""

    id: str
    taken_ms: int
    cluster_id: str
    topics: dict[str, TopicCopy]
    torn: tuple[Transaction, ...] = ()
    """Committed transactions of which the cut holds a part: a restore leaves them out, as if they came later."""
    acls: tuple[tuple[Any, ...], ...] = ()
    quotas: tuple[tuple[dict[str, str], dict[str, float]], ...] = ()
    users: tuple[tuple[str, dict[str, int]], ...] = ()
    """Names and mechanisms: no broker tells keys or passwords."""
    broker_configs: dict[str, str] = field(default_factory=dict)
    """Dynamic configurations of all brokers."""
    notes: tuple[str, ...] = ()
    """Sentences about what the backup lacks."""

    def partitions(self) -> Iterator[tuple[TopicPartition, PartitionCopy]]:
        for name, topic in self.topics.items():
            for number, copy in topic.partitions.items():
                yield TopicPartition(name, number), copy

    def files(self) -> Iterator[BackupFile]:
        for _, copy in self.partitions():
            yield from copy.files

    @property
    def name(self) -> str:
        """The manifest's name in the store."""
        return f"{FOLDER}{self.id}.json"


def encoded(backup: Backup) -> bytes:
    """The manifest's text: the checksum of the rest on the first line."""
    body = json.dumps({"format": FORMAT, **asdict(backup)}, separators=(",", ":"), sort_keys=True).encode()
    return hashlib.sha256(body).hexdigest().encode() + b"\n" + body + b"\n"


def decoded(text: bytes, name: str) -> Backup:
    """The backup of a manifest; BackupRefused where the text is not what was written."""
    checksum, _, body = text.partition(b"\n")
    if hashlib.sha256(body.removesuffix(b"\n")).hexdigest().encode() != checksum:
        raise BackupRefused(f"{name} is damaged: its checksum does not hold. Use another backup, or the store's copy")
    found = json.loads(body)
    if found.pop("format") != FORMAT:
        raise BackupRefused(f"{name} was written by a newer ottla: use that one")
    topics = {name: _topic(topic) for name, topic in found.pop("topics").items()}
    for key in ("torn", "acls", "quotas", "users", "notes"):
        found[key] = tuple(_frozen(each) for each in found[key])
    return Backup(topics=topics, **found)


def _topic(found: dict[str, Any]) -> TopicCopy:
    partitions = {int(number): _partition(each) for number, each in found["partitions"].items()}
    return TopicCopy(found["id"], found["replication"], found["configs"], partitions)


def _partition(found: dict[str, Any]) -> PartitionCopy:
    files = tuple(BackupFile(**each) for each in found["files"])
    last = found["last_batch"]
    return PartitionCopy(found["start"], found["end"], files, None if last is None else tuple(last),
                         found["whole_bytes"])  # fmt: skip


def _frozen(given: Any) -> Any:
    return tuple(given) if isinstance(given, list) else given


def kept_and_gone(ids: list[str], keep: int) -> tuple[list[str], list[str]]:
    """The newest ids to keep, and the others; the ids come oldest first."""
    cut = max(0, len(ids) - keep)
    return ids[cut:], ids[:cut]
