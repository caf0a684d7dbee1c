/* SPDX-License-Identifier: BSD-3-Clause */
/* Redis's commands for values. */
#include "config.h"

#include <string.h>

#include "common/base/err.h"
#include "common/base/util.h"
#include "resp_cmds.h"
#include "resp_reply.h"
#include "store.h"

/* ---- reading ------------------------------------------------------------------------- */

static void count_get(struct client *c, int err)
{
	GATE_COUNT(c->counts, gets, 1);
	if (!err)
		GATE_COUNT(c->counts, hits, 1);
}

static int get(struct client *c, struct slice key, struct farkv_value *v)
{
	int err = farkv_get(c->kv, key.p, key.len, v);

	count_get(c, err);
	return err;
}

/* The reply to a get. */
static void reply_got(struct client *c, int err, const struct farkv_value *v)
{
	if (!err)
		reply_bulk(c, v->data, v->len);
	else if (err == FARKV_ENOTFOUND)
		reply_null(c);
	else
		reply_store_error(c, err);
}

void resp_get(struct client *c, const struct args *a)
{
	struct farkv_value v;
	int err = get(c, a->v[1], &v);

	reply_got(c, err, &v);
}

void resp_mget(struct client *c, const struct args *a)
{
	size_t before = c->out->len;
	struct farkv_value v;

	reply_array(c, a->n - 1);
	for (size_t i = 1; i < a->n; i++) {
		int err = get(c, a->v[i], &v);

		reply_got(c, err, &v);
		if (reply_too_long(c, before))
			return;
	}
}

void resp_strlen(struct client *c, const struct args *a)
{
	struct farkv_value v;
	int err = get(c, a->v[1], &v);

	if (err && err != FARKV_ENOTFOUND)
		reply_store_error(c, err);
	else
		reply_int(c, err ? 0 : (int64_t)v.len);
}

void resp_getrange(struct client *c, const struct args *a)
{
	struct farkv_value v;
	int64_t start, end, len;
	int err;

	if (!reply_or_i64(c, a->v[2], &start) || !reply_or_i64(c, a->v[3], &end))
		return;
	err = get(c, a->v[1], &v);
	if (err && err != FARKV_ENOTFOUND) {
		reply_store_error(c, err);
		return;
	}
	len = err ? 0 : (int64_t)v.len;
	if (start < 0 && end < 0 && start > end)
		len = 0;
	start = start < 0 ? UTIL_MAX(start + len, 0) : start;
	end = end < 0 ? UTIL_MAX(end + len, 0) : UTIL_MIN(end, len - 1);
	if (start > end || !len)
		reply_bulk(c, "", 0);
	else
		reply_bulk(c, (const char *)v.data + start, (size_t)(end - start + 1));
}

/* ---- SET and its older forms --------------------------------------------------------- */

struct set {
	struct buf *old; /* GET: takes the old value */
	struct slice key, value;
	bool absent, present; /* NX, XX */
	bool get, keep_ttl;
	bool timed;
	int64_t ttl_ms; /* if `timed`; 0 or less: over at once */
};

/* Take a time option at word *i, with its number. 0: it is none, -1: an error was answered. */
static int set_time(struct client *c, const struct args *a, size_t *i, struct set *s)
{
	static const char *const names[] = {"ex", "px", "exat", "pxat"};

	for (unsigned k = 0; k < ARRAY_SIZE(names); k++) {
		if (!slice_is(a->v[*i], names[k]))
			continue;
		if (s->timed || s->keep_ttl || *i + 1 == a->n) {
			reply_syntax_error(c);
			return -1;
		}
		s->timed = true;
		(*i)++;
		return resp_when_ms(c, a->v[*i], (enum resp_when)k, true, &s->ttl_ms) ? 1 : -1;
	}
	return 0;
}

static bool set_options(struct client *c, const struct args *a, struct set *s)
{
	for (size_t i = 3; i < a->n; i++) {
		int timed = set_time(c, a, &i, s);

		if (timed < 0)
			return false;
		if (timed)
			continue;
		if (slice_is(a->v[i], "nx"))
			s->absent = true;
		else if (slice_is(a->v[i], "xx"))
			s->present = true;
		else if (slice_is(a->v[i], "get"))
			s->get = true;
		else if (slice_is(a->v[i], "keepttl") && !s->timed)
			s->keep_ttl = true;
		else
			s->absent = s->present = true;
	}
	if (s->absent && s->present)
		reply_syntax_error(c);
	return !(s->absent && s->present);
}

static uint64_t ttl_of(const struct set *s)
{
	return s->timed ? (uint64_t)UTIL_MAX(s->ttl_ms, 1) : 0;
}

/* Copy the old value, whose bytes are valid until the write. */
static void keep_old(const struct edit *e, struct buf *to)
{
	to->len = 0;
	buf_add(to, e->old.data, e->old.len);
}

static bool set_decide(struct edit *e, void *arg)
{
	const struct set *s = arg;

	if (s->get)
		keep_old(e, s->old);
	if (s->old->failed || (e->found ? s->absent : s->present))
		return false;
	e->data = s->value.p;
	e->len = s->value.len;
	e->user = 0;
	if (!s->keep_ttl)
		e->ttl_ms = ttl_of(s);
	return true;
}

static int no_memory(const struct edit *e)
{
	return err_set(FARKV_ENOMEM, "no memory for a value of %zu bytes", e->old.len);
}

/* A set that has to know the old value. */
static void set_by_edit(struct client *c, struct set *s)
{
	struct edit e;
	int err;

	s->old = c->scratch;
	err = store_edit(c, s->key, set_decide, s, &e);
	if (err || c->scratch->failed)
		reply_store_error(c, err ? err : no_memory(&e));
	else if (s->get && e.found)
		reply_bulk(c, c->scratch->p, c->scratch->len);
	else if (s->get || (e.found ? s->absent : s->present))
		reply_null(c);
	else
		reply_ok(c);
}

/* Returns the farkv error; FARKV_EEXISTS or FARKV_ENOTFOUND where the condition does not hold. */
static int set_plainly(struct client *c, const struct set *s)
{
	struct store_item item = {
		.key = s->key,
		.data = s->value.p,
		.len = s->value.len,
		.ttl_ms = ttl_of(s),
	};

	if (!s->absent && !s->present && !s->timed) {
		GATE_COUNT(c->counts, sets, 1);
		return farkv_put(c->kv, s->key.p, s->key.len, s->value.p, s->value.len);
	}
	return store_write(c, s->absent	 ? FARKV_REQUEST_ADD
			      : s->present ? FARKV_REQUEST_REPLACE
					   : FARKV_REQUEST_PUT,
			   &item, NULL);
}

void resp_set(struct client *c, const struct args *a)
{
	struct set s = {.key = a->v[1], .value = a->v[2]};
	int err;

	if (a->n > 3 && !set_options(c, a, &s))
		return;
	if (s.get || s.keep_ttl) {
		set_by_edit(c, &s);
		return;
	}
	err = set_plainly(c, &s);
	if (err == FARKV_EEXISTS || err == FARKV_ENOTFOUND)
		reply_null(c);
	else if (err)
		reply_store_error(c, err);
	else
		reply_ok(c);
}

static void set_timed(struct client *c, const struct args *a, enum resp_when when)
{
	struct set s = {.key = a->v[1], .value = a->v[3], .timed = true};
	int err;

	if (!resp_when_ms(c, a->v[2], when, true, &s.ttl_ms))
		return;
	err = set_plainly(c, &s);
	if (err)
		reply_store_error(c, err);
	else
		reply_ok(c);
}

void resp_setex(struct client *c, const struct args *a)
{
	set_timed(c, a, WHEN_EX);
}

void resp_psetex(struct client *c, const struct args *a)
{
	set_timed(c, a, WHEN_PX);
}

void resp_setnx(struct client *c, const struct args *a)
{
	struct set s = {.key = a->v[1], .value = a->v[2], .absent = true};
	int err = set_plainly(c, &s);

	if (err && err != FARKV_EEXISTS)
		reply_store_error(c, err);
	else
		reply_int(c, !err);
}

void resp_getset(struct client *c, const struct args *a)
{
	struct set s = {.key = a->v[1], .value = a->v[2], .get = true};

	set_by_edit(c, &s);
}

void resp_mset(struct client *c, const struct args *a)
{
	int err = 0;

	if (a->n % 2 == 0) {
		reply_error(c, "ERR wrong number of arguments for 'mset' command");
		return;
	}
	for (size_t i = 1; i < a->n && !err; i += 2) {
		struct set s = {.key = a->v[i], .value = a->v[i + 1]};

		err = set_plainly(c, &s);
	}
	if (err)
		reply_store_error(c, err);
	else
		reply_ok(c);
}

/* ---- get and change ------------------------------------------------------------------ */

void resp_getdel(struct client *c, const struct args *a)
{
	struct farkv_value v;
	int err = store_take(c, a->v[1], &v);

	count_get(c, err);
	reply_got(c, err, &v);
}

static bool getex_decide(struct edit *e, void *arg)
{
	const struct set *s = arg;

	keep_old(e, s->old);
	if (s->old->failed || !e->found || (!s->timed && !e->old.ttl_ms))
		return false;
	e->data = e->old.data;
	e->len = e->old.len;
	e->ttl_ms = ttl_of(s);
	return true;
}

void resp_getex(struct client *c, const struct args *a)
{
	struct set s = {.key = a->v[1]};
	size_t i = 2;
	struct edit e;
	int err;

	if (a->n == 2) {
		resp_get(c, a);
		return;
	}
	if (!slice_is(a->v[2], "persist")) {
		int timed = set_time(c, a, &i, &s);

		if (timed == 0)
			reply_syntax_error(c);
		if (timed <= 0)
			return;
	}
	if (i + 1 != a->n) {
		reply_syntax_error(c);
		return;
	}
	if (s.timed && s.ttl_ms <= 0) {
		resp_getdel(c, a);
		return;
	}
	s.old = c->scratch;
	err = store_edit(c, a->v[1], getex_decide, &s, &e);
	if (!err)
		err = c->scratch->failed ? no_memory(&e) : e.found ? 0 : FARKV_ENOTFOUND;
	count_get(c, err);
	e.old.data = c->scratch->p;
	reply_got(c, err, &e.old);
}

/* A part of the value that is written, at `at` or at its end. */
struct patch {
	struct buf *scratch;
	struct slice part;
	uint64_t at;
	uint64_t max_value;
	bool append, failed, too_large;
};

static bool patch_decide(struct edit *e, void *arg)
{
	struct patch *p = arg;
	size_t at = p->append ? e->old.len : (size_t)p->at;
	size_t len = UTIL_MAX(at + p->part.len, e->old.len);
	char *to;

	/* Redis makes no key of nothing. */
	if (!p->part.len && !p->append)
		return false;
	p->too_large = len > p->max_value;
	if (p->too_large)
		return false;
	p->scratch->len = 0;
	to = buf_room(p->scratch, UTIL_MAX(len, (size_t)1));
	p->failed = !to;
	if (!to)
		return false;
	if (e->old.len)
		memcpy(to, e->old.data, e->old.len);
	if (at > e->old.len)
		memset(to + e->old.len, 0, at - e->old.len);
	memcpy(to + at, p->part.p, p->part.len);
	e->data = to;
	e->len = len;
	return true;
}

static void patch(struct client *c, struct slice key, struct patch *p)
{
	struct edit e;
	int err;

	p->scratch = c->scratch;
	p->max_value = c->gate->max_value;
	err = store_edit(c, key, patch_decide, p, &e);
	if (p->too_large)
		reply_error(c, "ERR string exceeds maximum allowed size (proto-max-bulk-len)");
	else if (err || p->failed)
		reply_store_error(c, err ? err : no_memory(&e));
	else
		reply_int(c, (int64_t)(e.data ? e.len : e.old.len));
}

void resp_append(struct client *c, const struct args *a)
{
	struct patch p = {.part = a->v[2], .append = true};

	patch(c, a->v[1], &p);
}

void resp_setrange(struct client *c, const struct args *a)
{
	struct patch p = {.part = a->v[3]};
	int64_t at;

	if (!reply_or_i64(c, a->v[2], &at))
		return;
	if (at < 0) {
		reply_error(c, "ERR offset is out of range");
		return;
	}
	if ((uint64_t)at > c->gate->max_value && p.part.len) {
		reply_error(c, "ERR string exceeds maximum allowed size (proto-max-bulk-len)");
		return;
	}
	p.at = (uint64_t)at;
	patch(c, a->v[1], &p);
}
