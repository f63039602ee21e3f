/*
 * The Python side that all files share: the functions in the module's table, integer arguments, and when a loop
 * lets other threads run.
 */
#ifndef OTTLA_MODULE_H
#define OTTLA_MODULE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

PyObject *py_crc32c(PyObject *module, PyObject *const *args, Py_ssize_t nargs);
PyObject *py_crc32c_kind(PyObject *module, PyObject *unused);
PyObject *py_crc32c_by_tables(PyObject *module, PyObject *buffer);
PyObject *py_scan(PyObject *module, PyObject *const *args, Py_ssize_t nargs);
PyObject *py_offenders(PyObject *module, PyObject *args);
PyObject *py_read(PyObject *module, PyObject *args);
PyObject *py_append_record(PyObject *module, PyObject *const *args, Py_ssize_t nargs);
PyObject *py_append_run(PyObject *module, PyObject *args);
PyObject *py_encode(PyObject *module, PyObject *args);
PyObject *py_decode(PyObject *module, PyObject *args);

/* Once, at import. */
void choose_crc(void);
int prepare_reading(void);

/* Bytes from which a loop takes long enough to be worth a release of the GIL. A CRC is four times as fast. */
enum { WORTH_RELEASING = 32768, CRC_WORTH_RELEASING = 4 * WORTH_RELEASING };

/* Releases the GIL if `may`. A loop over a mutable buffer keeps it, so that no other thread changes bytes under it. */
static inline PyThreadState *release_gil(int may) { return may ? PyEval_SaveThread() : NULL; }

static inline void take_gil(PyThreadState *released)
{
    if (released)
        PyEval_RestoreThread(released);
}

/* 0, or -1 with a Python error. */
static inline int int64_argument(PyObject *object, int64_t *number)
{
    long long taken = PyLong_AsLongLong(object);
    *number = taken;
    return taken == -1 && PyErr_Occurred() ? -1 : 0;
}

#endif
