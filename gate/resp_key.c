/* SPDX-License-Identifier: BSD-3-Clause */
/* Redis's commands for keys of any type. */
#include "config.h"

#include "resp_cmds.h"
#include "resp_reply.h"
#include "store.h"

/* Header and checksum of a value, and its slot. */
#define ITEM_OVERHEAD 40
/* As Redis decides it. */
#define EMBEDDED_MAX 44

/* Count the keys for which `call` succeeds. */
static void count(struct client *c, const struct args *a,
		  int (*call)(struct farkv *, const void *, size_t))
{
	int64_t n = 0;

	for (size_t i = 1; i < a->n; i++) {
		int err = call(c->kv, a->v[i].p, a->v[i].len);

		if (err && err != FARKV_ENOTFOUND) {
			reply_store_error(c, err);
			return;
		}
		n += !err;
	}
	reply_int(c, n);
}

void resp_del(struct client *c, const struct args *a)
{
	GATE_COUNT(c->counts, deletes, a->n - 1);
	count(c, a, farkv_delete);
}

void resp_exists(struct client *c, const struct args *a)
{
	count(c, a, farkv_exists);
}

void resp_type(struct client *c, const struct args *a)
{
	int err = farkv_exists(c->kv, a->v[1].p, a->v[1].len);

	if (err && err != FARKV_ENOTFOUND)
		reply_store_error(c, err);
	else
		reply_simple(c, err ? "none" : "string");
}

/* The value of MEMORY USAGE or OBJECT; false: an answer was given. */
static bool described(struct client *c, struct slice key, struct farkv_value *v)
{
	int err = farkv_get(c->kv, key.p, key.len, v);

	if (err == FARKV_ENOTFOUND)
		reply_null(c);
	else if (err)
		reply_store_error(c, err);
	return !err;
}

void resp_memory(struct client *c, const struct args *a)
{
	bool sampled = a->n == 5 && slice_is(a->v[3], "samples");
	struct farkv_value v;
	int64_t samples = 0;

	if (!slice_is(a->v[1], "usage"))
		reply_error(c, "ERR unknown subcommand '%.*s'. kvgate has MEMORY USAGE.",
			    REPLY_WORD(a->v[1]));
	else if (a->n == 2)
		reply_error(c, "ERR wrong number of arguments for 'memory' command");
	else if (sampled && !reply_or_i64(c, a->v[4], &samples))
		return;
	else if ((a->n != 3 && !sampled) || samples < 0)
		reply_syntax_error(c);
	else if (described(c, a->v[2], &v))
		reply_int(c, (int64_t)(v.len + a->v[2].len + ITEM_OVERHEAD));
}

void resp_object(struct client *c, const struct args *a)
{
	struct farkv_value v;
	int64_t n;

	if (a->n != 3) {
		reply_error(c, "ERR wrong number of arguments for 'object' command");
		return;
	}
	if (!slice_is(a->v[1], "encoding") && !slice_is(a->v[1], "refcount")) {
		reply_error(c, "ERR kvgate has OBJECT ENCODING and OBJECT REFCOUNT alone: the "
			       "store keeps no times or frequencies of access");
		return;
	}
	if (!described(c, a->v[2], &v))
		return;
	if (slice_is(a->v[1], "refcount"))
		reply_int(c, 1);
	else if (slice_i64((struct slice){v.data, v.len}, &n))
		reply_text(c, "int");
	else
		reply_text(c, v.len <= EMBEDDED_MAX ? "embstr" : "raw");
}

void resp_wait(struct client *c, const struct args *a)
{
	int64_t n, ms;

	if (!reply_or_i64(c, a->v[1], &n) || !reply_or_i64(c, a->v[2], &ms))
		return;
	if (ms < 0) {
		reply_error(c, "ERR timeout is negative");
	} else if (n <= 0 || !c->gate->waits) {
		reply_int(c, 0);
	} else {
		c->waiting = true;
		c->wait_ms = (uint64_t)ms;
	}
}
