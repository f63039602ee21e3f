"""The beginning of a connector: with a snapshot, or at a place in the log. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ottla.connect.errors import ConfigException, ConnectException

WITHOUT_SNAPSHOT: Final = ("no_data", "never")


@dataclass(frozen=True, slots=True)
class SlotState:
    """A slot as the server shows it."""

    plugin: str
    database: str
    confirmed_lsn: int
    lost: bool = False


@dataclass(frozen=True, slots=True)
class Beginning:
    """The first thing to do."""

    snapshot: bool
    kept: Mapping[str, Any] | None = None
    """The offset to go on behind, None to begin with the slot."""


def beginning(
    mode: str, kept: Mapping[str, Any] | None, slot: SlotState | None, slot_name: str, database: str
) -> Beginning:
    """The beginning for a snapshot.mode, an offset that was kept and a slot that is there; or a refusal.

    A slot that is there stays: its changes since before the snapshot are told behind it, some of them twice.
    """
    if slot is not None:
        _fitting(slot, slot_name, database)
    if kept is None:
        return Beginning(snapshot=mode not in WITHOUT_SNAPSHOT)
    if in_snapshot(kept):
        return Beginning(snapshot=True)
    if mode == "always":
        return Beginning(snapshot=True)
    if mode == "initial_only":
        return Beginning(snapshot=False, kept=kept)
    if trouble := _gap(kept, slot, slot_name):
        if mode == "when_needed":
            return Beginning(snapshot=True)
        raise ConnectException(f"{trouble}. Delete the connector's offsets to take a new snapshot, or set "
                               "snapshot.mode=when_needed")  # fmt: skip
    return Beginning(snapshot=False, kept=kept)


def is_exact(config: Mapping[str, str]) -> bool:
    """True if no change is a record twice, wherever a task that keeps its offsets with its records is cut short.

    A snapshot is taken again from its first row. The begin of a transaction, where that is told, has no offset.
    """
    tells = config.get("provide.transaction.metadata", "false").strip().lower() == "true"
    return config.get("snapshot.mode", "initial").strip() in WITHOUT_SNAPSHOT and not tells


def place_of(kept: Mapping[str, Any]) -> int:
    """The place in the log that an offset has passed."""
    found = kept.get("lsn_commit") or kept.get("lsn")
    if not isinstance(found, int):
        raise ConfigException(f"an offset of a Postgres connector has the number lsn, or lsn_commit: {dict(kept)}")
    return found


def in_snapshot(kept: Mapping[str, Any]) -> bool:
    """True in the middle of a snapshot. Debezium before 3 wrote `last_snapshot_record`."""
    if not kept.get("snapshot"):
        return False
    return not (kept.get("snapshot_completed") or kept.get("last_snapshot_record"))


def _fitting(slot: SlotState, name: str, database: str) -> None:
    if slot.plugin != "pgoutput":
        raise ConfigException(f"the replication slot {name} has the plugin {slot.plugin}, not pgoutput: choose another "
                              "slot.name, or drop the slot")  # fmt: skip
    if slot.database != database:
        raise ConfigException(f"the replication slot {name} belongs to the database {slot.database}: choose another "
                              "slot.name")  # fmt: skip


def _gap(kept: Mapping[str, Any], slot: SlotState | None, name: str) -> str | None:
    """The reason for which changes behind an offset are lost, None if they are there."""
    place = place_of(kept)
    if slot is None:
        return f"the replication slot {name} is gone, and the changes since {lsn_text(place)} with it"
    if slot.lost:
        return f"the server has given up the replication slot {name} (max_slot_wal_keep_size), and lost its changes"
    if slot.confirmed_lsn > place:
        return (
            f"the replication slot {name} begins at {lsn_text(slot.confirmed_lsn)}, but this connector has read to "
            f"{lsn_text(place)}: the slot was made anew, or another reader has moved it, so changes are lost"
        )
    return None


def lsn_text(lsn: int) -> str:
    """A place in the log as PostgreSQL writes it."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def lsn_of(text: str) -> int:
    """A place in the log from PostgreSQL's form."""
    high, _, low = text.partition("/")
    return (int(high, 16) << 32) + int(low, 16)
