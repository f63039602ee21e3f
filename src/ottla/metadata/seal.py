"""Checksums in the metadata log: of each entry with its place in the log, and of each snapshot as a whole.

An entry's header names its form: 0 is the bare entry, 1 the entry and behind it a CRC-32C of its version in the log and
all its bytes. A snapshot begins with a seal in the form of an entry, of a type that no entry has. Releases before
`metadata.version` 3 know neither form, so none is written below that level; from there on what has no checksum is
damaged.
"""

from __future__ import annotations

import struct as bits
from collections.abc import Sequence

from ottla.kernel.seams import LogEntry, StoredSnapshot
from ottla.metadata import entries as log
from ottla.metadata.state import METADATA_VERSION, Metadata
from ottla.records.checksum import crc32c
from ottla.schema.codec import MalformedMessage

SEALED_ENTRIES = 3
"""The level of metadata.version from which on everything that is appended or saved carries a checksum."""
_SEALED = b"\0\1"
_PLACE = bits.Struct(">q")
_CRC = bits.Struct(">I")
_SNAPSHOT_SEAL = bits.Struct(">ihhqq")
"""Size of the seal's rest, type 0, form 1, bytes behind the seal, their checksum."""


def sealed_append(entries: Sequence[bytes], bodies: Sequence[log.Body], state: Metadata) -> list[bytes]:
    """The entries to append behind `state`: sealed if the level before or after them requires it."""
    levels = [body.level for body in bodies if isinstance(body, log.FeatureLevelSet) and body.name == METADATA_VERSION]
    if max([state.metadata_version(), *levels]) < SEALED_ENTRIES:
        return list(entries)
    return [sealed(entry, place) for place, entry in enumerate(entries, state.version + 1)]


def sealed(entry: bytes, place: int) -> bytes:
    """A bare entry with its checksum, for one place in the log."""
    whole = entry[:2] + _SEALED + entry[4:]
    return whole + _CRC.pack(_checksum(whole, place))


def is_sealed_entry(stored: LogEntry) -> bool:
    return stored.body[2:4] == _SEALED


def read_entry(stored: LogEntry, *, required: bool = False) -> log.MetadataEntry:
    """Decode a stored entry. MalformedMessage where its checksum does not hold, or is missing though `required`.

    UnknownEntry where a newer release wrote it.
    """
    place, data = stored
    form, bare, checksum = data[2:4], data[: -_CRC.size], data[-_CRC.size :]
    if len(checksum) < _CRC.size:
        raise MalformedMessage(f"it has {len(data)} bytes")
    if form == _SEALED:
        if _CRC.pack(_checksum(bare, place)) != checksum:
            raise MalformedMessage("its checksum does not hold")
        return log.decode_entry(bare[:2] + b"\0\0" + bare[4:])
    if required and _CRC.pack(_checksum(bare, place)) != checksum:  # a newer form would end in one too
        raise MalformedMessage("it carries no checksum that holds")
    if form != b"\0\0" and _CRC.pack(_checksum(bare[:2] + _SEALED + bare[4:], place)) == checksum:
        raise MalformedMessage("its header does not fit its checksum")
    return log.decode_entry(data)


def sealed_snapshot(snapshot: StoredSnapshot) -> StoredSnapshot:
    """The snapshot behind a seal that tells its length and checksum."""
    checksum = _checksum(snapshot.body, snapshot.version)
    seal = _SNAPSHOT_SEAL.pack(_SNAPSHOT_SEAL.size - 4, 0, 1, len(snapshot.body), checksum)
    return StoredSnapshot(snapshot.version, seal + snapshot.body)


def is_sealed(snapshot: StoredSnapshot) -> bool:
    """True if a snapshot begins with a seal, of which one byte may be damaged."""
    if len(snapshot.body) < _SNAPSHOT_SEAL.size:
        return False
    size, kind, form, *_ = _SNAPSHOT_SEAL.unpack_from(snapshot.body)
    return bool(kind == 0 or (size == _SNAPSHOT_SEAL.size - 4 and form == 1))


def unsealed_snapshot(snapshot: StoredSnapshot) -> StoredSnapshot:
    """The snapshot without its seal; MalformedMessage if the seal does not hold.

    A snapshot without one is returned as it is.
    """
    if not is_sealed(snapshot):
        return snapshot
    body = snapshot.body[_SNAPSHOT_SEAL.size :]
    expected = (_SNAPSHOT_SEAL.size - 4, 0, 1, len(body), _checksum(body, snapshot.version))
    if _SNAPSHOT_SEAL.unpack_from(snapshot.body) != expected:
        raise MalformedMessage("its checksum does not hold")
    return StoredSnapshot(snapshot.version, body)


def _checksum(data: bytes, place: int) -> int:
    return crc32c(data, crc32c(_PLACE.pack(place)))
