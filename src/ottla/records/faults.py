"""Faults of the inside of a batch: one number per fault, the same with and without the compiled part."""

from __future__ import annotations

from enum import IntEnum

from ottla.kernel.errors import ErrorCode


class RecordFault(IntEnum):
    """The reason why records do not parse. The numbers are also those of `native/format.h`."""

    NONE = 0
    TRUNCATED = 1
    VARINT_TOO_LONG = 2
    RECORD_SIZE = 3
    FIELD_SIZE = 4
    HEADER_COUNT = 5
    HEADER_KEY = 6
    OFFSET_DELTA = 7
    TRAILING_BYTES = 8
    RECORD_COUNT = 9
    BATCH_SIZE = 10
    MAGIC = 11
    CRC = 12
    CODEC = 13

    @property
    def sentence(self) -> str:
        return _SENTENCES[self]

    @property
    def error(self) -> ErrorCode:
        """The error code for a producer: Kafka's own choice (LogValidator, DefaultRecord)."""
        if self in (RecordFault.BATCH_SIZE, RecordFault.MAGIC, RecordFault.CRC):
            return ErrorCode.CORRUPT_MESSAGE
        if self is RecordFault.CODEC:
            return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        return ErrorCode.NONE if self is RecordFault.NONE else ErrorCode.INVALID_RECORD


_SENTENCES = {
    RecordFault.NONE: "Nothing is wrong.",
    RecordFault.TRUNCATED: "The records end before the batch's count is reached.",
    RecordFault.VARINT_TOO_LONG: "A variable-length number is longer than its type allows.",
    RecordFault.RECORD_SIZE: "A record's declared size is not the size of what it holds.",
    RecordFault.FIELD_SIZE: "A key, a value or a header reaches past the end of its record.",
    RecordFault.HEADER_COUNT: "A record declares an impossible number of headers.",
    RecordFault.HEADER_KEY: "A header's key has a negative length.",
    RecordFault.OFFSET_DELTA: "The records' offset deltas do not count up from 0.",
    RecordFault.TRAILING_BYTES: "Bytes remain after the last record.",
    RecordFault.RECORD_COUNT: "The batch declares an impossible number of records.",
    RecordFault.BATCH_SIZE: "The batch's declared size is less than that of its header.",
    RecordFault.MAGIC: "The batch is not of format v2.",
    RecordFault.CRC: "The batch fails its CRC-32C.",
    RecordFault.CODEC: "The batch names an unknown compression codec.",
}


class CorruptRecords(ValueError):
    """Bytes that are not a sound batch. `error` is the code for the client that sent them."""

    def __init__(self, message: str, error: ErrorCode = ErrorCode.CORRUPT_MESSAGE) -> None:
        super().__init__(message)
        self.error = error
