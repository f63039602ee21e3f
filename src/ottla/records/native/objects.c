/*
 * Reads a payload's records as Python objects: one named tuple (offset, timestamp, key, value, headers) a record, for
 * those who want records one by one.
 */
#include "module.h"
#include "record.h"

static newfunc tuple_new;

/* 0, or -1 with a Python error. */
int prepare_reading(void)
{
    tuple_new = (newfunc)PyType_GetSlot(&PyTuple_Type, Py_tp_new);
    return tuple_new ? 0 : -1;
}

static PyObject *bytes_or_none(const uint8_t *at, int32_t size)
{
    if (size < 0)
        return Py_NewRef(Py_None);
    return PyBytes_FromStringAndSize((const char *)at, size);
}

/* The pair (name, content). */
static PyObject *header_object(const Header *header)
{
    PyObject *pair = PyTuple_New(2);
    PyObject *name = PyUnicode_DecodeUTF8((const char *)header->name, header->name_size, "replace");
    PyObject *content = bytes_or_none(header->content, header->content_size);
    if (!pair || !name || !content) {
        Py_XDECREF(pair);
        Py_XDECREF(name);
        Py_XDECREF(content);
        return NULL;
    }
    PyTuple_SetItem(pair, 0, name);
    PyTuple_SetItem(pair, 1, content);
    return pair;
}

/* Headers are parsed once more here: what read_record has seen may have changed since in a mutable buffer. */
static PyObject *headers_object(const Record *record, const uint8_t *end)
{
    PyObject *headers = PyTuple_New(record->headers_count);
    const uint8_t *at = record->headers;
    for (int32_t i = 0; headers && i < record->headers_count; i++) {
        Header header;
        PyObject *pair = NULL;
        if (read_header(&at, end, &header))
            PyErr_SetString(PyExc_RuntimeError, "the records changed while they were read");
        else
            pair = header_object(&header);
        if (pair)
            PyTuple_SetItem(headers, i, pair);
        else
            Py_CLEAR(headers);
    }
    return headers;
}

/* A named tuple of type `make`, by tuple.__new__, which asks no keyword and no default. */
static PyObject *record_object(PyTypeObject *make, const Record *record, const uint8_t *end, int64_t offset,
                               PyObject *timestamp)
{
    PyObject *fields = PyTuple_New(5), *args = PyTuple_New(1), *made = NULL;
    PyObject *offset_object = PyLong_FromLongLong(offset);
    PyObject *key = bytes_or_none(record->key, record->key_size);
    PyObject *value = bytes_or_none(record->value, record->value_size);
    PyObject *headers = headers_object(record, end);
    if (fields && args && offset_object && key && value && headers) {
        PyTuple_SetItem(fields, 0, offset_object);
        PyTuple_SetItem(fields, 1, Py_NewRef(timestamp));
        PyTuple_SetItem(fields, 2, key);
        PyTuple_SetItem(fields, 3, value);
        PyTuple_SetItem(fields, 4, headers);
        PyTuple_SetItem(args, 0, Py_NewRef(fields));
        made = tuple_new(make, args, NULL);
    }
    else {
        Py_XDECREF(offset_object);
        Py_XDECREF(key);
        Py_XDECREF(value);
        Py_XDECREF(headers);
    }
    Py_XDECREF(fields);
    Py_XDECREF(args);
    return made;
}

typedef struct {
    PyTypeObject *make;
    Py_ssize_t size;
    const uint8_t *payload;
    int64_t count, base_offset, base_timestamp;
    PyObject *append_time; /* None: each record has its own */
} Reading;

static PyObject *next_object(const Reading *reading, const Record *record, const uint8_t *end)
{
    PyObject *timestamp =
        reading->append_time != Py_None
            ? Py_NewRef(reading->append_time)
            : PyLong_FromLongLong(wrapping_add(reading->base_timestamp, record->timestamp_delta));
    if (!timestamp)
        return NULL;
    int64_t offset = wrapping_add(reading->base_offset, record->offset_delta);
    PyObject *object = record_object(reading->make, record, end, offset, timestamp);
    Py_DECREF(timestamp);
    return object;
}

/* Appends every record to `list`. A fault and the index of its record, or -1 with a Python error. */
static int read_objects(const Reading *reading, PyObject *list, int64_t *index)
{
    const uint8_t *at = reading->payload, *end = at + reading->size;
    *index = 0;
    if (!count_is_possible(reading->count, reading->size))
        return FAULT_RECORD_COUNT;
    for (; *index < reading->count; ++*index) {
        Record record;
        int fault = read_record(&at, end, &record);
        if (fault)
            return fault;
        PyObject *object = next_object(reading, &record, at);
        int outcome = object ? PyList_Append(list, object) : -1;
        Py_XDECREF(object);
        if (outcome < 0)
            return -1;
    }
    return at == end ? FAULT_NONE : FAULT_TRAILING_BYTES;
}

/* read(make, payload, count, base_offset, base_timestamp, append_time) -> (records, fault, index) */
PyObject *py_read(PyObject *module, PyObject *args)
{
    PyObject *make, *append_time, *result = NULL;
    Py_buffer payload;
    long long count, base_offset, base_timestamp;
    int64_t index;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!y*LLLO", &PyType_Type, &make, &payload, &count, &base_offset, &base_timestamp,
                          &append_time))
        return NULL;
    PyObject *list = NULL;
    if (!PyType_IsSubtype((PyTypeObject *)make, &PyTuple_Type))
        PyErr_SetString(PyExc_TypeError, "a record is a tuple");
    else
        list = PyList_New(0);
    if (list) {
        Reading reading = {(PyTypeObject *)make, payload.len,    payload.buf, count,
                           base_offset,          base_timestamp, append_time};
        int fault = read_objects(&reading, list, &index);
        if (fault > 0)
            result = Py_BuildValue("([]iL)", fault, (long long)index);
        else if (fault == 0)
            result = Py_BuildValue("(Oii)", list, 0, 0);
    }
    Py_XDECREF(list);
    PyBuffer_Release(&payload);
    return result;
}
