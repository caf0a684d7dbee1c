/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The public functions that compute a value from the current one: counters and appends. Each is a
 * get and a cas, repeated until no other write came in between. They are one call of the handle:
 * with one deadline, and inside the critical section except between two attempts.
 */
#include "config.h"

#include "public.h"

#include "call.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/backoff.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/index/try.h"

#include "router.h"
#include "router_map.h"
#include "timed.h"

/* Digits of the largest number. */
#define DIGITS_MAX 20u

/* A change of a key's value. */
struct update {
	const void *key;
	size_t key_len;
	/*
	 * Compute `value` from the current one, NULL if there is none (only if `creates`). An error
	 * ends the call.
	 */
	int (*make)(const struct farkv *kv, struct update *u, const struct block_view *old);
	bool creates;
	const void *value;
	size_t value_len;

	/* a counter's */
	uint64_t delta, initial, number;
	uint64_t ttl_ms; /* of `initial` */
	bool down;
	char text[DIGITS_MAX];

	/* an append's */
	const void *part;
	size_t part_len;
	bool before;
	uint8_t *whole; /* `room` bytes on the heap, or NULL */
	size_t room;
};

/* ---- the loop ------------------------------------------------------------------------ */

/* Run the handle's operation to its end; returns its result. */
static int run(struct farkv *kv)
{
	struct index_op *op = &kv->op;

	if (!index_try(kv->conn.index, op))
		handle_run(kv, &op, 1, 0);
	return op->result ? handle_result(kv, op->result) : 0;
}

/* Write the value that was computed from `old`, NULL if there was none. */
static int write_value(struct farkv *kv, const struct update *u, const struct index_key *key,
		       const struct block_view *old)
{
	struct index_op *op = &kv->op;
	int err = handle_value(kv, u->value, u->value_len);

	if (err)
		return err;
	index_op_start(op, old ? INDEX_CAS : INDEX_ADD, key, u->value, (uint32_t)u->value_len);
	if (old) {
		op->expected = old->version;
		op->expires.at = old->expiry;
		op->expires.flags = old->flags & BLOCK_SECONDS;
		op->user = old->user;
	} else {
		op->ttl_ms = u->ttl_ms;
	}
	err = run(kv);
	handle_count(kv, op->kind, err, 1);
	if (!err)
		handle_after(kv, op);
	/* The value was deleted, or the key got one, since the get. */
	if (err == FARKV_EEXISTS || (err == FARKV_ENOTFOUND && u->creates))
		err = FARKV_EVERSION;
	return err;
}

/* Get, make, cas. FARKV_EVERSION: another write came in between. */
static int attempt(struct farkv *kv, struct update *u)
{
	struct index_op *op = &kv->op;
	struct block_view old;
	struct index_key key;
	int err = handle_writable(kv);

	if (!err)
		err = handle_key(kv, u->key, u->key_len, &key);
	if (err)
		return err;
	index_op_start(op, INDEX_GET, &key, NULL, 0);
	err = run(kv);
	if (err && (err != FARKV_ENOTFOUND || !u->creates))
		return err;
	if (err) {
		err = u->make(kv, u, NULL);
		return err ? err : write_value(kv, u, &key, NULL);
	}
	old = op->view;
	err = u->make(kv, u, &old);
	return err ? err : write_value(kv, u, &key, &old);
}

static int attempts(struct farkv *kv, struct update *u)
{
	struct backoff backoff = {0};
	int err;

	while ((err = attempt(kv, u)) == FARKV_EVERSION) {
		if (clock_now_ns() >= kv->deadline_ns)
			return err_set(FARKV_ETIMEDOUT,
				       "others wrote the key all the time; nothing was changed");
		backoff_wait(&backoff, 0, kv->last_id);
		handle_pause(kv);
	}
	return err;
}

static int update_in_cluster(struct farkv *kv, struct update *u);

/* NOLINTBEGIN(misc-no-recursion): once, from a cluster's handle to its member's. */
static int update(struct farkv *kv, struct update *u)
{
	int err;

	err_clear();
	if (!kv)
		return handle_missing();
	err = handle_begin(kv);
	if (err == HANDLE_CLUSTER)
		return update_in_cluster(kv, u);
	if (err)
		return err;
	err = attempts(kv, u);
	handle_end(kv);
	return err;
}

static int update_in_cluster(struct farkv *kv, struct update *u)
{
	struct router_call c = {.kv = kv, .key = u->key, .key_len = u->key_len, .writes = true};
	int err;

	do {
		err = router_enter(&c);
		if (err)
			return err;
		err = update(c.member, u);
	} while (kv->router->leased && c.member != kv && router_again(&c, &err));
	return err;
}
/* NOLINTEND(misc-no-recursion) */

static int timed_update(struct farkv *kv, struct update *u)
{
	uint64_t began = timed_begin(kv);
	int err = update(kv, u);

	return timed_end(kv, FARKV_LATENCY_UPDATE, err, began);
}

/* ---- counters ------------------------------------------------------------------------ */

/* Digits, and blanks after them: memcached leaves these where a number gets shorter. */
static bool parse_number(const uint8_t *text, size_t len, uint64_t *number_out)
{
	uint64_t number = 0;
	size_t at = 0;

	for (; at < len && text[at] >= '0' && text[at] <= '9'; at++) {
		unsigned digit = text[at] - (unsigned)'0';

		if (number > (UINT64_MAX - digit) / 10)
			return false;
		number = number * 10 + digit;
	}
	if (at == 0)
		return false;
	while (at < len && text[at] == ' ')
		at++;
	*number_out = number;
	return at == len;
}

static void print_number(struct update *u)
{
	char *at = u->text + sizeof(u->text);
	uint64_t rest = u->number;

	do {
		*--at = (char)('0' + rest % 10);
		rest /= 10;
	} while (rest);
	u->value = at;
	u->value_len = (size_t)(u->text + sizeof(u->text) - at);
}

static int make_number(const struct farkv *kv, struct update *u, const struct block_view *old)
{
	uint64_t was;

	(void)kv;
	if (!old)
		u->number = u->initial;
	else if (!parse_number(old->value, old->value_len, &was))
		return err_set(FARKV_EINVAL,
			       "the value, of %u bytes, is no decimal number below 2^64: it "
			       "cannot be counted up or down",
			       old->value_len);
	else if (u->down)
		u->number = was > u->delta ? was - u->delta : 0;
	else
		u->number = was + u->delta;
	print_number(u);
	return 0;
}

static int options_take(const char *call, const struct farkv_incr_options *o, struct update *u)
{
	u->delta = 1;
	if (!o)
		return 0;
	if (o->size != sizeof(*o))
		return err_set(FARKV_EINVAL, "%s: the options' size is %zu, not %zu", call,
			       o->size, sizeof(*o));
	if ((o->flags & ~(uint32_t)FARKV_INCR_CREATE) || o->reserved)
		return err_set(FARKV_EINVAL, "%s: unknown flags %#x, or reserved is not 0", call,
			       o->flags);
	if (o->ttl_ms > FARKV_TTL_MAX_MS)
		return err_set(FARKV_EINVAL, "%s: ttl_ms is %llu; at most %llu, and 0 is never", call,
			       (unsigned long long)o->ttl_ms,
			       (unsigned long long)FARKV_TTL_MAX_MS);
	u->delta = o->delta;
	u->initial = o->initial;
	u->ttl_ms = o->ttl_ms;
	u->creates = o->flags & FARKV_INCR_CREATE;
	return 0;
}

static int count(struct farkv *kv, struct update *u, const struct farkv_incr_options *opts,
		 uint64_t *value_out)
{
	int err = options_take(u->down ? "farkv_decr" : "farkv_incr", opts, u);

	u->make = make_number;
	if (!err)
		err = timed_update(kv, u);
	if (!err && value_out)
		*value_out = u->number;
	return err;
}

int farkv_incr(struct farkv *kv, const void *key, size_t key_len,
	       const struct farkv_incr_options *opts, uint64_t *value_out)
{
	struct update u = {.key = key, .key_len = key_len};

	return count(kv, &u, opts, value_out);
}

int farkv_decr(struct farkv *kv, const void *key, size_t key_len,
	       const struct farkv_incr_options *opts, uint64_t *value_out)
{
	struct update u = {.key = key, .key_len = key_len, .down = true};

	return count(kv, &u, opts, value_out);
}

/* ---- appends ------------------------------------------------------------------------- */

static int grow(struct update *u, size_t len)
{
	if (u->whole && len <= u->room)
		return 0;
	free(u->whole);
	u->whole = malloc(len ? len : 1);
	u->room = u->whole ? len : 0;
	return u->whole ? 0 : err_set(FARKV_ENOMEM, "no memory for a value of %zu bytes", len);
}

static void copy(uint8_t *to, const void *from, size_t len)
{
	if (len > 0)
		memcpy(to, from, len);
}

static int make_whole(const struct farkv *kv, struct update *u, const struct block_view *old)
{
	size_t len = old->value_len + u->part_len;
	int err = handle_value(kv, "", len); /* before anything is copied */

	if (!err)
		err = grow(u, len);
	if (err)
		return err;
	copy(u->whole + (u->before ? u->part_len : 0), old->value, old->value_len);
	copy(u->whole + (u->before ? 0 : old->value_len), u->part, u->part_len);
	u->value = u->whole;
	u->value_len = len;
	return 0;
}

static int extend(struct farkv *kv, struct update *u)
{
	int err;

	if (!u->part && u->part_len > 0)
		return err_set(FARKV_EINVAL, "the data are NULL but have %zu bytes", u->part_len);
	/* Longer than any value: the sum of lengths must not wrap. */
	if (u->part_len > UINT32_MAX)
		return err_set(FARKV_ETOOLARGE, "the data have %zu bytes, no store takes as many",
			       u->part_len);
	u->make = make_whole;
	err = timed_update(kv, u);
	free(u->whole);
	return err;
}

int farkv_append(struct farkv *kv, const void *key, size_t key_len, const void *data,
		 size_t data_len)
{
	struct update u = {.key = key, .key_len = key_len, .part = data, .part_len = data_len};

	return extend(kv, &u);
}

int farkv_prepend(struct farkv *kv, const void *key, size_t key_len, const void *data,
		  size_t data_len)
{
	struct update u = {.key = key, .key_len = key_len, .part = data, .part_len = data_len,
			   .before = true};

	return extend(kv, &u);
}
