/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "failing.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/types.h>
#include <unistd.h>

/* ---- which one fails ------------------------------------------------------
 */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool counting;
static uint64_t calls, fail_from, fail_to; /* numbers from 1; to: exclusive */
static const char *which;
static const char *report; /* FAILING_REPORT */
static bool only_verbs;	   /* FAILING_ONLY */

static void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

void failing_arm(uint64_t at, uint64_t times)
{
	pthread_mutex_lock(&lock);
	calls = 0;
	which = NULL;
	fail_from = at;
	fail_to = times > UINT64_MAX - at ? UINT64_MAX : at + times;
	counting = true;
	pthread_mutex_unlock(&lock);
}

static void set_counting(bool on)
{
	pthread_mutex_lock(&lock);
	counting = on;
	pthread_mutex_unlock(&lock);
}

void failing_pause(void)
{
	set_counting(false);
}

void failing_resume(void)
{
	set_counting(true);
}

uint64_t failing_calls(void)
{
	uint64_t n;

	pthread_mutex_lock(&lock);
	n = calls;
	pthread_mutex_unlock(&lock);
	return n;
}

const char *failing_which(void)
{
	const char *name;

	pthread_mutex_lock(&lock);
	name = which;
	pthread_mutex_unlock(&lock);
	return name;
}

/* Does this call, of the function `name`, fail? */
static bool one_fails(const char *name, bool also_after)
{
	uint64_t n = 0;
	bool hit;

	pthread_mutex_lock(&lock);
	if (counting)
		n = ++calls;
	hit = n && fail_from && n >= fail_from &&
	      n < (also_after ? fail_to : fail_from + 1);
	if (hit && !which)
		which = name;
	pthread_mutex_unlock(&lock);
	if (hit)
		say("failed %llu %s\n", (unsigned long long)n, name);
	return hit;
}

bool failing_fails(const char *name)
{
	return one_fails(name, true);
}

static bool fails(const char *name)
{
	return !only_verbs && one_fails(name, true);
}

/* ---- wrapped ----------------------------------- */

/* The call fails by returning `bad` with errno `errnum`. */
#define WRAP(type, bad, errnum, name, params, args)                            \
	type __real_##name params;                                             \
	type __wrap_##name params;                                             \
	type __wrap_##name params                                              \
	{                                                                      \
		if (fails(#name)) {                                            \
			errno = (errnum);                                      \
			return (bad);                                          \
		}                                                              \
		return __real_##name args;                                     \
	}

/* Descriptors, files, memory from the kernel. */
WRAP(void *, MAP_FAILED, ENOMEM, mmap,
     (void *at, size_t n, int prot, int flags, int fd, off_t off),
     (at, n, prot, flags, fd, off))
WRAP(int, -1, ENOMEM, madvise, (void *at, size_t n, int what), (at, n, what))
WRAP(int, -1, EMFILE, memfd_create, (const char *name, unsigned flags),
     (name, flags))
WRAP(int, -1, ENOSPC, fallocate, (int fd, int mode, off_t off, off_t n),
     (fd, mode, off, n))
WRAP(int, -1, ENOSPC, ftruncate, (int fd, off_t n), (fd, n))
WRAP(int, -1, EPERM, fchmod, (int fd, mode_t mode), (fd, mode))
WRAP(int, -1, EIO, fstat, (int fd, struct stat *st), (fd, st))
WRAP(int, -1, EACCES, stat, (const char *path, struct stat *st), (path, st))
WRAP(int, -1, EACCES, lstat, (const char *path, struct stat *st), (path, st))
WRAP(int, -1, EROFS, unlink, (const char *path), (path))
WRAP(int, -1, ENOSPC, mkdir, (const char *path, mode_t mode), (path, mode))
WRAP(int, -1, EPERM, chmod, (const char *path, mode_t mode), (path, mode))
WRAP(int, -1, ENOLCK, flock, (int fd, int what), (fd, what))
WRAP(ssize_t, -1, EACCES, readlink, (const char *path, char *to, size_t n),
     (path, to, n))
WRAP(char *, NULL, ENOMEM, realpath, (const char *path, char *to), (path, to))
WRAP(FILE *, NULL, EMFILE, fopen, (const char *path, const char *mode),
     (path, mode))
WRAP(ssize_t, -1, EIO, read, (int fd, void *p, size_t n), (fd, p, n))
WRAP(ssize_t, -1, EIO, pread, (int fd, void *p, size_t n, off_t at),
     (fd, p, n, at))
WRAP(ssize_t, -1, ENOSYS, getrandom, (void *p, size_t n, unsigned flags),
     (p, n, flags))

/* Sockets and waiting. */
WRAP(int, -1, EMFILE, socket, (int domain, int type, int proto),
     (domain, type, proto))
WRAP(int, -1, EMFILE, accept4,
     (int fd, struct sockaddr *a, socklen_t *n, int flags), (fd, a, n, flags))
WRAP(int, -1, EADDRNOTAVAIL, bind,
     (int fd, const struct sockaddr *a, socklen_t n), (fd, a, n))
WRAP(int, -1, EADDRINUSE, listen, (int fd, int backlog), (fd, backlog))
WRAP(int, -1, ECONNREFUSED, connect,
     (int fd, const struct sockaddr *a, socklen_t n), (fd, a, n))
WRAP(int, -1, ENOBUFS, getsockopt,
     (int fd, int level, int name, void *p, socklen_t *n),
     (fd, level, name, p, n))
WRAP(ssize_t, -1, ENOMEM, send, (int fd, const void *p, size_t n, int flags),
     (fd, p, n, flags))
WRAP(ssize_t, -1, ENOBUFS, sendmsg, (int fd, const struct msghdr *m, int flags),
     (fd, m, flags))
WRAP(ssize_t, -1, ENOMEM, recvmsg, (int fd, struct msghdr *m, int flags),
     (fd, m, flags))
WRAP(int, -1, EMFILE, epoll_create1, (int flags), (flags))
WRAP(int, -1, EMFILE, eventfd, (unsigned n, int flags), (n, flags))
WRAP(int, -1, EMFILE, timerfd_create, (int clock, int flags), (clock, flags))
WRAP(int, EAI_MEMORY, ENOMEM, getaddrinfo,
     (const char *host, const char *port, const struct addrinfo *hints,
      struct addrinfo **to),
     (host, port, hints, to))

/* Threads: the error is what they return. */
WRAP(int, EAGAIN, EAGAIN, pthread_create,
     (pthread_t * t, const pthread_attr_t *a, void *(*fn)(void *), void *arg),
     (t, a, fn, arg))
WRAP(int, ENOMEM, ENOMEM, pthread_atfork,
     (void (*prepare)(void), void (*parent)(void), void (*child)(void)),
     (prepare, parent, child))

/* libsodium allocates for itself. */
WRAP(int, -1, ENOMEM, sodium_init, (void), ())
WRAP(void *, NULL, ENOMEM, sodium_malloc, (size_t n), (n))
WRAP(void *, NULL, ENOMEM, sodium_allocarray, (size_t n, size_t each),
     (n, each))

/* Those with an optional argument: a long holds any of them. */
#define WRAP_VARIADIC(type, errnum, name, params, last, args)                  \
	type __real_##name params;                                             \
	type __wrap_##name params;                                             \
	type __wrap_##name params                                              \
	{                                                                      \
		va_list ap;                                                    \
		long rest;                                                     \
                                                                               \
		va_start(ap, last);                                            \
		rest = va_arg(ap, long);                                       \
		va_end(ap);                                                    \
		if (fails(#name)) {                                            \
			errno = (errnum);                                      \
			return -1;                                             \
		}                                                              \
		return __real_##name args;                                     \
	}

WRAP_VARIADIC(int, EMFILE, open, (const char *path, int flags, ...), flags,
	      (path, flags, rest))
WRAP_VARIADIC(int, EMFILE, openat, (int dir, const char *path, int flags, ...),
	      flags, (dir, path, flags, rest))
WRAP_VARIADIC(int, EINVAL, fcntl, (int fd, int what, ...), what,
	      (fd, what, rest))

/* Signals interrupt a wait, but not for ever. */
int __real_poll(struct pollfd *p, nfds_t n, int ms);
int __wrap_poll(struct pollfd *p, nfds_t n, int ms);
int __wrap_poll(struct pollfd *p, nfds_t n, int ms)
{
	if (!only_verbs && one_fails("poll", false)) {
		errno = EINTR;
		return -1;
	}
	return __real_poll(p, n, ms);
}

int __real_epoll_wait(int ep, struct epoll_event *e, int n, int ms);
int __wrap_epoll_wait(int ep, struct epoll_event *e, int n, int ms);
int __wrap_epoll_wait(int ep, struct epoll_event *e, int n, int ms)
{
	if (!only_verbs && one_fails("epoll_wait", false)) {
		errno = EINTR;
		return -1;
	}
	return __real_epoll_wait(ep, e, n, ms);
}

/* Only calls that need memory can fail. */
int __real_epoll_ctl(int ep, int op, int fd, struct epoll_event *e);
int __wrap_epoll_ctl(int ep, int op, int fd, struct epoll_event *e);
int __wrap_epoll_ctl(int ep, int op, int fd, struct epoll_event *e)
{
	if (op == EPOLL_CTL_ADD && fails("epoll_ctl")) {
		errno = ENOSPC;
		return -1;
	}
	return __real_epoll_ctl(ep, op, fd, e);
}

/* membarrier(2), pidfd_open(2), ... as of a kernel without them. */
long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);
long __wrap_syscall(long number, ...)
{
	long a[5];
	va_list ap;

	va_start(ap, number);
	for (int i = 0; i < 5; i++)
		a[i] = va_arg(ap, long);
	va_end(ap);
	if (fails("syscall")) {
		errno = ENOSYS;
		return -1;
	}
	return __real_syscall(number, a[0], a[1], a[2], a[3], a[4]);
}

/* ---- what was said ---------------------------------------------------------
 */

static void say(const char *fmt, ...)
{
	char line[80];
	va_list ap;
	int fd, n;

	if (!report)
		return;
	va_start(ap, fmt);
	n = vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	fd = __real_open(report, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC,
			 0600L);
	if (fd < 0)
		return;
	if (write(fd, line, (size_t)n) != n)
		abort();
	close(fd);
}

/* ---- blocks -----------------------------------------------------------------
 */

/* Open addressing; 0 ends a chain, GONE does not. */
#define LIVE_MAX (1u << 16)
#define GONE UINTPTR_MAX
static uintptr_t live[LIVE_MAX];
static void *maker[LIVE_MAX]; /* the place in the program that called */
static unsigned n_live, n_used;

static unsigned home(uintptr_t p)
{
	return (unsigned)(p * UINT64_C(0x9E3779B97F4A7C15) >> 48) % LIVE_MAX;
}

static void *born(void *p, void *caller)
{
	unsigned i = home((uintptr_t)p);

	if (!p)
		return p;
	pthread_mutex_lock(&lock);
	while (live[i] && live[i] != GONE)
		i = (i + 1) % LIVE_MAX;
	if (!live[i] && ++n_used == LIVE_MAX)
		abort(); /* an endless search would be next */
	live[i] = (uintptr_t)p;
	maker[i] = caller;
	n_live++;
	pthread_mutex_unlock(&lock);
	return p;
}

/* Memory that libc or a library allocated is not here. */
static void died(void *p)
{
	unsigned i = home((uintptr_t)p);

	pthread_mutex_lock(&lock);
	while (live[i] && live[i] != (uintptr_t)p)
		i = (i + 1) % LIVE_MAX;
	if (p && live[i]) {
		live[i] = GONE;
		n_live--;
	}
	pthread_mutex_unlock(&lock);
}

unsigned failing_live(void)
{
	unsigned n;

	pthread_mutex_lock(&lock);
	n = n_live;
	pthread_mutex_unlock(&lock);
	return n;
}

#define WRAP_ALLOCATION(name, params, args)                                    \
	void *__real_##name params;                                            \
	void *__wrap_##name params;                                            \
	void *__wrap_##name params                                             \
	{                                                                      \
		if (fails(#name)) {                                            \
			errno = ENOMEM;                                        \
			return NULL;                                           \
		}                                                              \
		return born(__real_##name args, __builtin_return_address(0));  \
	}

WRAP_ALLOCATION(malloc, (size_t n), (n))
WRAP_ALLOCATION(calloc, (size_t n, size_t each), (n, each))
WRAP_ALLOCATION(aligned_alloc, (size_t align, size_t n), (align, n))

char *__real_strdup(const char *s);
char *__wrap_strdup(const char *s);
char *__wrap_strdup(const char *s)
{
	if (fails("strdup")) {
		errno = ENOMEM;
		return NULL;
	}
	return born(__real_strdup(s), __builtin_return_address(0));
}

void __real_free(void *p);
void __wrap_free(void *p);
void __wrap_free(void *p)
{
	died(p); /* before another thread can get it again */
	__real_free(p);
}

void *__real_realloc(void *p, size_t n);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_realloc(void *p, size_t n)
{
	void *moved;

	if (fails("realloc")) {
		errno = ENOMEM;
		return NULL;
	}
	died(p);
	moved = __real_realloc(p, n);
	if (!moved && n)
		born(p, __builtin_return_address(0));
	return born(moved, __builtin_return_address(0));
}

/* ---- a program without a test inside ----------------------------------------
 */

static uint64_t number(const char *name, uint64_t deflt)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 10) : deflt;
}

__attribute__((constructor)) static void begin(void)
{
	report = getenv("FAILING_REPORT");
	only_verbs = getenv("FAILING_ONLY") != NULL;
	if (getenv("FAILING_AT"))
		failing_arm(number("FAILING_AT", 0),
			    number("FAILING_TIMES", 1));
}

__attribute__((destructor)) static void end(void)
{
	failing_pause();
	say("live %u\n", failing_live());
	for (unsigned i = 0; i < LIVE_MAX; i++)
		if (live[i] && live[i] != GONE)
			say("a block by %p of the code at %p\n", maker[i],
			    (void *)(uintptr_t)begin);
}
