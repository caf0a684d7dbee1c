/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "ahead.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/util.h"

/* In one call, which costs as much for all of them as for one. */
#define STEP_BYTES (UINT64_C(32) << 20)
/* So many steps in a row that fail for good: there are none to be had. */
#define FAILURES_MAX 4u
/* What others had in hand is tried again, after so long, then twice as long, ... */
#define AGAIN_NS (100 * NS_PER_MS)
#define AGAIN_MAX 5u

/* Of offsets in the data; empty if from == to. */
struct range {
	uint64_t from, to;
};

struct side {
	uint64_t used;
	uint64_t tried; /* up to here, once */
	/* What is to be tried again, in this round and in the next one: steps, and all between. */
	struct range again, later;
	unsigned round;
	uint64_t round_ns; /* not before */
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
	uint64_t again_ns; /* AGAIN_NS, but for tests */
};

struct ahead *ahead_new(uint8_t *data, uint64_t bytes)
{
	struct ahead *a = calloc(1, sizeof(*a));
	pthread_condattr_t attr;

	if (!a)
		return NULL;
	a->data = data;
	a->again_ns = AGAIN_NS;
	a->bytes = bytes & ~(HUGEPAGE_BYTES - 1);
	pthread_mutex_init(&a->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&a->more, &attr);
	pthread_condattr_destroy(&attr);
	return a;
}

/* ---- which memory comes next ------------------------------------------------------------- */

/* How much of a side is to be tried for the first time, of what neither side has. */
static uint64_t due(const struct ahead *a, const struct side *s)
{
	uint64_t ahead = UTIL_MIN(UTIL_MAX(s->used, AHEAD_LEAST), AHEAD_MOST);
	uint64_t until = util_align_up(s->used + ahead, HUGEPAGE_BYTES);
	uint64_t left = a->bytes - a->low.tried - a->high.tried;

	if (until <= s->tried)
		return 0;
	return UTIL_MIN(UTIL_MIN(until - s->tried, left), STEP_BYTES);
}

static bool choose_first(struct ahead *a, struct side *s, struct range *step)
{
	uint64_t bytes = due(a, s);

	step->from = s == &a->low ? s->tried : a->bytes - s->tried - bytes;
	step->to = step->from + bytes;
	s->tried += bytes;
	return bytes > 0;
}

static bool choose_again(struct side *s, uint64_t now_ns, struct range *step)
{
	if (s->again.from == s->again.to || now_ns < s->round_ns)
		return false;
	step->from = s->again.from;
	step->to = UTIL_MIN(s->again.from + STEP_BYTES, s->again.to);
	s->again.from = step->to;
	return true;
}

/* The next step, and whose it is; NULL: nothing is to be done before *wake_ns_out. */
static struct side *choose(struct ahead *a, struct range *step, uint64_t *wake_ns_out)
{
	struct side *const sides[] = {&a->low, &a->high};
	uint64_t now_ns = clock_now_ns();

	*wake_ns_out = UINT64_MAX;
	for (size_t i = 0; i < ARRAY_SIZE(sides); i++)
		if (choose_first(a, sides[i], step))
			return sides[i];
	for (size_t i = 0; i < ARRAY_SIZE(sides); i++) {
		struct side *s = sides[i];

		if (choose_again(s, now_ns, step))
			return s;
		if (s->again.from != s->again.to)
			*wake_ns_out = UTIL_MIN(*wake_ns_out, s->round_ns);
	}
	return NULL;
}

/* ---- how it went ------------------------------------------------------------------------- */

static void add(struct range *r, const struct range *step)
{
	if (r->from == r->to) {
		*r = *step;
		return;
	}
	r->from = UTIL_MIN(r->from, step->from);
	r->to = UTIL_MAX(r->to, step->to);
}

/* Is there to be another round? */
static void next_round(const struct ahead *a, struct side *s)
{
	if (s->again.from != s->again.to || s->later.from == s->later.to)
		return;
	if (s->round < AGAIN_MAX) {
		s->again = s->later;
		s->round_ns = clock_now_ns() + (a->again_ns << s->round++);
	}
	s->later = (struct range){0, 0};
}

static void note(struct ahead *a, struct side *s, const struct range *step, bool first,
		 int err)
{
	if (err == EAGAIN) {
		add(&s->later, step);
		if (first)
			s->round = 0;
	}
	a->failures = err && err != EAGAIN ? a->failures + 1 : 0;
	next_round(a, s);
}

/* ---- the thread -------------------------------------------------------------------------- */

static void wait_until(struct ahead *a, uint64_t ns)
{
	struct timespec ts = {(time_t)(ns / NS_PER_SEC), (long)(ns % NS_PER_SEC)};

	if (ns == UINT64_MAX)
		pthread_cond_wait(&a->more, &a->lock);
	else
		pthread_cond_timedwait(&a->more, &a->lock, &ts);
}

static int make(struct ahead *a, const struct range *step)
{
	int err = hugepage_collapse(a->data + step->from, step->to - step->from) ? 0 : errno;

	if (err)
		log_debug("pages: not all huge of %llu MiB at %llu: %s",
			  (unsigned long long)((step->to - step->from) >> 20),
			  (unsigned long long)(step->from >> 20), strerror(err));
	return err;
}

static void *ahead_main(void *arg)
{
	struct ahead *a = arg;

	pthread_mutex_lock(&a->lock);
	while (!a->stop && a->failures < FAILURES_MAX) {
		uint64_t tried = a->low.tried + a->high.tried, wake_ns;
		struct range step;
		struct side *s = choose(a, &step, &wake_ns);
		bool first = a->low.tried + a->high.tried != tried;
		int err;

		if (!s) {
			wait_until(a, wake_ns);
			continue;
		}
		pthread_mutex_unlock(&a->lock);
		err = make(a, &step);
		pthread_mutex_lock(&a->lock);
		note(a, s, &step, first, err);
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
