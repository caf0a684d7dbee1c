/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "mc_cmds.h"

#define DIGITS_MAX 20

int mc_fetch(struct client *c, struct slice key, const struct mc_time *touch,
	     struct farkv_value *value_out)
{
	int err;

	if (touch && touch->over) {
		err = store_take(c, key, value_out);
	} else if (touch) {
		GATE_COUNT(c->counts, touches, 1);
		err = farkv_get_touch(c->kv, key.p, key.len, touch->ttl_ms, value_out);
	} else {
		err = farkv_get(c->kv, key.p, key.len, value_out);
	}
	GATE_COUNT(c->counts, gets, 1);
	if (!err)
		GATE_COUNT(c->counts, hits, 1);
	return err;
}

struct join {
	const struct store_item *item;
	struct client *c;
	bool front;
	int err;
};

static bool join_decide(struct edit *e, void *arg)
{
	struct join *j = arg;
	struct buf *to = j->c->scratch;

	j->err = 0;
	if (!e->found)
		j->err = FARKV_ENOTFOUND;
	else if (j->item->expected && j->item->expected != e->old.version)
		j->err = FARKV_EVERSION;
	else if (e->old.len + j->item->len > j->c->gate->max_value)
		j->err = FARKV_ETOOLARGE;
	if (j->err)
		return false;
	to->len = 0;
	if (j->front)
		buf_add(to, j->item->data, j->item->len);
	buf_add(to, e->old.data, e->old.len);
	if (!j->front)
		buf_add(to, j->item->data, j->item->len);
	if (to->failed)
		j->err = FARKV_ENOMEM;
	e->data = to->p;
	e->len = to->len;
	return !j->err;
}

static int join(struct client *c, bool front, const struct store_item *item, uint64_t *version_out)
{
	struct join j = {.item = item, .c = c, .front = front};
	struct edit e;
	int err = store_edit(c, item->key, join_decide, &j, &e);

	if (err || j.err)
		return err ? err : j.err;
	*version_out = e.version;
	return 0;
}

bool mc_body_ok(struct client *c, struct slice key, enum mc_mode mode)
{
	if (c->mc.too_large) {
		/* The old value must not stay as if it were the new one. */
		if (mode == MC_SET && farkv_delete(c->kv, key.p, key.len) == 0)
			GATE_COUNT(c->counts, deletes, 1);
		mc_error(c, "SERVER_ERROR object too large for cache");
	} else if (c->mc.bad_body) {
		mc_error(c, "CLIENT_ERROR bad data chunk");
	}
	return !c->mc.too_large && !c->mc.bad_body;
}

int mc_write(struct client *c, enum mc_mode mode, const struct store_item *item, bool over,
	     uint64_t *version_out)
{
	static const enum farkv_request_kind kinds[] = {
		[MC_SET] = FARKV_REQUEST_PUT,
		[MC_ADD] = FARKV_REQUEST_ADD,
		[MC_REPLACE] = FARKV_REQUEST_REPLACE,
		[MC_CAS] = FARKV_REQUEST_CAS,
	};
	int err;

	if (mode == MC_APPEND || mode == MC_PREPEND)
		return join(c, mode == MC_PREPEND, item, version_out);
	err = store_write(c, kinds[mode], item, version_out);
	if (!err && over && (err = farkv_delete(c->kv, item->key.p, item->key.len)) ==
				    FARKV_ENOTFOUND)
		err = 0;
	return err;
}

/* ---- counting ------------------------------------------------------------------------ */

struct counting {
	struct mc_count *n;
	char text[64];
	int err;
};

/* Blanks may follow the digits. */
static bool number_of(const struct farkv_value *v, uint64_t *out)
{
	struct slice s = {v->data, v->len};

	while (s.len && s.p[s.len - 1] == ' ')
		s.len--;
	return s.len <= DIGITS_MAX && slice_u64(s, out);
}

static uint64_t moved(uint64_t value, const struct mc_count *n)
{
	if (!n->down)
		return value + n->delta;
	return value > n->delta ? value - n->delta : 0;
}

static bool count_decide(struct edit *e, void *arg)
{
	struct counting *k = arg;
	struct mc_count *n = k->n;
	uint64_t old;

	k->err = 0;
	if (!e->found && !n->create)
		k->err = FARKV_ENOTFOUND;
	else if (e->found && n->expected && n->expected != e->old.version)
		k->err = FARKV_EVERSION;
	else if (e->found && !number_of(&e->old, &old))
		k->err = FARKV_EINVAL;
	if (k->err)
		return false;
	n->value = e->found ? moved(old, n) : n->initial;
	if (!e->found)
		e->ttl_ms = n->create_ttl_ms;
	else if (n->retime)
		e->ttl_ms = n->ttl_ms;
	n->ttl_now_ms = e->ttl_ms;
	e->len = (size_t)snprintf(k->text, sizeof(k->text), "%llu", (unsigned long long)n->value);
	/* memcached writes into the old value and fills it up with blanks. */
	if (e->len < e->old.len && e->old.len < sizeof(k->text)) {
		memset(k->text + e->len, ' ', e->old.len - e->len);
		e->len = e->old.len;
	}
	e->data = k->text;
	return true;
}

int mc_count(struct client *c, struct slice key, struct mc_count *n)
{
	struct counting k = {.n = n};
	struct edit e;
	int err = store_edit(c, key, count_decide, &k, &e);

	if (err || k.err)
		return err ? err : k.err;
	n->version = e.version;
	return 0;
}
