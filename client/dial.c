/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "dial.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <farkv.h>

#include "common/base/atomic.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/thread.h"
#include "common/base/util.h"

#include "notifier.h"

#define BACKOFF_MIN_NS (2 * NS_PER_MS)
#define BACKOFF_MAX_NS (500 * NS_PER_MS)
/* Time limit of one attempt, so that more can follow. */
#define ATTEMPT_NS (2 * NS_PER_SEC)
/* CLOCK_MONOTONIC stops while the machine is suspended: check the time this often. */
#define WAIT_SLICE_NS (200 * NS_PER_MS)
/* Time for the BYE of a connection that came after dial_free(). */
#define FAREWELL_NS NS_PER_SEC

struct dial {
	/* Copies of the order's data, constant while the thread runs. */
	struct conn_order order;
	struct uri uri;
	char name[64];
	struct conn old;
	uint64_t jitter; /* state of the thread's random numbers */

	pthread_t thread;
	bool has_thread; /* it must be joined */
	pthread_t before; /* the previous thread, which has ended; joined by this one */
	bool has_before;

	pthread_mutex_t lock; /* protects all below */
	pthread_cond_t cond;  /* any change */
	uint64_t until_ns;
	bool old_closed;
	bool unwanted; /* make no more attempts */
	bool orphan;   /* the handle is gone: the thread frees this struct */
	uint32_t over; /* atomic; set after the result */
	struct conn conn;
	int err; /* 0: `conn` */
	char line[ERR_LINE_MAX];
	struct notifier *notifier;
};

/* ---- an attempt ---------------------------------------------------------------------- */

/*
 * True for errors after which another attempt may succeed. While another server adopts the region
 * nobody listens, and a server that is killed breaks the connection.
 */
static bool may_pass(const struct dial *d, int err)
{
	if (d->order.outlives && (err == FARKV_EUNREACHABLE || err == FARKV_EREFUSED ||
				  err == FARKV_EPROTOCOL))
		return true;
	return err == FARKV_ETIMEDOUT || err == FARKV_ENOROUTE ||
	       err == FARKV_ELINKDOWN || err == FARKV_EDISCONNECTED ||
	       err == FARKV_ESYS;
}

/*
 * A time between half of `ns` and `ns`, so that clients that lost one server do not reconnect all
 * at once.
 */
static uint64_t jittered(struct dial *d, uint64_t ns)
{
	uint64_t x = d->jitter ? d->jitter : clock_now_ns() | 1;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	d->jitter = x;
	return ns / 2 + x % (ns / 2);
}

/* ---- the thread ------------------------------------------------------------------------ */

/* The lock is held. */
static void cond_wait_until(struct dial *d, uint64_t until_ns)
{
	uint64_t now = clock_now_ns();
	struct timespec ts;

	if (until_ns <= now)
		return;
	ts = clock_after_ns(UTIL_MIN(until_ns - now, WAIT_SLICE_NS));
	pthread_cond_timedwait(&d->cond, &d->lock, &ts);
}

/* The lock is held, except during the attempt. True: try again. */
static bool attempt(struct dial *d, uint64_t now)
{
	uint64_t deadline = UTIL_MIN(now + ATTEMPT_NS, d->until_ns);
	int err;

	pthread_mutex_unlock(&d->lock);
	err_clear();
	err = conn_make(&d->order, deadline, &d->conn);
	pthread_mutex_lock(&d->lock);
	d->err = err;
	snprintf(d->line, sizeof(d->line), "%s", err ? err_detail() : "");
	return err && may_pass(d, err);
}

static bool is_wanted(const struct dial *d, uint64_t at_ns)
{
	return !d->unwanted && at_ns < d->until_ns;
}

/* Try until connected or no longer wanted. The lock is held. */
static void attempts(struct dial *d)
{
	uint64_t pause = BACKOFF_MIN_NS, again;

	while (is_wanted(d, clock_now_ns())) {
		if (!attempt(d, clock_now_ns()))
			return;
		again = clock_now_ns() + jittered(d, pause);
		if (!is_wanted(d, again))
			return;
		while (!d->unwanted && clock_now_ns() < again)
			cond_wait_until(d, again);
		pause = UTIL_MIN(pause * 2, BACKOFF_MAX_NS);
	}
}

static void destroy(struct dial *d)
{
	pthread_cond_destroy(&d->cond);
	pthread_mutex_destroy(&d->lock);
	free(d);
}

/* The handle is closed: this thread says BYE on the new connection. */
static void end_orphan(struct dial *d)
{
	if (!d->err) {
		(void)conn_farewell(&d->conn, clock_now_ns() + FAREWELL_NS);
		conn_close(&d->conn);
	}
	destroy(d);
}

static void *dial_main(void *arg)
{
	struct dial *d = arg;
	bool orphan;

	if (d->has_before)
		pthread_join(d->before, NULL);
	conn_close(&d->old);
	pthread_mutex_lock(&d->lock);
	d->old_closed = true;
	pthread_cond_broadcast(&d->cond);
	attempts(d);
	orphan = d->orphan;
	atom_store_publish(&d->over, 1);
	pthread_cond_broadcast(&d->cond);
	if (d->notifier)
		notifier_call(d->notifier);
	pthread_mutex_unlock(&d->lock);
	if (orphan)
		end_orphan(d);
	return NULL;
}

/* ---- the handle's side ------------------------------------------------------------------ */

static struct dial *dial_new(void)
{
	struct dial *d = calloc(1, sizeof(*d));
	pthread_condattr_t attr;

	if (!d)
		return NULL;
	d->over = 1;
	d->old_closed = true;
	d->err = FARKV_EDISCONNECTED;
	pthread_mutex_init(&d->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&d->cond, &attr);
	pthread_condattr_destroy(&attr);
	return d;
}

static int too_late(const char *where)
{
	return err_set(FARKV_ETIMEDOUT,
		       "no new connection to %s came about in time; is the server "
		       "stopped?",
		       where);
}

static void order_copy(struct dial *d, const struct conn_order *o)
{
	d->order = *o;
	d->uri = *o->uri;
	d->order.uri = &d->uri;
	snprintf(d->name, sizeof(d->name), "%s", o->name);
	d->order.name = d->name;
}

/* To be called while no thread uses `d`. */
static int thread_start(struct dial *d, const struct conn *old, uint64_t until_ns)
{
	int errnum;

	/* the last thread may still be about to unlock it */
	pthread_mutex_lock(&d->lock);
	d->old = *old;
	d->before = d->thread;
	d->has_before = d->has_thread;
	d->until_ns = until_ns;
	d->old_closed = d->unwanted = false;
	atom_store_relaxed(&d->over, 0);
	d->err = FARKV_ETIMEDOUT; /* the result if no attempt is made */
	d->line[0] = '\0';
	d->notifier = NULL;
	pthread_mutex_unlock(&d->lock);
	errnum = thread_create_masked(&d->thread, dial_main, d);
	if (!errnum) {
		d->has_thread = true;
		(void)pthread_setname_np(d->thread, "farkv-dial");
		return 0;
	}
	d->thread = d->before;
	atom_store_relaxed(&d->over, 1);
	d->old_closed = true;
	return err_set_errno(FARKV_ESYS, errnum,
			     "cannot start a thread that connects to %s",
			     d->uri.shown);
}

int dial_start(struct dial **dp, const struct conn_order *o, struct conn *old,
	       uint64_t until_ns)
{
	int err = FARKV_ENOMEM;

	if (!*dp)
		*dp = dial_new();
	if (*dp) {
		order_copy(*dp, o);
		err = thread_start(*dp, old, until_ns);
	} else {
		err_set(err, "no memory to connect to %s", o->uri->shown);
	}
	if (err)
		conn_close(old);
	memset(old, 0, sizeof(*old));
	return err;
}

bool dial_is_over(const struct dial *d)
{
	return atom_load_follow(&d->over);
}

bool dial_extend(struct dial *d, uint64_t until_ns)
{
	bool goes_on;

	if (!d)
		return false;
	pthread_mutex_lock(&d->lock);
	goes_on = !d->over || !d->err;
	d->until_ns = UTIL_MAX(d->until_ns, until_ns);
	pthread_mutex_unlock(&d->lock);
	return goes_on;
}

void dial_wait(struct dial *d, uint64_t until_ns)
{
	pthread_mutex_lock(&d->lock);
	while (!d->over && clock_now_ns() < until_ns)
		cond_wait_until(d, until_ns);
	pthread_mutex_unlock(&d->lock);
}

void dial_wakes(struct dial *d, struct notifier *w)
{
	pthread_mutex_lock(&d->lock);
	d->notifier = w;
	pthread_mutex_unlock(&d->lock);
}

/* Take the result. */
static int outcome(struct dial *d, struct conn *out)
{
	int err = d->err;

	if (!err) {
		*out = d->conn;
		memset(&d->conn, 0, sizeof(d->conn));
	}
	/* a result is taken only once */
	d->err = FARKV_EDISCONNECTED;
	return err;
}

int dial_take(struct dial *d, struct conn *out)
{
	int err;

	if (!dial_is_over(d))
		return too_late(d->uri.shown);
	pthread_mutex_lock(&d->lock);
	err = outcome(d, out);
	pthread_mutex_unlock(&d->lock);
	if (err && !d->line[0])
		return too_late(d->uri.shown);
	return err ? err_set(err, "%s", d->line) : 0;
}

bool dial_free(struct dial *d, uint64_t until_ns, struct conn *out)
{
	bool over, linked;

	if (!d)
		return false;
	pthread_mutex_lock(&d->lock);
	d->unwanted = true;
	d->notifier = NULL;
	pthread_cond_broadcast(&d->cond);
	while (!d->over && (!d->old_closed || clock_now_ns() < until_ns))
		cond_wait_until(d, d->old_closed ? until_ns : UINT64_MAX);
	over = d->over;
	d->orphan = !over;
	if (!over)
		pthread_detach(d->thread);
	pthread_mutex_unlock(&d->lock);
	if (!over)
		return false;
	if (d->has_thread)
		pthread_join(d->thread, NULL);
	linked = outcome(d, out) == 0;
	destroy(d);
	return linked;
}

bool dial_abandon(struct dial *d, struct conn *out)
{
	bool linked;

	/* The thread's state is from the moment of the fork, including the lock. */
	if (!d || !d->over)
		return false;
	linked = outcome(d, out) == 0;
	free(d);
	return linked;
}
