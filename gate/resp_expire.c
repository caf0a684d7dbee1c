/* SPDX-License-Identifier: BSD-3-Clause */
/* Redis's commands for the time to live. */
#include "config.h"

#include "common/base/util.h"
#include "resp_cmds.h"
#include "resp_reply.h"
#include "store.h"

bool resp_when_ms(struct client *c, struct slice word, enum resp_when when, bool positive,
		  int64_t *ms_out)
{
	int64_t n, now = store_date_ms(), date;
	bool overflow = false;

	if (!reply_or_i64(c, word, &n))
		return false;
	if (when == WHEN_EX || when == WHEN_EXAT)
		overflow = __builtin_mul_overflow(n, 1000, &n);
	if (when == WHEN_EX || when == WHEN_PX)
		overflow |= __builtin_add_overflow(n, now, &date);
	else
		date = n;
	if (overflow || (positive && n <= 0)) {
		reply_error(c, "ERR invalid expire time in '%s' command",
			    atom_load_relaxed(&c->command));
		return false;
	}
	/* A date before 1970 is over, and needs no difference. */
	*ms_out = date < 0 ? 0 : UTIL_MIN(date - now, (int64_t)FARKV_TTL_MAX_MS);
	return true;
}

/* ---- EXPIRE and its kin ------------------------------------------------------- */

struct expire {
	int64_t ttl_ms;
	bool absent, present, greater, less; /* NX, XX, GT, LT */
	bool refused;
};

static bool expire_options(struct client *c, const struct args *a, struct expire *x)
{
	for (size_t i = 3; i < a->n; i++) {
		if (slice_is(a->v[i], "nx")) {
			x->absent = true;
		} else if (slice_is(a->v[i], "xx")) {
			x->present = true;
		} else if (slice_is(a->v[i], "gt")) {
			x->greater = true;
		} else if (slice_is(a->v[i], "lt")) {
			x->less = true;
		} else {
			reply_error(c, "ERR Unsupported option %.*s",
				    REPLY_WORD(a->v[i]));
			return false;
		}
	}
	if (x->absent && (x->present || x->greater || x->less))
		reply_error(c, "ERR NX and XX, GT or LT options at the same time are not "
			       "compatible");
	else if (x->greater && x->less)
		reply_error(c, "ERR GT and LT options at the same time are not compatible");
	else
		return true;
	return false;
}

/* A value that never expires counts as one with an endless time. */
static bool expire_allowed(const struct expire *x, uint64_t old_ms)
{
	int64_t old = (int64_t)old_ms;

	return !(x->absent && old) && !(x->present && !old) &&
	       !(x->greater && (!old || x->ttl_ms <= old)) &&
	       !(x->less && old && x->ttl_ms >= old);
}

static bool expire_decide(struct edit *e, void *arg)
{
	struct expire *x = arg;

	x->refused = e->found && !expire_allowed(x, e->old.ttl_ms);
	if (!e->found || x->refused)
		return false;
	/* A time that is over deletes the key. */
	e->remove = x->ttl_ms <= 0;
	e->data = e->old.data;
	e->len = e->old.len;
	e->ttl_ms = (uint64_t)x->ttl_ms;
	return true;
}

static void expire(struct client *c, const struct args *a, enum resp_when when)
{
	struct expire x = {.refused = false};
	struct edit e;
	int err;

	if (!resp_when_ms(c, a->v[2], when, false, &x.ttl_ms) || !expire_options(c, a, &x))
		return;
	err = store_edit(c, a->v[1], expire_decide, &x, &e);
	if (err)
		reply_store_error(c, err);
	else
		reply_int(c, e.found && !x.refused);
}

void resp_expire(struct client *c, const struct args *a)
{
	expire(c, a, WHEN_EX);
}

void resp_pexpire(struct client *c, const struct args *a)
{
	expire(c, a, WHEN_PX);
}

void resp_expireat(struct client *c, const struct args *a)
{
	expire(c, a, WHEN_EXAT);
}

void resp_pexpireat(struct client *c, const struct args *a)
{
	expire(c, a, WHEN_PXAT);
}

static bool persist_decide(struct edit *e, void *arg)
{
	(void)arg;
	if (!e->old.ttl_ms)
		return false;
	e->data = e->old.data;
	e->len = e->old.len;
	e->ttl_ms = 0;
	return true;
}

void resp_persist(struct client *c, const struct args *a)
{
	struct edit e;
	int err = store_edit(c, a->v[1], persist_decide, NULL, &e);

	if (err)
		reply_store_error(c, err);
	else
		reply_int(c, e.old.ttl_ms != 0);
}

/* Answer with the time to live, or with its end as a date; in units of `unit` ms. */
static void time_left(struct client *c, struct slice key, bool date, int64_t unit)
{
	struct farkv_value v;
	int err = farkv_get(c->kv, key.p, key.len, &v);
	int64_t ms;

	if (err && err != FARKV_ENOTFOUND) {
		reply_store_error(c, err);
	} else if (err || !v.ttl_ms) {
		reply_int(c, err ? -2 : -1);
	} else {
		ms = (int64_t)v.ttl_ms + (date ? store_date_ms() : 0);
		reply_int(c, (ms + unit / 2) / unit);
	}
}

void resp_ttl(struct client *c, const struct args *a)
{
	time_left(c, a->v[1], false, 1000);
}

void resp_pttl(struct client *c, const struct args *a)
{
	time_left(c, a->v[1], false, 1);
}

void resp_expiretime(struct client *c, const struct args *a)
{
	time_left(c, a->v[1], true, 1000);
}

void resp_pexpiretime(struct client *c, const struct args *a)
{
	time_left(c, a->v[1], true, 1);
}
