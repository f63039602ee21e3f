/*
 * The compiled module `ottla.records._records`: its table of functions. Beside it stand, each in a file,
 *
 *     checksum.c  CRC-32C
 *     scan.c      a produced batch's records checked, none kept
 *     objects.c   records read as Python objects
 *     append.c    one record written, or a run of them
 *     encode.c    Arrow-style columns, which table.c takes from Python, written as records
 *     decode.c    a run of batches read into Arrow-style columns by columns.c, without aborted transactions (aborted.c)
 *
 * on the primitives bytes.h, varint.h and record.h. `_fallback.py` and `_fallback_columns.py` in the folder above give
 * the same answers on the same bytes: a change here is a change there. Limited API of Python 3.11.
 */
#include "module.h"

static PyMethodDef methods[] = {
    {"crc32c", (PyCFunction)(void (*)(void))py_crc32c, METH_FASTCALL, "crc32c(buffer, initial=0)"},
    {"crc32c_kind", py_crc32c_kind, METH_NOARGS, "How the CRC is computed here."},
    {"crc32c_by_tables", py_crc32c_by_tables, METH_O, "The portable CRC-32C, for comparison."},
    {"scan", (PyCFunction)(void (*)(void))py_scan, METH_FASTCALL, "scan(payload, count, base_timestamp)"},
    {"offenders", py_offenders, METH_VARARGS,
     "offenders(payload, count, base_timestamp, need_keys, earliest, latest, most)"},
    {"read", py_read, METH_VARARGS, "read(make, payload, count, base_offset, base_timestamp, append_time)"},
    {"append_record", (PyCFunction)(void (*)(void))py_append_record, METH_FASTCALL,
     "append_record(out, offset_delta, timestamp_delta, key, value, headers)"},
    {"append_run", py_append_run, METH_VARARGS,
     "append_run(out, max_bytes, first_delta, base_timestamp, timestamps, keys, values, headers, start)"},
    {"encode", py_encode, METH_VARARGS,
     "encode(start, stop, max_bytes, key, value, timestamps, default_timestamp, scale, headers)"},
    {"decode", py_decode, METH_VARARGS,
     "decode(view, position, start_offset, end_offset, scale, headers, aborted, check_crc, max_bytes, decompress)"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_records", "The compiled twin of ottla.records._fallback.", -1, methods,
    NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__records(void)
{
    choose_crc();
    if (prepare_reading() < 0)
        return NULL;
    return PyModule_Create(&definition);
}
