"""Control records: the markers that end a transaction, as they stand in a partition's log."""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import NamedTuple

from ottla.records.batch import Batch
from ottla.records.builder import build_batch
from ottla.records.faults import CorruptRecords
from ottla.records.reader import Record, read_records

_KEY = Struct(">hh")
_VALUE = Struct(">hi")


class Marker(IntEnum):
    """The end of a transaction: commit or abort."""

    ABORT = 0
    COMMIT = 1


class EndOfTransaction(NamedTuple):
    """The content of a marker."""

    marker: Marker
    coordinator_epoch: int


class MarkerBatch(Batch):
    """A marker that was built here. One may be appended to many partitions, as an append changes no batch."""

    __slots__ = ("says",)

    def __init__(self, says: EndOfTransaction, *, producer_id: int, producer_epoch: int, timestamp: int) -> None:
        super().__init__(
            build_marker(
                says.marker,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                coordinator_epoch=says.coordinator_epoch,
                timestamp=timestamp,
            )
        )
        self.says = says


def read_marker(batch: Batch) -> EndOfTransaction | None:
    """The marker in a control batch; None where the batch holds none (other control types, or compacted away)."""
    if isinstance(batch, MarkerBatch):
        return batch.says
    if not batch.is_control or batch.records_count < 1:
        return None
    record = read_records(batch)[0]
    if record.key is None or len(record.key) < _KEY.size:
        raise CorruptRecords(f"The control record at {record.offset} has no valid key.")
    _, kind = _KEY.unpack_from(record.key)
    if kind not in (Marker.ABORT, Marker.COMMIT):
        return None
    if record.value is None or len(record.value) < _VALUE.size:
        raise CorruptRecords(f"The control record at {record.offset} has no valid value.")
    return EndOfTransaction(Marker(kind), _VALUE.unpack_from(record.value)[1])


def build_marker(
    marker: Marker, *, producer_id: int, producer_epoch: int, coordinator_epoch: int, timestamp: int
) -> bytes:
    """A control batch of one marker, ready to be appended."""
    record = Record(0, timestamp, _KEY.pack(0, marker), _VALUE.pack(0, coordinator_epoch))
    return build_batch(
        [record], producer_id=producer_id, producer_epoch=producer_epoch, is_transactional=True, is_control=True
    )
