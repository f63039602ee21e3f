"""Applies the content of a store of the metadata log: entries and snapshots, or a sentence about their damage."""

from __future__ import annotations

from ottla.kernel.errors import InvariantBroken
from ottla.kernel.seams import LogEntry, StoreDamaged, StoredSnapshot
from ottla.metadata.entries import MetadataEntry
from ottla.metadata.seal import SEALED_ENTRIES, is_sealed, is_sealed_entry, read_entry
from ottla.metadata.snapshot import load_snapshot
from ottla.metadata.state import Metadata
from ottla.schema.codec import MalformedMessage

_UNFIT = (ValueError, LookupError, InvariantBroken)
"""The errors of decoding and applying. Behind a checksum that holds, one is a fault of ours, not of the store."""


def take_entry(state: Metadata, entry: LogEntry, store: str) -> MetadataEntry:
    """Apply the next entry of `store`. StoreDamaged if it is not the entry that was written there."""
    if entry.version != state.version + 1:
        raise StoreDamaged(store, f"entry {state.version + 1}", "it is missing")
    try:
        decoded = read_entry(entry, required=state.metadata_version() >= SEALED_ENTRIES)
        state.apply(entry.version, decoded.body)
    except _UNFIT as fault:
        if is_sealed_entry(entry) and not isinstance(fault, MalformedMessage):
            raise
        raise StoreDamaged(store, f"entry {entry.version}", _why(fault)) from fault
    return decoded


def take_snapshot_of(store: str, snapshot: StoredSnapshot) -> Metadata:
    """The saved state. StoreDamaged if it is not the one that was written there."""
    try:
        return load_snapshot(snapshot)
    except _UNFIT as fault:
        if is_sealed(snapshot) and not isinstance(fault, MalformedMessage):
            raise
        raise StoreDamaged(store, f"the snapshot of version {snapshot.version}", _why(fault)) from fault


def _why(fault: Exception) -> str:
    return str(fault) if isinstance(fault, MalformedMessage) else f"it does not fit what precedes it: {fault!r}"
