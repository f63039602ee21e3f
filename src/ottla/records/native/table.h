/*
 * A table of Arrow-style columns, as encode reads it: buffers of the caller, taken once by table.c, which checks that
 * each is long enough for its rows. Offsets inside the buffers are checked at every access, here. Inline, since the
 * loops over rows live on it.
 *
 * Arrow's shapes: validity is one bit a row, least significant first; offsets are int32, one more than entries.
 */
#ifndef OTTLA_TABLE_H
#define OTTLA_TABLE_H

#include "module.h"

#include "bytes.h"

/* Three buffers each of key, value, names and contents; two of timestamps, two of the lists of headers. */
enum { MOST_BUFFERS = 16 };

typedef struct {
    Py_buffer views[MOST_BUFFERS];
    int count;
} Views;

typedef struct {
    int present;             /* 0: all null */
    const uint8_t *validity; /* NULL: no nulls */
    const uint8_t *offsets;
    const uint8_t *data;
    int64_t entries, data_size;
} BinaryColumn;

typedef struct {
    BinaryColumn key, value, names, contents;
    const uint8_t *timestamps, *timestamps_validity; /* int64; NULL: all have the default */
    const uint8_t *lists, *lists_validity;           /* offsets of rows into names and contents */
    int64_t default_timestamp;                       /* in milliseconds */
    int64_t scale;                                   /* units of `timestamps` in a millisecond */
    int has_headers;
} Table;

typedef struct {
    PyObject *key, *value, *timestamps, *headers;
} TableArguments;

/* Takes the buffers of `rows` rows; 0, or -1 with a Python error. The views are to be released in both cases. */
int take_table(Views *views, const TableArguments *arguments, int64_t rows, Table *table);
void release_views(Views *views);
int views_are_readonly(const Views *views);

static inline int is_valid(const uint8_t *validity, int64_t row)
{
    return !validity || (validity[row >> 3] >> (row & 7) & 1);
}

/* The bytes of an entry; size -1 for a null. 0, or -1 where its offsets lie outside the column's bytes (no Python
 * error is set: the GIL may be released). */
static inline int entry_at(const BinaryColumn *column, int64_t entry, const uint8_t **start, int32_t *size)
{
    if (!column->present || !is_valid(column->validity, entry)) {
        *size = -1;
        return 0;
    }
    int32_t from = load_int32(column->offsets + 4 * entry), to = load_int32(column->offsets + 4 * entry + 4);
    if (from < 0 || to < from || to > column->data_size)
        return -1;
    *start = column->data + from;
    *size = to - from;
    return 0;
}

/* In milliseconds, rounded down. */
static inline int64_t timestamp_at(const Table *table, int64_t row)
{
    if (!table->timestamps || !is_valid(table->timestamps_validity, row))
        return table->default_timestamp;
    int64_t timestamp = load_int64(table->timestamps + 8 * row);
    int64_t whole = timestamp / table->scale;
    return timestamp % table->scale < 0 ? whole - 1 : whole;
}

/* The entries of names and contents that are a row's headers: `*from` to `*to` - 1. 0, or -1 where the list's offsets
 * lie outside names or contents. */
static inline int headers_at(const Table *table, int64_t row, int32_t *from, int32_t *to)
{
    *from = *to = 0;
    if (!table->has_headers || !is_valid(table->lists_validity, row))
        return 0;
    *from = load_int32(table->lists + 4 * row);
    *to = load_int32(table->lists + 4 * row + 4);
    return *from < 0 || *to < *from || *to > table->names.entries || *to > table->contents.entries ? -1 : 0;
}

#endif
