/* A wall clock with an offset that can be changed while the process runs. Nothing that is replaced here is looked up: an
   allocator that asks for the time while the process starts would wait for itself. The time is asked of the kernel.
   Monotonic clocks stay as they are, but for the time in which the host is said to have been asleep; CLOCK_BOOTTIME counts
   that as well, and is left alone. */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* Seconds that the wall clock is ahead; nanoseconds that the monotonic clock has slept through. */
static volatile const int64_t *offset;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("LEASEHOLD_CLOCK_OFFSET");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    void *seconds = mmap(NULL, 2 * sizeof *offset, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (seconds != MAP_FAILED)
        offset = seconds;
}

/* Waits for a futex name a moment of the monotonic clock, as it is shown here; the kernel wants it as it is. Asked with the
   instruction itself, for the reason above. */
static long ask(long number, long a, long b, long c, long d, long e, long f) {
#if defined(__x86_64__)
    long answer;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(answer)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return answer;
#elif defined(__aarch64__)
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
    return x0;
#else
#error "a machine whose kernel this does not know how to ask"
#endif
}

long syscall(long number, ...) {
    va_list rest;
    long args[6];
    struct timespec until;
    va_start(rest, number);
    for (int i = 0; i < 6; i++)
        args[i] = va_arg(rest, long);
    va_end(rest);
    long operation = args[1] & FUTEX_CMD_MASK;
    if (number == SYS_futex && operation == FUTEX_WAIT_BITSET && args[3] && offset && offset[1] &&
        !(args[1] & FUTEX_CLOCK_REALTIME)) {
        until = *(const struct timespec *)args[3];
        int64_t nanos = until.tv_nsec + offset[1];
        until.tv_sec += nanos / 1000000000LL;
        until.tv_nsec = nanos % 1000000000LL;
        args[3] = (long)&until;
    }
    long answer = ask(number, args[0], args[1], args[2], args[3], args[4], args[5]);
    if (answer < 0 && answer > -4096) {
        errno = (int)-answer;
        return -1;
    }
    return answer;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = syscall(SYS_clock_gettime, clock, now);
    if (!failed && offset && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += offset[0];
    if (!failed && offset && (clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_COARSE)) {
        int64_t nanos = now->tv_sec * 1000000000LL + now->tv_nsec - offset[1];
        now->tv_sec = nanos / 1000000000LL;
        now->tv_nsec = nanos % 1000000000LL;
    }
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec exact;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &exact))
        return -1;
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *now) {
    struct timespec exact;
    if (clock_gettime(CLOCK_REALTIME, &exact))
        return -1;
    if (now)
        *now = exact.tv_sec;
    return exact.tv_sec;
}

/* Waits until a moment of a clock as it is shown here; the C library wants the moment as the kernel shows it. */
int pthread_cond_timedwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict shown) {
    /* glibc keeps in this bit by which clock the condition was told to wait. */
    int is_monotonic = (condition->__data.__wrefs & 2) != 0;
    struct timespec until = *shown;
    if (offset && !is_monotonic)
        until.tv_sec -= offset[0];
    if (offset && is_monotonic) {
        int64_t nanos = until.tv_nsec + offset[1];
        until.tv_sec += nanos / 1000000000LL;
        until.tv_nsec = nanos % 1000000000LL;
    }
    return pthread_cond_clockwait(condition, mutex, is_monotonic ? CLOCK_MONOTONIC : CLOCK_REALTIME, &until);
}
