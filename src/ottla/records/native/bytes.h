/*
 * Integers of fixed width: big-endian in Kafka's formats, the machine's own order in Arrow's buffers. The caller has
 * checked that the bytes are there. Signed sums wrap, as Java's do.
 */
#ifndef OTTLA_BYTES_H
#define OTTLA_BYTES_H

#include <stdint.h>
#include <string.h>

static inline uint16_t get16(const uint8_t *at) { return (uint16_t)((at[0] << 8) | at[1]); }

static inline uint32_t get32(const uint8_t *at)
{
    return ((uint32_t)at[0] << 24) | ((uint32_t)at[1] << 16) | ((uint32_t)at[2] << 8) | (uint32_t)at[3];
}

static inline uint64_t get64(const uint8_t *at) { return ((uint64_t)get32(at) << 32) | get32(at + 4); }

/* Two's complement without conversions that C leaves to the compiler. */
static inline int32_t signed32(uint32_t raw)
{
    int32_t number;
    memcpy(&number, &raw, sizeof number);
    return number;
}

static inline int64_t signed64(uint64_t raw)
{
    int64_t number;
    memcpy(&number, &raw, sizeof number);
    return number;
}

static inline int64_t wrapping_add(int64_t a, int64_t b) { return signed64((uint64_t)a + (uint64_t)b); }

static inline int64_t wrapping_subtract(int64_t a, int64_t b) { return signed64((uint64_t)a - (uint64_t)b); }

/* From an Arrow buffer, which need not be aligned. */
static inline int32_t load_int32(const uint8_t *at)
{
    int32_t number;
    memcpy(&number, at, sizeof number);
    return number;
}

static inline int64_t load_int64(const uint8_t *at)
{
    int64_t number;
    memcpy(&number, at, sizeof number);
    return number;
}

#endif
