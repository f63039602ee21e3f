/*
 * Takes the columns of a table from Python: buffers, each checked to be as long as its rows need. See table.h.
 */
#include "table.h"

/* The buffer of `object`, held until release_views; NULL with a Python error. */
static const Py_buffer *hold(Views *views, PyObject *object)
{
    if (views->count == MOST_BUFFERS) {
        PyErr_SetString(PyExc_ValueError, "a table has too many buffers");
        return NULL;
    }
    if (PyObject_GetBuffer(object, &views->views[views->count], PyBUF_SIMPLE) < 0)
        return NULL;
    return &views->views[views->count++];
}

void release_views(Views *views)
{
    while (views->count)
        PyBuffer_Release(&views->views[--views->count]);
}

int views_are_readonly(const Views *views)
{
    for (int i = 0; i < views->count; i++)
        if (!views->views[i].readonly)
            return 0;
    return 1;
}

static int bad_columns(const char *why)
{
    PyErr_SetString(PyExc_ValueError, why);
    return -1;
}

static int take_validity(Views *views, PyObject *object, int64_t rows, const uint8_t **validity)
{
    *validity = NULL;
    if (object == Py_None)
        return 0;
    const Py_buffer *view = hold(views, object);
    if (!view)
        return -1;
    if (view->len < rows / 8 + (rows % 8 != 0))
        return bad_columns("a validity bitmap is shorter than its column");
    *validity = view->buf;
    return 0;
}

/* A tuple (validity, offsets, data), or None for nulls alone. `rows` -1: as many as there are offsets. */
static int take_binary(Views *views, PyObject *object, int64_t rows, BinaryColumn *column)
{
    PyObject *validity, *offsets, *data;
    column->present = 0;
    if (object == Py_None)
        return 0;
    if (!PyTuple_Check(object)) {
        PyErr_SetString(PyExc_TypeError, "a column is (validity, offsets, data)");
        return -1;
    }
    if (!PyArg_ParseTuple(object, "OOO", &validity, &offsets, &data))
        return -1;
    const Py_buffer *offsets_view = hold(views, offsets);
    if (!offsets_view)
        return -1;
    column->present = 1;
    column->offsets = offsets_view->buf;
    column->entries = offsets_view->len < 4 ? 0 : offsets_view->len / 4 - 1;
    if (rows >= 0 && column->entries < rows)
        return bad_columns("a column has fewer offsets than rows");
    const Py_buffer *data_view = hold(views, data);
    if (!data_view)
        return -1;
    column->data = data_view->buf;
    column->data_size = data_view->len;
    return take_validity(views, validity, rows >= 0 ? rows : column->entries, &column->validity);
}

/* A tuple (validity, data), or None. */
static int take_timestamps(Views *views, PyObject *object, int64_t rows, Table *table)
{
    PyObject *validity, *data;
    if (object == Py_None)
        return 0;
    if (!PyTuple_Check(object)) {
        PyErr_SetString(PyExc_TypeError, "timestamps are (validity, data)");
        return -1;
    }
    if (!PyArg_ParseTuple(object, "OO", &validity, &data))
        return -1;
    const Py_buffer *view = hold(views, data);
    if (!view)
        return -1;
    if (view->len / 8 < rows)
        return bad_columns("there are fewer timestamps than rows");
    table->timestamps = view->buf;
    return take_validity(views, validity, rows, &table->timestamps_validity);
}

/* A tuple (validity, offsets, names, contents), or None. */
static int take_headers(Views *views, PyObject *object, int64_t rows, Table *table)
{
    PyObject *validity, *lists, *names, *contents;
    if (object == Py_None)
        return 0;
    if (!PyTuple_Check(object)) {
        PyErr_SetString(PyExc_TypeError, "headers are (validity, offsets, names, contents)");
        return -1;
    }
    if (!PyArg_ParseTuple(object, "OOOO", &validity, &lists, &names, &contents))
        return -1;
    const Py_buffer *view = hold(views, lists);
    if (!view)
        return -1;
    if (view->len / 4 - 1 < rows)
        return bad_columns("there are fewer lists of headers than rows");
    table->lists = view->buf;
    table->has_headers = 1;
    if (take_validity(views, validity, rows, &table->lists_validity) < 0 ||
        take_binary(views, names, -1, &table->names) < 0 || take_binary(views, contents, -1, &table->contents) < 0)
        return -1;
    return table->names.present && table->contents.present ? 0 : bad_columns("headers have names and contents");
}

int take_table(Views *views, const TableArguments *arguments, int64_t rows, Table *table)
{
    if (take_binary(views, arguments->key, rows, &table->key) < 0 ||
        take_binary(views, arguments->value, rows, &table->value) < 0 ||
        take_timestamps(views, arguments->timestamps, rows, table) < 0 ||
        take_headers(views, arguments->headers, rows, table) < 0)
        return -1;
    return 0;
}
