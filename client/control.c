/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two locks. `life_lock` orders starting and stopping the thread; `run_lock` is
 * held by the thread while it calls functions of sources, and by whoever changes
 * the list. The thread never takes life_lock. Order: life, then run.
 */
#include "config.h"

#include "control.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <farkv.h>

#include "common/err.h"
#include "common/thread.h"

#define EVENTS_PER_ROUND 32
#define TICK_MS 1

/* How gates and the thread order themselves; chosen when the thread starts. */
enum barrier_kind {
	BARRIER_EXPEDITED, /* an interrupt to the CPUs that run this process */
	BARRIER_GLOBAL,    /* waits for a scheduling round of all CPUs */
	BARRIER_GATES,     /* none: gates fence for themselves */
};

static pthread_mutex_t life_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t run_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t began = PTHREAD_COND_INITIALIZER; /* control.running */
static struct {
	pthread_t thread;
	int epoll_fd, quit_fd;
	unsigned n_sources;             /* life_lock */
	struct control_source *sources; /* run_lock */
	unsigned n_ticking;             /* run_lock */
	bool running;                   /* run_lock: the thread got to its loop */
	enum barrier_kind barrier;
	bool chosen;
} control = {.epoll_fd = -1, .quit_fd = -1};

static int membarrier(int cmd)
{
	return (int)syscall(SYS_membarrier, cmd, 0, 0);
}

/*
 * Registration belongs to the process; a child's must be made anew. The kind is
 * chosen once, because gates have been told.
 */
static void barrier_choose(void)
{
	int cmds;

	if (control.chosen) {
		if (control.barrier == BARRIER_EXPEDITED)
			(void)membarrier(
				MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
		return;
	}
	cmds = membarrier(MEMBARRIER_CMD_QUERY);
	control.barrier = BARRIER_GATES;
	if (cmds > 0 && (cmds & MEMBARRIER_CMD_PRIVATE_EXPEDITED) &&
	    membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0)
		control.barrier = BARRIER_EXPEDITED;
	else if (cmds > 0 && (cmds & MEMBARRIER_CMD_GLOBAL))
		control.barrier = BARRIER_GLOBAL;
	control.chosen = true;
}

bool control_gates_fence(void)
{
	return control.barrier == BARRIER_GATES;
}

void control_heavy_barrier(void)
{
	if (control.barrier == BARRIER_EXPEDITED)
		(void)membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
	else if (control.barrier == BARRIER_GLOBAL)
		(void)membarrier(MEMBARRIER_CMD_GLOBAL);
}

/* ---- the thread ----------------------------------------------------------- */

/* Events are fetched under run_lock, so every source they name is alive. */
static bool run_round(void)
{
	struct epoll_event ev[EVENTS_PER_ROUND];
	bool quit = false;
	int n;

	pthread_mutex_lock(&run_lock);
	n = epoll_wait(control.epoll_fd, ev, EVENTS_PER_ROUND, 0);
	/* Somebody has closed it: nothing will be heard any more. */
	if (n < 0 && errno != EINTR)
		quit = true;
	for (int i = 0; i < n; i++) {
		struct control_source *src = ev[i].data.ptr;

		if (!src)
			quit = true;
		else if (!src->muted)
			src->ready(src);
	}
	for (struct control_source *s = control.sources; s; s = s->next)
		if (s->ticking)
			s->tick(s);
	pthread_mutex_unlock(&run_lock);
	return !quit;
}

static int round_timeout_ms(void)
{
	int ms;

	pthread_mutex_lock(&run_lock);
	ms = control.n_ticking ? TICK_MS : -1;
	pthread_mutex_unlock(&run_lock);
	return ms;
}

static void *control_main(void *arg)
{
	(void)arg;
	(void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	pthread_mutex_lock(&run_lock);
	control.running = true;
	pthread_cond_signal(&began);
	pthread_mutex_unlock(&run_lock);
	do {
		struct pollfd p = {.fd = control.epoll_fd, .events = POLLIN};
		int ms = round_timeout_ms();

		/* Only here, where it holds nothing; see thread_stop(). */
		(void)pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
		(void)poll(&p, 1, ms);
		(void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	} while (run_round());
	return NULL;
}

static void fds_close(void)
{
	if (control.epoll_fd >= 0)
		close(control.epoll_fd);
	if (control.quit_fd >= 0)
		close(control.quit_fd);
	control.epoll_fd = control.quit_fd = -1;
}

static int thread_create(void)
{
	int err = thread_create_masked(&control.thread, control_main, NULL);

	if (!err)
		(void)pthread_setname_np(control.thread, "farkv-control");
	return err;
}

static int thread_start(void)
{
	struct epoll_event ev = {.events = EPOLLIN};
	int err;

	barrier_choose();
	control.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	control.quit_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (control.epoll_fd < 0 || control.quit_fd < 0 ||
	    epoll_ctl(control.epoll_fd, EPOLL_CTL_ADD, control.quit_fd, &ev) < 0)
		err = errno;
	else
		err = thread_create();
	if (!err)
		return 0;
	fds_close();
	return err_set_errno(FARKV_ESYS, err, "cannot start the control thread");
}

static void thread_stop(void)
{
	/* A program that closes descriptors it does not know has closed this one. */
	if (eventfd_write(control.quit_fd, 1))
		(void)pthread_cancel(control.thread);
	pthread_join(control.thread, NULL);
	control.running = false;
	fds_close();
}

/* ---- sources -------------------------------------------------------------- */

static void source_link(struct control_source *src)
{
	src->prev = NULL;
	src->next = control.sources;
	if (src->next)
		src->next->prev = src;
	control.sources = src;
}

static void source_unlink(struct control_source *src)
{
	if (src->prev)
		src->prev->next = src->next;
	else
		control.sources = src->next;
	if (src->next)
		src->next->prev = src->prev;
}

int control_add(struct control_source *src)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.ptr = src};
	int err = 0;

	pthread_mutex_lock(&life_lock);
	if (control.n_sources == 0)
		err = thread_start();
	if (err)
		goto out;
	src->ticking = src->muted = false;
	pthread_mutex_lock(&run_lock);
	if (epoll_ctl(control.epoll_fd, EPOLL_CTL_ADD, src->fd, &ev) < 0)
		err = err_set_errno(FARKV_ESYS, errno,
				    "cannot watch the server's socket");
	else
		source_link(src);
	pthread_mutex_unlock(&run_lock);
	if (!err)
		control.n_sources++;
	else if (control.n_sources == 0)
		thread_stop();
out:
	pthread_mutex_unlock(&life_lock);
	return err;
}

void control_remove(struct control_source *src)
{
	pthread_mutex_lock(&life_lock);
	pthread_mutex_lock(&run_lock);
	control_tick(src, false);
	control_mute(src);
	source_unlink(src);
	pthread_mutex_unlock(&run_lock);
	if (--control.n_sources == 0)
		thread_stop();
	pthread_mutex_unlock(&life_lock);
}

void control_watch(struct control_source *src, bool writable)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.ptr = src};

	if (writable)
		ev.events |= EPOLLOUT;
	if (!src->muted)
		(void)epoll_ctl(control.epoll_fd, EPOLL_CTL_MOD, src->fd, &ev);
}

void control_tick(struct control_source *src, bool on)
{
	if (on && !src->ticking)
		control.n_ticking++;
	else if (!on && src->ticking)
		control.n_ticking--;
	src->ticking = on;
}

void control_mute(struct control_source *src)
{
	if (!src->muted)
		(void)epoll_ctl(control.epoll_fd, EPOLL_CTL_DEL, src->fd, NULL);
	src->muted = true;
}

/* ---- fork ----------------------------------------------------------------- */

/*
 * A thread that is just starting holds locks of its C library's and, in builds for
 * sanitizers, of their allocator's: locks that a child would inherit for ever.
 */
void control_fork_prepare(void)
{
	pthread_mutex_lock(&life_lock);
	pthread_mutex_lock(&run_lock);
	while (control.n_sources > 0 && !control.running)
		pthread_cond_wait(&began, &run_lock);
}

void control_fork_parent(void)
{
	pthread_mutex_unlock(&run_lock);
	pthread_mutex_unlock(&life_lock);
}

void control_fork_child(void)
{
	/* Closing copies takes nothing from the parent's epoll or sockets. */
	for (struct control_source *s = control.sources; s; s = s->next) {
		close(s->fd);
		s->fd = -1;
		s->forked(s);
	}
	fds_close();
	control.sources = NULL;
	control.n_sources = 0;
	control.n_ticking = 0;
	control.running = false;
	pthread_cond_init(&began, NULL);
	pthread_mutex_unlock(&run_lock);
	pthread_mutex_unlock(&life_lock);
}
