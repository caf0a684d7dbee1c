/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "ahead.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/util.h"

/* In one call, which costs as much for all of them as for one. */
#define STEP_BYTES (UINT64_C(32) << 20)
/* So many steps in a row that fail: there are none to be had. */
#define FAILURES_MAX 4u

struct side {
	uint64_t used;
	uint64_t made; /* up to here it has been tried */
};

struct ahead {
	uint8_t *data;
	uint64_t bytes; /* of whole huge pages */
	pthread_mutex_t lock; /* all below */
	pthread_cond_t more;
	pthread_t thread;
	bool running, stop;
	struct side low, high;
	unsigned failures;
};

struct ahead *ahead_new(uint8_t *data, uint64_t bytes)
{
	struct ahead *a = calloc(1, sizeof(*a));

	if (!a)
		return NULL;
	a->data = data;
	a->bytes = bytes & ~(HUGEPAGE_BYTES - 1);
	pthread_mutex_init(&a->lock, NULL);
	pthread_cond_init(&a->more, NULL);
	return a;
}

/* What is to be made of a side, of those bytes that neither side has: 0 if nothing is. */
static uint64_t due(const struct ahead *a, const struct side *s)
{
	uint64_t ahead = UTIL_MIN(UTIL_MAX(s->used, AHEAD_LEAST), AHEAD_MOST);
	uint64_t until = util_align_up(s->used + ahead, HUGEPAGE_BYTES);
	uint64_t left = a->bytes - a->low.made - a->high.made;

	if (until <= s->made)
		return 0;
	return UTIL_MIN(UTIL_MIN(until - s->made, left), STEP_BYTES);
}

/* The next step. */
static uint8_t *choose(struct ahead *a, uint64_t *bytes_out)
{
	uint8_t *at;

	*bytes_out = due(a, &a->low);
	if (*bytes_out) {
		at = a->data + a->low.made;
		a->low.made += *bytes_out;
		return at;
	}
	*bytes_out = due(a, &a->high);
	a->high.made += *bytes_out;
	return a->data + a->bytes - a->high.made;
}

/* Not for good if others had some of the pages in hand just then. */
static bool make(uint8_t *at, uint64_t bytes)
{
	return hugepage_collapse(at, bytes) ||
	       (errno == EAGAIN && hugepage_collapse(at, bytes));
}

static void *ahead_main(void *arg)
{
	struct ahead *a = arg;

	pthread_mutex_lock(&a->lock);
	while (!a->stop && a->failures < FAILURES_MAX) {
		uint64_t bytes;
		uint8_t *at = choose(a, &bytes);
		bool made;

		if (!bytes) {
			pthread_cond_wait(&a->more, &a->lock);
			continue;
		}
		pthread_mutex_unlock(&a->lock);
		made = make(at, bytes);
		if (!made)
			log_debug("pages: no huge ones for %llu MiB: %s",
				  (unsigned long long)(bytes >> 20), strerror(errno));
		pthread_mutex_lock(&a->lock);
		a->failures = made ? 0 : a->failures + 1;
	}
	pthread_mutex_unlock(&a->lock);
	return NULL;
}

/* Signals are the control loop's. */
static bool start(struct ahead *a)
{
	sigset_t all, before;
	int rc;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&a->thread, NULL, ahead_main, a);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return rc == 0;
}

void ahead_used(struct ahead *a, uint64_t low, uint64_t high)
{
	pthread_mutex_lock(&a->lock);
	a->low.used = UTIL_MAX(a->low.used, low);
	a->high.used = UTIL_MAX(a->high.used, high);
	if (!a->running && a->low.used)
		a->running = start(a);
	else if (due(a, &a->low) || due(a, &a->high))
		pthread_cond_signal(&a->more);
	pthread_mutex_unlock(&a->lock);
}

void ahead_free(struct ahead *a)
{
	if (!a)
		return;
	pthread_mutex_lock(&a->lock);
	a->stop = true;
	pthread_cond_signal(&a->more);
	pthread_mutex_unlock(&a->lock);
	if (a->running)
		pthread_join(a->thread, NULL);
	pthread_cond_destroy(&a->more);
	pthread_mutex_destroy(&a->lock);
	free(a);
}
