/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The server names the pages whose incarnations restarted before the pass began. At the end of the
 * pass the follower asks for those that restarted during the pass: if there are any, the words are
 * compared once more. So a pass sees each word with the content that it named when the pass began,
 * or a newer one.
 */
#include "config.h"

#include "follow.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/base/util.h"
#include "common/index/changes.h"

#include "batch.h"
#include "call.h"
#include "open.h"
#include "queue.h"

struct follow {
	struct farkv *kv;
	struct index_changes *changes;
	uint32_t session; /* words seen in another session may have recurred */
	uint32_t kind; /* number of a new pass's PASS */
	bool again;   /* the pass compares for the second time */
	bool over;
	struct follow_change change[SUBTABLE_SLOTS];
};

/* ---- open and close --------------------------------------------------------------------- */

int follow_open(const struct follow_options *o, struct follow **out)
{
	struct farkv_options opts = {.size = sizeof(opts), .connect_timeout_ms = o->timeout_ms,
				     .op_timeout_ms = o->timeout_ms, .name = "kvserver-follow",
				     .keys = o->keys, .key = o->key};
	struct follow *f = calloc(1, sizeof(*f));
	struct uri uri;
	int err;

	if (f)
		f->changes = index_changes_new();
	err = f && f->changes ? uri_resolve(o->address, &uri) :
				err_set(FARKV_ENOMEM, "no memory to follow a server");
	if (!err)
		err = handle_open_server(&uri, &opts, o->map_id, o->server, &f->kv);
	if (err) {
		follow_close(f);
		return err;
	}
	f->session = f->kv->conn.id;
	f->kind = (o->follows ? MSG_PASS_FOLLOW : MSG_PASS_MOVE) | (uint32_t)o->own_server << MSG_PASS_SERVER_SHIFT;
	f->over = true;
	/* A follower's gets are no use of a key. */
	index_mark_nothing(f->kv->conn.index);
	atom_store_relaxed(&f->kv->qsbr->hits, &f->kv->uncounted);
	*out = f;
	return 0;
}

void follow_close(struct follow *f)
{
	if (!f)
		return;
	if (f->kv)
		handle_close(f->kv);
	index_changes_free(f->changes);
	free(f);
}

uint64_t follow_index_seed(const struct follow *f)
{
	return f->kv->conn.sb->hash_seed;
}

/* ---- calls ------------------------------------------------------------------------------- */

static int lost(const struct follow *f)
{
	return err_set(FARKV_EDISCONNECTED, "the connection to %s broke, and what was seen counts no "
					    "more", f->kv->uri.shown);
}

/* handle_begin(), but an error if the session is another one. */
static int begin(struct follow *f)
{
	int err = handle_begin(f->kv);

	if (err || f->kv->conn.id == f->session)
		return err;
	handle_end(f->kv);
	return lost(f);
}

static uint64_t figure(const struct msg *m, uint16_t id)
{
	for (uint32_t i = 0; i < m->stats.n; i++)
		if (m->stats.stat[i].id == id)
			return m->stats.stat[i].value;
	return 0;
}

/* One PASS and its answer. */
static int ask(struct follow *f, uint32_t kind, struct msg *answer_out)
{
	struct msg m = {.type = MSG_PASS};
	struct farkv *kv = f->kv;
	int err = begin(f);

	m.epoch.number = kind;
	if (err)
		return err;
	handle_need_clock(kv);
	qsbr_leave(kv->qsbr);
	err = session_call(kv->conn.session, &m, MSG_PASSED, answer_out, kv->deadline_ns);
	atom_store_relaxed(&kv->busy, false);
	return err ? handle_result(kv, err) : 0;
}

/* A pass, or its second half, has begun: `m` and more answers name the words to invalidate. */
static int doubt(struct follow *f, struct msg *m, bool *any_out)
{
	const struct index *ix = f->kv->conn.index;
	int err = 0;

	*any_out = false;
	for (;;) {
		if (figure(m, MSG_PASSED_ALL)) {
			index_changes_invalidate_all(f->changes);
			*any_out = true;
		}
		for (uint32_t i = 0; i < m->stats.n && !err; i++) {
			uint64_t v = m->stats.stat[i].value;

			if (m->stats.stat[i].id != MSG_PASSED_PAGES)
				continue;
			*any_out = true;
			err = index_changes_invalidate(f->changes, ix, v & ((UINT64_C(1) << 40) - 1), v >> 40);
		}
		if (err || !figure(m, MSG_PASSED_MORE))
			return err;
		err = ask(f, MSG_PASS_MORE, m);
		if (err)
			return err;
	}
}

int follow_pass(struct follow *f, uint64_t *fenced_out)
{
	struct msg m;
	uint64_t fenced;
	bool any;
	int err = ask(f, f->kind, &m);

	if (err)
		return err;
	fenced = figure(&m, MSG_PASSED_FENCED);
	index_changes_begin(f->changes);
	err = doubt(f, &m, &any);
	if (err)
		return err;
	f->again = f->over = false;
	*fenced_out = fenced;
	return 0;
}

/* All parts were listed: FARKV_ENOTFOUND, or 0 if they must be compared once more. */
static int end_pass(struct follow *f)
{
	struct msg m;
	bool any = false;
	int err = 0;

	if (!f->again && !f->over) {
		err = ask(f, MSG_PASS_MORE, &m);
		if (err)
			return err;
		if (figure(&m, MSG_PASSED_ALL) || figure(&m, MSG_PASSED_PAGES)) {
			index_changes_begin(f->changes);
			err = doubt(f, &m, &any);
			f->again = true;
		}
	}
	if (err || any)
		return err;
	f->over = true;
	return err_set_plain(FARKV_ENOTFOUND);
}

static void take(struct follow *f, const struct index_changes_part *p, struct follow_part *out)
{
	for (size_t i = 0; i < p->n; i++)
		f->change[i] = (struct follow_change){.key = p->change[i].key,
						      .key_len = p->change[i].key_len,
						      .value_len = p->change[i].value_len,
						      .same = p->change[i].same};
	*out = (struct follow_part){
		.first = p->first, .last = p->last, .whole = p->whole, .change = f->change, .n = p->n};
}

int follow_next(struct follow *f, struct follow_part *out)
{
	struct index_changes_part p;
	int err;

	do {
		err = begin(f);
		if (err)
			return err;
		(void)handle_start_clock(f->kv);
		err = index_changes_next(f->kv->conn.index, f->changes, f->kv->deadline_ns, &p);
		if (err && err != FARKV_ENOTFOUND)
			err = handle_result(f->kv, err);
		handle_end(f->kv);
	} while (err == FARKV_ENOTFOUND && (err = end_pass(f)) == 0);
	if (!err)
		take(f, &p, out);
	return err;
}

int follow_get(struct follow *f, struct farkv_get_item *items, size_t n)
{
	bool large;
	int err = begin(f);

	if (err)
		return err;
	(void)handle_start_clock(f->kv);
	err = batch_get(f->kv, items, n, &large);
	f->kv->batched = false;
	handle_end(f->kv);
	f->kv->batched = large;
	return f->kv->conn.id == f->session ? err : lost(f);
}
