/*
 * CRC-32C: by the instruction of SSE 4.2 where the processor has it, by tables elsewhere. `choose_crc` decides once.
 */
#include "checksum.h"

#include <string.h>

#include "module.h"

#if (defined(__GNUC__) || defined(__clang__)) && defined(__x86_64__)
#define HAVE_SSE42_PATH 1
#include <nmmintrin.h>
#ifdef __clang__
#define WITH_CRC_INSTRUCTION __attribute__((target("sse4.2,crc32"))) /* two features for clang, one for older gcc */
#else
#define WITH_CRC_INSTRUCTION __attribute__((target("sse4.2")))
#endif
#endif

#define CASTAGNOLI 0x82F63B78u /* reflected */

static uint32_t crc_tables[8][256];

static void make_crc_tables(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ ((crc & 1) ? CASTAGNOLI : 0);
        crc_tables[0][byte] = crc;
    }
    for (int table = 1; table < 8; table++)
        for (uint32_t byte = 0; byte < 256; byte++) {
            uint32_t before = crc_tables[table - 1][byte];
            crc_tables[table][byte] = (before >> 8) ^ crc_tables[0][before & 0xFF];
        }
}

/* Eight bytes a step through eight tables. Takes and gives the register, not the finished CRC. */
static uint32_t crc_by_tables(uint32_t crc, const uint8_t *at, size_t size)
{
    while (size >= 8) {
        uint32_t low = crc ^ ((uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24);
        crc = crc_tables[7][low & 0xFF] ^ crc_tables[6][(low >> 8) & 0xFF] ^ crc_tables[5][(low >> 16) & 0xFF] ^
              crc_tables[4][low >> 24] ^ crc_tables[3][at[4]] ^ crc_tables[2][at[5]] ^ crc_tables[1][at[6]] ^
              crc_tables[0][at[7]];
        at += 8;
        size -= 8;
    }
    while (size--)
        crc = (crc >> 8) ^ crc_tables[0][(crc ^ *at++) & 0xFF];
    return crc;
}

#ifdef HAVE_SSE42_PATH

/* The instruction takes three cycles but one can start in each: three stripes run side by side, and a register is
 * carried over the stripes behind it by a linear map (appending zeros), kept as four tables of 256 per length. */
enum { LONG_STRIPE = 4096, SHORT_STRIPE = 256 };
static uint32_t over_long[4][256], over_short[4][256];

static uint32_t zeros_appended(uint32_t crc, size_t count)
{
    while (count--)
        crc = (crc >> 8) ^ crc_tables[0][crc & 0xFF];
    return crc;
}

static void make_carry_tables(uint32_t tables[4][256], size_t count)
{
    uint32_t of_bit[32];
    for (int bit = 0; bit < 32; bit++)
        of_bit[bit] = zeros_appended((uint32_t)1 << bit, count);
    for (int table = 0; table < 4; table++)
        for (uint32_t byte = 0; byte < 256; byte++) {
            uint32_t sum = 0;
            for (int bit = 0; bit < 8; bit++)
                if (byte >> bit & 1)
                    sum ^= of_bit[8 * table + bit];
            tables[table][byte] = sum;
        }
}

static inline uint32_t carried(uint32_t tables[4][256], uint32_t crc)
{
    return tables[0][crc & 0xFF] ^ tables[1][(crc >> 8) & 0xFF] ^ tables[2][(crc >> 16) & 0xFF] ^ tables[3][crc >> 24];
}

static inline uint64_t load64(const uint8_t *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

WITH_CRC_INSTRUCTION static inline uint32_t crc_three_stripes(uint32_t crc, const uint8_t *at, size_t stripe,
                                                              uint32_t tables[4][256])
{
    uint64_t first = crc, second = 0, third = 0;
    for (size_t i = 0; i < stripe; i += 8) {
        first = _mm_crc32_u64(first, load64(at + i));
        second = _mm_crc32_u64(second, load64(at + stripe + i));
        third = _mm_crc32_u64(third, load64(at + 2 * stripe + i));
    }
    return carried(tables, carried(tables, (uint32_t)first) ^ (uint32_t)second) ^ (uint32_t)third;
}

WITH_CRC_INSTRUCTION static uint32_t crc_by_sse42(uint32_t crc, const uint8_t *at, size_t size)
{
    while (size >= 3 * LONG_STRIPE) {
        crc = crc_three_stripes(crc, at, LONG_STRIPE, over_long);
        at += 3 * LONG_STRIPE;
        size -= 3 * LONG_STRIPE;
    }
    while (size >= 3 * SHORT_STRIPE) {
        crc = crc_three_stripes(crc, at, SHORT_STRIPE, over_short);
        at += 3 * SHORT_STRIPE;
        size -= 3 * SHORT_STRIPE;
    }
    uint64_t wide = crc;
    while (size >= 8) {
        wide = _mm_crc32_u64(wide, load64(at));
        at += 8;
        size -= 8;
    }
    crc = (uint32_t)wide;
    while (size--)
        crc = _mm_crc32_u8(crc, *at++);
    return crc;
}
#endif

static uint32_t (*crc_register)(uint32_t, const uint8_t *, size_t) = crc_by_tables;
static const char *crc_kind = "tables";

void choose_crc(void)
{
    make_crc_tables();
#ifdef HAVE_SSE42_PATH
    __builtin_cpu_init();
    if (__builtin_cpu_supports("sse4.2")) {
        make_carry_tables(over_long, LONG_STRIPE);
        make_carry_tables(over_short, SHORT_STRIPE);
        crc_register = crc_by_sse42;
        crc_kind = "SSE4.2";
    }
#endif
}

uint32_t crc32c(uint32_t before, const uint8_t *at, size_t size) { return ~crc_register(~before, at, size); }

/* crc32c(buffer, initial=0) -> int */
PyObject *py_crc32c(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    Py_buffer buffer;
    unsigned long before = 0;
    (void)module;
    if (nargs < 1 || nargs > 2) {
        PyErr_SetString(PyExc_TypeError, "crc32c(buffer, initial=0)");
        return NULL;
    }
    if (nargs == 2) {
        before = PyLong_AsUnsignedLong(args[1]);
        if (PyErr_Occurred())
            return NULL;
        if (before > 0xFFFFFFFFul) {
            PyErr_SetString(PyExc_OverflowError, "initial takes 32 bits");
            return NULL;
        }
    }
    if (PyObject_GetBuffer(args[0], &buffer, PyBUF_SIMPLE) < 0)
        return NULL;
    PyThreadState *released = release_gil(buffer.readonly && buffer.len >= CRC_WORTH_RELEASING);
    uint32_t crc = crc32c((uint32_t)before, buffer.buf, (size_t)buffer.len);
    take_gil(released);
    PyBuffer_Release(&buffer);
    return PyLong_FromUnsignedLong(crc);
}

/* crc32c_kind() -> str */
PyObject *py_crc32c_kind(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return PyUnicode_FromString(crc_kind);
}

/* crc32c_by_tables(buffer) -> int */
PyObject *py_crc32c_by_tables(PyObject *module, PyObject *buffer_object)
{
    Py_buffer buffer;
    (void)module;
    if (PyObject_GetBuffer(buffer_object, &buffer, PyBUF_SIMPLE) < 0)
        return NULL;
    uint32_t crc = ~crc_by_tables(0xFFFFFFFFu, buffer.buf, (size_t)buffer.len);
    PyBuffer_Release(&buffer);
    return PyLong_FromUnsignedLong(crc);
}
