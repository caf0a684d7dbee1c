/* SPDX-License-Identifier: BSD-3-Clause */
/* memcached's text commands. */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "mc_cmds.h"

/* ---- retrieval ----------------------------------------------------------------------- */

static void value_line(struct client *c, struct slice key, const struct farkv_value *v, bool cas)
{
	struct buf *out = c->out;

	buf_add(out, "VALUE ", 6);
	buf_add(out, key.p, key.len);
	buf_add(out, " ", 1);
	buf_u64(out, v->user);
	buf_add(out, " ", 1);
	buf_u64(out, v->len);
	if (cas) {
		buf_add(out, " ", 1);
		buf_u64(out, v->version);
	}
	buf_add(out, "\r\n", 2);
	buf_add(out, v->data, v->len);
	buf_add(out, "\r\n", 2);
}

struct getting {
	size_t first; /* word of the first key */
	bool cas;
	const struct mc_time *touch; /* or NULL */
};

static void get(struct client *c, const struct args *a, const struct getting *g)
{
	size_t before = c->out->len;
	struct farkv_value v;

	for (size_t i = g->first; i < a->n; i++) {
		int err;

		if (!mc_key_fits(c, a->v[i])) {
			c->out->len = before;
			mc_bad_format(c);
			return;
		}
		err = mc_fetch(c, a->v[i], g->touch, &v);
		if (err && err != FARKV_ENOTFOUND) {
			c->out->len = before;
			mc_store_error(c, err);
			return;
		}
		if (!err)
			value_line(c, a->v[i], &v, g->cas);
		if (c->out->len - before > c->gate->cfg.max_output) {
			c->out->len = before;
			mc_error(c, "SERVER_ERROR the answer is longer than the gate's --max-output");
			return;
		}
	}
	buf_text(c->out, "END\r\n");
}

void mc_get(struct client *c, const struct args *a)
{
	get(c, a, &(struct getting){.first = 1});
}

void mc_gets(struct client *c, const struct args *a)
{
	get(c, a, &(struct getting){.first = 1, .cas = true});
}

static void get_and_touch(struct client *c, const struct args *a, bool cas)
{
	struct mc_time t;

	if (!mc_time_read(a->v[1], &t))
		mc_error(c, "CLIENT_ERROR invalid exptime argument");
	else
		get(c, a, &(struct getting){.first = 2, .cas = cas, .touch = &t});
}

void mc_gat(struct client *c, const struct args *a)
{
	get_and_touch(c, a, false);
}

void mc_gats(struct client *c, const struct args *a)
{
	get_and_touch(c, a, true);
}

/* ---- storage ------------------------------------------------------------------------- */

static void store_reply(struct client *c, int err, enum mc_mode mode)
{
	if (!err)
		mc_line(c, "STORED");
	else if (err == FARKV_EVERSION)
		mc_line(c, "EXISTS");
	else if (err == FARKV_ENOTFOUND && mode == MC_CAS)
		mc_line(c, "NOT_FOUND");
	else if (err == FARKV_EEXISTS || err == FARKV_ENOTFOUND)
		mc_line(c, "NOT_STORED");
	else
		mc_store_error(c, err);
}

static void store(struct client *c, const struct args *a, enum mc_mode mode)
{
	struct store_item item = {.key = a->v[1]};
	struct mc_time t;
	uint64_t flags, version;

	if (!mc_key_ok(c, a->v[1]))
		return;
	if (!slice_u64(a->v[2], &flags) || flags > UINT32_MAX || !mc_time_read(a->v[3], &t) ||
	    !c->mc.body_due || (mode == MC_CAS && !slice_u64(a->v[5], &item.expected))) {
		mc_bad_format(c);
		return;
	}
	if (!mc_body_ok(c, a->v[1], mode))
		return;
	item.data = c->mc.data.p;
	item.len = c->mc.data.len;
	item.user = (uint32_t)flags;
	item.ttl_ms = t.over ? 1 : t.ttl_ms;
	store_reply(c, mc_write(c, mode, &item, t.over, &version), mode);
}

void mc_set(struct client *c, const struct args *a)
{
	store(c, a, MC_SET);
}

void mc_add(struct client *c, const struct args *a)
{
	store(c, a, MC_ADD);
}

void mc_replace(struct client *c, const struct args *a)
{
	store(c, a, MC_REPLACE);
}

void mc_append(struct client *c, const struct args *a)
{
	store(c, a, MC_APPEND);
}

void mc_prepend(struct client *c, const struct args *a)
{
	store(c, a, MC_PREPEND);
}

void mc_cas(struct client *c, const struct args *a)
{
	store(c, a, MC_CAS);
}

/* ---- others -------------------------------------------------------------------------- */

static void count(struct client *c, const struct args *a, bool down)
{
	struct mc_count n = {.down = down};
	char text[24];
	int err;

	if (!mc_key_ok(c, a->v[1]))
		return;
	if (!slice_u64(a->v[2], &n.delta)) {
		mc_error(c, "CLIENT_ERROR invalid numeric delta argument");
		return;
	}
	err = mc_count(c, a->v[1], &n);
	if (err == FARKV_ENOTFOUND) {
		mc_line(c, "NOT_FOUND");
	} else if (err == FARKV_EINVAL) {
		mc_error(c, "CLIENT_ERROR cannot increment or decrement non-numeric value");
	} else if (err) {
		mc_store_error(c, err);
	} else {
		snprintf(text, sizeof(text), "%llu", (unsigned long long)n.value);
		mc_line(c, text);
	}
}

void mc_incr(struct client *c, const struct args *a)
{
	count(c, a, false);
}

void mc_decr(struct client *c, const struct args *a)
{
	count(c, a, true);
}

static void found_reply(struct client *c, int err, const char *done)
{
	if (err && err != FARKV_ENOTFOUND)
		mc_store_error(c, err);
	else
		mc_line(c, err ? "NOT_FOUND" : done);
}

void mc_touch(struct client *c, const struct args *a)
{
	struct mc_time t;
	struct slice key = a->v[1];

	if (!mc_key_ok(c, key))
		return;
	if (!mc_time_read(a->v[2], &t)) {
		mc_error(c, "CLIENT_ERROR invalid exptime argument");
		return;
	}
	GATE_COUNT(c->counts, touches, 1);
	found_reply(c,
		    t.over ? farkv_delete(c->kv, key.p, key.len) :
			     farkv_touch(c->kv, key.p, key.len, t.ttl_ms),
		    "TOUCHED");
}

void mc_delete(struct client *c, const struct args *a)
{
	bool zero = a->n > 2 && slice_same(a->v[2], "0");

	if (a->n > 2 + (size_t)zero + c->noreply) {
		mc_line(c, "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]");
		return;
	}
	if (!mc_key_ok(c, a->v[1]))
		return;
	GATE_COUNT(c->counts, deletes, 1);
	found_reply(c, farkv_delete(c->kv, a->v[1].p, a->v[1].len), "DELETED");
}
