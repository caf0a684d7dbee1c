/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "prefault.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/thread.h"
#include "common/base/util.h"

#include "reserve.h"

/* Bytes per madvise() call, which costs as much for one page as for all of them. */
#define STEP_BYTES (UINT64_C(32) << 20)
/*
 * Nothing is collapsed that would leave less below the memory limits: the heap may allocate so much
 * while a call is in progress.
 */
#define SPARE_BYTES (UINT64_C(96) << 20)
/* Pause between two rounds of retries; it doubles while a round achieves nothing. */
#define AGAIN_NS (100 * NS_PER_MS)
#define AGAIN_NS_MAX (60 * NS_PER_SEC)

/* One end of the data. */
struct side {
	uint64_t used;
	uint64_t tried; /* every page below this was tried once */
	bool filling;   /* a step was due: fill the whole lead */
};

/* One call: offsets in the data. */
struct step {
	uint64_t from, to;
	bool first; /* not a retry */
};

struct prefault {
	uint8_t *data;
	uint64_t bytes; /* of whole huge pages */
	uint64_t again_ns, again_ns_max; /* the constants above; tests change them */
	pthread_mutex_t lock; /* protects all below */
	pthread_cond_t more;
	pthread_t thread;
	bool running, stop, useless;
	struct side low, high;
	uint8_t *again; /* per page: is it to be retried? */
	uint64_t n_again;
	uint64_t round_at; /* where this round has got to; 0: it starts at round_ns */
	uint64_t round_ns, wait_ns;
	bool helped; /* this round collapsed something */
};

struct prefault *prefault_new(uint8_t *data, uint64_t bytes)
{
	struct prefault *a = calloc(1, sizeof(*a));
	pthread_condattr_t attr;

	if (!a)
		return NULL;
	a->data = data;
	a->bytes = bytes & ~(HUGEPAGE_BYTES - 1);
	a->again = calloc(bytes / HUGEPAGE_BYTES + 1, 1);
	if (!a->again) {
		free(a);
		return NULL;
	}
	a->again_ns = AGAIN_NS;
	a->again_ns_max = AGAIN_NS_MAX;
	pthread_mutex_init(&a->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&a->more, &attr);
	pthread_condattr_destroy(&attr);
	return a;
}

/* ---- for the first time ------------------------------------------------------------------ */

/* Bytes of a side to collapse in the next call; 0 if it is not worth a call yet. */
static uint64_t due(const struct prefault *a, const struct side *s)
{
	uint64_t ahead = UTIL_MIN(UTIL_MAX(s->used, PREFAULT_LEAST), PREFAULT_MOST);
	uint64_t until = util_align_up(s->used + ahead, HUGEPAGE_BYTES);
	uint64_t left = a->bytes - a->low.tried - a->high.tried;

	if (s->tried >= (s->filling ? until : s->used + ahead / 2))
		return 0;
	return UTIL_MIN(UTIL_MIN(until - s->tried, left), STEP_BYTES);
}

static bool choose_first(struct prefault *a, struct side *s, struct step *step)
{
	uint64_t bytes = due(a, s);

	step->from = s == &a->low ? s->tried : a->bytes - s->tried - bytes;
	step->to = step->from + bytes;
	step->first = true;
	s->tried += bytes;
	s->filling = bytes > 0;
	return s->filling;
}

/* ---- again ------------------------------------------------------------------------------- */

static void mark(struct prefault *a, const struct step *step, bool again)
{
	for (uint64_t i = step->from / HUGEPAGE_BYTES; i < step->to / HUGEPAGE_BYTES; i++) {
		a->n_again += again;
		a->n_again -= a->again[i];
		a->again[i] = again;
	}
}

static void round_ends(struct prefault *a)
{
	a->wait_ns = a->helped ? a->again_ns : UTIL_MIN(2 * a->wait_ns, a->again_ns_max);
	a->round_ns = clock_now_ns() + a->wait_ns;
	a->round_at = 0;
	a->helped = false;
}

/* The next pages of this round: neighbours, up to STEP_BYTES. */
static bool choose_again(struct prefault *a, struct step *step)
{
	uint64_t i = a->round_at / HUGEPAGE_BYTES, n = a->bytes / HUGEPAGE_BYTES;

	if (!a->n_again || (!a->round_at && clock_now_ns() < a->round_ns))
		return false;
	while (i < n && !a->again[i])
		i++;
	*step = (struct step){i * HUGEPAGE_BYTES, i * HUGEPAGE_BYTES, false};
	while (i < n && a->again[i] && step->to - step->from < STEP_BYTES) {
		step->to += HUGEPAGE_BYTES;
		i++;
	}
	a->round_at = step->to;
	if (step->from == step->to)
		round_ends(a);
	return step->from < step->to;
}

/* ---- how it went ------------------------------------------------------------------------- */

/* Errors that may go away: pages in use by others, or no memory of that size or within limits. */
static bool may_pass(int err)
{
	return err == EAGAIN || err == ENOMEM || err == EBUSY;
}

static void note(struct prefault *a, const struct step *step, int err)
{
	a->useless = err && !may_pass(err);
	mark(a, step, err != 0);
	if (!err) {
		a->helped = a->helped || !step->first;
	} else if (step->first && !a->round_at) {
		a->wait_ns = a->again_ns;
		a->round_ns = clock_now_ns() + a->wait_ns;
	} else if (!step->first && err != EAGAIN) {
		round_ends(a); /* other pages will fail, too */
	}
}

/* ---- the thread -------------------------------------------------------------------------- */

static int make(struct prefault *a, const struct step *step)
{
	uint64_t bytes = step->to - step->from;
	int err;

	if (!limits_admit(bytes, SPARE_BYTES))
		return ENOMEM;
	err = hugepage_collapse(a->data + step->from, bytes) ? 0 : errno;
	limits_taken(bytes);
	if (err && !may_pass(err))
		log_info("pages: the kernel makes no huge pages: %s", strerror(err));
	else if (err)
		log_debug("pages: not all of %llu MiB at %llu are huge: %s",
			  (unsigned long long)((step->to - step->from) >> 20),
			  (unsigned long long)(step->from >> 20), strerror(err));
	return err;
}

static bool choose(struct prefault *a, struct step *step)
{
	return choose_first(a, &a->low, step) || choose_first(a, &a->high, step) ||
	       choose_again(a, step);
}

/* Until signalled, for a second, or until the next round starts. */
static void wait_for_more(struct prefault *a)
{
	uint64_t now_ns = clock_now_ns();
	struct timespec ts;

	if (!a->n_again) {
		pthread_cond_wait(&a->more, &a->lock);
	} else if (a->round_ns > now_ns) {
		ts = clock_after_ns(UTIL_MIN(a->round_ns - now_ns, NS_PER_SEC));
		pthread_cond_timedwait(&a->more, &a->lock, &ts);
	}
}

static void *prefault_main(void *arg)
{
	struct prefault *a = arg;
	struct step step;

	pthread_mutex_lock(&a->lock);
	while (!a->stop && !a->useless) {
		int err;

		if (!choose(a, &step)) {
			wait_for_more(a);
			continue;
		}
		pthread_mutex_unlock(&a->lock);
		err = make(a, &step);
		pthread_mutex_lock(&a->lock);
		note(a, &step, err);
	}
	pthread_mutex_unlock(&a->lock);
	return NULL;
}

void prefault_used(struct prefault *a, uint64_t low, uint64_t high)
{
	pthread_mutex_lock(&a->lock);
	a->low.used = UTIL_MAX(a->low.used, low);
	a->high.used = UTIL_MAX(a->high.used, high);
	if (!a->running && a->low.used)
		a->running = thread_create_masked(&a->thread, prefault_main, a) == 0;
	else if (due(a, &a->low) || due(a, &a->high))
		pthread_cond_signal(&a->more);
	pthread_mutex_unlock(&a->lock);
}

void prefault_free(struct prefault *a)
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
	free(a->again);
	free(a);
}
