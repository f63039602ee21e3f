/*
 * Measures and fills Arrow-style columns; see columns.h. Filling trusts no measure: a payload may have changed since
 * in a mutable buffer, so every copy is checked against the room that was measured.
 */
#include "columns.h"

#include "record.h"

/* Null contents among a record's headers, which read_record has parsed. */
static int64_t null_contents(const Record *record, const uint8_t *end)
{
    const uint8_t *at = record->headers;
    int64_t nulls = 0;
    for (int32_t i = 0; i < record->headers_count; i++) {
        Header header;
        if (read_header(&at, end, &header))
            break;
        nulls += header.content_size < 0;
    }
    return nulls;
}

static inline void add_sizes(ColumnSizes *sizes, const Record *record)
{
    sizes->rows++;
    if (record->key_size < 0)
        sizes->null_keys++;
    else
        sizes->key_bytes += record->key_size;
    if (record->value_size < 0)
        sizes->null_values++;
    else
        sizes->value_bytes += record->value_size;
}

static void add_header_sizes(ColumnSizes *sizes, const Record *record, const uint8_t *end)
{
    sizes->rows_with_headers++;
    sizes->headers += record->headers_count;
    sizes->name_bytes += record->name_bytes;
    sizes->content_bytes += record->content_bytes;
    sizes->null_contents += null_contents(record, end);
}

static inline int is_wanted(const Selection *selection, int64_t offset)
{
    return offset >= selection->start_offset && offset < selection->end_offset;
}

int measure_records(const BatchRecords *batch, const Selection *selection, ColumnSizes *sizes, int64_t *index)
{
    const uint8_t *at = batch->payload, *end = at + batch->size;
    *index = 0;
    if (!count_is_possible(batch->count, batch->size))
        return FAULT_RECORD_COUNT;
    for (; *index < batch->count; ++*index) {
        Record record;
        int fault = read_record(&at, end, &record);
        if (fault)
            return fault;
        if (!is_wanted(selection, wrapping_add(batch->base_offset, record.offset_delta)))
            continue;
        add_sizes(sizes, &record);
        if (selection->want_headers && record.headers_count)
            add_header_sizes(sizes, &record, at);
    }
    return at == end ? FAULT_NONE : FAULT_TRAILING_BYTES;
}

/* The buffers being filled, and how far. */
typedef struct {
    uint8_t *key_validity, *key_data, *value_validity, *value_data;
    int32_t *key_offsets, *value_offsets, *timestamp_types;
    int64_t *offsets, *timestamps;
    uint8_t *list_validity, *name_data, *content_validity, *content_data;
    int32_t *lists, *name_offsets, *content_offsets;
    ColumnSizes filled;
} Columns;

static inline void set_bit(uint8_t *bits, int64_t row) { bits[row >> 3] |= (uint8_t)(1u << (row & 7)); }

/* In the column's unit; the ends of int64 stand for what lies beyond them. */
static inline int64_t scaled(int64_t timestamp, int64_t scale)
{
    if (timestamp > INT64_MAX / scale)
        return INT64_MAX;
    if (timestamp < INT64_MIN / scale)
        return INT64_MIN;
    return timestamp * scale;
}

/* 0, or -1 where more comes than was measured. */
static int fill_header(const Header *header, const ColumnSizes *sizes, Columns *columns)
{
    ColumnSizes *filled = &columns->filled;
    if (filled->headers >= sizes->headers || header->name_size > sizes->name_bytes - filled->name_bytes ||
        header->content_size > sizes->content_bytes - filled->content_bytes)
        return -1;
    memcpy(columns->name_data + filled->name_bytes, header->name, (size_t)header->name_size);
    filled->name_bytes += header->name_size;
    if (header->content_size >= 0) {
        memcpy(columns->content_data + filled->content_bytes, header->content, (size_t)header->content_size);
        filled->content_bytes += header->content_size;
        set_bit(columns->content_validity, filled->headers);
    }
    filled->headers++;
    columns->name_offsets[filled->headers] = (int32_t)filled->name_bytes;
    columns->content_offsets[filled->headers] = (int32_t)filled->content_bytes;
    return 0;
}

static int fill_headers(const Record *record, const uint8_t *end, const ColumnSizes *sizes, Columns *columns)
{
    const uint8_t *at = record->headers;
    int64_t row = columns->filled.rows;
    if (record->headers_count)
        set_bit(columns->list_validity, row);
    for (int32_t i = 0; i < record->headers_count; i++) {
        Header header;
        if (read_header(&at, end, &header) || fill_header(&header, sizes, columns) < 0)
            return -1;
    }
    columns->lists[row + 1] = (int32_t)columns->filled.headers;
    return 0;
}

/* 0, or -1 where more comes than was measured. */
static inline int fill_key_and_value(const Record *record, const ColumnSizes *sizes, Columns *columns)
{
    ColumnSizes *filled = &columns->filled;
    int64_t row = filled->rows;
    if (row >= sizes->rows || record->key_size > sizes->key_bytes - filled->key_bytes ||
        record->value_size > sizes->value_bytes - filled->value_bytes)
        return -1;
    if (record->key_size >= 0) {
        memcpy(columns->key_data + filled->key_bytes, record->key, (size_t)record->key_size);
        filled->key_bytes += record->key_size;
        set_bit(columns->key_validity, row);
    }
    if (record->value_size >= 0) {
        memcpy(columns->value_data + filled->value_bytes, record->value, (size_t)record->value_size);
        filled->value_bytes += record->value_size;
        set_bit(columns->value_validity, row);
    }
    columns->key_offsets[row + 1] = (int32_t)filled->key_bytes;
    columns->value_offsets[row + 1] = (int32_t)filled->value_bytes;
    return 0;
}

static int fill_batch(const BatchRecords *batch, const Selection *selection, const ColumnSizes *sizes,
                      Columns *columns)
{
    const uint8_t *at = batch->payload, *end = at + batch->size;
    for (int64_t index = 0; index < batch->count; index++) {
        Record record;
        if (read_record(&at, end, &record))
            return -1;
        int64_t offset = wrapping_add(batch->base_offset, record.offset_delta), row = columns->filled.rows;
        if (!is_wanted(selection, offset))
            continue;
        if (fill_key_and_value(&record, sizes, columns) < 0)
            return -1;
        int64_t timestamp = batch->timestamp_type ? batch->append_time
                                                  : wrapping_add(batch->base_timestamp, record.timestamp_delta);
        columns->offsets[row] = offset;
        columns->timestamps[row] = scaled(timestamp, selection->scale);
        columns->timestamp_types[row] = batch->timestamp_type;
        if (selection->want_headers && fill_headers(&record, at, sizes, columns) < 0)
            return -1;
        columns->filled.rows++;
    }
    return 0;
}

/* Whether filling came to what was measured: with less, the buffers' ends would be bytes that nobody wrote. */
static int is_full(const ColumnSizes *filled, const ColumnSizes *sizes)
{
    return filled->rows == sizes->rows && filled->key_bytes == sizes->key_bytes &&
           filled->value_bytes == sizes->value_bytes && filled->headers == sizes->headers &&
           filled->name_bytes == sizes->name_bytes && filled->content_bytes == sizes->content_bytes;
}

static int fill_batches(const BatchRecords *batches, Py_ssize_t count, const Selection *selection,
                        const ColumnSizes *sizes, Columns *columns)
{
    for (Py_ssize_t i = 0; i < count; i++)
        if (fill_batch(&batches[i], selection, sizes, columns) < 0)
            return -1;
    return is_full(&columns->filled, sizes) ? 0 : -1;
}

/* A new bytearray at the end of the list, and where its bytes are; NULL with a Python error. */
static void *new_buffer(PyObject *list, int64_t size)
{
    PyObject *buffer = PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)size);
    if (!buffer)
        return NULL;
    void *at = PyByteArray_AsString(buffer);
    int outcome = PyList_Append(list, buffer);
    Py_DECREF(buffer);
    return outcome < 0 ? NULL : at;
}

static uint8_t *new_validity(PyObject *list, int64_t entries)
{
    int64_t size = (entries + 7) / 8;
    uint8_t *bits = new_buffer(list, size);
    if (bits)
        memset(bits, 0, (size_t)size);
    return bits;
}

static int32_t *new_offsets(PyObject *list, int64_t entries)
{
    int32_t *offsets = new_buffer(list, 4 * (entries + 1));
    if (offsets)
        offsets[0] = 0;
    return offsets;
}

/* 0, or -1 with a Python error. */
static int new_columns(const ColumnSizes *sizes, int want_headers, PyObject *list, Columns *columns)
{
    int64_t rows = sizes->rows, headers = sizes->headers;
    if (!(columns->key_validity = new_validity(list, rows)) || !(columns->key_offsets = new_offsets(list, rows)) ||
        !(columns->key_data = new_buffer(list, sizes->key_bytes)) ||
        !(columns->value_validity = new_validity(list, rows)) ||
        !(columns->value_offsets = new_offsets(list, rows)) ||
        !(columns->value_data = new_buffer(list, sizes->value_bytes)) ||
        !(columns->offsets = new_buffer(list, 8 * rows)) || !(columns->timestamps = new_buffer(list, 8 * rows)) ||
        !(columns->timestamp_types = new_buffer(list, 4 * rows)))
        return -1;
    if (!want_headers)
        return 0;
    if (!(columns->list_validity = new_validity(list, rows)) || !(columns->lists = new_offsets(list, rows)) ||
        !(columns->name_offsets = new_offsets(list, headers)) ||
        !(columns->name_data = new_buffer(list, sizes->name_bytes)) ||
        !(columns->content_validity = new_validity(list, headers)) ||
        !(columns->content_offsets = new_offsets(list, headers)) ||
        !(columns->content_data = new_buffer(list, sizes->content_bytes)))
        return -1;
    return 0;
}

PyObject *filled_columns(const BatchRecords *batches, Py_ssize_t count, const Selection *selection,
                         const ColumnSizes *sizes, int may_release)
{
    Columns columns;
    PyObject *list = PyList_New(0);
    memset(&columns, 0, sizeof columns);
    if (!list || new_columns(sizes, selection->want_headers, list, &columns) < 0) {
        Py_XDECREF(list);
        return NULL;
    }
    PyThreadState *released = release_gil(may_release);
    int outcome = fill_batches(batches, count, selection, sizes, &columns);
    take_gil(released);
    if (outcome < 0) {
        Py_DECREF(list);
        PyErr_SetString(PyExc_RuntimeError, "the batches changed while they were read");
        return NULL;
    }
    return list;
}
