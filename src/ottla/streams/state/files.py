"""The bytes of a state file: the entries that one step of a task changed, or all that it has kept by then.

Pure. A file is a magic word, a checksum of what follows, a header in JSON, and the entries as a compressed Arrow
stream. Entries are laid out as in changelog topics.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

import pyarrow as pa

from ottla.streams.changelog import from_record, to_record
from ottla.streams.errors import TopologyError
from ottla.streams.serdes import LONG
from ottla.streams.stores import EntryKey, Store

MAGIC = b"ottla streams state 1\n"
_HEAD = struct.Struct(">II")
_SCHEMA = pa.schema([("store", pa.int32()), ("key", pa.binary()), ("value", pa.binary()), ("timestamp", pa.int64())])
_OPTIONS = pa.ipc.IpcWriteOptions(compression="zstd")
Changes = dict[str, dict[EntryKey, Any]]
"""Entries by the names of their stores, as `Results.changes` has them; "" stands for the times."""


class StateDamaged(Exception):
    """A state file is missing, or does not hold what was written."""


class Step(NamedTuple):
    """A run of a task: the batch, and which level of the plan, where a task runs several times in a batch."""

    batch: int
    level: int

    def __str__(self) -> str:
        return f"{self.batch}.{self.level}"


@dataclass(frozen=True, slots=True)
class StateFile:
    """`before`: the step whose state the entries change; None for a snapshot, which has all of them."""

    step: Step
    before: Step | None
    changes: Changes
    told: Mapping[str, Any] = field(default_factory=dict)
    """Counters for `ottla streams status`."""


def pack(file: StateFile, stores: Mapping[str, Store]) -> bytes:
    """The bytes of a delta; `stores` are those of the task."""
    return _packed(file, {name: entries.items() for name, entries in file.changes.items()}, stores)


def snapshot(file: StateFile, stores: Mapping[str, Store]) -> bytes:
    """The bytes of a file with all entries of the stores, and those of `file`, which has the times."""
    entries = {name: store.entries() for name, store in stores.items()}
    return _packed(file, {**entries, **{name: each.items() for name, each in file.changes.items()}}, stores)


def _packed(
    file: StateFile, entries: Mapping[str, Iterable[tuple[EntryKey, Any]]], stores: Mapping[str, Store]
) -> bytes:
    names = list(entries)
    body = _body(_row(at, name, stores, *one) for at, name in enumerate(names) for one in entries[name])
    header = {"step": file.step, "before": file.before, "stores": names, "told": dict(file.told)}
    head = json.dumps(header, separators=(",", ":")).encode()
    rest = struct.pack(">I", len(head)) + head + body
    return MAGIC + _HEAD.pack(zlib.crc32(rest), len(rest)) + rest


class Unpacked(NamedTuple):
    """A file without its entries, and these in parts, so that memory needs not hold them all."""

    file: StateFile
    parts: Iterator[Changes]


def unpack(data: bytes, stores: Mapping[str, Store], name: str) -> Unpacked:
    """The file of these bytes; StateDamaged, with the file's name, for bytes that were not written so."""
    header, body = _checked(data, name)
    if unknown := [store for store in header["stores"] if store and store not in stores]:
        raise TopologyError(f"the state file {name} holds the store {unknown[0]}, which the topology does not have")
    before = None if header["before"] is None else Step(*header["before"])
    return Unpacked(StateFile(Step(*header["step"]), before, {}, header["told"]), _read(body, header["stores"], stores))


def told(data: bytes, name: str) -> dict[str, Any]:
    """The counters of a file, without its entries."""
    found: dict[str, Any] = _checked(data, name)[0]["told"]
    return found


def _checked(data: bytes, name: str) -> tuple[dict[str, Any], bytes]:
    start = len(MAGIC) + _HEAD.size
    if not data.startswith(MAGIC) or len(data) < start + 4:
        raise StateDamaged(f"{name} is no state file of this version of ottla")
    checksum, length = _HEAD.unpack_from(data, len(MAGIC))
    rest = data[start:]
    if len(rest) != length or zlib.crc32(rest) != checksum:
        raise StateDamaged(f"{name} is damaged: its checksum does not fit; restore it from a copy, or reset")
    (size,) = struct.unpack_from(">I", rest)
    return json.loads(rest[4 : 4 + size]), rest[4 + size :]


def _read(body: bytes, names: Sequence[str], stores: Mapping[str, Store]) -> Iterator[Changes]:
    with pa.ipc.open_stream(body) as reader:
        for batch in reader:
            changes: Changes = {}
            columns = (batch.column(at).to_pylist() for at in range(4))
            for at, key, value, timestamp in zip(*columns, strict=True):
                store = names[at]
                if store:
                    entry_key, entry = from_record(stores[store], key, value, timestamp)
                else:
                    entry_key, entry = (key.decode(),), LONG.unpack(value)[0]
                changes.setdefault(store, {})[entry_key] = entry
            yield changes


class _Row(NamedTuple):
    store: int
    key: bytes
    value: bytes | None
    timestamp: int | None


def _row(at: int, name: str, stores: Mapping[str, Store], key: EntryKey, entry: Any) -> _Row:
    if not name:
        return _Row(at, key[0].encode(), LONG.pack(entry), None)
    return _Row(at, *to_record(stores[name], key, entry))


def _body(rows: Iterable[_Row]) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, _SCHEMA, options=_OPTIONS) as writer:
        for part in _parts(iter(rows)):
            columns = zip(*part, strict=True)
            arrays = [pa.array(column, kind.type) for column, kind in zip(columns, _SCHEMA, strict=True)]
            writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA))
    written: bytes = sink.getvalue().to_pybytes()
    return written


def _parts(rows: Iterator[_Row], size: int = 65_536) -> Iterator[list[_Row]]:
    while part := list(islice(rows, size)):
        yield part
