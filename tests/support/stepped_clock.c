/* Loaded into a redis-server before other libraries: its wall clock shows so many seconds more as the file of
   STEPPED_CLOCK says, which a test writes while the server runs. Its monotonic clock stays. libfaketime does not start
   beside jemalloc, which asks for the time before that library is ready. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile long *offset;

static long offset_s(void) {
    const char *name = offset ? NULL : getenv("STEPPED_CLOCK");
    if (name) {
        int file = open(name, O_RDONLY);
        offset = mmap(NULL, sizeof(long), PROT_READ, MAP_SHARED, file, 0);
        close(file);
    }
    return offset ? *offset : 0;
}

int clock_gettime(clockid_t clock, struct timespec *shown) {
    int failed = syscall(SYS_clock_gettime, clock, shown);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) shown->tv_sec += offset_s();
    return failed;
}

int gettimeofday(struct timeval *shown, void *zone) {
    struct timespec now;
    int failed = clock_gettime(CLOCK_REALTIME, &now);
    shown->tv_sec = now.tv_sec;
    shown->tv_usec = now.tv_nsec / 1000;
    return failed;
}

time_t time(time_t *shown) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (shown) *shown = now.tv_sec;
    return now.tv_sec;
}
