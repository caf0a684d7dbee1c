/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "waits.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "common/base/err.h"
#include "common/base/thread.h"

/* Of one call: longer than a pass over a large store, and the longest time that kvgate's end takes.
 */
#define CALL_MS 5000u

struct waits {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	pthread_t thread;
	struct farkv *kv;
	TAILQ_HEAD(, wait) asked;
	uint64_t losses; /* calls that failed because a server was away, or lost */
	bool ending;
};

/* Of the handle's map. */
static uint64_t epoch_of(struct farkv *kv)
{
	struct farkv_server s = {.size = sizeof(s)};

	return farkv_server(kv, 0, &s) ? 0 : s.epoch;
}

static void finish(struct waits *w, struct wait *q, bool reached)
{
	TAILQ_REMOVE(&w->asked, q, link);
	q->done = true;
	q->reached = reached;
	q->losses = w->losses;
	q->wake(q->arg);
}

/* `epoch`: of the map with which the call began. A wait that the call does not decide stays. */
static void end_round(struct waits *w, uint64_t epoch, int err)
{
	struct wait *q, *next;

	if (err == FARKV_EDISCONNECTED)
		w->losses++;
	for (q = TAILQ_FIRST(&w->asked); q; q = next) {
		next = TAILQ_NEXT(q, link);
		if (!q->running || err == FARKV_ETIMEDOUT || (!err && q->epoch > epoch))
			continue;
		finish(w, q, !err && q->losses == w->losses);
	}
}

static void *run(void *arg)
{
	struct waits *w = arg;
	struct wait *q;
	uint64_t epoch;
	int err;

	pthread_mutex_lock(&w->lock);
	while (!w->ending) {
		if (TAILQ_EMPTY(&w->asked)) {
			pthread_cond_wait(&w->changed, &w->lock);
			continue;
		}
		TAILQ_FOREACH(q, &w->asked, link)
			q->running = true;
		pthread_mutex_unlock(&w->lock);
		epoch = epoch_of(w->kv);
		err = farkv_wait_followers(w->kv, CALL_MS);
		pthread_mutex_lock(&w->lock);
		end_round(w, epoch, err);
	}
	pthread_mutex_unlock(&w->lock);
	return NULL;
}

int waits_start(struct farkv *kv, struct waits **out)
{
	struct waits *w = calloc(1, sizeof(*w));
	int errnum;

	if (!w)
		return err_set(FARKV_ENOMEM, "no memory for a thread");
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->changed, NULL);
	TAILQ_INIT(&w->asked);
	w->kv = kv;
	errnum = thread_create_masked(&w->thread, run, w);
	if (errnum) {
		free(w);
		return err_set_errno(FARKV_ESYS, errnum, "cannot start a thread");
	}
	*out = w;
	return 0;
}

void waits_stop(struct waits *w)
{
	if (!w)
		return;
	pthread_mutex_lock(&w->lock);
	w->ending = true;
	pthread_cond_signal(&w->changed);
	pthread_mutex_unlock(&w->lock);
	pthread_join(w->thread, NULL);
	farkv_close(w->kv);
	w->kv = NULL;
}

void waits_free(struct waits *w)
{
	if (!w)
		return;
	pthread_cond_destroy(&w->changed);
	pthread_mutex_destroy(&w->lock);
	free(w);
}

void waits_enter(struct waits *w, struct wait *q)
{
	if (!w)
		return;
	pthread_mutex_lock(&w->lock);
	q->losses = w->losses;
	pthread_mutex_unlock(&w->lock);
}

void waits_ask(struct waits *w, struct wait *q, struct farkv *kv)
{
	uint64_t epoch = epoch_of(kv);

	pthread_mutex_lock(&w->lock);
	q->epoch = epoch;
	q->asked = true;
	q->running = q->done = q->reached = false;
	TAILQ_INSERT_TAIL(&w->asked, q, link);
	pthread_cond_signal(&w->changed);
	pthread_mutex_unlock(&w->lock);
}

bool waits_done(struct waits *w, const struct wait *q)
{
	bool done;

	pthread_mutex_lock(&w->lock);
	done = q->done;
	pthread_mutex_unlock(&w->lock);
	return done;
}

bool waits_end(struct waits *w, struct wait *q)
{
	bool reached;

	if (!w)
		return false;
	pthread_mutex_lock(&w->lock);
	if (q->asked && !q->done)
		TAILQ_REMOVE(&w->asked, q, link);
	reached = q->asked && q->done && q->reached;
	q->asked = q->done = false;
	pthread_mutex_unlock(&w->lock);
	return reached;
}
