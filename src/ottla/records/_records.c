/*
 * The one compiled file of ottla: CRC-32C, and v2 records scanned, read, decoded to Arrow-style columns and encoded.
 *
 * `_fallback.py` beside it gives the same answer on the same bytes; a change here is a change there. Every length is
 * checked against what holds it before it is used. Limited API of Python 3.11. Loops over immutable buffers run
 * without the GIL; over mutable ones they keep it, so that no other thread changes bytes under them.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

#if (defined(__GNUC__) || defined(__clang__)) && defined(__x86_64__)
#define HAVE_SSE42_PATH 1
#include <nmmintrin.h>
#endif

/* The numbers of records/faults.py. */
enum {
    FAULT_NONE = 0,
    FAULT_TRUNCATED = 1,
    FAULT_VARINT_TOO_LONG = 2,
    FAULT_RECORD_SIZE = 3,
    FAULT_FIELD_SIZE = 4,
    FAULT_HEADER_COUNT = 5,
    FAULT_HEADER_KEY = 6,
    FAULT_OFFSET_DELTA = 7,
    FAULT_TRAILING_BYTES = 8,
    FAULT_RECORD_COUNT = 9,
    FAULT_BATCH_SIZE = 10,
    FAULT_MAGIC = 11,
    FAULT_CRC = 12,
    FAULT_CODEC = 13
};

enum { HEADER_SIZE = 61, SMALLEST_RECORD = 7, WORTH_RELEASING = 32768, LAST_CODEC = 4 };
enum { TIMESTAMP_TYPE_BIT = 0x08, TRANSACTIONAL_BIT = 0x10, CONTROL_BIT = 0x20, COMPRESSION_MASK = 0x07 };

/* ---------------------------------------------------------------------------------------------- big-endian reads */

static inline uint16_t get16(const uint8_t *at) { return (uint16_t)((at[0] << 8) | at[1]); }

static inline uint32_t get32(const uint8_t *at)
{
    return ((uint32_t)at[0] << 24) | ((uint32_t)at[1] << 16) | ((uint32_t)at[2] << 8) | (uint32_t)at[3];
}

static inline uint64_t get64(const uint8_t *at) { return ((uint64_t)get32(at) << 32) | get32(at + 4); }

/* Two's complement without implementation-defined conversions. */
static inline int32_t signed32(uint32_t raw)
{
    int32_t number;
    memcpy(&number, &raw, sizeof number);
    return number;
}

static inline int64_t signed64(uint64_t raw)
{
    int64_t number;
    memcpy(&number, &raw, sizeof number);
    return number;
}

static inline int64_t wrapping_add(int64_t a, int64_t b) { return signed64((uint64_t)a + (uint64_t)b); }

/* ------------------------------------------------------------------------------------------------------- CRC-32C */

#define CASTAGNOLI 0x82F63B78u /* reflected */

static uint32_t crc_tables[8][256];

static void make_crc_tables(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ ((crc & 1) ? CASTAGNOLI : 0);
        crc_tables[0][byte] = crc;
    }
    for (int table = 1; table < 8; table++)
        for (uint32_t byte = 0; byte < 256; byte++) {
            uint32_t before = crc_tables[table - 1][byte];
            crc_tables[table][byte] = (before >> 8) ^ crc_tables[0][before & 0xFF];
        }
}

/* Eight bytes a step through eight tables. Takes and gives the register, not the finished CRC. */
static uint32_t crc_by_tables(uint32_t crc, const uint8_t *at, size_t size)
{
    while (size >= 8) {
        uint32_t low = crc ^ ((uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24);
        crc = crc_tables[7][low & 0xFF] ^ crc_tables[6][(low >> 8) & 0xFF] ^ crc_tables[5][(low >> 16) & 0xFF] ^
              crc_tables[4][low >> 24] ^ crc_tables[3][at[4]] ^ crc_tables[2][at[5]] ^ crc_tables[1][at[6]] ^
              crc_tables[0][at[7]];
        at += 8;
        size -= 8;
    }
    while (size--)
        crc = (crc >> 8) ^ crc_tables[0][(crc ^ *at++) & 0xFF];
    return crc;
}

#ifdef HAVE_SSE42_PATH

/* The instruction takes three cycles but one can start in each: three stripes run side by side, and a register is
 * carried over the stripes behind it by a linear map (appending zeros), kept as four tables of 256 per length. */
enum { LONG_STRIPE = 4096, SHORT_STRIPE = 256 };
static uint32_t over_long[4][256], over_short[4][256];

static uint32_t zeros_appended(uint32_t crc, size_t count)
{
    while (count--)
        crc = (crc >> 8) ^ crc_tables[0][crc & 0xFF];
    return crc;
}

static void make_carry_tables(uint32_t tables[4][256], size_t count)
{
    uint32_t of_bit[32];
    for (int bit = 0; bit < 32; bit++)
        of_bit[bit] = zeros_appended((uint32_t)1 << bit, count);
    for (int table = 0; table < 4; table++)
        for (uint32_t byte = 0; byte < 256; byte++) {
            uint32_t sum = 0;
            for (int bit = 0; bit < 8; bit++)
                if (byte >> bit & 1)
                    sum ^= of_bit[8 * table + bit];
            tables[table][byte] = sum;
        }
}

static inline uint32_t carried(uint32_t tables[4][256], uint32_t crc)
{
    return tables[0][crc & 0xFF] ^ tables[1][(crc >> 8) & 0xFF] ^ tables[2][(crc >> 16) & 0xFF] ^ tables[3][crc >> 24];
}

static inline uint64_t load64(const uint8_t *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

__attribute__((target("sse4.2"))) static inline uint32_t crc_three_stripes(uint32_t crc, const uint8_t *at,
                                                                           size_t stripe, uint32_t tables[4][256])
{
    uint64_t first = crc, second = 0, third = 0;
    for (size_t i = 0; i < stripe; i += 8) {
        first = _mm_crc32_u64(first, load64(at + i));
        second = _mm_crc32_u64(second, load64(at + stripe + i));
        third = _mm_crc32_u64(third, load64(at + 2 * stripe + i));
    }
    return carried(tables, carried(tables, (uint32_t)first) ^ (uint32_t)second) ^ (uint32_t)third;
}

__attribute__((target("sse4.2"))) static uint32_t crc_by_sse42(uint32_t crc, const uint8_t *at, size_t size)
{
    while (size >= 3 * LONG_STRIPE) {
        crc = crc_three_stripes(crc, at, LONG_STRIPE, over_long);
        at += 3 * LONG_STRIPE;
        size -= 3 * LONG_STRIPE;
    }
    while (size >= 3 * SHORT_STRIPE) {
        crc = crc_three_stripes(crc, at, SHORT_STRIPE, over_short);
        at += 3 * SHORT_STRIPE;
        size -= 3 * SHORT_STRIPE;
    }
    uint64_t wide = crc;
    while (size >= 8) {
        wide = _mm_crc32_u64(wide, load64(at));
        at += 8;
        size -= 8;
    }
    crc = (uint32_t)wide;
    while (size--)
        crc = _mm_crc32_u8(crc, *at++);
    return crc;
}
#endif

static uint32_t (*crc_register)(uint32_t, const uint8_t *, size_t) = crc_by_tables;
static const char *crc_kind = "tables";

static void choose_crc(void)
{
    make_crc_tables();
#ifdef HAVE_SSE42_PATH
    __builtin_cpu_init();
    if (__builtin_cpu_supports("sse4.2")) {
        make_carry_tables(over_long, LONG_STRIPE);
        make_carry_tables(over_short, SHORT_STRIPE);
        crc_register = crc_by_sse42;
        crc_kind = "SSE4.2";
    }
#endif
}

static inline uint32_t crc32c(uint32_t before, const uint8_t *at, size_t size)
{
    return ~crc_register(~before, at, size);
}

/* ------------------------------------------------------------------------------------------------ parsing records */

typedef struct {
    int64_t timestamp_delta;
    int32_t offset_delta;
    int32_t key_size; /* -1: null */
    int32_t value_size;
    int32_t headers_count;
    const uint8_t *key;
    const uint8_t *value;
    const uint8_t *headers;
    int64_t names_size;
    int64_t contents_size;
} Record;

static inline int read_varint32(const uint8_t **at, const uint8_t *end, int cut_off, int32_t *number)
{
    const uint8_t *next = *at;
    if (next >= end)
        return cut_off;
    uint32_t byte = *next++;
    uint32_t raw = byte & 0x7F;
    for (int shift = 7; byte & 0x80; shift += 7) {
        if (shift > 28)
            return FAULT_VARINT_TOO_LONG;
        if (next >= end)
            return cut_off;
        byte = *next++;
        raw |= (byte & 0x7F) << shift;
    }
    *number = signed32((raw >> 1) ^ (0u - (raw & 1)));
    *at = next;
    return FAULT_NONE;
}

static inline int read_varint64(const uint8_t **at, const uint8_t *end, int cut_off, int64_t *number)
{
    const uint8_t *next = *at;
    if (next >= end)
        return cut_off;
    uint64_t byte = *next++;
    uint64_t raw = byte & 0x7F;
    for (int shift = 7; byte & 0x80; shift += 7) {
        if (shift > 63)
            return FAULT_VARINT_TOO_LONG;
        if (next >= end)
            return cut_off;
        byte = *next++;
        raw |= (byte & 0x7F) << shift;
    }
    *number = signed64((raw >> 1) ^ (0u - (raw & 1)));
    *at = next;
    return FAULT_NONE;
}

/* A length and as many bytes; -1 for any negative length, as Java reads it. */
static inline int read_sized(const uint8_t **at, const uint8_t *end, const uint8_t **start, int32_t *size)
{
    int fault = read_varint32(at, end, FAULT_FIELD_SIZE, size);
    if (fault)
        return fault;
    *start = *at;
    if (*size < 0) {
        *size = -1;
        return FAULT_NONE;
    }
    if (*size > end - *at)
        return FAULT_FIELD_SIZE;
    *at += *size;
    return FAULT_NONE;
}

static int read_headers(const uint8_t **at, const uint8_t *end, Record *record)
{
    for (int32_t i = 0; i < record->headers_count; i++) {
        const uint8_t *start;
        int32_t size;
        int fault = read_sized(at, end, &start, &size);
        if (fault)
            return fault;
        if (size < 0)
            return FAULT_HEADER_KEY;
        record->names_size += size;
        if ((fault = read_sized(at, end, &start, &size)))
            return fault;
        if (size > 0)
            record->contents_size += size;
    }
    return FAULT_NONE;
}

/* One record from its length on. Always inlined: two loops live on it. */
static inline int read_record(const uint8_t **at, const uint8_t *end, Record *record)
{
    int32_t size;
    int fault = read_varint32(at, end, FAULT_TRUNCATED, &size);
    if (fault)
        return fault;
    if (size < 0)
        return FAULT_RECORD_SIZE;
    if (size > end - *at)
        return FAULT_TRUNCATED;
    if (size < 1)
        return FAULT_FIELD_SIZE;
    end = *at + size;
    *at += 1; /* attributes: none are defined */
    if ((fault = read_varint64(at, end, FAULT_FIELD_SIZE, &record->timestamp_delta)))
        return fault;
    if ((fault = read_varint32(at, end, FAULT_FIELD_SIZE, &record->offset_delta)))
        return fault;
    if ((fault = read_sized(at, end, &record->key, &record->key_size)))
        return fault;
    if ((fault = read_sized(at, end, &record->value, &record->value_size)))
        return fault;
    if ((fault = read_varint32(at, end, FAULT_FIELD_SIZE, &record->headers_count)))
        return fault;
    if (record->headers_count < 0 || record->headers_count > end - *at)
        return FAULT_HEADER_COUNT;
    record->headers = *at;
    record->names_size = record->contents_size = 0;
    if (record->headers_count && (fault = read_headers(at, end, record)))
        return fault;
    return *at == end ? FAULT_NONE : FAULT_RECORD_SIZE;
}

static inline int count_is_possible(int64_t count, Py_ssize_t size)
{
    return count >= 0 && count <= size / SMALLEST_RECORD;
}

/* ----------------------------------------------------------------------------------------------------------- scan */

typedef struct {
    int fault;
    int64_t index, least, largest, largest_delta, keyless;
} Scanned;

static Scanned scan_payload(const uint8_t *at, Py_ssize_t size, int64_t count, int64_t base_timestamp)
{
    Scanned refused = {FAULT_NONE, 0, INT64_MAX, -1, -1, 0}, found = refused;
    const uint8_t *end = at + size;
    if (!count_is_possible(count, size)) {
        refused.fault = FAULT_RECORD_COUNT;
        return refused;
    }
    for (int64_t index = 0; index < count; index++) {
        Record record;
        int fault = read_record(&at, end, &record);
        if (!fault && record.offset_delta != index)
            fault = FAULT_OFFSET_DELTA;
        if (fault) {
            refused.fault = fault;
            refused.index = index;
            return refused;
        }
        int64_t timestamp = wrapping_add(base_timestamp, record.timestamp_delta);
        if (timestamp > found.largest) {
            found.largest = timestamp;
            found.largest_delta = index;
        }
        if (timestamp != -1 && timestamp < found.least)
            found.least = timestamp;
        found.keyless += record.key_size < 0;
    }
    if (at != end) {
        refused.fault = FAULT_TRAILING_BYTES;
        refused.index = count;
        return refused;
    }
    return found;
}

static PyObject *py_scan(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    Py_buffer payload;
    (void)module;
    if (nargs != 3) {
        PyErr_SetString(PyExc_TypeError, "scan(payload, count, base_timestamp)");
        return NULL;
    }
    long long count = PyLong_AsLongLong(args[1]), base_timestamp = PyLong_AsLongLong(args[2]);
    if (PyErr_Occurred() || PyObject_GetBuffer(args[0], &payload, PyBUF_SIMPLE) < 0)
        return NULL;
    Scanned found;
    if (payload.readonly && payload.len >= WORTH_RELEASING) {
        Py_BEGIN_ALLOW_THREADS
        found = scan_payload(payload.buf, payload.len, count, base_timestamp);
        Py_END_ALLOW_THREADS
    }
    else
        found = scan_payload(payload.buf, payload.len, count, base_timestamp);
    PyBuffer_Release(&payload);
    return Py_BuildValue("(iLLLLL)", found.fault, (long long)found.index, (long long)found.least,
                         (long long)found.largest, (long long)found.largest_delta, (long long)found.keyless);
}

static PyObject *py_offenders(PyObject *module, PyObject *args)
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
        int reason = 0;
        if (need_keys && record.key_size < 0)
            reason = 1;
        else if (timestamp != -1 && (timestamp < earliest || timestamp > latest))
            reason = 2;
        if (!reason)
            continue;
        PyObject *item = Py_BuildValue("(Li)", (long long)index, reason);
        if (!item || PyList_Append(list, item) < 0)
            Py_CLEAR(list);
        Py_XDECREF(item);
    }
    PyBuffer_Release(&payload);
    return list;
}

static PyObject *py_crc32c(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    Py_buffer buffer;
    unsigned long before = 0;
    (void)module;
    if (nargs < 1 || nargs > 2) {
        PyErr_SetString(PyExc_TypeError, "crc32c(buffer, initial=0)");
        return NULL;
    }
    if (nargs == 2) {
        before = PyLong_AsUnsignedLong(args[1]);
        if (PyErr_Occurred())
            return NULL;
        if (before > 0xFFFFFFFFul) {
            PyErr_SetString(PyExc_OverflowError, "initial takes 32 bits");
            return NULL;
        }
    }
    if (PyObject_GetBuffer(args[0], &buffer, PyBUF_SIMPLE) < 0)
        return NULL;
    uint32_t crc;
    if (buffer.readonly && buffer.len >= 4 * WORTH_RELEASING) {
        Py_BEGIN_ALLOW_THREADS
        crc = crc32c((uint32_t)before, buffer.buf, (size_t)buffer.len);
        Py_END_ALLOW_THREADS
    }
    else
        crc = crc32c((uint32_t)before, buffer.buf, (size_t)buffer.len);
    PyBuffer_Release(&buffer);
    return PyLong_FromUnsignedLong(crc);
}

static PyObject *py_crc32c_kind(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return PyUnicode_FromString(crc_kind);
}

static PyObject *py_crc32c_by_tables(PyObject *module, PyObject *buffer_object)
{
    Py_buffer buffer;
    (void)module;
    if (PyObject_GetBuffer(buffer_object, &buffer, PyBUF_SIMPLE) < 0)
        return NULL;
    uint32_t crc = ~crc_by_tables(0xFFFFFFFFu, buffer.buf, (size_t)buffer.len);
    PyBuffer_Release(&buffer);
    return PyLong_FromUnsignedLong(crc);
}

/* -------------------------------------------------------------------------------------------- records as objects */

static newfunc tuple_new;

static PyObject *sized_bytes(const uint8_t *at, int32_t size)
{
    if (size < 0)
        return Py_NewRef(Py_None);
    return PyBytes_FromStringAndSize((const char *)at, size);
}

static PyObject *headers_object(const Record *record, const uint8_t *end)
{
    PyObject *headers = PyTuple_New(record->headers_count);
    const uint8_t *at = record->headers;
    for (int32_t i = 0; headers && i < record->headers_count; i++) {
        const uint8_t *name, *content;
        int32_t name_size, content_size;
        if (read_sized(&at, end, &name, &name_size) || name_size < 0 ||
            read_sized(&at, end, &content, &content_size)) {
            PyErr_SetString(PyExc_RuntimeError, "the records changed while they were read");
            Py_CLEAR(headers);
            break;
        }
        PyObject *pair = PyTuple_New(2);
        PyObject *name_object = PyUnicode_DecodeUTF8((const char *)name, name_size, "replace");
        PyObject *content_object = sized_bytes(content, content_size);
        if (!pair || !name_object || !content_object) {
            Py_XDECREF(pair);
            Py_XDECREF(name_object);
            Py_XDECREF(content_object);
            Py_CLEAR(headers);
            break;
        }
        PyTuple_SetItem(pair, 0, name_object);
        PyTuple_SetItem(pair, 1, content_object);
        PyTuple_SetItem(headers, i, pair);
    }
    return headers;
}

/* A named tuple of type `make`, by tuple.__new__, which asks no keyword and no default. */
static PyObject *record_object(PyTypeObject *make, const Record *record, const uint8_t *end, int64_t offset,
                               PyObject *timestamp)
{
    PyObject *fields = PyTuple_New(5), *args = PyTuple_New(1), *made = NULL;
    PyObject *offset_object = PyLong_FromLongLong(offset);
    PyObject *key = sized_bytes(record->key, record->key_size);
    PyObject *value = sized_bytes(record->value, record->value_size);
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

static PyObject *refusal_of_read(int fault, int64_t index)
{
    return Py_BuildValue("([]iL)", fault, (long long)index);
}

static PyObject *py_read(PyObject *module, PyObject *args)
{
    PyObject *make, *append_time;
    Py_buffer payload;
    long long count, base_offset, base_timestamp;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!y*LLLO", &PyType_Type, &make, &payload, &count, &base_offset, &base_timestamp,
                          &append_time))
        return NULL;
    if (!PyType_IsSubtype((PyTypeObject *)make, &PyTuple_Type)) {
        PyBuffer_Release(&payload);
        PyErr_SetString(PyExc_TypeError, "a record is a tuple");
        return NULL;
    }
    const uint8_t *at = payload.buf, *end = at + payload.len;
    PyObject *list = NULL, *result = NULL;
    int fault = count_is_possible(count, payload.len) ? FAULT_NONE : FAULT_RECORD_COUNT;
    int64_t index = 0;
    if (fault || !(list = PyList_New(0)))
        goto done;
    for (; index < count; index++) {
        Record record;
        if ((fault = read_record(&at, end, &record)))
            goto done;
        PyObject *timestamp =
            append_time != Py_None ? Py_NewRef(append_time)
                                   : PyLong_FromLongLong(wrapping_add(base_timestamp, record.timestamp_delta));
        PyObject *item = timestamp ? record_object((PyTypeObject *)make, &record, at,
                                                   wrapping_add(base_offset, record.offset_delta), timestamp)
                                   : NULL;
        Py_XDECREF(timestamp);
        if (!item || PyList_Append(list, item) < 0) {
            Py_XDECREF(item);
            Py_CLEAR(list);
            goto done;
        }
        Py_DECREF(item);
    }
    if (at != end)
        fault = FAULT_TRAILING_BYTES;
done:
    if (fault)
        result = refusal_of_read(fault, index);
    else if (list)
        result = Py_BuildValue("(Oii)", list, 0, 0);
    Py_XDECREF(list);
    PyBuffer_Release(&payload);
    return result;
}

/* ------------------------------------------------------------------------------------------------ writing records */

typedef struct {
    uint8_t *start;
    size_t size, room;
} Scratch;

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

static inline uint64_t zigzag(int64_t number) { return ((uint64_t)number << 1) ^ (number < 0 ? ~(uint64_t)0 : 0); }

static inline uint8_t *put_varint(uint8_t *at, int64_t number)
{
    uint64_t raw = zigzag(number);
    while (raw > 0x7F) {
        *at++ = (uint8_t)(raw & 0x7F) | 0x80;
        raw >>= 7;
    }
    *at++ = (uint8_t)raw;
    return at;
}

static inline int varint_size(int64_t number)
{
    uint64_t raw = zigzag(number);
    int size = 1;
    while (raw > 0x7F) {
        raw >>= 7;
        size++;
    }
    return size;
}

enum { LONGEST_VARINT = 10 };

static int scratch_varint(Scratch *scratch, int64_t number)
{
    if (scratch_reserve(scratch, LONGEST_VARINT) < 0)
        return -1;
    scratch->size = (size_t)(put_varint(scratch->start + scratch->size, number) - scratch->start);
    return 0;
}

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

static int scratch_headers(Scratch *scratch, PyObject *headers)
{
    Py_ssize_t count = PySequence_Size(headers);
    if (count < 0 || scratch_varint(scratch, count) < 0)
        return -1;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *pair = PySequence_GetItem(headers, i);
        PyObject *name = pair ? PySequence_GetItem(pair, 0) : NULL;
        PyObject *content = name ? PySequence_GetItem(pair, 1) : NULL;
        int outcome = content ? scratch_name(scratch, name) : -1;
        if (!outcome)
            outcome = scratch_buffer(scratch, content);
        Py_XDECREF(pair);
        Py_XDECREF(name);
        Py_XDECREF(content);
        if (outcome < 0)
            return -1;
    }
    return 0;
}

static PyObject *py_append_record(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    (void)module;
    if (nargs != 6 || !PyByteArray_Check(args[0])) {
        PyErr_SetString(PyExc_TypeError, "append_record(out, offset_delta, timestamp_delta, key, value, headers)");
        return NULL;
    }
    long long offset_delta = PyLong_AsLongLong(args[1]), timestamp_delta = PyLong_AsLongLong(args[2]);
    if (PyErr_Occurred())
        return NULL;
    if (offset_delta < INT32_MIN || offset_delta > INT32_MAX) {
        PyErr_SetString(PyExc_OverflowError, "an offset delta takes 32 bits");
        return NULL;
    }
    Scratch body = {NULL, 0, 0};
    PyObject *result = NULL;
    if (scratch_reserve(&body, 256) < 0)
        goto done;
    body.start[body.size++] = 0;
    if (scratch_varint(&body, timestamp_delta) < 0 || scratch_varint(&body, offset_delta) < 0 ||
        scratch_buffer(&body, args[3]) < 0 || scratch_buffer(&body, args[4]) < 0 ||
        scratch_headers(&body, args[5]) < 0)
        goto done;
    if (body.size > INT32_MAX) {
        PyErr_SetString(PyExc_OverflowError, "a record takes at most 2 GiB");
        goto done;
    }
    Py_ssize_t before = PyByteArray_Size(args[0]);
    Py_ssize_t length_size = varint_size((int64_t)body.size);
    if (PyByteArray_Resize(args[0], before + length_size + (Py_ssize_t)body.size) < 0)
        goto done;
    uint8_t *at = put_varint((uint8_t *)PyByteArray_AsString(args[0]) + before, (int64_t)body.size);
    memcpy(at, body.start, body.size);
    result = Py_NewRef(Py_None);
done:
    PyMem_Free(body.start);
    return result;
}

/* ------------------------------------------------------------------------------------------------ encoding columns */

enum { MOST_BUFFERS = 16 };

typedef struct {
    Py_buffer views[MOST_BUFFERS];
    int count;
} Views;

static const Py_buffer *hold(Views *views, PyObject *object)
{
    if (PyObject_GetBuffer(object, &views->views[views->count], PyBUF_SIMPLE) < 0)
        return NULL;
    return &views->views[views->count++];
}

static void release_views(Views *views)
{
    while (views->count)
        PyBuffer_Release(&views->views[--views->count]);
}

static int views_are_readonly(const Views *views)
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

/* One binary column as Arrow lays it out; every access to it is checked against `data_size`. */
typedef struct {
    int present;
    const uint8_t *validity; /* NULL: no nulls */
    const uint8_t *offsets;
    const uint8_t *data;
    int64_t entries, data_size;
} BinaryColumn;

static inline int32_t load32(const uint8_t *at)
{
    int32_t number;
    memcpy(&number, at, sizeof number);
    return number;
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

/* `rows` -1: as many as there are offsets. */
static int take_binary(Views *views, PyObject *validity, PyObject *offsets, PyObject *data, int64_t rows,
                       BinaryColumn *column)
{
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

static int take_binary_tuple(Views *views, PyObject *object, int64_t rows, BinaryColumn *column)
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
    return take_binary(views, validity, offsets, data, rows, column);
}

static inline int is_valid(const uint8_t *validity, int64_t row)
{
    return !validity || (validity[row >> 3] >> (row & 7) & 1);
}

/* The bytes of one entry; size -1 for a null. 0, or -1 where the offsets lie (no Python error set: no GIL here). */
static inline int entry_at(const BinaryColumn *column, int64_t row, const uint8_t **start, int32_t *size)
{
    if (!column->present || !is_valid(column->validity, row)) {
        *size = -1;
        return 0;
    }
    int32_t from = load32(column->offsets + 4 * row), to = load32(column->offsets + 4 * row + 4);
    if (from < 0 || to < from || to > column->data_size)
        return -1;
    *start = column->data + from;
    *size = to - from;
    return 0;
}

typedef struct {
    BinaryColumn key, value, names, contents;
    const uint8_t *timestamps, *timestamps_validity, *lists, *lists_validity;
    int64_t default_timestamp, scale;
    int has_headers;
} Table;

static inline int64_t timestamp_at(const Table *table, int64_t row)
{
    int64_t timestamp;
    if (!table->timestamps || !is_valid(table->timestamps_validity, row))
        return table->default_timestamp;
    memcpy(&timestamp, table->timestamps + 8 * row, sizeof timestamp);
    int64_t whole = timestamp / table->scale;
    return timestamp % table->scale < 0 ? whole - 1 : whole;
}

/* The range of a row's headers; 0, or -1 where the list's offsets lie. */
static inline int headers_at(const Table *table, int64_t row, int32_t *from, int32_t *to)
{
    *from = *to = 0;
    if (!table->has_headers || !is_valid(table->lists_validity, row))
        return 0;
    *from = load32(table->lists + 4 * row);
    *to = load32(table->lists + 4 * row + 4);
    return *from < 0 || *to < *from || *to > table->names.entries || *to > table->contents.entries ? -1 : 0;
}

static inline int64_t sized_size(int32_t size) { return size < 0 ? 1 : varint_size(size) + (int64_t)size; }

/* Bytes of a row's record without its length; -1 where offsets lie. */
static int64_t body_size(const Table *table, int64_t row, int64_t timestamp_delta, int64_t offset_delta)
{
    const uint8_t *start;
    int32_t size, from, to;
    int64_t total = 1 + varint_size(timestamp_delta) + varint_size(offset_delta);
    if (entry_at(&table->key, row, &start, &size) < 0)
        return -1;
    total += sized_size(size);
    if (entry_at(&table->value, row, &start, &size) < 0)
        return -1;
    total += sized_size(size);
    if (headers_at(table, row, &from, &to) < 0)
        return -1;
    total += varint_size(to - from);
    for (int32_t i = from; i < to; i++) {
        if (entry_at(&table->names, i, &start, &size) < 0 || size < 0)
            return -1;
        total += sized_size(size);
        if (entry_at(&table->contents, i, &start, &size) < 0)
            return -1;
        total += sized_size(size);
    }
    return total;
}

/* Writes one entry if `end` leaves room; NULL where it does not, or where offsets lie. */
static inline uint8_t *put_entry(uint8_t *at, const uint8_t *end, const BinaryColumn *column, int64_t row)
{
    const uint8_t *start = NULL;
    int32_t size;
    if (entry_at(column, row, &start, &size) < 0 || end - at < sized_size(size))
        return NULL;
    at = put_varint(at, size);
    if (size > 0) {
        memcpy(at, start, (size_t)size);
        at += size;
    }
    return at;
}

/* Writes one row of `body` bytes; NULL where the buffers changed since they were measured. */
static uint8_t *put_row(uint8_t *at, const uint8_t *end, const Table *table, int64_t row, int64_t body,
                        int64_t timestamp_delta, int64_t offset_delta)
{
    int32_t from, to;
    if (end - at < varint_size(body) + body)
        return NULL;
    at = put_varint(at, body);
    *at++ = 0;
    at = put_varint(at, timestamp_delta);
    at = put_varint(at, offset_delta);
    if (!(at = put_entry(at, end, &table->key, row)) || !(at = put_entry(at, end, &table->value, row)))
        return NULL;
    if (headers_at(table, row, &from, &to) < 0 || end - at < varint_size(to - from))
        return NULL;
    at = put_varint(at, to - from);
    for (int32_t i = from; i < to; i++)
        if (!(at = put_entry(at, end, &table->names, i)) || !(at = put_entry(at, end, &table->contents, i)))
            return NULL;
    return at;
}

typedef struct {
    int64_t rows, size, base_timestamp, max_timestamp;
    int bad; /* row's offsets lie */
} Measured;

static Measured measure_rows(const Table *table, int64_t start, int64_t stop, int64_t max_bytes)
{
    Measured measured = {0, HEADER_SIZE, timestamp_at(table, start), -1, 0};
    for (int64_t row = start; row < stop && measured.rows < INT32_MAX; row++) {
        int64_t timestamp = timestamp_at(table, row);
        int64_t delta = signed64((uint64_t)timestamp - (uint64_t)measured.base_timestamp);
        int64_t body = body_size(table, row, delta, measured.rows);
        if (body < 0 || body > INT32_MAX) {
            measured.bad = 1;
            break;
        }
        int64_t size = measured.size + varint_size(body) + body;
        if (measured.rows && size > max_bytes)
            break;
        measured.size = size;
        measured.rows++;
        if (timestamp > measured.max_timestamp)
            measured.max_timestamp = timestamp;
    }
    return measured;
}

static int write_rows(const Table *table, int64_t start, const Measured *measured, uint8_t *at)
{
    const uint8_t *end = at + measured->size;
    memset(at, 0, HEADER_SIZE);
    at += HEADER_SIZE;
    for (int64_t index = 0; index < measured->rows; index++) {
        int64_t timestamp = timestamp_at(table, start + index);
        int64_t delta = signed64((uint64_t)timestamp - (uint64_t)measured->base_timestamp);
        int64_t body = body_size(table, start + index, delta, index);
        if (body < 0 || !(at = put_row(at, end, table, start + index, body, delta, index)))
            return -1;
    }
    return at == end ? 0 : -1;
}

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
        take_binary_tuple(views, names, -1, &table->names) < 0 ||
        take_binary_tuple(views, contents, -1, &table->contents) < 0)
        return -1;
    return table->names.present && table->contents.present ? 0 : bad_columns("headers have names and contents");
}

static PyObject *encode_table(const Table *table, int64_t start, int64_t stop, int64_t max_bytes, int may_release)
{
    Measured measured;
    int outcome;
    if (may_release) {
        Py_BEGIN_ALLOW_THREADS
        measured = measure_rows(table, start, stop, max_bytes);
        Py_END_ALLOW_THREADS
    }
    else
        measured = measure_rows(table, start, stop, max_bytes);
    if (measured.bad) {
        bad_columns("a column's offsets lie outside its bytes, or a record takes more than 2 GiB");
        return NULL;
    }
    PyObject *out = PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)measured.size);
    if (!out)
        return NULL;
    uint8_t *at = (uint8_t *)PyByteArray_AsString(out);
    if (may_release) {
        Py_BEGIN_ALLOW_THREADS
        outcome = write_rows(table, start, &measured, at);
        Py_END_ALLOW_THREADS
    }
    else
        outcome = write_rows(table, start, &measured, at);
    if (outcome < 0) {
        Py_DECREF(out);
        PyErr_SetString(PyExc_RuntimeError, "the columns changed while they were read");
        return NULL;
    }
    return Py_BuildValue("(NLLL)", out, (long long)measured.rows, (long long)measured.base_timestamp,
                         (long long)measured.max_timestamp);
}

static PyObject *py_encode(PyObject *module, PyObject *args)
{
    PyObject *key, *value, *timestamps, *headers, *result = NULL;
    long long start, stop, max_bytes, default_timestamp, scale;
    (void)module;
    if (!PyArg_ParseTuple(args, "LLLOOOLLO", &start, &stop, &max_bytes, &key, &value, &timestamps, &default_timestamp,
                          &scale, &headers))
        return NULL;
    if (start < 0 || stop <= start || stop > INT32_MAX || scale < 1) {
        bad_columns("no such rows");
        return NULL;
    }
    Table table;
    Views views;
    memset(&table, 0, sizeof table);
    views.count = 0;
    table.default_timestamp = default_timestamp;
    table.scale = scale;
    if (take_binary_tuple(&views, key, stop, &table.key) == 0 && take_binary_tuple(&views, value, stop, &table.value) == 0 &&
        take_timestamps(&views, timestamps, stop, &table) == 0 && take_headers(&views, headers, stop, &table) == 0)
        result = encode_table(&table, start, stop, max_bytes, views_are_readonly(&views));
    release_views(&views);
    return result;
}

/* ------------------------------------------------------------------------------------------------ decoding columns */

/* One batch whose records are wanted. */
typedef struct {
    const uint8_t *payload;
    Py_ssize_t size;
    int64_t count, base_offset, base_timestamp, append_time;
    int32_t timestamp_type;
} Piece;

typedef struct {
    int64_t rows, key_size, value_size, key_nulls, value_nulls;
    int64_t with_headers, headers, names_size, contents_size, content_nulls;
} Totals;

typedef struct {
    int64_t start_offset, end_offset, scale;
    int want_headers;
} Wish;

/* Null contents among a record's headers; they were parsed before. */
static int64_t null_contents(const Record *record, const uint8_t *end)
{
    const uint8_t *at = record->headers, *start;
    int64_t nulls = 0;
    for (int32_t i = 0; i < record->headers_count; i++) {
        int32_t size;
        if (read_sized(&at, end, &start, &size) || read_sized(&at, end, &start, &size))
            break;
        nulls += size < 0;
    }
    return nulls;
}

/* Parses a whole batch and adds what of it is wanted; the fault, and which record has it. */
static int measure_piece(const Piece *piece, const Wish *wish, Totals *totals, int64_t *index)
{
    const uint8_t *at = piece->payload, *end = at + piece->size;
    *index = 0;
    if (!count_is_possible(piece->count, piece->size))
        return FAULT_RECORD_COUNT;
    for (; *index < piece->count; ++*index) {
        Record record;
        int fault = read_record(&at, end, &record);
        if (fault)
            return fault;
        int64_t offset = wrapping_add(piece->base_offset, record.offset_delta);
        if (offset < wish->start_offset || offset >= wish->end_offset)
            continue;
        totals->rows++;
        if (record.key_size < 0)
            totals->key_nulls++;
        else
            totals->key_size += record.key_size;
        if (record.value_size < 0)
            totals->value_nulls++;
        else
            totals->value_size += record.value_size;
        if (wish->want_headers && record.headers_count) {
            totals->with_headers++;
            totals->headers += record.headers_count;
            totals->names_size += record.names_size;
            totals->contents_size += record.contents_size;
            totals->content_nulls += null_contents(&record, at);
        }
    }
    return at == end ? FAULT_NONE : FAULT_TRAILING_BYTES;
}

static int64_t totals_bytes(const Totals *totals)
{
    return totals->key_size + totals->value_size + totals->names_size + totals->contents_size;
}

/* The columns being filled, and how far. */
typedef struct {
    uint8_t *key_validity, *key_data, *value_validity, *value_data;
    int32_t *key_offsets, *value_offsets, *types;
    int64_t *offsets, *timestamps;
    uint8_t *list_validity, *name_data, *content_validity, *content_data;
    int32_t *lists, *name_offsets, *content_offsets;
    Totals filled;
} Out;

static inline void set_bit(uint8_t *bits, int64_t row) { bits[row >> 3] |= (uint8_t)(1u << (row & 7)); }

static inline int64_t scaled(int64_t timestamp, int64_t scale)
{
    if (timestamp > INT64_MAX / scale)
        return INT64_MAX;
    if (timestamp < INT64_MIN / scale)
        return INT64_MIN;
    return timestamp * scale;
}

/* -1 where more comes than was measured. */
static int fill_headers(const Record *record, const uint8_t *end, const Totals *totals, Out *out)
{
    const uint8_t *at = record->headers;
    Totals *filled = &out->filled;
    if (record->headers_count)
        set_bit(out->list_validity, filled->rows);
    for (int32_t i = 0; i < record->headers_count; i++) {
        const uint8_t *name, *content;
        int32_t name_size, content_size;
        if (filled->headers >= totals->headers || read_sized(&at, end, &name, &name_size) || name_size < 0 ||
            read_sized(&at, end, &content, &content_size) || name_size > totals->names_size - filled->names_size)
            return -1;
        memcpy(out->name_data + filled->names_size, name, (size_t)name_size);
        filled->names_size += name_size;
        if (content_size >= 0) {
            if (content_size > totals->contents_size - filled->contents_size)
                return -1;
            memcpy(out->content_data + filled->contents_size, content, (size_t)content_size);
            filled->contents_size += content_size;
            set_bit(out->content_validity, filled->headers);
        }
        filled->headers++;
        out->name_offsets[filled->headers] = (int32_t)filled->names_size;
        out->content_offsets[filled->headers] = (int32_t)filled->contents_size;
    }
    out->lists[filled->rows + 1] = (int32_t)filled->headers;
    return 0;
}

static int fill_piece(const Piece *piece, const Wish *wish, const Totals *totals, Out *out)
{
    const uint8_t *at = piece->payload, *end = at + piece->size;
    Totals *filled = &out->filled;
    for (int64_t index = 0; index < piece->count; index++) {
        Record record;
        if (read_record(&at, end, &record))
            return -1;
        int64_t offset = wrapping_add(piece->base_offset, record.offset_delta), row = filled->rows;
        if (offset < wish->start_offset || offset >= wish->end_offset)
            continue;
        if (row >= totals->rows || record.key_size > totals->key_size - filled->key_size ||
            record.value_size > totals->value_size - filled->value_size)
            return -1;
        if (record.key_size >= 0) {
            memcpy(out->key_data + filled->key_size, record.key, (size_t)record.key_size);
            filled->key_size += record.key_size;
            set_bit(out->key_validity, row);
        }
        if (record.value_size >= 0) {
            memcpy(out->value_data + filled->value_size, record.value, (size_t)record.value_size);
            filled->value_size += record.value_size;
            set_bit(out->value_validity, row);
        }
        out->key_offsets[row + 1] = (int32_t)filled->key_size;
        out->value_offsets[row + 1] = (int32_t)filled->value_size;
        int64_t timestamp = piece->timestamp_type ? piece->append_time
                                                  : wrapping_add(piece->base_timestamp, record.timestamp_delta);
        out->offsets[row] = offset;
        out->timestamps[row] = scaled(timestamp, wish->scale);
        out->types[row] = piece->timestamp_type;
        if (wish->want_headers && fill_headers(&record, at, totals, out) < 0)
            return -1;
        filled->rows++;
    }
    return 0;
}

/* ---- the run of batches */

typedef struct {
    const uint8_t *start;
    Py_ssize_t size, position, from; /* batches below `from` only tell which transactions are aborted */
    Wish wish;
    int check_crc;
    int64_t max_bytes, next_offset;
    const uint8_t *aborted; /* pairs (producer id, first offset), by first offset */
    Py_ssize_t aborted_count, aborted_seen;
    int64_t *aborting; /* producers whose open transaction ends in an abort */
    Py_ssize_t aborting_count;
    Piece *pieces;
    Py_ssize_t pieces_count, pieces_room;
    Py_buffer *owned; /* decompressed payloads */
    Py_ssize_t owned_count, owned_room;
    Totals totals;
    int readonly;
} Run;

static int64_t aborted_number(const Run *run, Py_ssize_t index)
{
    int64_t number;
    memcpy(&number, run->aborted + 8 * index, sizeof number);
    return number;
}

static int is_abort_marker(const uint8_t *payload, Py_ssize_t size)
{
    Record record;
    const uint8_t *at = payload;
    return read_record(&at, payload + size, &record) == FAULT_NONE && record.key_size >= 4 &&
           get16(record.key + 2) == 0;
}

/* Takes note of aborted transactions up to this batch; whether the batch belongs to one. */
static int belongs_to_aborted(Run *run, const uint8_t *batch, Py_ssize_t size, int64_t last_offset)
{
    int64_t producer_id = signed64(get64(batch + 43));
    int attributes = get16(batch + 21);
    if (!run->aborted_count || producer_id < 0)
        return 0;
    while (run->aborted_seen < run->aborted_count && aborted_number(run, 2 * run->aborted_seen + 1) <= last_offset)
        run->aborting[run->aborting_count++] = aborted_number(run, 2 * run->aborted_seen++);
    if (attributes & CONTROL_BIT) {
        if (is_abort_marker(batch + HEADER_SIZE, size - HEADER_SIZE)) {
            Py_ssize_t kept = 0;
            for (Py_ssize_t i = 0; i < run->aborting_count; i++)
                if (run->aborting[i] != producer_id)
                    run->aborting[kept++] = run->aborting[i];
            run->aborting_count = kept;
        }
        return 0;
    }
    if (attributes & TRANSACTIONAL_BIT)
        for (Py_ssize_t i = 0; i < run->aborting_count; i++)
            if (run->aborting[i] == producer_id)
                return 1;
    return 0;
}

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

/* Asks `decompress(codec, start, end)` for the payload of a batch and keeps it. */
static int decompressed(Run *run, PyObject *decompress, int codec, Py_ssize_t start, Py_ssize_t end, Piece *piece)
{
    if (room_for_one((void **)&run->owned, &run->owned_room, run->owned_count, sizeof *run->owned) < 0)
        return -1;
    PyObject *payload = PyObject_CallFunction(decompress, "inn", codec, start, end);
    if (!payload)
        return -1;
    int outcome = PyObject_GetBuffer(payload, &run->owned[run->owned_count], PyBUF_SIMPLE);
    Py_DECREF(payload);
    if (outcome < 0)
        return -1;
    const Py_buffer *view = &run->owned[run->owned_count++];
    run->readonly = run->readonly && view->readonly;
    piece->payload = view->buf;
    piece->size = view->len;
    return 0;
}

enum { NEXT_BATCH = -1, END_OF_RUN = -2, PYTHON_ERROR = -3 };

/* The records of one batch: NEXT_BATCH, END_OF_RUN where it would be too much, a fault, or PYTHON_ERROR. */
static int take_records(Run *run, PyObject *decompress, const uint8_t *batch, Py_ssize_t size, int64_t *index)
{
    int attributes = get16(batch + 21), codec = attributes & COMPRESSION_MASK, fault;
    Piece piece = {batch + HEADER_SIZE,
                   size - HEADER_SIZE,
                   signed32(get32(batch + 57)),
                   signed64(get64(batch)),
                   signed64(get64(batch + 27)),
                   signed64(get64(batch + 35)),
                   attributes & TIMESTAMP_TYPE_BIT ? 1 : 0};
    if (codec > LAST_CODEC)
        return FAULT_CODEC;
    if (codec && decompressed(run, decompress, codec, run->position + HEADER_SIZE, run->position + size, &piece) < 0)
        return PYTHON_ERROR;
    Totals before = run->totals;
    if (run->readonly && piece.size >= WORTH_RELEASING) {
        Py_BEGIN_ALLOW_THREADS
        fault = measure_piece(&piece, &run->wish, &run->totals, index);
        Py_END_ALLOW_THREADS
    }
    else
        fault = measure_piece(&piece, &run->wish, &run->totals, index);
    if (fault)
        return fault;
    if (totals_bytes(&run->totals) > run->max_bytes && before.rows) {
        run->totals = before;
        return END_OF_RUN;
    }
    if (totals_bytes(&run->totals) > INT32_MAX || run->totals.rows >= INT32_MAX) {
        PyErr_SetString(PyExc_OverflowError, "one batch holds more than fits 32-bit offsets");
        return PYTHON_ERROR;
    }
    if (run->totals.rows == before.rows)
        return NEXT_BATCH;
    if (room_for_one((void **)&run->pieces, &run->pieces_room, run->pieces_count, sizeof *run->pieces) < 0)
        return PYTHON_ERROR;
    run->pieces[run->pieces_count++] = piece;
    return NEXT_BATCH;
}

static int crc_holds(const Run *run, const uint8_t *batch, Py_ssize_t size)
{
    uint32_t crc;
    if (run->readonly && size >= 4 * WORTH_RELEASING) {
        Py_BEGIN_ALLOW_THREADS
        crc = crc32c(0, batch + 21, (size_t)size - 21);
        Py_END_ALLOW_THREADS
    }
    else
        crc = crc32c(0, batch + 21, (size_t)size - 21);
    return crc == get32(batch + 17);
}

/* Looks at the batch at `position` and goes past it, or says why not. */
static int take_batch(Run *run, PyObject *decompress, int64_t *index)
{
    const uint8_t *batch = run->start + run->position;
    Py_ssize_t left = run->size - run->position;
    *index = 0;
    if (left < HEADER_SIZE)
        return END_OF_RUN;
    if (batch[16] != 2)
        return FAULT_MAGIC;
    int64_t size = (int64_t)signed32(get32(batch + 8)) + 12;
    if (size < HEADER_SIZE)
        return FAULT_BATCH_SIZE;
    if (size > left)
        return END_OF_RUN;
    int64_t base_offset = signed64(get64(batch));
    int64_t last_offset = wrapping_add(base_offset, signed32(get32(batch + 23)));
    int wanted = run->position >= run->from;
    if (wanted && base_offset >= run->wish.end_offset)
        return END_OF_RUN;
    int aborted = belongs_to_aborted(run, batch, (Py_ssize_t)size, last_offset);
    if (wanted && last_offset >= run->wish.start_offset) {
        if (run->check_crc && !crc_holds(run, batch, (Py_ssize_t)size))
            return FAULT_CRC;
        if (!aborted && !(get16(batch + 21) & CONTROL_BIT)) {
            int outcome = take_records(run, decompress, batch, (Py_ssize_t)size, index);
            if (outcome != NEXT_BATCH)
                return outcome;
        }
    }
    if (wanted)
        run->next_offset = wrapping_add(last_offset, 1);
    run->position += (Py_ssize_t)size;
    return NEXT_BATCH;
}

/* A new bytearray at `index` of the list, and where its bytes are. */
static void *new_part(PyObject *list, int64_t size, int zeroed)
{
    PyObject *part = PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)size);
    if (!part)
        return NULL;
    char *at = PyByteArray_AsString(part);
    if (zeroed)
        memset(at, 0, (size_t)size);
    int outcome = PyList_Append(list, part);
    Py_DECREF(part);
    return outcome < 0 ? NULL : at;
}

static int32_t *new_offsets(PyObject *list, int64_t entries)
{
    int32_t *offsets = new_part(list, 4 * (entries + 1), 0);
    if (offsets)
        offsets[0] = 0;
    return offsets;
}

static int new_columns(const Run *run, PyObject *list, Out *out)
{
    const Totals *totals = &run->totals;
    int64_t rows = totals->rows, bits = (rows + 7) / 8, header_bits = (totals->headers + 7) / 8;
    if (!(out->key_validity = new_part(list, bits, 1)) || !(out->key_offsets = new_offsets(list, rows)) ||
        !(out->key_data = new_part(list, totals->key_size, 0)) || !(out->value_validity = new_part(list, bits, 1)) ||
        !(out->value_offsets = new_offsets(list, rows)) || !(out->value_data = new_part(list, totals->value_size, 0)) ||
        !(out->offsets = new_part(list, 8 * rows, 0)) || !(out->timestamps = new_part(list, 8 * rows, 0)) ||
        !(out->types = new_part(list, 4 * rows, 0)))
        return -1;
    if (!run->wish.want_headers)
        return 0;
    if (!(out->list_validity = new_part(list, bits, 1)) || !(out->lists = new_offsets(list, rows)) ||
        !(out->name_offsets = new_offsets(list, totals->headers)) ||
        !(out->name_data = new_part(list, totals->names_size, 0)) ||
        !(out->content_validity = new_part(list, header_bits, 1)) ||
        !(out->content_offsets = new_offsets(list, totals->headers)) ||
        !(out->content_data = new_part(list, totals->contents_size, 0)))
        return -1;
    return 0;
}

static int fill_all(const Run *run, Out *out)
{
    for (Py_ssize_t i = 0; i < run->pieces_count; i++)
        if (fill_piece(&run->pieces[i], &run->wish, &run->totals, out) < 0)
            return -1;
    return out->filled.rows == run->totals.rows ? 0 : -1;
}

static PyObject *columns_of(const Run *run)
{
    PyObject *parts = PyList_New(0);
    Out out;
    int outcome;
    memset(&out, 0, sizeof out);
    if (!parts || new_columns(run, parts, &out) < 0) {
        Py_XDECREF(parts);
        return NULL;
    }
    if (run->readonly) {
        Py_BEGIN_ALLOW_THREADS
        outcome = fill_all(run, &out);
        Py_END_ALLOW_THREADS
    }
    else
        outcome = fill_all(run, &out);
    if (outcome < 0) {
        Py_DECREF(parts);
        PyErr_SetString(PyExc_RuntimeError, "the batches changed while they were read");
        return NULL;
    }
    const Totals *totals = &run->totals;
    return Py_BuildValue("(inLLN(LLLLL))", 0, run->position, (long long)run->next_offset, (long long)totals->rows,
                         parts, (long long)totals->key_nulls, (long long)totals->value_nulls,
                         (long long)(totals->rows - totals->with_headers), (long long)totals->headers,
                         (long long)totals->content_nulls);
}

static PyObject *decode_run(Run *run, PyObject *decompress)
{
    int outcome;
    int64_t index = 0;
    do
        outcome = take_batch(run, decompress, &index);
    while (outcome == NEXT_BATCH);
    if (outcome == PYTHON_ERROR)
        return NULL;
    if (outcome == END_OF_RUN)
        return columns_of(run);
    return Py_BuildValue("(inLL[](LLLLL))", outcome, run->position, (long long)index, 0LL, 0LL, 0LL, 0LL, 0LL, 0LL);
}

static PyObject *py_decode(PyObject *module, PyObject *args)
{
    Py_buffer view, aborted;
    PyObject *decompress, *result = NULL;
    long long start_offset, end_offset, scale, max_bytes;
    Py_ssize_t from;
    int want_headers, check_crc;
    (void)module;
    if (!PyArg_ParseTuple(args, "y*nLLLpy*pLO", &view, &from, &start_offset, &end_offset, &scale, &want_headers,
                          &aborted, &check_crc, &max_bytes, &decompress))
        return NULL;
    Run run;
    memset(&run, 0, sizeof run);
    run.start = view.buf;
    run.size = view.len;
    run.from = from;
    run.wish.start_offset = run.next_offset = start_offset;
    run.wish.end_offset = end_offset;
    run.wish.scale = scale;
    run.wish.want_headers = want_headers;
    run.check_crc = check_crc;
    run.max_bytes = max_bytes;
    run.aborted = aborted.buf;
    run.aborted_count = aborted.len / 16;
    run.readonly = view.readonly;
    if (scale < 1 || max_bytes > INT32_MAX)
        PyErr_SetString(PyExc_ValueError, "scale is at least 1, max_bytes below 2 GiB");
    else if (run.aborted_count && !(run.aborting = PyMem_Malloc((size_t)run.aborted_count * 8)))
        PyErr_NoMemory();
    else
        result = decode_run(&run, decompress);
    while (run.owned_count)
        PyBuffer_Release(&run.owned[--run.owned_count]);
    PyMem_Free(run.owned);
    PyMem_Free(run.pieces);
    PyMem_Free(run.aborting);
    PyBuffer_Release(&view);
    PyBuffer_Release(&aborted);
    return result;
}

/* --------------------------------------------------------------------------------------------------------- module */

static PyMethodDef methods[] = {
    {"crc32c", (PyCFunction)(void (*)(void))py_crc32c, METH_FASTCALL, "crc32c(buffer, initial=0)"},
    {"crc32c_kind", py_crc32c_kind, METH_NOARGS, "How the CRC is computed here."},
    {"crc32c_by_tables", py_crc32c_by_tables, METH_O, "The portable CRC-32C, for comparison."},
    {"scan", (PyCFunction)(void (*)(void))py_scan, METH_FASTCALL, "scan(payload, count, base_timestamp)"},
    {"offenders", py_offenders, METH_VARARGS, "offenders(payload, count, base_timestamp, need_keys, earliest, latest, most)"},
    {"read", py_read, METH_VARARGS, "read(make, payload, count, base_offset, base_timestamp, append_time)"},
    {"append_record", (PyCFunction)(void (*)(void))py_append_record, METH_FASTCALL,
     "append_record(out, offset_delta, timestamp_delta, key, value, headers)"},
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
    tuple_new = (newfunc)PyType_GetSlot(&PyTuple_Type, Py_tp_new);
    if (!tuple_new)
        return NULL;
    return PyModule_Create(&definition);
}
