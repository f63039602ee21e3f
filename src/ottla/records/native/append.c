/*
 * Writes one record, or a run of them, at the end of a bytearray. A body is gathered in scratch memory first, since the
 * length of the body, a varint, stands before it.
 */
#include "module.h"
#include "varint.h"

typedef struct {
    uint8_t *start;
    size_t size, room;
} Scratch;

/* All `scratch_` functions give 0, or -1 with a Python error. */
static int scratch_reserve(Scratch *scratch, size_t more)
{
    if (more > (size_t)PY_SSIZE_T_MAX - scratch->size) {
        PyErr_NoMemory();
        return -1;
    }
    if (scratch->size + more <= scratch->room)
        return 0;
    size_t room = scratch->size + more;
    if (room < 2 * scratch->room)
        room = 2 * scratch->room;
    uint8_t *start = PyMem_Realloc(scratch->start, room);
    if (!start) {
        PyErr_NoMemory();
        return -1;
    }
    scratch->start = start;
    scratch->room = room;
    return 0;
}

static int scratch_varint(Scratch *scratch, int64_t number)
{
    if (scratch_reserve(scratch, LONGEST_VARINT) < 0)
        return -1;
    scratch->size = (size_t)(put_varint(scratch->start + scratch->size, number) - scratch->start);
    return 0;
}

/* A length and as many bytes. */
static int scratch_sized(Scratch *scratch, const void *from, Py_ssize_t size)
{
    if (size > INT32_MAX) {
        PyErr_SetString(PyExc_OverflowError, "a key, value or header takes at most 2 GiB");
        return -1;
    }
    if (scratch_varint(scratch, size) < 0 || scratch_reserve(scratch, (size_t)size) < 0)
        return -1;
    if (size)
        memcpy(scratch->start + scratch->size, from, (size_t)size);
    scratch->size += (size_t)size;
    return 0;
}

static int scratch_buffer(Scratch *scratch, PyObject *content)
{
    Py_buffer view;
    if (content == Py_None)
        return scratch_varint(scratch, -1);
    if (PyObject_GetBuffer(content, &view, PyBUF_SIMPLE) < 0)
        return -1;
    int outcome = scratch_sized(scratch, view.buf, view.len);
    PyBuffer_Release(&view);
    return outcome;
}

static int scratch_name(Scratch *scratch, PyObject *name)
{
    if (PyUnicode_Check(name)) {
        Py_ssize_t size;
        const char *text = PyUnicode_AsUTF8AndSize(name, &size);
        return text ? scratch_sized(scratch, text, size) : -1;
    }
    if (name == Py_None) {
        PyErr_SetString(PyExc_TypeError, "a header has a name");
        return -1;
    }
    return scratch_buffer(scratch, name);
}

static int scratch_header(Scratch *scratch, PyObject *pair)
{
    PyObject *name = PySequence_GetItem(pair, 0);
    PyObject *content = name ? PySequence_GetItem(pair, 1) : NULL;
    int outcome = content ? scratch_name(scratch, name) : -1;
    if (!outcome)
        outcome = scratch_buffer(scratch, content);
    Py_XDECREF(name);
    Py_XDECREF(content);
    return outcome;
}

static int scratch_headers(Scratch *scratch, PyObject *headers)
{
    Py_ssize_t count = PySequence_Size(headers);
    if (count < 0 || scratch_varint(scratch, count) < 0)
        return -1;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *pair = PySequence_GetItem(headers, i);
        int outcome = pair ? scratch_header(scratch, pair) : -1;
        Py_XDECREF(pair);
        if (outcome < 0)
            return -1;
    }
    return 0;
}

/* Writes the length of `body` and the body at the end of `out`. */
static int append_body(PyObject *out, const Scratch *body)
{
    if (body->size > INT32_MAX) {
        PyErr_SetString(PyExc_OverflowError, "a record takes at most 2 GiB");
        return -1;
    }
    Py_ssize_t before = PyByteArray_Size(out);
    Py_ssize_t length_size = varint_size((int64_t)body->size);
    if (PyByteArray_Resize(out, before + length_size + (Py_ssize_t)body->size) < 0)
        return -1;
    uint8_t *at = put_varint((uint8_t *)PyByteArray_AsString(out) + before, (int64_t)body->size);
    memcpy(at, body->start, body->size);
    return 0;
}

/* append_record(out, offset_delta, timestamp_delta, key, value, headers) -> None */
PyObject *py_append_record(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    int64_t offset_delta, timestamp_delta;
    (void)module;
    if (nargs != 6 || !PyByteArray_Check(args[0])) {
        PyErr_SetString(PyExc_TypeError, "append_record(out, offset_delta, timestamp_delta, key, value, headers)");
        return NULL;
    }
    if (int64_argument(args[1], &offset_delta) < 0 || int64_argument(args[2], &timestamp_delta) < 0)
        return NULL;
    if (offset_delta < INT32_MIN || offset_delta > INT32_MAX) {
        PyErr_SetString(PyExc_OverflowError, "an offset delta takes 32 bits");
        return NULL;
    }
    Scratch body = {NULL, 0, 0};
    int outcome = scratch_reserve(&body, 256);
    if (!outcome) {
        body.start[body.size++] = 0; /* attributes */
        if (scratch_varint(&body, timestamp_delta) < 0 || scratch_varint(&body, offset_delta) < 0 ||
            scratch_buffer(&body, args[3]) < 0 || scratch_buffer(&body, args[4]) < 0 ||
            scratch_headers(&body, args[5]) < 0 || append_body(args[0], &body) < 0)
            outcome = -1;
    }
    PyMem_Free(body.start);
    return outcome < 0 ? NULL : Py_NewRef(Py_None);
}

/* The records from `start` on. A key or a timestamp is one for all, or stands in a list beside the values. */
typedef struct {
    PyObject *out, *timestamps, *keys, *values, *headers;
    int64_t first_delta, base_timestamp, timestamp;
    Py_ssize_t start, max_bytes;
} Run;

/* A new reference. */
static PyObject *entry_of(PyObject *entries, Py_ssize_t index)
{
    return PyList_Check(entries) ? Py_XNewRef(PyList_GetItem(entries, index)) : Py_NewRef(entries);
}

static int gather_body(const Run *run, Py_ssize_t index, Scratch *body)
{
    int64_t timestamp = run->timestamp, delta = run->first_delta + (index - run->start);
    if (PyList_Check(run->timestamps)) {
        PyObject *own = PyList_GetItem(run->timestamps, index);
        if (!own || int64_argument(own, &timestamp) < 0)
            return -1;
    }
    if (delta > INT32_MAX) {
        PyErr_SetString(PyExc_OverflowError, "an offset delta takes 32 bits");
        return -1;
    }
    PyObject *key = entry_of(run->keys, index), *value = entry_of(run->values, index);
    int outcome = -1;
    body->size = 0;
    if (key && value && scratch_reserve(body, 256) == 0) {
        body->start[body->size++] = 0; /* attributes */
        if (scratch_varint(body, wrapping_subtract(timestamp, run->base_timestamp)) == 0 &&
            scratch_varint(body, delta) == 0 && scratch_buffer(body, key) == 0 && scratch_buffer(body, value) == 0 &&
            scratch_headers(body, run->headers) == 0)
            outcome = 0;
    }
    Py_XDECREF(key);
    Py_XDECREF(value);
    return outcome;
}

/* Appends records while they fit; the number of those that did, or -1 with a Python error. */
static Py_ssize_t append_bodies(const Run *run)
{
    Scratch body = {NULL, 0, 0};
    Py_ssize_t index = run->start;
    int outcome = 0;
    for (; index < PyList_Size(run->values); index++) {
        outcome = gather_body(run, index, &body);
        if (outcome < 0)
            break;
        int64_t size = varint_size((int64_t)body.size) + (int64_t)body.size;
        if (run->first_delta + (index - run->start) && PyByteArray_Size(run->out) + size > run->max_bytes)
            break;
        outcome = append_body(run->out, &body);
        if (outcome < 0)
            break;
    }
    PyMem_Free(body.start);
    return outcome < 0 ? -1 : index - run->start;
}

/* append_run(out, max_bytes, first_delta, base_timestamp, timestamps, keys, values, headers, start) -> count */
PyObject *py_append_run(PyObject *module, PyObject *args)
{
    Run run;
    long long first_delta, base_timestamp;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!nLLOOO!On", &PyByteArray_Type, &run.out, &run.max_bytes, &first_delta,
                          &base_timestamp, &run.timestamps, &run.keys, &PyList_Type, &run.values, &run.headers,
                          &run.start))
        return NULL;
    run.first_delta = first_delta;
    run.base_timestamp = base_timestamp;
    run.timestamp = 0;
    if (!PyList_Check(run.timestamps) && int64_argument(run.timestamps, &run.timestamp) < 0)
        return NULL;
    if (first_delta < 0 || first_delta > INT32_MAX || run.start < 0 || run.start > PyList_Size(run.values)) {
        PyErr_SetString(PyExc_ValueError, "no such records");
        return NULL;
    }
    Py_ssize_t before = PyByteArray_Size(run.out), count = append_bodies(&run);
    if (count < 0) {
        PyObject *type, *fault, *trace;
        PyErr_Fetch(&type, &fault, &trace);
        PyByteArray_Resize(run.out, before);
        PyErr_Restore(type, fault, trace);
        return NULL;
    }
    return PyLong_FromSsize_t(count);
}
