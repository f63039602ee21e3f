/*
 * Checks a produced batch's records without keeping any: `scan` parses them all and sums up their timestamps and null
 * keys, `offenders` then names the records that a topic does not take. Timestamps are in milliseconds; -1 stands
 * for none.
 */
#include "module.h"
#include "record.h"

typedef struct {
    int fault;
    int64_t index;          /* of the record that does not parse */
    int64_t least, largest; /* timestamps; INT64_MAX and -1 where no record has one */
    int64_t largest_delta;  /* of the first record that has the largest timestamp */
    int64_t keyless;        /* records with a null key */
} Scanned;

static Scanned refused(int fault, int64_t index)
{
    Scanned scanned = {fault, index, INT64_MAX, -1, -1, 0};
    return scanned;
}

static Scanned scan_payload(const uint8_t *at, Py_ssize_t size, int64_t count, int64_t base_timestamp)
{
    Scanned found = {FAULT_NONE, 0, INT64_MAX, -1, -1, 0};
    const uint8_t *end = at + size;
    if (!count_is_possible(count, size))
        return refused(FAULT_RECORD_COUNT, 0);
    for (int64_t index = 0; index < count; index++) {
        Record record;
        int fault = read_record(&at, end, &record);
        if (!fault && record.offset_delta != index)
            fault = FAULT_OFFSET_DELTA;
        if (fault)
            return refused(fault, index);
        int64_t timestamp = wrapping_add(base_timestamp, record.timestamp_delta);
        if (timestamp > found.largest) {
            found.largest = timestamp;
            found.largest_delta = index;
        }
        if (timestamp != -1 && timestamp < found.least)
            found.least = timestamp;
        found.keyless += record.key_size < 0;
    }
    return at == end ? found : refused(FAULT_TRAILING_BYTES, count);
}

/* scan(payload, count, base_timestamp) -> (fault, index, least, largest, largest_delta, keyless) */
PyObject *py_scan(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    Py_buffer payload;
    int64_t count, base_timestamp;
    (void)module;
    if (nargs != 3) {
        PyErr_SetString(PyExc_TypeError, "scan(payload, count, base_timestamp)");
        return NULL;
    }
    if (int64_argument(args[1], &count) < 0 || int64_argument(args[2], &base_timestamp) < 0 ||
        PyObject_GetBuffer(args[0], &payload, PyBUF_SIMPLE) < 0)
        return NULL;
    PyThreadState *released = release_gil(payload.readonly && payload.len >= WORTH_RELEASING);
    Scanned found = scan_payload(payload.buf, payload.len, count, base_timestamp);
    take_gil(released);
    PyBuffer_Release(&payload);
    return Py_BuildValue("(iLLLLL)", found.fault, (long long)found.index, (long long)found.least,
                         (long long)found.largest, (long long)found.largest_delta, (long long)found.keyless);
}

/* Why a record is refused: the numbers of records/compiled.py. */
enum { TAKEN = 0, KEYLESS = 1, UNTIMELY = 2 };

static int append_offender(PyObject *list, int64_t index, int reason)
{
    PyObject *item = Py_BuildValue("(Li)", (long long)index, reason);
    int outcome = item ? PyList_Append(list, item) : -1;
    Py_XDECREF(item);
    return outcome;
}

/* offenders(payload, count, base_timestamp, need_keys, earliest, latest, most) -> [(index, reason)], at most `most` */
PyObject *py_offenders(PyObject *module, PyObject *args)
{
    Py_buffer payload;
    long long count, base_timestamp, earliest, latest, most;
    int need_keys;
    (void)module;
    if (!PyArg_ParseTuple(args, "y*LLpLLL", &payload, &count, &base_timestamp, &need_keys, &earliest, &latest, &most))
        return NULL;
    PyObject *list = PyList_New(0);
    const uint8_t *at = payload.buf, *end = at + payload.len;
    if (!count_is_possible(count, payload.len))
        count = 0;
    for (int64_t index = 0; list && index < count && PyList_Size(list) < most; index++) {
        Record record;
        if (read_record(&at, end, &record))
            break;
        int64_t timestamp = wrapping_add(base_timestamp, record.timestamp_delta);
        int reason = TAKEN;
        if (need_keys && record.key_size < 0)
            reason = KEYLESS;
        else if (timestamp != -1 && (timestamp < earliest || timestamp > latest))
            reason = UNTIMELY;
        if (reason != TAKEN && append_offender(list, index, reason) < 0)
            Py_CLEAR(list);
    }
    PyBuffer_Release(&payload);
    return list;
}
