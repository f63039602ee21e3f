/*
 * Reads a run of contiguous batches, as a fetch response holds them, into Arrow-style columns: which batches are
 * wanted, that they are sound, and their records uncompressed. columns.c fills the columns.
 */
#include "aborted.h"
#include "checksum.h"
#include "columns.h"
#include "record.h"

typedef struct {
    const uint8_t *start;
    Py_ssize_t size, position;
    Py_ssize_t from; /* batches before it only tell which transactions are aborted */
    Selection selection;
    int check_crc;
    int64_t max_bytes, next_offset;
    AbortedTransactions aborted;
    PyObject *decompress; /* decompress(codec, start, end) -> a buffer */
    BatchRecords *batches; /* those with wanted records */
    Py_ssize_t batches_count, batches_room;
    Py_buffer *owned; /* what decompress gave for them */
    Py_ssize_t owned_count, owned_room;
    int64_t owned_bytes;
    ColumnSizes sizes;
    int readonly; /* no buffer read from can change */
} Run;

/* How the look at one batch ended, beside the faults, which are positive. */
enum { NEXT_BATCH = -1, END_OF_RUN = -2, PYTHON_ERROR = -3 };

static int room_for_one(void **items, Py_ssize_t *room, Py_ssize_t count, size_t item_size)
{
    if (count < *room)
        return 0;
    Py_ssize_t wider = *room ? 2 * *room : 16;
    void *moved = PyMem_Realloc(*items, (size_t)wider * item_size);
    if (!moved) {
        PyErr_NoMemory();
        return -1;
    }
    *items = moved;
    *room = wider;
    return 0;
}

/* Asks for the uncompressed records of the batch at `position` and keeps them. 0, or -1 with a Python error. */
static int decompress_records(Run *run, int codec, Py_ssize_t size, BatchRecords *records)
{
    if (room_for_one((void **)&run->owned, &run->owned_room, run->owned_count, sizeof *run->owned) < 0)
        return -1;
    PyObject *payload = PyObject_CallFunction(run->decompress, "inn", codec, run->position + HEADER_SIZE,
                                              run->position + size);
    if (!payload)
        return -1;
    int outcome = PyObject_GetBuffer(payload, &run->owned[run->owned_count], PyBUF_SIMPLE);
    Py_DECREF(payload);
    if (outcome < 0)
        return -1;
    const Py_buffer *view = &run->owned[run->owned_count++];
    run->owned_bytes += view->len;
    run->readonly = run->readonly && view->readonly;
    records->payload = view->buf;
    records->size = view->len;
    return 0;
}

static void release_last_owned(Run *run)
{
    Py_buffer *view = &run->owned[--run->owned_count];
    run->owned_bytes -= view->len;
    PyBuffer_Release(view);
}

/* Uncompressed bytes count too: records without keys, values and headers would gather nothing, and yet fill memory. */
static int is_too_much(const Run *run)
{
    return gathered_bytes(&run->sizes) > run->max_bytes || run->owned_bytes > run->max_bytes;
}

/* Adds the records of a batch to what fills the columns, unless that would be too much for one call. */
static int add_records(Run *run, const BatchRecords *records, int64_t *index)
{
    ColumnSizes before = run->sizes;
    PyThreadState *released = release_gil(run->readonly && records->size >= WORTH_RELEASING);
    int fault = measure_records(records, &run->selection, &run->sizes, index);
    take_gil(released);
    if (fault)
        return fault;
    if (before.rows && is_too_much(run)) {
        run->sizes = before;
        return END_OF_RUN;
    }
    if (gathered_bytes(&run->sizes) > INT32_MAX || run->sizes.rows >= INT32_MAX || run->sizes.headers >= INT32_MAX) {
        PyErr_SetString(PyExc_OverflowError, "one batch holds more than fits 32-bit offsets");
        return PYTHON_ERROR;
    }
    if (run->sizes.rows == before.rows)
        return NEXT_BATCH;
    if (room_for_one((void **)&run->batches, &run->batches_room, run->batches_count, sizeof *run->batches) < 0)
        return PYTHON_ERROR;
    run->batches[run->batches_count++] = *records;
    return NEXT_BATCH;
}

static int take_records(Run *run, const uint8_t *batch, Py_ssize_t size, int64_t *index)
{
    int attributes = get16(batch + ATTRIBUTES_AT), codec = attributes & COMPRESSION_MASK;
    BatchRecords records = {batch + HEADER_SIZE,
                            size - HEADER_SIZE,
                            signed32(get32(batch + COUNT_AT)),
                            signed64(get64(batch + BASE_OFFSET_AT)),
                            signed64(get64(batch + BASE_TIMESTAMP_AT)),
                            signed64(get64(batch + MAX_TIMESTAMP_AT)),
                            attributes & TIMESTAMP_TYPE_BIT ? 1 : 0};
    if (codec > LAST_CODEC)
        return FAULT_CODEC;
    if (codec && decompress_records(run, codec, size, &records) < 0)
        return PYTHON_ERROR;
    Py_ssize_t before = run->batches_count;
    int outcome = add_records(run, &records, index);
    if (codec && run->batches_count == before)
        release_last_owned(run);
    return outcome;
}

static int crc_holds(const Run *run, const uint8_t *batch, Py_ssize_t size)
{
    PyThreadState *released = release_gil(run->readonly && size >= CRC_WORTH_RELEASING);
    uint32_t crc = crc32c(0, batch + CRC_START, (size_t)size - CRC_START);
    take_gil(released);
    return crc == get32(batch + CRC_AT);
}

/* Looks at the batch at `position` and goes past it: NEXT_BATCH. Or says why not: END_OF_RUN where it is not all
 * there, not wanted or too much; a fault, and the index of the record that has it; PYTHON_ERROR. */
static int take_batch(Run *run, int64_t *index)
{
    const uint8_t *batch = run->start + run->position;
    Py_ssize_t left = run->size - run->position;
    *index = 0;
    if (left < HEADER_SIZE)
        return END_OF_RUN;
    if (batch[MAGIC_AT] != MAGIC)
        return FAULT_MAGIC;
    int64_t size = (int64_t)signed32(get32(batch + LENGTH_AT)) + SIZE_OVERHEAD;
    if (size < HEADER_SIZE)
        return FAULT_BATCH_SIZE;
    if (size > left)
        return END_OF_RUN;
    int64_t base_offset = signed64(get64(batch + BASE_OFFSET_AT));
    int64_t last_offset = wrapping_add(base_offset, signed32(get32(batch + LAST_DELTA_AT)));
    int is_wanted = run->position >= run->from;
    if (is_wanted && base_offset >= run->selection.end_offset)
        return END_OF_RUN;
    int is_aborted = belongs_to_aborted(&run->aborted, batch, (Py_ssize_t)size, last_offset);
    if (is_wanted && last_offset >= run->selection.start_offset) {
        if (run->check_crc && !crc_holds(run, batch, (Py_ssize_t)size))
            return FAULT_CRC;
        if (!is_aborted && !(get16(batch + ATTRIBUTES_AT) & CONTROL_BIT)) {
            int outcome = take_records(run, batch, (Py_ssize_t)size, index);
            if (outcome != NEXT_BATCH)
                return outcome;
        }
    }
    if (is_wanted)
        run->next_offset = wrapping_add(last_offset, 1);
    run->position += (Py_ssize_t)size;
    return NEXT_BATCH;
}

/* (0, position, next offset, rows, columns, (null keys, null values, rows without headers, headers, null contents)) */
static PyObject *decoded(const Run *run)
{
    const ColumnSizes *sizes = &run->sizes;
    PyObject *columns = filled_columns(run->batches, run->batches_count, &run->selection, sizes, run->readonly);
    if (!columns)
        return NULL;
    return Py_BuildValue("(inLLN(LLLLL))", 0, run->position, (long long)run->next_offset, (long long)sizes->rows,
                         columns, (long long)sizes->null_keys, (long long)sizes->null_values,
                         (long long)(sizes->rows - sizes->rows_with_headers), (long long)sizes->headers,
                         (long long)sizes->null_contents);
}

/* The batches up to the end of the run; where one has a fault: (fault, its position, record, 0, [], (0, ...)). */
static PyObject *decode_run(Run *run)
{
    int outcome;
    int64_t index = 0;
    do
        outcome = take_batch(run, &index);
    while (outcome == NEXT_BATCH);
    if (outcome == PYTHON_ERROR)
        return NULL;
    if (outcome == END_OF_RUN)
        return decoded(run);
    return Py_BuildValue("(inLL[](LLLLL))", outcome, run->position, (long long)index, 0LL, 0LL, 0LL, 0LL, 0LL, 0LL);
}

static void release_run(Run *run)
{
    while (run->owned_count)
        release_last_owned(run);
    PyMem_Free(run->owned);
    PyMem_Free(run->batches);
    release_aborted(&run->aborted);
}

/* decode(view, position, start_offset, end_offset, scale, headers, aborted, check_crc, max_bytes, decompress): what
 * decode_run gives; `position` is where wanted batches begin. */
PyObject *py_decode(PyObject *module, PyObject *args)
{
    Py_buffer view, aborted;
    PyObject *result = NULL;
    long long start_offset, end_offset, scale, max_bytes;
    Run run;
    (void)module;
    memset(&run, 0, sizeof run);
    if (!PyArg_ParseTuple(args, "y*nLLLpy*pLO", &view, &run.from, &start_offset, &end_offset, &scale,
                          &run.selection.want_headers, &aborted, &run.check_crc, &max_bytes, &run.decompress))
        return NULL;
    run.start = view.buf;
    run.size = view.len;
    run.readonly = view.readonly;
    run.selection.start_offset = run.next_offset = start_offset;
    run.selection.end_offset = end_offset;
    run.selection.scale = scale;
    run.max_bytes = max_bytes;
    if (scale < 1 || max_bytes > INT32_MAX)
        PyErr_SetString(PyExc_ValueError, "scale is at least 1, max_bytes below 2 GiB");
    else if (take_aborted(&run.aborted, &aborted) == 0)
        result = decode_run(&run);
    release_run(&run);
    PyBuffer_Release(&view);
    PyBuffer_Release(&aborted);
    return result;
}
