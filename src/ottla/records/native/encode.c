/*
 * Writes rows of Arrow-style columns as the records of one batch, behind room for its header. Rows are measured first,
 * so that the batch is allocated once. Timestamps in the batch are in milliseconds.
 *
 * `write_rows` trusts no measure: a buffer may have changed since in another thread, so every write is checked against
 * the end of the room.
 */
#include "table.h"

#include "format.h"
#include "varint.h"

/* Bytes of a key, value, name or content with its length; size -1 is a null. */
static inline int64_t sized_size(int32_t size) { return size < 0 ? 1 : varint_size(size) + (int64_t)size; }

/* Compilers do not inline what is large and has two callers; here that costs 18 % (bench/records.py, encode). */
#if defined(__GNUC__) || defined(__clang__)
#define ALWAYS_INLINE inline __attribute__((always_inline))
#else
#define ALWAYS_INLINE inline
#endif

/* Bytes of a row's record without its length; -1 where offsets lie outside their column. */
static ALWAYS_INLINE int64_t body_size(const Table *table, int64_t row, int64_t timestamp_delta, int64_t offset_delta)
{
    const uint8_t *start;
    int32_t size, from, to;
    int64_t total = 1 + varint_size(timestamp_delta) + varint_size(offset_delta);
    if (entry_at(&table->key, row, &start, &size) < 0)
        return -1;
    total += sized_size(size);
    if (entry_at(&table->value, row, &start, &size) < 0)
        return -1;
    total += sized_size(size);
    if (headers_at(table, row, &from, &to) < 0)
        return -1;
    total += varint_size(to - from);
    for (int32_t i = from; i < to; i++) {
        if (entry_at(&table->names, i, &start, &size) < 0 || size < 0)
            return -1;
        total += sized_size(size);
        if (entry_at(&table->contents, i, &start, &size) < 0)
            return -1;
        total += sized_size(size);
    }
    return total;
}

/* Writes one entry; NULL where `end` leaves no room for it or its offsets lie outside the column. */
static inline uint8_t *put_entry(uint8_t *at, const uint8_t *end, const BinaryColumn *column, int64_t entry)
{
    const uint8_t *start = NULL;
    int32_t size;
    if (entry_at(column, entry, &start, &size) < 0 || end - at < sized_size(size))
        return NULL;
    at = put_varint(at, size);
    if (size > 0) {
        memcpy(at, start, (size_t)size);
        at += size;
    }
    return at;
}

/* Writes one row, whose body takes `body` bytes; NULL where the buffers changed since they were measured. */
static uint8_t *put_row(uint8_t *at, const uint8_t *end, const Table *table, int64_t row, int64_t body,
                        int64_t timestamp_delta, int64_t offset_delta)
{
    int32_t from, to;
    if (end - at < varint_size(body) + body)
        return NULL;
    at = put_varint(at, body);
    *at++ = 0; /* attributes */
    at = put_varint(at, timestamp_delta);
    at = put_varint(at, offset_delta);
    if (!(at = put_entry(at, end, &table->key, row)) || !(at = put_entry(at, end, &table->value, row)))
        return NULL;
    if (headers_at(table, row, &from, &to) < 0 || end - at < varint_size(to - from))
        return NULL;
    at = put_varint(at, to - from);
    for (int32_t i = from; i < to; i++)
        if (!(at = put_entry(at, end, &table->names, i)) || !(at = put_entry(at, end, &table->contents, i)))
            return NULL;
    return at;
}

typedef struct {
    int64_t rows; /* as many as make a batch */
    int64_t size; /* bytes of the batch, its header included */
    int64_t base_timestamp, max_timestamp;
    int is_bad; /* a row's offsets lie outside its column, or its record takes more than 2 GiB */
} Measured;

static Measured measure_rows(const Table *table, int64_t start, int64_t stop, int64_t max_bytes)
{
    Measured measured = {0, HEADER_SIZE, timestamp_at(table, start), -1, 0};
    for (int64_t row = start; row < stop && measured.rows < INT32_MAX; row++) {
        int64_t timestamp = timestamp_at(table, row);
        int64_t delta = wrapping_subtract(timestamp, measured.base_timestamp);
        int64_t body = body_size(table, row, delta, measured.rows);
        if (body < 0 || body > INT32_MAX) {
            measured.is_bad = 1;
            break;
        }
        int64_t size = measured.size + varint_size(body) + body;
        if (measured.rows && size > max_bytes)
            break;
        measured.size = size;
        measured.rows++;
        if (timestamp > measured.max_timestamp)
            measured.max_timestamp = timestamp;
    }
    return measured;
}

/* 0, or -1 where the buffers changed since they were measured. */
static int write_rows(const Table *table, int64_t start, const Measured *measured, uint8_t *at)
{
    const uint8_t *end = at + measured->size;
    memset(at, 0, HEADER_SIZE);
    at += HEADER_SIZE;
    for (int64_t index = 0; index < measured->rows; index++) {
        int64_t row = start + index;
        int64_t delta = wrapping_subtract(timestamp_at(table, row), measured->base_timestamp);
        int64_t body = body_size(table, row, delta, index);
        if (body < 0 || !(at = put_row(at, end, table, row, body, delta, index)))
            return -1;
    }
    return at == end ? 0 : -1;
}

static PyObject *encode_table(const Table *table, int64_t start, int64_t stop, int64_t max_bytes, int may_release)
{
    PyThreadState *released = release_gil(may_release);
    Measured measured = measure_rows(table, start, stop, max_bytes);
    take_gil(released);
    if (measured.is_bad) {
        PyErr_SetString(PyExc_ValueError,
                        "a column's offsets lie outside its bytes, or a record takes more than 2 GiB");
        return NULL;
    }
    PyObject *out = PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)measured.size);
    if (!out)
        return NULL;
    uint8_t *at = (uint8_t *)PyByteArray_AsString(out);
    released = release_gil(may_release);
    int outcome = write_rows(table, start, &measured, at);
    take_gil(released);
    if (outcome < 0) {
        Py_DECREF(out);
        PyErr_SetString(PyExc_RuntimeError, "the columns changed while they were read");
        return NULL;
    }
    return Py_BuildValue("(NLLL)", out, (long long)measured.rows, (long long)measured.base_timestamp,
                         (long long)measured.max_timestamp);
}

/* encode(start, stop, max_bytes, key, value, timestamps, default_timestamp, scale, headers)
 *     -> (bytearray, rows, base_timestamp, max_timestamp) */
PyObject *py_encode(PyObject *module, PyObject *args)
{
    TableArguments columns;
    PyObject *result = NULL;
    long long start, stop, max_bytes, default_timestamp, scale;
    (void)module;
    if (!PyArg_ParseTuple(args, "LLLOOOLLO", &start, &stop, &max_bytes, &columns.key, &columns.value,
                          &columns.timestamps, &default_timestamp, &scale, &columns.headers))
        return NULL;
    if (start < 0 || stop <= start || stop > INT32_MAX || scale < 1) {
        PyErr_SetString(PyExc_ValueError, "no such rows");
        return NULL;
    }
    Table table;
    Views views;
    memset(&table, 0, sizeof table);
    views.count = 0;
    table.default_timestamp = default_timestamp;
    table.scale = scale;
    if (take_table(&views, &columns, stop, &table) == 0)
        result = encode_table(&table, start, stop, max_bytes, views_are_readonly(&views));
    release_views(&views);
    return result;
}
