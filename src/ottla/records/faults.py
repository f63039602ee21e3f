"""Faults of the inside of a batch: one number per fault, the same with and without the compiled part."""

from __future__ import annotations

from enum import IntEnum

from ottla.kernel.errors import ErrorCode


class Fault(IntEnum):
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
        if self in (Fault.BATCH_SIZE, Fault.MAGIC, Fault.CRC):
            return ErrorCode.CORRUPT_MESSAGE
        if self is Fault.CODEC:
            return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        return ErrorCode.NONE if self is Fault.NONE else ErrorCode.INVALID_RECORD


_SENTENCES = {
    Fault.NONE: "Nothing is wrong.",
    Fault.TRUNCATED: "The records end before the batch's count is reached.",
    Fault.VARINT_TOO_LONG: "A variable-length number is longer than its type allows.",
    Fault.RECORD_SIZE: "A record's declared size is not the size of what it holds.",
    Fault.FIELD_SIZE: "A key, a value or a header reaches past the end of its record.",
    Fault.HEADER_COUNT: "A record declares an impossible number of headers.",
    Fault.HEADER_KEY: "A header's key has a negative length.",
    Fault.OFFSET_DELTA: "The records' offset deltas do not count up from 0.",
    Fault.TRAILING_BYTES: "Bytes remain after the last record.",
    Fault.RECORD_COUNT: "The batch declares an impossible number of records.",
    Fault.BATCH_SIZE: "The batch's declared size is less than that of its header.",
    Fault.MAGIC: "The batch is not of format v2.",
    Fault.CRC: "The batch fails its CRC-32C.",
    Fault.CODEC: "The batch names an unknown compression codec.",
}


class CorruptRecords(ValueError):
    """Bytes that are not a sound batch. `error` is the code for the client that sent them."""

    def __init__(self, message: str, error: ErrorCode = ErrorCode.CORRUPT_MESSAGE) -> None:
        super().__init__(message)
        self.error = error
