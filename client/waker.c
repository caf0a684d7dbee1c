/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "waker.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <farkv.h>

#include "common/atomic.h"
#include "common/clock.h"
#include "common/err.h"

struct waker {
	int epoll_fd, word_fd, timer_fd;
	int watched_fd;    /* or -1 */
	bool raised;       /* the owner has written to word_fd */
	uint32_t called;   /* atomic: others have; follows what they wrote */
	uint64_t timer_ns; /* the clock is set for, or was; 0: it is not */
	struct waker *prev, *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the list */
static struct waker *wakers;

/* ---- life -------------------------------------------------------------------------- */

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static void close_all(struct waker *w)
{
	close_fd(&w->word_fd);
	close_fd(&w->timer_fd);
	close_fd(&w->epoll_fd);
}

static bool add(struct waker *w, int fd)
{
	struct epoll_event ev = {.events = EPOLLIN};

	return epoll_ctl(w->epoll_fd, EPOLL_CTL_ADD, fd, &ev) == 0;
}

static bool open_all(struct waker *w)
{
	w->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	w->word_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	/* The clock of clock_now_ns(). */
	w->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
	return w->epoll_fd >= 0 && w->word_fd >= 0 && w->timer_fd >= 0 &&
	       add(w, w->word_fd) && add(w, w->timer_fd);
}

int waker_new(struct waker **out)
{
	struct waker *w = calloc(1, sizeof(*w));

	if (!w)
		return err_set(FARKV_ENOMEM, "no memory for a descriptor");
	w->watched_fd = -1;
	pthread_mutex_lock(&lock);
	if (!open_all(w)) {
		int errnum = errno;

		pthread_mutex_unlock(&lock);
		close_all(w);
		free(w);
		return err_set_errno(FARKV_ESYS, errnum,
				     "cannot make a descriptor to wait on");
	}
	w->next = wakers;
	if (wakers)
		wakers->prev = w;
	wakers = w;
	pthread_mutex_unlock(&lock);
	*out = w;
	return 0;
}

void waker_free(struct waker *w)
{
	if (!w)
		return;
	pthread_mutex_lock(&lock);
	if (w->prev)
		w->prev->next = w->next;
	else if (wakers == w)
		wakers = w->next;
	if (w->next)
		w->next->prev = w->prev;
	close_all(w);
	pthread_mutex_unlock(&lock);
	free(w);
}

int waker_fd(const struct waker *w)
{
	return w->epoll_fd;
}

/* ---- the word ------------------------------------------------------------------------ */

void waker_raise(struct waker *w)
{
	if (w->raised)
		return;
	w->raised = true;
	(void)eventfd_write(w->word_fd, 1);
}

void waker_call(struct waker *w)
{
	(void)eventfd_write(w->word_fd, 1);
	/* Behind it: who clears in between reads once too often, never too rarely. */
	(void)atom_exchange(&w->called, 1);
}

void waker_clear(struct waker *w)
{
	eventfd_t n;
	bool called = atom_load_relaxed(&w->called) &&
		      atom_exchange(&w->called, 0);

	if (!called && !w->raised)
		return;
	w->raised = false;
	(void)eventfd_read(w->word_fd, &n);
}

/* ---- the clock ----------------------------------------------------------------------- */

bool waker_is_set(const struct waker *w, uint64_t now_ns)
{
	return w->timer_ns > now_ns;
}

void waker_at(struct waker *w, uint64_t now_ns, uint64_t at_ns)
{
	struct itimerspec t = {0};

	if (waker_is_set(w, now_ns) && w->timer_ns <= at_ns)
		return;
	if (!w->timer_ns && at_ns == WAKER_NEVER)
		return;
	w->timer_ns = at_ns == WAKER_NEVER ? 0 : at_ns;
	t.it_value.tv_sec = (time_t)(w->timer_ns / NS_PER_SEC);
	t.it_value.tv_nsec = (long)(w->timer_ns % NS_PER_SEC);
	(void)timerfd_settime(w->timer_fd, TFD_TIMER_ABSTIME, &t, NULL);
}

/* ---- the watched one ------------------------------------------------------------------ */

bool waker_watch(struct waker *w, int fd)
{
	if (w->watched_fd >= 0)
		(void)epoll_ctl(w->epoll_fd, EPOLL_CTL_DEL, w->watched_fd, NULL);
	w->watched_fd = fd >= 0 && add(w, fd) ? fd : -1;
	return w->watched_fd == fd;
}

bool waker_watches(const struct waker *w)
{
	return w->watched_fd >= 0;
}

/* ---- fork ------------------------------------------------------------------------------ */

void waker_fork_prepare(void)
{
	pthread_mutex_lock(&lock);
}

void waker_fork_parent(void)
{
	pthread_mutex_unlock(&lock);
}

/*
 * The parent's objects are shared: nothing may be read from them or written to them.
 * Closing the copies of two makes room for the one that stands for the parent's.
 */
void waker_fork_child(void)
{
	for (struct waker *w = wakers, *next; w; w = next) {
		int fd;

		next = w->next;
		w->prev = w->next = NULL;
		close_fd(&w->word_fd);
		close_fd(&w->timer_fd);
		w->watched_fd = -1;
		fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
		if (fd < 0 || dup3(fd, w->epoll_fd, O_CLOEXEC) < 0)
			close_fd(&w->epoll_fd);
		close_fd(&fd);
	}
	wakers = NULL;
	pthread_mutex_unlock(&lock);
}
