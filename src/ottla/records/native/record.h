/*
 * One record of a batch's uncompressed payload, parsed in place: pointers into the payload and sizes in bytes, -1 for
 * a null. Every length and count is checked against the bytes that are left before it is used. Inline, since every
 * loop over records lives on it.
 */
#ifndef OTTLA_RECORD_H
#define OTTLA_RECORD_H

#include <stdint.h>

#include "format.h"
#include "varint.h"

typedef struct {
    int64_t timestamp_delta;
    int32_t offset_delta;
    int32_t key_size;
    int32_t value_size;
    int32_t headers_count;
    const uint8_t *key;
    const uint8_t *value;
    const uint8_t *headers; /* the first header; the last one ends where the record ends */
    int64_t name_bytes;     /* of all headers' names */
    int64_t content_bytes;  /* of all headers' contents */
} Record;

/* A length and as many bytes. Any negative length is a null, as Java reads it. */
static inline int read_sized(const uint8_t **at, const uint8_t *end, const uint8_t **start, int32_t *size)
{
    int fault = read_varint32(at, end, FAULT_FIELD_SIZE, size);
    if (fault)
        return fault;
    *start = *at;
    if (*size < 0) {
        *size = -1;
        return FAULT_NONE;
    }
    if (*size > end - *at)
        return FAULT_FIELD_SIZE;
    *at += *size;
    return FAULT_NONE;
}

typedef struct {
    const uint8_t *name, *content;
    int32_t name_size, content_size; /* -1: null content; a name is never null */
} Header;

static inline int read_header(const uint8_t **at, const uint8_t *end, Header *header)
{
    int fault = read_sized(at, end, &header->name, &header->name_size);
    if (fault)
        return fault;
    if (header->name_size < 0)
        return FAULT_HEADER_KEY;
    return read_sized(at, end, &header->content, &header->content_size);
}

static inline int read_headers(const uint8_t **at, const uint8_t *end, Record *record)
{
    for (int32_t i = 0; i < record->headers_count; i++) {
        Header header;
        int fault = read_header(at, end, &header);
        if (fault)
            return fault;
        record->name_bytes += header.name_size;
        if (header.content_size > 0)
            record->content_bytes += header.content_size;
    }
    return FAULT_NONE;
}

/* Parses the record at `*at`, its length first, and moves `*at` past it; or says by a fault why it does not parse. */
static inline int read_record(const uint8_t **at, const uint8_t *end, Record *record)
{
    int32_t size;
    int fault = read_varint32(at, end, FAULT_TRUNCATED, &size);
    if (fault)
        return fault;
    if (size < 0)
        return FAULT_RECORD_SIZE;
    if (size > end - *at)
        return FAULT_TRUNCATED;
    if (size < 1)
        return FAULT_FIELD_SIZE;
    end = *at + size;
    *at += 1; /* attributes: none are defined */
    if ((fault = read_varint64(at, end, FAULT_FIELD_SIZE, &record->timestamp_delta)))
        return fault;
    if ((fault = read_varint32(at, end, FAULT_FIELD_SIZE, &record->offset_delta)))
        return fault;
    if ((fault = read_sized(at, end, &record->key, &record->key_size)))
        return fault;
    if ((fault = read_sized(at, end, &record->value, &record->value_size)))
        return fault;
    if ((fault = read_varint32(at, end, FAULT_FIELD_SIZE, &record->headers_count)))
        return fault;
    if (record->headers_count < 0 || record->headers_count > end - *at)
        return FAULT_HEADER_COUNT;
    record->headers = *at;
    record->name_bytes = record->content_bytes = 0;
    if (record->headers_count && (fault = read_headers(at, end, record)))
        return fault;
    return *at == end ? FAULT_NONE : FAULT_RECORD_SIZE;
}

/* A batch's own count of records, against the bytes of its payload. */
static inline int count_is_possible(int64_t count, int64_t payload_size)
{
    return count >= 0 && count <= payload_size / SMALLEST_RECORD;
}

#endif
