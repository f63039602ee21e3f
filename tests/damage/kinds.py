"""The kind of every file of a broker and of the store: what it concerns, and when its damage may be silent.

A file of no kind is an error, so that a new file of the broker comes with an entry here. Sockets have none: they hold
nothing, and each start makes them anew.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from tests.damage.harms import HARMS

from ottla.kernel.ids import TopicPartition


class Concerns(Enum):
    """The largest part of the cluster that the loss of a file may affect."""

    PARTITION = "one partition"
    BROKER = "one broker"
    STORE = "the metadata store"


class Kind(NamedTuple):
    name: str
    concerns: Concerns
    may_refuse: bool = False
    """True if a broker may refuse to start without this file, with a sentence that names it."""
    silent: frozenset[str] = frozenset()
    """Damages that need not be reported; `reason` says why."""
    reason: str = ""
    holds_records: bool = False
    """True if a partition with one replica may refuse to serve records while this file is missing."""
    unchecked: frozenset[str] = frozenset()
    """Damages that `ottla log check` does not name: only the cluster's metadata shows them, or no log is concerned."""
    silent_alone: frozenset[str] = frozenset()
    """Damages that need not be reported by a broker that is the only one."""
    silent_bits: tuple[str, ...] = ()
    """Strata (harms.py) whose names begin so: a flipped bit there may stay unnoticed."""


EVERY = frozenset(HARMS)
ADVISORY = "it says how far some work has come; the work begins anew"


def may_be_silent(kind: Kind, harm: str, stratum: str, *, alone: bool) -> bool:
    """True if the damage may stay unreported; `alone` if the cluster has one broker.

    An offset in a time index may lie anywhere in its batch. Of the segment that is written a start looks up the last
    time entry alone; searches by time pass over a wrong one, and a scrub finds it once the segment is closed.
    """
    return harm in kind.silent or (alone and harm in kind.silent_alone) or stratum.startswith(kind.silent_bits)


_FIRST = (
    Kind("first segment", Concerns.PARTITION, holds_records=True),
    Kind("closed segment", Concerns.PARTITION, holds_records=True),
    Kind("active segment", Concerns.PARTITION, holds_records=True),
    Kind(
        "closed index",
        Concerns.PARTITION,
        silent=frozenset({"emptied", "halved", "older"}),
        reason="an index without its last entry is a right one, if need be empty; a scrub finds what lacks more",
    ),
    Kind(
        "active index",
        Concerns.PARTITION,
        silent=frozenset({"bit", "emptied", "halved", "older"}),
        reason="reads pass over a wrong entry, and behind the recovery point none need be there; a scrub finds it then",
    ),
    Kind("closed timeindex", Concerns.PARTITION, silent_bits=("offset",)),
    Kind(
        "active timeindex",
        Concerns.PARTITION,
        silent_bits=("offset", "timestamp of the first entry", "timestamp of the middle entry"),
    ),
    Kind("transaction index", Concerns.PARTITION),
    Kind(
        "aborted-transactions-checkpoint",
        Concerns.PARTITION,
        silent=EVERY,
        reason="it is a second witness of the transaction indexes; without it they are compared with the batches",
    ),
    Kind(
        "newest snapshot",
        Concerns.PARTITION,
        silent=frozenset({"removed"}),
        reason="after a kill one inside a segment need not be there; without it more batches are read",
    ),
    Kind(
        "earlier snapshot",
        Concerns.PARTITION,
        silent=EVERY,
        reason="it is read only where the log is cut below the newest one",
    ),
    Kind("leader-epoch-checkpoint", Concerns.PARTITION),
    Kind("partition.metadata", Concerns.PARTITION, holds_records=True),
    Kind(
        "damage-checkpoint",
        Concerns.PARTITION,
        silent=frozenset({"removed"}),
        reason="here it is empty, as after a repair; a log without damage need have none",
    ),
    Kind("partition directory", Concerns.PARTITION, holds_records=True),
    Kind(
        "recovery-point-offset-checkpoint",
        Concerns.BROKER,
        silent=frozenset({"older"}),
        reason="an earlier recovery point is a true one: more is checked",
    ),
    Kind("log-start-offset-checkpoint", Concerns.BROKER),
    Kind(
        "replication-offset-checkpoint",
        Concerns.BROKER,
        silent=frozenset({"older"}),
        reason="an earlier high watermark is a true lower bound",
    ),
    Kind("cleaner-offset-checkpoint", Concerns.BROKER, silent=frozenset({"older", "removed"}), reason=ADVISORY),
    Kind("scrub-offset-checkpoint", Concerns.BROKER, silent=EVERY, reason=ADVISORY),
    Kind(
        ".kafka_cleanshutdown",
        Concerns.BROKER,
        silent=frozenset({"removed"}),
        reason="without it the broker was killed, and all unchecked batches are checked",
    ),
    Kind("meta.properties", Concerns.BROKER, may_refuse=True, unchecked=frozenset({"bit", "older"})),
    Kind(
        "port",
        Concerns.BROKER,
        silent=frozenset({"removed", "bit"}),
        reason="without it a free port is chosen, and another number is a port too",
        unchecked=EVERY,
    ),
    Kind(
        ".page-cache",
        Concerns.BROKER,
        silent=EVERY,
        reason="a power cut may take it at any time; without it more is checked",
    ),
    Kind(
        "clock",
        Concerns.BROKER,
        silent=frozenset({"removed", "older"}),
        reason="without it the dates of the checkpoints tell when the broker ran last; an earlier time proves less",
        unchecked=EVERY,
    ),
    Kind("incarnation", Concerns.BROKER),
    Kind("incarnation.second", Concerns.BROKER),
    Kind(
        "age",
        Concerns.BROKER,
        reason="the store of a single broker goes back together with its directory: no age is compared",
        holds_records=True,
        unchecked=EVERY,
        silent_alone=frozenset({"removed", "older", "link"}),
    ),
    Kind(".lock", Concerns.BROKER, may_refuse=True, silent=EVERY, reason="nothing is in it"),
    Kind(
        "log directory",
        Concerns.BROKER,
        may_refuse=True,
        holds_records=True,
        unchecked=frozenset({"emptied", "removed", "older"}),
    ),
    Kind(
        "metadata.db",
        Concerns.STORE,
        may_refuse=True,
        silent=frozenset({"bit"}),
        reason="entries and snapshots have checksums; other bytes of its pages are room that SQLite does not use",
    ),
    Kind(
        "metadata.db-journal",
        Concerns.STORE,
        may_refuse=True,
        silent=EVERY,
        reason="it holds nothing between two transactions",
    ),
    Kind("stored age", Concerns.STORE, silent=EVERY, reason="an age that the store does not know proves nothing"),
    Kind("broker lock", Concerns.STORE, may_refuse=True, silent=EVERY, reason="only the lock on it counts"),
)

_SECOND_COPIES = tuple(
    Kind(f"{name}.copy", concerns, silent=EVERY, reason=f"it is read only where {name} is damaged")
    for name, concerns in (
        ("partition.metadata", Concerns.PARTITION),
        ("recovery-point-offset-checkpoint", Concerns.BROKER),
        ("log-start-offset-checkpoint", Concerns.BROKER),
        ("replication-offset-checkpoint", Concerns.BROKER),
        ("cleaner-offset-checkpoint", Concerns.BROKER),
    )
)
KINDS = {kind.name: kind for kind in _FIRST + _SECOND_COPIES}

_BROKER = r"broker-(?P<broker>\d+)/"
_PARTITION = _BROKER + r"(?P<topic>[^/]+)-(?P<partition>\d+)"
_IN_PARTITION = re.compile(_PARTITION + r"/(?P<name>[^/]+)")
_OF_PARTITION = re.compile(_PARTITION)
_SEGMENT_FILE = re.compile(r"(?P<base>\d{20})\.(?P<suffix>log|index|timeindex|snapshot|txnindex)")
_STORE = re.compile(r"(store|broker-\d+/metadata)/(?P<name>.+)")
_OF_STORE = (
    (re.compile(r"metadata\.db"), "metadata.db"),
    (re.compile(r"metadata\.db-journal"), "metadata.db-journal"),
    (re.compile(r"brokers/\d+\.lock"), "broker lock"),
    (re.compile(r"brokers/[\w-]+\.age"), "stored age"),
)


class UnknownFile(Exception):
    """A broker's directory holds a file that has no kind."""


def sort_out(paths: Iterable[str]) -> dict[str, list[str]]:
    """The files by the names of their kinds, with partition directories and log directories.

    Paths are relative to the folder that holds `broker-1`, `broker-2`... and, for several brokers, `store`.
    """
    files = sorted(paths)
    segments = _segments(files)
    found: dict[str, list[str]] = defaultdict(list)
    for path in files:
        found[_kind_of(path, segments)].append(path)
    directories = {match.group() for path in files if (match := _IN_PARTITION.fullmatch(path))}
    found["partition directory"] = sorted({path.rpartition("/")[0] for path in directories})
    found["log directory"] = sorted({path.partition("/")[0] for path in files if path.startswith("broker-")})
    return dict(found)


def partition_of(path: str) -> TopicPartition | None:
    """The partition in whose directory a file lies; None for files of the broker and the store."""
    match = _IN_PARTITION.fullmatch(path) or _OF_PARTITION.fullmatch(path)
    return None if match is None else TopicPartition(match["topic"], int(match["partition"]))


def is_scrubbed(kind: str) -> bool:
    """True if a scrub reads files of this kind."""
    return kind.endswith(("segment", "index"))


def broker_of(path: str) -> int | None:
    """The broker in whose directory a file lies; None for files of the shared store."""
    match = re.match(r"broker-(\d+)", path)
    return None if match is None else int(match[1])


def _segments(files: Iterable[str]) -> dict[str, dict[str, list[int]]]:
    """Base offsets of the segments and of the snapshots of each partition's directory."""
    found: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for path in files:
        directory, _, name = path.rpartition("/")
        match = _SEGMENT_FILE.fullmatch(name)
        if match is not None and match["suffix"] in ("log", "snapshot"):
            found[directory][match["suffix"]].append(int(match["base"]))
    return found


def _kind_of(path: str, segments: dict[str, dict[str, list[int]]]) -> str:
    store = _STORE.fullmatch(path)
    if store is not None:
        for pattern, kind in _OF_STORE:
            if pattern.fullmatch(store["name"]):
                return kind
        raise UnknownFile(f"{path} has no kind in tests/damage/kinds.py")
    name = path.rpartition("/")[2]
    inside = _IN_PARTITION.fullmatch(path)
    match = _SEGMENT_FILE.fullmatch(name) if inside else None
    if match is not None:
        return _of_segment(int(match["base"]), match["suffix"], segments[path.rpartition("/")[0]])
    known = KINDS.get(name)
    if known is None or (known.concerns is Concerns.PARTITION) != (inside is not None):
        raise UnknownFile(f"{path} has no kind in tests/damage/kinds.py")
    return name


def _of_segment(base: int, suffix: str, known: dict[str, list[int]]) -> str:
    if suffix == "snapshot":
        return "newest snapshot" if base == max(known["snapshot"]) else "earlier snapshot"
    if suffix == "txnindex":
        return "transaction index"
    bases = known["log"]
    is_active = base == max(bases, default=base)
    if suffix == "log":
        return "active segment" if is_active else "first segment" if base == min(bases) else "closed segment"
    return f"{'active' if is_active else 'closed'} {suffix}"
