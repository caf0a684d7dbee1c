/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "notifier.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <farkv.h>

#include "common/base/atomic.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/wakeup.h"

struct notifier {
	int epoll_fd, timer_fd;
	struct wakeup word;
	struct fd_id stand_in; /* in a child: the file that replaced epoll_fd */
	int watched_fd;    /* or -1 */
	bool raised;       /* the owner has written to the socket */
	uint32_t called;   /* atomic: set by other threads, after their writes */
	uint64_t timer_ns; /* time the timer is set for, or was; 0: not set */
	struct notifier *prev, *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects the list */
static struct notifier *notifiers;

/* ---- open and close -------------------------------------------------------------------------- */

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* False if the program has closed them and reused their numbers. */
static bool is_ours(const struct notifier *w)
{
	return wakeup_knows(&w->word, w->epoll_fd);
}

static bool timer_is_ours(const struct notifier *w)
{
	return is_ours(w) && wakeup_watches(w->epoll_fd, w->timer_fd);
}

static void close_all(struct notifier *w)
{
	if (timer_is_ours(w))
		close_fd(&w->timer_fd);
	if (is_ours(w))
		close_fd(&w->epoll_fd);
	else if (w->stand_in.ino)
		fd_id_close(&w->epoll_fd, w->stand_in);
	wakeup_close(&w->word);
}

static bool add(struct notifier *w, int fd)
{
	struct epoll_event ev = {.events = EPOLLIN};

	return epoll_ctl(w->epoll_fd, EPOLL_CTL_ADD, fd, &ev) == 0;
}

static int open_all(struct notifier *w)
{
	int err = wakeup_open(&w->word);

	if (err)
		return err;
	w->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	/* The clock of clock_now_ns(). */
	w->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
	if (w->epoll_fd >= 0 && w->timer_fd >= 0)
		err = wakeup_watch(&w->word, w->epoll_fd, NULL);
	if (err || w->epoll_fd < 0 || w->timer_fd < 0 || !add(w, w->timer_fd)) {
		err = err ? err : errno;
		close_fd(&w->timer_fd);
		close_fd(&w->epoll_fd);
		wakeup_close(&w->word);
	}
	return err;
}

int notifier_new(struct notifier **out)
{
	struct notifier *w = calloc(1, sizeof(*w));
	int errnum;

	if (!w)
		return err_set(FARKV_ENOMEM, "no memory for a descriptor");
	w->watched_fd = w->epoll_fd = w->timer_fd = -1;
	pthread_mutex_lock(&lock);
	errnum = open_all(w);
	if (errnum) {
		pthread_mutex_unlock(&lock);
		free(w);
		return err_set_errno(FARKV_ESYS, errnum,
				     "cannot make a descriptor to wait on");
	}
	w->next = notifiers;
	if (notifiers)
		notifiers->prev = w;
	notifiers = w;
	pthread_mutex_unlock(&lock);
	*out = w;
	return 0;
}

void notifier_free(struct notifier *w)
{
	if (!w)
		return;
	pthread_mutex_lock(&lock);
	if (w->prev)
		w->prev->next = w->next;
	else if (notifiers == w)
		notifiers = w->next;
	if (w->next)
		w->next->prev = w->prev;
	close_all(w);
	pthread_mutex_unlock(&lock);
	free(w);
}

int notifier_fd(const struct notifier *w)
{
	return w->epoll_fd;
}

/* ---- notification --------------------------------------------------------------------- */

void notifier_raise(struct notifier *w)
{
	if (w->raised)
		return;
	w->raised = true;
	(void)wakeup_ring(&w->word);
}

void notifier_call(struct notifier *w)
{
	(void)wakeup_ring(&w->word);
	/* After the write: a concurrent clear may read once too often, but never too rarely. */
	(void)atom_exchange(&w->called, 1);
}

void notifier_clear(struct notifier *w)
{
	bool called = atom_load_relaxed(&w->called) &&
		      atom_exchange(&w->called, 0);

	if (!called && !w->raised)
		return;
	w->raised = false;
	(void)wakeup_clear(&w->word);
}

/* ---- the timer ------------------------------------------------------------------------- */

bool notifier_is_set(const struct notifier *w, uint64_t now_ns)
{
	return w->timer_ns > now_ns;
}

void notifier_at(struct notifier *w, uint64_t now_ns, uint64_t at_ns)
{
	struct itimerspec t = {0};

	if (notifier_is_set(w, now_ns) && w->timer_ns <= at_ns)
		return;
	if (!w->timer_ns && at_ns == NOTIFIER_NEVER)
		return;
	w->timer_ns = at_ns == NOTIFIER_NEVER ? 0 : at_ns;
	t.it_value.tv_sec = (time_t)(w->timer_ns / NS_PER_SEC);
	t.it_value.tv_nsec = (long)(w->timer_ns % NS_PER_SEC);
	if (timer_is_ours(w))
		(void)timerfd_settime(w->timer_fd, TFD_TIMER_ABSTIME, &t, NULL);
}

/* ---- the watched descriptor ------------------------------------------------------------ */

bool notifier_watch(struct notifier *w, int fd)
{
	bool ours = (fd >= 0 || w->watched_fd >= 0) && is_ours(w);

	if (w->watched_fd >= 0 && ours)
		(void)epoll_ctl(w->epoll_fd, EPOLL_CTL_DEL, w->watched_fd, NULL);
	w->watched_fd = fd >= 0 && ours && add(w, fd) ? fd : -1;
	return w->watched_fd == fd;
}

int notifier_add(struct notifier *w, int fd)
{
	return add(w, fd) ? 0 :
			    err_set_errno(FARKV_ESYS, errno,
					  "cannot make a descriptor to wait on");
}

bool notifier_watches(const struct notifier *w)
{
	return w->watched_fd >= 0;
}

/* ---- fork ------------------------------------------------------------------------------ */

void notifier_fork_prepare(void)
{
	pthread_mutex_lock(&lock);
}

void notifier_fork_parent(void)
{
	pthread_mutex_unlock(&lock);
}

/*
 * The parent's objects are shared: do not read or write them. Close the copies of some, which
 * makes room for a descriptor that replaces the parent's; it is notified once and never cleared.
 */
static void forked(struct notifier *w)
{
	bool ours = is_ours(w);

	if (timer_is_ours(w))
		close_fd(&w->timer_fd);
	wakeup_close(&w->word);
	if (!ours || wakeup_open(&w->word))
		return;
	(void)wakeup_ring(&w->word);
	if (dup3(w->word.fd[0], w->epoll_fd, O_CLOEXEC) >= 0)
		w->stand_in = w->word.id[0];
	fd_id_close(&w->word.fd[0], w->word.id[0]);
}

void notifier_fork_child(void)
{
	for (struct notifier *w = notifiers, *next; w; w = next) {
		next = w->next;
		w->prev = w->next = NULL;
		w->watched_fd = -1;
		forked(w);
	}
	notifiers = NULL;
	pthread_mutex_unlock(&lock);
}
