/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Links that break: a handle makes itself a new one.
 *
 * A new link to the same region goes unnoticed: reads are done again, a write
 * whose outcome is unknown is looked up (index_op_resume()). A region that is
 * another means a server that was started again: what the caller knows of the
 * store is gone, and it is told once.
 *
 * A session that one side ended for a reason of its own is not taken up silently:
 * the caller is told the reason once.
 *
 * What may pass (no answer, no way, a link that is down) is tried again, with
 * pauses that double and vary, until the call's deadline. What will not (nobody
 * listens, the server says no) ends the call at once.
 */
#include "config.h"

#include "handle.h"

#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "common/err.h"
#include "common/util.h"

#include "queue.h"

/* After nobody was there, calls fail without looking for this long. */
#define ABSENT_PAUSE_NS (100 * NS_PER_MS)
#define BACKOFF_MIN_NS (2 * NS_PER_MS)
#define BACKOFF_MAX_NS (500 * NS_PER_MS)
/* One attempt may take this long, so that others can follow it. */
#define ATTEMPT_NS (2 * NS_PER_SEC)

/* ---- up and down ---------------------------------------------------------------- */

int relink_up(struct farkv *kv, uint64_t deadline_ns)
{
	struct connect_params p = {.uri = &kv->uri,
				   .name = kv->name,
				   .readonly = kv->readonly,
				   .replaces = kv->last_id,
				   .deadline_ns = deadline_ns};
	int err;

	memcpy(p.replaces_region, kv->last_region, sizeof(p.replaces_region));
	err = link_open(&p, &kv->link);
	if (err)
		return err;
	kv->gate = session_gate(kv->link.session);
	if (kv->spare_calls || kv->untidy) /* the next call sees to it, as before */
		gate_raise(kv->gate, GATE_TIDY);
	buffers_attach(&kv->buffers, kv->link.lane);
	kv->last_id = kv->link.id;
	memcpy(kv->last_region, kv->link.sb->region_id,
	       sizeof(kv->last_region));
	if (kv->waker)
		queue_event_attach(kv);
	kv->mutations = 0;
	/* Without memory for it nothing is remembered. A mapped region is searched
	 * as fast as a cache would be. */
	if (!(kv->link.lane->caps & XPORT_DIRECT) && kv->cache_entries &&
	    (index_remember(kv->link.index, kv->cache_entries) ||
	     (kv->cache_bytes && index_keep(kv->link.index, kv->cache_bytes))))
		err_clear();
	return 0;
}

void relink_down(struct farkv *kv)
{
	if (!kv->link.session)
		return;
	handle_counters_keep(kv);
	index_op_fini(kv->link.index, &kv->op);
	for (size_t i = 0; kv->ops && i < INDEX_RUN_MAX; i++)
		index_op_fini(kv->link.index, &kv->ops[i]);
	if (kv->queue)
		queue_detach(kv);
	if (kv->waker)
		queue_event_detach(kv);
	buffers_detach(&kv->buffers);
	link_close(&kv->link);
	kv->gate = &kv->closed;
}

/* ---- attempts --------------------------------------------------------------------- */

/* Another attempt may well succeed, without anybody doing anything about it. */
static bool may_pass(int err)
{
	return err == FARKV_ETIMEDOUT || err == FARKV_ENOROUTE ||
	       err == FARKV_ELINKDOWN || err == FARKV_EDISCONNECTED ||
	       err == FARKV_ESYS;
}

/* Between half and all of `ns`: clients that broke together come back apart. */
static uint64_t jittered(struct farkv *kv, uint64_t ns)
{
	uint64_t x = kv->jitter ? kv->jitter : clock_now_ns() | 1;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	kv->jitter = x;
	return ns / 2 + x % (ns / 2);
}

static int attempts(struct farkv *kv)
{
	uint64_t pause = BACKOFF_MIN_NS;
	int err = 0;

	for (;;) {
		uint64_t now = clock_now_ns(), wait = jittered(kv, pause);

		/* Who slept too long ends as the last attempt did. */
		if (now >= kv->deadline_ns)
			return err ? err : err_set(
				FARKV_ETIMEDOUT,
				"no new connection to %s came about in time",
				kv->uri.shown);
		err = relink_up(kv, UTIL_MIN(now + ATTEMPT_NS,
					     kv->deadline_ns));
		if (!err || !may_pass(err))
			return err;
		now = clock_now_ns();
		if (now + wait >= kv->deadline_ns)
			return err;
		clock_sleep_ns(wait);
		pause = UTIL_MIN(pause * 2, BACKOFF_MAX_NS);
	}
}

static void note_why(struct farkv *kv, const char *prefix)
{
	char text[sizeof(kv->why)];

	snprintf(text, sizeof(text), "%s%s", prefix, err_detail());
	memcpy(kv->why, text, sizeof(kv->why));
}

/* ---- at the begin of a call ---------------------------------------------------------- */

static bool same_region(const struct farkv *kv, const uint64_t before[2])
{
	return memcmp(kv->last_region, before, sizeof(kv->last_region)) == 0;
}

static int restarted(struct farkv *kv)
{
	return err_set(FARKV_EDISCONNECTED,
		       "the server at %s was started again: what was stored "
		       "before is gone",
		       kv->uri.shown);
}

static int absent(struct farkv *kv, uint64_t now)
{
	return err_set(FARKV_EDISCONNECTED,
		       "not connected to %s; the next attempt is due in %llu "
		       "ms",
		       kv->uri.shown,
		       (unsigned long long)((kv->next_attempt_ns - now) /
						    NS_PER_MS + 1));
}

int relink(struct farkv *kv)
{
	uint64_t before[2] = {kv->last_region[0], kv->last_region[1]};
	bool broke = kv->link.session != NULL;
	bool cut = broke && session_was_cut(kv->link.session);
	uint64_t now = clock_now_ns();
	int err;

	if (broke) {
		session_why(kv->link.session);
		note_why(kv, "");
		relink_down(kv);
		if (!cut && !kv->told) {
			kv->told = true;
			return err_set(FARKV_EDISCONNECTED, "%s", kv->why);
		}
	} else if (now < kv->next_attempt_ns) {
		return absent(kv, now);
	}
	err = attempts(kv);
	if (!err) {
		bool tell = !kv->told && !same_region(kv, before);

		kv->told = false;
		kv->next_attempt_ns = 0;
		return tell ? restarted(kv) : 0;
	}
	if (!broke)
		kv->next_attempt_ns = clock_now_ns() + ABSENT_PAUSE_NS;
	if (err == FARKV_ETIMEDOUT || err == FARKV_ENOMEM ||
	    err == FARKV_ELINKDOWN)
		return err;
	/* Why it broke says more than that nobody is there now. */
	if (!broke || kv->told)
		note_why(kv, "cannot reconnect: ");
	kv->told = true;
	return err_set(FARKV_EDISCONNECTED, "%s", kv->why);
}

/* ---- in the middle of a call ------------------------------------------------------------ */

/* Did the break leave this operation without its result, or its value? */
static bool touched(const struct index_op *op)
{
	return op->result == INDEX_PENDING ||
	       op->result == FARKV_EDISCONNECTED ||
	       (op->result == FARKV_EMAYBE && op->unresolved) ||
	       (op->result == 0 && op->kind == INDEX_GET);
}

bool relink_needed(const struct farkv *kv, struct index_op *const *ops, size_t n)
{
	if (!xport_broken(kv->link.lane) &&
	    !(gate_alerts(kv->gate) & GATE_BROKEN))
		return false;
	for (size_t i = 0; i < n; i++)
		if (ops[i]->result == FARKV_EDISCONNECTED ||
		    (ops[i]->result == FARKV_EMAYBE && ops[i]->unresolved))
			return true;
	return false;
}

/* Let the old link go; its blocks go with it. */
static void detach(struct farkv *kv, struct index_op *const *ops, size_t n)
{
	if (gate_alerts(kv->gate) & GATE_BROKEN)
		session_why(kv->link.session);
	else
		err_set(FARKV_EDISCONNECTED, "%s",
			err_detail()[0] ? err_detail() :
					  "the connection to the server broke");
	note_why(kv, "");
	for (size_t i = 0; i < n; i++)
		if (ops[i]->result == INDEX_PENDING)
			index_abandon(kv->link.index, ops[i],
				      FARKV_EDISCONNECTED);
	relink_down(kv);
}

/*
 * Those that the break touched end, there being no link to their store. What the others
 * would tell its server (handle_after()) concerns nobody any more.
 */
static void give_up(struct farkv *kv, struct index_op *const *ops, size_t n,
		    int err)
{
	if (err != FARKV_ETIMEDOUT && err != FARKV_ELINKDOWN)
		err = FARKV_EDISCONNECTED;
	else
		note_why(kv, "");
	kv->told = false;
	for (size_t i = 0; i < n; i++) {
		ops[i]->near_full = false;
		ops[i]->cls = 0;
		if (!touched(ops[i]) || ops[i]->result == FARKV_EMAYBE)
			continue;
		ops[i]->result = err;
		ops[i]->wait = INDEX_WAIT_NONE;
		/* With a new link that is over, and its end will be told anew. */
		kv->told = err == FARKV_EDISCONNECTED && !kv->link.session;
	}
}

/*
 * Inside the new session's gate. Has a barrier been answered since it was made? The
 * words that operations remember of the lost link may have come back then.
 */
static bool enter_anew(struct farkv *kv)
{
	bool dropped;

	if (gate_enter(kv->gate))
		return false;
	dropped = gate_alerts(kv->gate) & GATE_DROP;
	handle_attend(kv);
	return dropped;
}

bool relink_ops(struct farkv *kv, struct index_op *const *ops, size_t n)
{
	uint64_t before[2] = {kv->last_region[0], kv->last_region[1]};
	bool same = session_was_cut(kv->link.session), stale;
	int err = FARKV_EDISCONNECTED;

	/* Still inside the old gate: the lost session answers no barrier now. */
	detach(kv, ops, n);
	if (same)
		err = attempts(kv);
	same = !err && same_region(kv, before);
	if (same)
		handle_untidy(kv);
	stale = enter_anew(kv) || kv->link.swept;
	if (!same) {
		give_up(kv, ops, n, err);
		return false;
	}
	kv->told = false;
	for (size_t i = 0; i < n; i++) {
		if (stale && ops[i]->unresolved)
			ops[i]->unresolved = false;
		if (touched(ops[i]))
			index_op_resume(ops[i]);
	}
	return true;
}
