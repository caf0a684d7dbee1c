/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "wait_rig.h"

#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "common/base/atomic.h"

_Thread_local bool must_not_wait;
unsigned long waits;
const char *last_wait;

static _Thread_local unsigned locks;
static unsigned long locked;

unsigned long slept_locked(void)
{
	return atom_load_relaxed(&locked);
}

/* One of the library's own threads. */
static bool is_farkvs(void)
{
	char name[16] = "";

	(void)pthread_getname_np(pthread_self(), name, sizeof(name));
	return strncmp(name, "farkv-", 6) == 0;
}

/* `own`: locks that the call itself gives up. */
static void note(const char *call, unsigned own)
{
	if (must_not_wait) {
		waits++;
		last_wait = call;
	}
	if (locks > own && is_farkvs())
		(void)atom_count(&locked, 1);
}

int __real_poll(struct pollfd *p, nfds_t n, int ms);
int __wrap_poll(struct pollfd *p, nfds_t n, int ms);
int __wrap_poll(struct pollfd *p, nfds_t n, int ms)
{
	if (ms)
		note("poll", 0);
	return __real_poll(p, n, ms);
}

int __real_connect(int fd, const struct sockaddr *sa, socklen_t len);
int __wrap_connect(int fd, const struct sockaddr *sa, socklen_t len);
int __wrap_connect(int fd, const struct sockaddr *sa, socklen_t len)
{
	note("connect", 0);
	return __real_connect(fd, sa, len);
}

ssize_t __real_recvmsg(int fd, struct msghdr *m, int flags);
ssize_t __wrap_recvmsg(int fd, struct msghdr *m, int flags);
ssize_t __wrap_recvmsg(int fd, struct msghdr *m, int flags)
{
	if (!(flags & MSG_DONTWAIT))
		note("recvmsg", 0);
	return __real_recvmsg(fd, m, flags);
}

ssize_t __real_send(int fd, const void *p, size_t n, int flags);
ssize_t __wrap_send(int fd, const void *p, size_t n, int flags);
ssize_t __wrap_send(int fd, const void *p, size_t n, int flags)
{
	if (!(flags & MSG_DONTWAIT))
		note("send", 0);
	return __real_send(fd, p, n, flags);
}

int __real_nanosleep(const struct timespec *ts, struct timespec *rest);
int __wrap_nanosleep(const struct timespec *ts, struct timespec *rest);
int __wrap_nanosleep(const struct timespec *ts, struct timespec *rest)
{
	note("nanosleep", 0);
	return __real_nanosleep(ts, rest);
}

int __real_pthread_join(pthread_t t, void **result);
int __wrap_pthread_join(pthread_t t, void **result);
int __wrap_pthread_join(pthread_t t, void **result)
{
	if (must_not_wait)
		note("pthread_join", locks);
	return __real_pthread_join(t, result);
}

int __real_pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m,
				  const struct timespec *ts);
int __wrap_pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m,
				  const struct timespec *ts);
int __wrap_pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m,
				  const struct timespec *ts)
{
	note("pthread_cond_timedwait", 1);
	return __real_pthread_cond_timedwait(c, m, ts);
}

int __real_pthread_mutex_lock(pthread_mutex_t *m);
int __wrap_pthread_mutex_lock(pthread_mutex_t *m);
int __wrap_pthread_mutex_lock(pthread_mutex_t *m)
{
	locks++;
	return __real_pthread_mutex_lock(m);
}

int __real_pthread_mutex_unlock(pthread_mutex_t *m);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *m);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *m)
{
	locks--;
	return __real_pthread_mutex_unlock(m);
}
