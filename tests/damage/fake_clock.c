/* A wall clock that is off by what the file FAKE_CLOCK says, in ms; the monotonic clock stays right.

   Preloaded into a broker by tests/damage/clocks.py. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t zero, *off_ms = &zero;
static int (*real)(clockid_t, struct timespec *);

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("FAKE_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    if (file >= 0) {
        void *page = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
        if (page != MAP_FAILED)
            off_ms = page;
        close(file);
    }
}

int clock_gettime(clockid_t id, struct timespec *now) {
    if (!real)
        begin();
    int failed = real(id, now);
    if (!failed && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) {
        int64_t ms = *off_ms;
        now->tv_sec += ms / 1000;
        now->tv_nsec += ms % 1000 * 1000000;
        if (now->tv_nsec >= 1000000000) {
            now->tv_nsec -= 1000000000;
            now->tv_sec++;
        } else if (now->tv_nsec < 0) {
            now->tv_nsec += 1000000000;
            now->tv_sec--;
        }
    }
    return failed;
}

int gettimeofday(struct timeval *now, void *zone) {
    struct timespec at;
    clock_gettime(CLOCK_REALTIME, &at);
    now->tv_sec = at.tv_sec;
    now->tv_usec = at.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *out) {
    struct timespec at;
    clock_gettime(CLOCK_REALTIME, &at);
    if (out)
        *out = at.tv_sec;
    return at.tv_sec;
}
