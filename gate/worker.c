/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "worker.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#include <event2/event.h>

#include "common/base/err.h"
#include "common/base/thread.h"
#include "conn.h"
#include "mc_cmds.h"

/* A connection on its way to the thread: one write(2) of a pipe, which is not split. */
struct given {
	int fd; /* -1: none, see conn_wake() */
	int speaks;
};

struct worker {
	struct conn_home home;
	int pipe[2]; /* of struct given; its end tells the thread to end */
	struct event *arrival, *tick;
	pthread_t thread;
};

static void on_arrival(evutil_socket_t fd, short what, void *arg)
{
	struct worker *w = arg;
	struct given g;
	ssize_t n = read(fd, &g, sizeof(g));

	(void)what;
	if (n == (ssize_t)sizeof(g) && g.fd < 0)
		conn_wake(&w->home);
	else if (n == (ssize_t)sizeof(g))
		conn_open(&w->home, g.fd, (enum client_speaks)g.speaks);
	else if (n == 0)
		event_base_loopbreak(w->home.base);
}

static_assert(offsetof(struct worker, home) == 0, "the home's address is the worker's");

/* If the pipe is full, on_tick() does it. */
static void wake(void *home)
{
	(void)worker_give(home, -1, SPEAKS_UNKNOWN);
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
	struct worker *w = arg;
	uint64_t seconds = atom_load_relaxed(&w->home.gate->idle_s);

	(void)fd;
	(void)what;
	conn_wake(&w->home);
	if (seconds)
		conn_close_idle(&w->home, seconds);
}

static void *run(void *arg)
{
	struct worker *w = arg;

	event_base_dispatch(w->home.base);
	conn_close_all(&w->home);
	return NULL;
}

static void worker_free(struct worker *w)
{
	if (w->arrival)
		event_free(w->arrival);
	if (w->tick)
		event_free(w->tick);
	if (w->home.flush)
		event_free(w->home.flush);
	if (w->home.base)
		event_base_free(w->home.base);
	for (unsigned i = 0; i < 2; i++)
		if (w->pipe[i] >= 0)
			close(w->pipe[i]);
	buf_free(&w->home.out);
	buf_free(&w->home.scratch);
	free(w->home.in);
	free(w);
}

static int set_up(struct worker *w)
{
	static const struct timeval second = {.tv_sec = 1};

	if (pipe2(w->pipe, O_CLOEXEC | O_NONBLOCK))
		return err_set_errno(FARKV_ESYS, errno, "a thread's pipe");
	w->home.in = malloc(CONN_READ_BYTES);
	w->home.base = event_base_new();
	if (!w->home.in || !w->home.base)
		return err_set(FARKV_ENOMEM, "no memory for a thread");
	w->arrival = event_new(w->home.base, w->pipe[0], EV_READ | EV_PERSIST, on_arrival, w);
	w->tick = event_new(w->home.base, -1, EV_PERSIST, on_tick, w);
	w->home.flush = event_new(w->home.base, -1, 0, mc_flush_late, w->home.kv);
	if (!w->arrival || !w->tick || !w->home.flush || event_add(w->arrival, NULL) ||
	    event_add(w->tick, &second))
		return err_set(FARKV_ENOMEM, "no memory for a thread's events");
	return 0;
}

int worker_start(struct gate *g, struct farkv *kv, struct gate_counts *counts, struct worker **out)
{
	struct worker *w = calloc(1, sizeof(*w));
	int err, errnum;

	if (!w)
		return err_set(FARKV_ENOMEM, "no memory for a thread");
	w->pipe[0] = w->pipe[1] = -1;
	w->home.wake = wake;
	w->home.gate = g;
	w->home.kv = kv;
	w->home.counts = counts;
	err = set_up(w);
	if (!err && (errnum = thread_create_masked(&w->thread, run, w)))
		err = err_set_errno(FARKV_ESYS, errnum, "cannot start a thread");
	if (err) {
		worker_free(w);
		return err;
	}
	*out = w;
	return 0;
}

bool worker_give(struct worker *w, int fd, enum client_speaks speaks)
{
	struct given g = {fd, speaks};

	return write(w->pipe[1], &g, sizeof(g)) == (ssize_t)sizeof(g);
}

void worker_stop(struct worker *w)
{
	close(w->pipe[1]);
	w->pipe[1] = -1;
}

void worker_join(struct worker *w)
{
	struct farkv *kv;

	if (!w)
		return;
	if (w->pipe[1] >= 0)
		worker_stop(w);
	pthread_join(w->thread, NULL);
	kv = w->home.kv;
	worker_free(w);
	farkv_close(kv);
}
