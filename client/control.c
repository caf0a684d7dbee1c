/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two locks. `life_lock` orders starts and stops of the thread. The thread holds `run_lock` while
 * it calls functions of sources, and other threads hold it to change the list. The thread never
 * takes life_lock. Order: life_lock, then run_lock.
 */
#include "config.h"

#include "control.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <farkv.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/thread.h"

#define EVENTS_PER_ROUND 32
#define TICK_MS 1
/*
 * The thread wakes up this often, because the program may replace its descriptors just before it
 * sleeps.
 */
#define LOOK_MS 1000
#define SLOW_TICK_MS 20

/* How quiescence counters and the thread are ordered; chosen at the thread's start. */
enum barrier_kind {
	BARRIER_EXPEDITED, /* an interrupt to the CPUs that run this process */
	BARRIER_GLOBAL,    /* waits for a scheduling round of all CPUs */
	BARRIER_QSBR,     /* none: each qsbr_enter() has its own fence */
};

static pthread_mutex_t life_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t run_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t began = PTHREAD_COND_INITIALIZER; /* control.running */
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER; /* signalled when deaf or quit changes */
static struct {
	pthread_t thread;
	/* guarded by run_lock, as the next three */
	int epoll_fd;
	struct wakeup wakeup;
	bool quit;
	bool deaf; /* the program has closed its descriptors */
	unsigned n_sources;             /* life_lock */
	struct control_source *sources; /* run_lock */
	unsigned n_ticking, n_looking;  /* run_lock */
	bool running;                   /* run_lock: the thread has reached its loop */
	enum barrier_kind barrier;
	bool chosen;
} control = {.epoll_fd = -1, .wakeup = WAKEUP_NONE};

static int membarrier(int cmd)
{
	return (int)syscall(SYS_membarrier, cmd, 0, 0);
}

/*
 * Choose the kind, once, because the counters depend on it. The registration belongs to the
 * process; a child has to repeat it.
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
	control.barrier = BARRIER_QSBR;
	if (cmds > 0 && (cmds & MEMBARRIER_CMD_PRIVATE_EXPEDITED) &&
	    membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0)
		control.barrier = BARRIER_EXPEDITED;
	else if (cmds > 0 && (cmds & MEMBARRIER_CMD_GLOBAL))
		control.barrier = BARRIER_GLOBAL;
	control.chosen = true;
}

bool control_qsbr_fence(void)
{
	return control.barrier == BARRIER_QSBR;
}

void control_heavy_barrier(void)
{
	if (control.barrier == BARRIER_EXPEDITED)
		(void)membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
	else if (control.barrier == BARRIER_GLOBAL)
		(void)membarrier(MEMBARRIER_CMD_GLOBAL);
}

/* ---- descriptors; run_lock is held ------------------------------------------- */

static void fds_close(void)
{
	if (wakeup_knows(&control.wakeup, control.epoll_fd))
		close(control.epoll_fd);
	control.epoll_fd = -1;
	wakeup_close(&control.wakeup);
}

static int watch(struct control_source *src)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.ptr = src};

	if (src->writable)
		ev.events |= EPOLLOUT;
	return epoll_ctl(control.epoll_fd, EPOLL_CTL_ADD, src->fd, &ev) < 0 ?
		       errno :
		       0;
}

static int fds_open(void)
{
	int err = wakeup_open(&control.wakeup);

	if (err)
		return err;
	control.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	err = control.epoll_fd < 0 ? errno :
				     wakeup_watch(&control.wakeup,
						  control.epoll_fd, NULL);
	if (!err)
		return 0;
	if (control.epoll_fd >= 0)
		close(control.epoll_fd);
	control.epoll_fd = -1;
	wakeup_close(&control.wakeup);
	return err;
}

static bool fds_are_ours(void)
{
	return wakeup_is_whole(&control.wakeup) &&
	       wakeup_knows(&control.wakeup, control.epoll_fd);
}

/* The program may have reused the descriptors' numbers: do not read, write or close them. */
static void become_deaf(void)
{
	fds_close();
	control.deaf = true;
	for (struct control_source *s = control.sources; s; s = s->next)
		if (!s->muted)
			s->lost(s);
}

/* ---- the thread ----------------------------------------------------------- */

/* Events are fetched under run_lock, so each source they name is alive. */
static void handle_events(void)
{
	struct epoll_event ev[EVENTS_PER_ROUND];
	int n = epoll_wait(control.epoll_fd, ev, EVENTS_PER_ROUND, 0);

	for (int i = 0; i < n && !control.deaf; i++) {
		struct control_source *src = ev[i].data.ptr;

		if (!src && !wakeup_clear(&control.wakeup))
			become_deaf();
		else if (src && !src->muted)
			src->ready(src);
	}
}

static bool run_round(void)
{
	bool quit;

	pthread_mutex_lock(&run_lock);
	if (!control.deaf && !fds_are_ours())
		become_deaf();
	if (!control.deaf)
		handle_events();
	for (struct control_source *s = control.sources; s; s = s->next)
		if (s->ticking || s->looking)
			s->tick(s);
	quit = control.quit;
	pthread_mutex_unlock(&run_lock);
	return !quit;
}

/*
 * poll(2) keeps the files open that it waits for. If the program closes all descriptors, the
 * hangup of the wakeup's other end still wakes it.
 */
static void sleep_round(void)
{
	struct pollfd p[2];
	int ms;

	pthread_mutex_lock(&run_lock);
	/* Without descriptors, sleep until control_add() makes new ones. */
	while (control.deaf && !control.quit && !control.n_ticking && !control.n_looking)
		pthread_cond_wait(&changed, &run_lock);
	if (control.deaf) {
		pthread_mutex_unlock(&run_lock);
		clock_sleep_ns(TICK_MS * NS_PER_MS);
		return;
	}
	p[0] = (struct pollfd){.fd = control.epoll_fd, .events = POLLIN};
	p[1] = (struct pollfd){.fd = control.wakeup.fd[0], .events = POLLIN};
	ms = control.n_ticking ? TICK_MS : control.n_looking ? SLOW_TICK_MS : LOOK_MS;
	pthread_mutex_unlock(&run_lock);
	/* Cancellation only here, where it holds no lock; see thread_stop(). */
	(void)pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
	(void)poll(p, 2, ms);
	(void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
}

static void *control_main(void *arg)
{
	(void)arg;
	(void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	pthread_mutex_lock(&run_lock);
	control.running = true;
	pthread_cond_signal(&began);
	pthread_mutex_unlock(&run_lock);
	do
		sleep_round();
	while (run_round());
	return NULL;
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
	int err;

	barrier_choose();
	control.quit = control.deaf = false;
	err = fds_open();
	if (!err) {
		err = thread_create();
		if (err)
			fds_close();
	}
	if (!err)
		return 0;
	return err_set_errno(FARKV_ESYS, err, "cannot start the control thread");
}

static void thread_stop(void)
{
	bool woken;

	pthread_mutex_lock(&run_lock);
	control.quit = true;
	woken = control.deaf || wakeup_ring(&control.wakeup);
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&run_lock);
	/* If a child holds copies of closed descriptors there is no hangup. */
	if (!woken)
		(void)pthread_cancel(control.thread);
	pthread_join(control.thread, NULL);
	control.running = false;
	fds_close();
}

/* The program has closed the thread's descriptors: make new ones. */
static int thread_repair(void)
{
	int err = 0;

	pthread_mutex_lock(&run_lock);
	if (!control.deaf && !fds_are_ours()) {
		(void)wakeup_ring(&control.wakeup);
		become_deaf();
	}
	if (control.deaf) {
		err = fds_open();
		control.deaf = err != 0;
		pthread_cond_broadcast(&changed);
	}
	pthread_mutex_unlock(&run_lock);
	return err ? err_set_errno(FARKV_ESYS, err,
				   "cannot make the control thread's descriptors") :
		     0;
}

/* ---- sources -------------------------------------------------------------- */

static void source_entry(struct control_source *src)
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
	int err;

	pthread_mutex_lock(&life_lock);
	err = control.n_sources == 0 ? thread_start() : thread_repair();
	if (err)
		goto out;
	src->ticking = src->looking = src->muted = src->writable = false;
	src->id = fd_id_of(src->fd);
	pthread_mutex_lock(&run_lock);
	err = watch(src);
	if (err)
		err = err_set_errno(FARKV_ESYS, err,
				    "cannot watch the server's socket");
	else
		source_entry(src);
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
	control_look(src, false);
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
	if (src->muted || src->writable == writable ||
	    !fd_id_is(src->fd, src->id))
		return;
	(void)epoll_ctl(control.epoll_fd, EPOLL_CTL_MOD, src->fd, &ev);
	src->writable = writable;
}

void control_tick(struct control_source *src, bool on)
{
	if (on && !src->ticking)
		control.n_ticking++;
	else if (!on && src->ticking)
		control.n_ticking--;
	src->ticking = on;
}

void control_look(struct control_source *src, bool on)
{
	if (on && !src->looking)
		control.n_looking++;
	else if (!on && src->looking)
		control.n_looking--;
	src->looking = on;
}

/*
 * The program has closed a source's descriptor. If a child holds a copy, the epoll instance still
 * watches it, and nothing can remove it. So make a new instance that watches the others.
 */
static void watch_others(void)
{
	int err;

	(void)wakeup_ring(&control.wakeup);
	fds_close();
	err = fds_open();
	for (struct control_source *s = control.sources; s && !err; s = s->next)
		if (!s->muted)
			err = watch(s);
	if (err)
		become_deaf();
}

void control_mute(struct control_source *src)
{
	if (src->muted)
		return;
	src->muted = true;
	if (control.deaf)
		return;
	if (!fds_are_ours())
		become_deaf();
	else if (epoll_ctl(control.epoll_fd, EPOLL_CTL_DEL, src->fd, NULL) < 0)
		watch_others();
}

/* ---- fork ----------------------------------------------------------------- */

/*
 * A thread that is just starting holds locks of its C library and of sanitizers' allocators,
 * which a child would inherit as locked forever.
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
	/* Closing the copies does not affect the parent's epoll or sockets. */
	for (struct control_source *s = control.sources; s; s = s->next) {
		fd_id_close(&s->fd, s->id);
		s->forked(s);
	}
	fds_close();
	control.sources = NULL;
	control.n_sources = 0;
	control.n_ticking = control.n_looking = 0;
	control.running = false;
	pthread_cond_init(&began, NULL);
	pthread_cond_init(&changed, NULL);
	pthread_mutex_unlock(&run_lock);
	pthread_mutex_unlock(&life_lock);
}
