/*
 * The compiled module `ottla.server._parallel_sync`: fdatasync(2) of a few files at once, or syncfs(2) of all, by threads
 * that run no Python.
 *
 * A Python thread that comes back from a sync waits for the interpreter's lock before it can say so, for as long as the
 * loop computes; these say so by the file descriptor that the loop waits on anyway. Limited API of Python 3.11.
 */
#define _GNU_SOURCE /* syncfs */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/types.h>
#include <unistd.h>

#define MOST_FILES 8

typedef struct {
    PyObject_HEAD
    pthread_mutex_t lock; /* guards all that follows */
    pthread_cond_t changed;
    pthread_t threads[MOST_FILES];
    int thread_count;
    int is_stopped;
    int wake_fd;
    pid_t process; /* the one that has the threads: a child of it has none */
    int files[MOST_FILES];
    int (*sync)(int file); /* what is called for each */
    int count; /* files of the round; 0 between `end` and `begin` */
    int next; /* the first one that no thread has taken */
    int unwoken; /* files for which no thread has been woken yet */
    int unfinished;
    int fault; /* errno of the first that failed, or 0 */
    int failed; /* its place among the files */
} ParallelSync;

static int sync_file(ParallelSync *self, int file)
{
    while (self->sync(file) != 0)
        if (errno != EINTR)
            return errno;
    return 0;
}

static void wake_the_loop(int wake_fd)
{
    const uint64_t one = 1;
    while (write(wake_fd, &one, sizeof one) < 0 && errno == EINTR)
        ;
}

/*
 * Takes the next file of the round and syncs it; called and left with the lock held. First it wakes two more threads:
 * the loop, which has the interpreter's lock and requests to answer, wakes only one.
 */
static void sync_next(ParallelSync *self)
{
    int place = self->next++;
    int file = self->files[place];
    int woken = self->unwoken < 2 ? self->unwoken : 2;
    self->unwoken -= woken;
    pthread_mutex_unlock(&self->lock);
    while (woken--)
        pthread_cond_signal(&self->changed);
    int fault = sync_file(self, file);
    pthread_mutex_lock(&self->lock);
    if (fault && !self->fault) {
        self->fault = fault;
        self->failed = place;
    }
    if (--self->unfinished == 0) {
        /* Without the lock, which the loop takes as soon as it wakes. No round begins before its `end`. */
        pthread_mutex_unlock(&self->lock);
        wake_the_loop(self->wake_fd);
        pthread_mutex_lock(&self->lock);
    }
}

static void *run_thread(void *argument)
{
    ParallelSync *self = argument;
    pthread_mutex_lock(&self->lock);
    for (;;) {
        if (self->next < self->count)
            sync_next(self);
        else if (self->is_stopped)
            break;
        else
            pthread_cond_wait(&self->changed, &self->lock);
    }
    pthread_mutex_unlock(&self->lock);
    return NULL;
}

/* As many threads as files; fewer where the system gives no more. Signals are for Python's own threads. */
static int start_threads(ParallelSync *self, int wanted)
{
    sigset_t all, before;
    int error = 0;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (self->thread_count < wanted && !error) {
        error = pthread_create(&self->threads[self->thread_count], NULL, run_thread, self);
        if (!error)
            self->thread_count++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return self->thread_count ? 0 : error;
}

static int read_files(PyObject *given, int *files)
{
    Py_ssize_t count = PyTuple_Check(given) ? PyTuple_Size(given) : -1;
    if (count < 1 || count > MOST_FILES) {
        PyErr_Format(PyExc_ValueError, "a tuple of 1 to %d file descriptors is wanted", MOST_FILES);
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        long file = PyLong_AsLong(PyTuple_GetItem(given, i));
        if (file == -1 && PyErr_Occurred())
            return -1;
        files[i] = (int)file;
    }
    return (int)count;
}

static PyObject *begin_round(ParallelSync *self, int (*sync)(int), const int *files, int count)
{
    if (self->process != getpid()) {
        PyErr_SetString(PyExc_OSError, "the threads are those of the parent process");
        return NULL;
    }
    pthread_mutex_lock(&self->lock);
    int is_free = !self->count && !self->is_stopped;
    int error = is_free ? start_threads(self, count) : 0;
    if (is_free && !error) {
        for (int i = 0; i < count; i++)
            self->files[i] = files[i];
        self->sync = sync;
        self->next = self->fault = 0;
        self->count = self->unfinished = count;
        self->unwoken = count - 1;
    }
    pthread_mutex_unlock(&self->lock); /* before a thread is woken, which takes it first */
    if (is_free && !error)
        pthread_cond_signal(&self->changed);
    if (!is_free) {
        PyErr_SetString(PyExc_RuntimeError, "a round is under way, or all is stopped");
        return NULL;
    }
    if (error) {
        errno = error;
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    Py_RETURN_NONE;
}

static PyObject *begin(PyObject *object, PyObject *given)
{
    int files[MOST_FILES];
    int count = read_files(given, files);
    return count < 0 ? NULL : begin_round((ParallelSync *)object, fdatasync, files, count);
}

#ifdef __linux__
static PyObject *begin_file_system(PyObject *object, PyObject *given)
{
    long file = PyLong_AsLong(given);
    if (file == -1 && PyErr_Occurred())
        return NULL;
    int files[] = {(int)file};
    return begin_round((ParallelSync *)object, syncfs, files, 1);
}
#endif

static PyObject *end(PyObject *object, PyObject *unused)
{
    (void)unused;
    ParallelSync *self = (ParallelSync *)object;
    pthread_mutex_lock(&self->lock);
    int has_ended = self->count && !self->unfinished;
    int fault = self->fault, failed = self->failed;
    if (has_ended)
        self->count = self->next = 0;
    pthread_mutex_unlock(&self->lock);
    if (!has_ended) {
        PyErr_SetString(PyExc_RuntimeError, "no round has ended");
        return NULL;
    }
    return fault ? Py_BuildValue("ii", fault, failed) : Py_BuildValue("ii", 0, 0);
}

static void stop_threads(ParallelSync *self)
{
    if (self->process != getpid())
        return;
    pthread_mutex_lock(&self->lock);
    self->is_stopped = 1;
    pthread_cond_broadcast(&self->changed);
    pthread_mutex_unlock(&self->lock);
    Py_BEGIN_ALLOW_THREADS
    for (; self->thread_count; self->thread_count--)
        pthread_join(self->threads[self->thread_count - 1], NULL);
    Py_END_ALLOW_THREADS
}

static PyObject *stop(PyObject *object, PyObject *unused)
{
    (void)unused;
    stop_threads((ParallelSync *)object);
    Py_RETURN_NONE;
}

static PyObject *new_parallel_sync(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    int wake_fd;
    if (keywords && PyDict_Size(keywords)) {
        PyErr_SetString(PyExc_TypeError, "ParallelSync takes no keywords");
        return NULL;
    }
    if (!PyArg_ParseTuple(arguments, "i", &wake_fd))
        return NULL;
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    ParallelSync *self = (ParallelSync *)allocate(type, 0); /* all zero */
    if (self == NULL)
        return NULL;
    self->wake_fd = wake_fd;
    self->process = getpid();
    pthread_mutex_init(&self->lock, NULL);
    pthread_cond_init(&self->changed, NULL);
    return (PyObject *)self;
}

static void free_parallel_sync(PyObject *object)
{
    ParallelSync *self = (ParallelSync *)object;
    PyTypeObject *type = Py_TYPE(object);
    if (self->process == getpid()) { /* in a child it would wait for the parent's threads, which wait for `changed` */
        stop_threads(self);
        pthread_cond_destroy(&self->changed);
        pthread_mutex_destroy(&self->lock);
    }
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(object);
    Py_DECREF(type);
}

static PyMethodDef methods[] = {
    {"begin", begin, METH_O, "begin(files): sync these, a tuple of descriptors; OSError where no thread is to be had."},
#ifdef __linux__
    {"begin_file_system", begin_file_system, METH_O, "begin_file_system(file): sync all of the file system it lies on."},
#endif
    {"end", end, METH_NOARGS, "end() -> (errno, place) of the first file that failed, (0, 0) where none did."},
    {"stop", stop, METH_NOARGS, "stop(): wait for the round under way and end the threads."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, "ParallelSync(wake_fd): rounds of fdatasync; at the end of each 1 is added to the eventfd wake_fd."},
    {Py_tp_new, new_parallel_sync},
    {Py_tp_dealloc, free_parallel_sync},
    {Py_tp_methods, methods},
    {0, NULL},
};

static PyType_Spec spec = {
    "ottla.server._parallel_sync.ParallelSync", sizeof(ParallelSync), 0, Py_TPFLAGS_DEFAULT, slots,
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_parallel_sync", "fdatasync of a few files at once.", -1, NULL, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__parallel_sync(void)
{
    PyObject *module = PyModule_Create(&definition);
    PyObject *type = module ? PyType_FromSpec(&spec) : NULL;
    if (type == NULL || PyModule_AddObjectRef(module, "ParallelSync", type) < 0 ||
        PyModule_AddIntConstant(module, "MOST_FILES", MOST_FILES) < 0) {
        Py_XDECREF(type);
        Py_XDECREF(module);
        return NULL;
    }
    Py_DECREF(type);
    return module;
}
