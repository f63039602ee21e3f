/*
 * Arrow-style columns of decoded records: measured over all batches first, so that each buffer is allocated once, then
 * filled. Used by decode.c.
 */
#ifndef OTTLA_COLUMNS_H
#define OTTLA_COLUMNS_H

#include "module.h"

/* The uncompressed records of one batch, and the fields of its header that they need. */
typedef struct {
    const uint8_t *payload;
    Py_ssize_t size;
    int64_t count, base_offset, base_timestamp;
    int64_t append_time;    /* the timestamp of all records where the type is 1 */
    int32_t timestamp_type; /* 0 CreateTime, 1 LogAppendTime */
} BatchRecords;

/* The records that are wanted: start_offset <= offset < end_offset. */
typedef struct {
    int64_t start_offset, end_offset;
    int64_t scale; /* units of the timestamp column in a millisecond */
    int want_headers;
} Selection;

typedef struct {
    int64_t rows, key_bytes, value_bytes, null_keys, null_values;
    int64_t rows_with_headers, headers, name_bytes, content_bytes, null_contents;
} ColumnSizes;

/* Keys, values, names and contents together. */
static inline int64_t gathered_bytes(const ColumnSizes *sizes)
{
    return sizes->key_bytes + sizes->value_bytes + sizes->name_bytes + sizes->content_bytes;
}

/* Parses a whole batch and adds the sizes of the wanted records. The fault, and the index of the record that has it. */
int measure_records(const BatchRecords *batch, const Selection *selection, ColumnSizes *sizes, int64_t *index);

/* A list of bytearrays: key validity, offsets, data; the same of value; offsets, timestamps and timestamp types of
 * records; where headers are wanted also validity and offsets of the lists, offsets and data of names, and validity,
 * offsets, data of contents. NULL with a Python error. */
PyObject *filled_columns(const BatchRecords *batches, Py_ssize_t count, const Selection *selection,
                         const ColumnSizes *sizes, int may_release);

#endif
