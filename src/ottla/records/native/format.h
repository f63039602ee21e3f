/*
 * The numbers of the v2 batch format: where each field of a batch's header stands, the bits of its attributes, and
 * why records do not parse. records/header.py and records/faults.py have the same numbers and explain them.
 */
#ifndef OTTLA_FORMAT_H
#define OTTLA_FORMAT_H

/* Positions in bytes from the batch's start. */
enum {
    BASE_OFFSET_AT = 0,
    LENGTH_AT = 8,
    SIZE_OVERHEAD = 12, /* bytes before those that the length counts */
    MAGIC_AT = 16,
    CRC_AT = 17,
    CRC_START = 21, /* the CRC covers all from here on */
    ATTRIBUTES_AT = 21,
    LAST_DELTA_AT = 23,
    BASE_TIMESTAMP_AT = 27,
    MAX_TIMESTAMP_AT = 35,
    PRODUCER_ID_AT = 43,
    COUNT_AT = 57,
    HEADER_SIZE = 61
};

enum { MAGIC = 2, LAST_CODEC = 4, SMALLEST_RECORD = 7 };

enum { COMPRESSION_MASK = 0x07, TIMESTAMP_TYPE_BIT = 0x08, TRANSACTIONAL_BIT = 0x10, CONTROL_BIT = 0x20 };

enum {
    FAULT_NONE = 0,
    FAULT_TRUNCATED = 1,
    FAULT_VARINT_TOO_LONG = 2,
    FAULT_RECORD_SIZE = 3,
    FAULT_FIELD_SIZE = 4,
    FAULT_HEADER_COUNT = 5,
    FAULT_HEADER_KEY = 6,
    FAULT_OFFSET_DELTA = 7,
    FAULT_TRAILING_BYTES = 8,
    FAULT_RECORD_COUNT = 9,
    FAULT_BATCH_SIZE = 10,
    FAULT_MAGIC = 11,
    FAULT_CRC = 12,
    FAULT_CODEC = 13
};

#endif
