"""Safeguards to remove, each by one edit of the code that runs, and the worlds in which the removal is caught."""

from __future__ import annotations

from typing import NamedTuple


class Mutant(NamedTuple):
    """One safeguard removed. `old` occurs exactly once in the file."""

    safeguard: str
    file: str
    old: str
    new: str
    faults: tuple[str, ...]
    """Faults in the worlds that reveal the mutant."""
    first_seed: int
    caught_as: tuple[str, ...]
    """Kinds of anomaly, of which one must be found: a broken promise, not merely a crash."""
    brokers: int = 1
    more: tuple[tuple[str, str, str], ...] = ()
    """(file, old, new) of the second place, for a safeguard that is in two places."""
    circumstances: tuple[str, ...] = ()
    """Other circumstances of these worlds, by their names in run_mutant.py."""

    @property
    def edits(self) -> tuple[tuple[str, str, str], ...]:
        return (self.file, self.old, self.new), *self.more


_LOST = (
    "not-on-disk",
    "nonmonotonic-send",
    "lost-write",
    "lost-read",
    "watermark-went-back",
    "vanished",
    "inconsistent-offset",
    "moved",
)

_POWER = ("power cut", "power cut in the middle", "clean restart")

MUTANTS = (
    Mutant(
        "answer only after the sync",
        "broker/replicas/partition.py",
        "if self.config.write_caching:",
        "if True:",
        _POWER,
        0,
        ("not-on-disk",),
    ),
    Mutant(
        "a sync covers what was there when it began",
        "storage/syncing.py",
        "under_way = self._under_way.popleft()",
        "under_way = self._under_way.popleft(); under_way.end = self._bounds.end",
        _POWER,
        7,
        _LOST,
    ),
    Mutant(
        "a failed sync fails the directory",
        "storage/syncing.py",
        "if error is not None:",
        "if error is not None and False:",
        ("failed sync", "power cut"),
        4,
        _LOST,
    ),
    Mutant(
        "a roll syncs the directory's names",
        "storage/syncing.py",
        "directories = (self._chain.folder.path,) if self._dirty_directory else ()",
        "directories = ()",
        _POWER,
        2,
        _LOST,
    ),
    Mutant(
        "CRC on recovery",
        "storage/segment/walk.py",
        "if not self._fits(header) or crc32c(view[CRC_START:]) != header.crc or not self._is_proved(header):",
        "if not self._fits(header) or not self._is_proved(header):",
        _POWER,
        133,
        ("unreadable", "phantom", *_LOST),
    ),
    Mutant(
        "recovery syncs what it kept",
        "storage/recovery.py",
        "for file in [segment.file, *segment.write_indexes()]:",
        "for file in segment.write_indexes():",
        ("kill", "power cut"),
        0,
        _LOST,
        more=(  # gathered syncs also sync logs that were not submitted
            ("broker/replicas/unreadable.py", "with directory.disk.gathered(directory.path):", "if True:"),
            ("broker/replicas/reconcile.py", "if count > _FEW", "if False"),
        ),
    ),
    Mutant(
        "retried batches are recognized",
        "storage/producers/producers.py",
        "if mark[0] == last_sequence and mark.first_sequence == first_sequence:",
        "if False:",
        _POWER,
        0,
        ("stuck",),
    ),
    Mutant(
        "producer state is replayed after a crash",
        "storage/producers/replay.py",
        "if header.producer_id >= 0 and header.last_offset >= start and header.next_offset <= end_offset:",
        "if False:",
        _POWER,
        6,
        ("duplicate",),
    ),
    Mutant(
        "readers stop at the high watermark",
        "broker/handlers/fetch.py",
        "limit = log.end_offset if watch.session.replica else stable if committed else high_watermark",
        "limit = log.end_offset",
        _POWER,
        13,
        ("lost-read", "inconsistent-offset", "vanished", "duplicate"),
    ),
    Mutant(
        "DeleteRecords is on disk before it is answered",
        "broker/handlers/delete_records.py",
        "if done and not call.node.replicas.upkeep.note_starts():",
        "if False:",
        _POWER,
        8,
        ("deletion-undone", "start-went-back"),
    ),
    Mutant(
        "a coordinator holds its answers",
        "broker/coordinators/shard_runner.py",
        "if not self._held and self._partition.log.high_watermark >= self._through:",
        "if True:",
        _POWER,
        6,
        ("lost-commit",),
    ),
    Mutant(
        "what a failed sync has dropped is written again",
        "storage/recovery.py",
        "if again:",
        "if False:",
        ("failed sync", "power cut"),
        1,
        ("stuck", "unreadable", "poll-skip", *_LOST),
    ),
)
