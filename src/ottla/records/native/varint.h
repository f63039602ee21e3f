/*
 * Zig-zag varints, the variable-length integers inside records: seven bits a byte, least significant first, at most
 * 5 bytes for 32 bits and 10 for 64. Inline, since every loop over records lives on them.
 */
#ifndef OTTLA_VARINT_H
#define OTTLA_VARINT_H

#include <stdint.h>

#include "bytes.h"
#include "format.h"

enum { LONGEST_VARINT = 10 };

/* Reads from `*at`, never at or behind `end`, and moves `*at` past the number. FAULT_NONE; FAULT_VARINT_TOO_LONG;
 * or `cut_off` where the bytes end before the number does. */
static inline int read_varint32(const uint8_t **at, const uint8_t *end, int cut_off, int32_t *number)
{
    const uint8_t *next = *at;
    if (next >= end)
        return cut_off;
    uint32_t byte = *next++;
    uint32_t raw = byte & 0x7F;
    for (int shift = 7; byte & 0x80; shift += 7) {
        if (shift > 28)
            return FAULT_VARINT_TOO_LONG;
        if (next >= end)
            return cut_off;
        byte = *next++;
        raw |= (byte & 0x7F) << shift;
    }
    *number = signed32((raw >> 1) ^ (0u - (raw & 1)));
    *at = next;
    return FAULT_NONE;
}

static inline int read_varint64(const uint8_t **at, const uint8_t *end, int cut_off, int64_t *number)
{
    const uint8_t *next = *at;
    if (next >= end)
        return cut_off;
    uint64_t byte = *next++;
    uint64_t raw = byte & 0x7F;
    for (int shift = 7; byte & 0x80; shift += 7) {
        if (shift > 63)
            return FAULT_VARINT_TOO_LONG;
        if (next >= end)
            return cut_off;
        byte = *next++;
        raw |= (byte & 0x7F) << shift;
    }
    *number = signed64((raw >> 1) ^ (0u - (raw & 1)));
    *at = next;
    return FAULT_NONE;
}

static inline uint64_t zigzag(int64_t number) { return ((uint64_t)number << 1) ^ (number < 0 ? ~(uint64_t)0 : 0); }

/* Writes `varint_size(number)` bytes, for which the caller has made room; gives the place behind them. */
static inline uint8_t *put_varint(uint8_t *at, int64_t number)
{
    uint64_t raw = zigzag(number);
    while (raw > 0x7F) {
        *at++ = (uint8_t)(raw & 0x7F) | 0x80;
        raw >>= 7;
    }
    *at++ = (uint8_t)raw;
    return at;
}

static inline int varint_size(int64_t number)
{
    uint64_t raw = zigzag(number);
    int size = 1;
    while (raw > 0x7F) {
        raw >>= 7;
        size++;
    }
    return size;
}

#endif
