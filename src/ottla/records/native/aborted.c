/*
 * Follows the batches of a run from first to last to know which belong to aborted transactions; see aborted.h.
 */
#include "aborted.h"

#include "record.h"

int take_aborted(AbortedTransactions *aborted, const Py_buffer *pairs)
{
    memset(aborted, 0, sizeof *aborted);
    aborted->pairs = pairs->buf;
    aborted->count = pairs->len / 16;
    if (aborted->count && !(aborted->aborting = PyMem_Malloc((size_t)aborted->count * sizeof *aborted->aborting))) {
        PyErr_NoMemory();
        return -1;
    }
    return 0;
}

void release_aborted(AbortedTransactions *aborted) { PyMem_Free(aborted->aborting); }

static int64_t producer_of(const AbortedTransactions *aborted, Py_ssize_t index)
{
    return load_int64(aborted->pairs + 16 * index);
}

static int64_t first_offset_of(const AbortedTransactions *aborted, Py_ssize_t index)
{
    return load_int64(aborted->pairs + 16 * index + 8);
}

/* A marker's key is a version and a type, two bytes each; type 0 is an abort. */
static int is_abort_marker(const uint8_t *payload, Py_ssize_t size)
{
    Record record;
    const uint8_t *at = payload;
    return read_record(&at, payload + size, &record) == FAULT_NONE && record.key_size >= 4 &&
           get16(record.key + 2) == 0;
}

static void end_transactions(AbortedTransactions *aborted, int64_t producer_id)
{
    Py_ssize_t kept = 0;
    for (Py_ssize_t i = 0; i < aborted->aborting_count; i++)
        if (aborted->aborting[i] != producer_id)
            aborted->aborting[kept++] = aborted->aborting[i];
    aborted->aborting_count = kept;
}

static int is_aborting(const AbortedTransactions *aborted, int64_t producer_id)
{
    for (Py_ssize_t i = 0; i < aborted->aborting_count; i++)
        if (aborted->aborting[i] == producer_id)
            return 1;
    return 0;
}

int belongs_to_aborted(AbortedTransactions *aborted, const uint8_t *batch, Py_ssize_t size, int64_t last_offset)
{
    int64_t producer_id = signed64(get64(batch + PRODUCER_ID_AT));
    int attributes = get16(batch + ATTRIBUTES_AT);
    if (!aborted->count || producer_id < 0)
        return 0;
    for (; aborted->seen < aborted->count && first_offset_of(aborted, aborted->seen) <= last_offset; aborted->seen++)
        aborted->aborting[aborted->aborting_count++] = producer_of(aborted, aborted->seen);
    if (attributes & CONTROL_BIT) {
        if (is_abort_marker(batch + HEADER_SIZE, size - HEADER_SIZE))
            end_transactions(aborted, producer_id);
        return 0;
    }
    return attributes & TRANSACTIONAL_BIT && is_aborting(aborted, producer_id);
}
