"""The 61 bytes that every record batch of format v2 begins with: the one place that tells where each field stands.

| at | bytes | field | |
|---|---|---|---|
| 0 | 8 | base offset | set by the broker; no CRC covers it |
| 8 | 4 | length | of all that follows it |
| 12 | 4 | leader epoch | set by the broker; no CRC covers it |
| 16 | 1 | magic | 2 |
| 17 | 4 | CRC-32C | of everything from the attributes on |
| 21 | 2 | attributes | codec in three bits, then the bits below |
| 23 | 4 | last offset delta | |
| 27 | 8 | base timestamp | the delete horizon where its bit is set |
| 35 | 8 | max timestamp | |
| 43 | 8 | producer id | -1 without one |
| 51 | 2 | producer epoch | |
| 53 | 4 | base sequence | |
| 57 | 4 | number of records | |

Source: KIP-98, KIP-534; Apache Kafka's DefaultRecordBatch. records/native/format.h has the same numbers.
"""

from __future__ import annotations

from struct import Struct

HEADER = Struct(">qiibIhiqqqhii")
"""All fields in their order."""
PLACE = Struct(">qii")
"""Base offset, length, leader epoch: a broker sets them without touching what the CRC covers."""
BOUNDS = Struct(">qi")
"""Base offset and length."""
COVERED = Struct(">hiqqqhii")
"""Attributes to number of records: the fields that the CRC covers."""
INT32 = Struct(">i")

HEADER_SIZE = HEADER.size
SIZE_OVERHEAD = BOUNDS.size
"""Bytes before what the length counts."""
LENGTH_AT = 8
EPOCH_AT = 12
MAGIC_AT = 16
CRC_AT = 17
CRC_START = 21
"""The CRC covers everything from the attributes on."""
LAST_DELTA_AT = 23
COUNT_AT = 57

MAGIC = 2
NO_TIMESTAMP = -1

COMPRESSION_MASK = 0x07
TIMESTAMP_TYPE_BIT = 0x08
"""True if `max timestamp` is the broker's own time and stands for every record's."""
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
DELETE_HORIZON_BIT = 0x40
