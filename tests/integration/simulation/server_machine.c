/* Loaded into a redis-server before other libraries, so that it lives on a simulated machine: its clocks stand still at
   the times in the file of SIMULATED_CLOCKS, wall and monotonic in microseconds, which the simulation writes. And it has
   no chance of its own: it seeds the order of its hashes, and whatever it draws, in each run with the same numbers. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile long *clocks;

/* The server has a clock that stands still, and would not notice the end of the simulation, or a TERM. */
__attribute__((constructor)) static void die_with_parent(void) { prctl(PR_SET_PDEATHSIG, SIGKILL); }

static long us(clockid_t clock) {
    if (!clocks) {
        int file = open(getenv("SIMULATED_CLOCKS"), O_RDONLY);
        clocks = mmap(NULL, 2 * sizeof(long), PROT_READ, MAP_SHARED, file, 0);
        close(file);
    }
    return clocks[clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE];
}

int clock_gettime(clockid_t clock, struct timespec *shown) {
    long now = us(clock);
    shown->tv_sec = now / 1000000;
    shown->tv_nsec = now % 1000000 * 1000;
    return 0;
}

int gettimeofday(struct timeval *shown, void *zone) {
    long now = us(CLOCK_REALTIME);
    shown->tv_sec = now / 1000000;
    shown->tv_usec = now % 1000000;
    return 0;
}

time_t time(time_t *shown) {
    time_t now = us(CLOCK_REALTIME) / 1000000;
    if (shown) *shown = now;
    return now;
}

pid_t getpid(void) { return 4242; } /* a part of each seed */

static FILE *opened(const char *call, const char *name, const char *how) {
    FILE *(*real)(const char *, const char *) = dlsym(RTLD_NEXT, call);
    return real(strcmp(name, "/dev/urandom") ? name : "/dev/zero", how);
}

FILE *fopen(const char *name, const char *how) { return opened("fopen", name, how); }
FILE *fopen64(const char *name, const char *how) { return opened("fopen64", name, how); }
