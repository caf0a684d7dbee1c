/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A store that does nothing: every operation succeeds at once, every read gives the same
 * bytes in full length. A run against it shows the cost of kvbench itself.
 */
#include "config.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/util.h"

#include "db.h"

static const struct db_ops slow_ops;

/* Delays, to show how reports present them. */
struct null_params {
	uint64_t stall_ms; /* 0: never */
	uint64_t stall_at; /* operation of the first session that stalls */
	uint64_t delay_us; /* delay of every operation */
};

struct null_store {
	struct db_store base;
	char *value;
	size_t len;
	struct null_params params;
	unsigned queue_depth;
	atomic_flag stalling; /* a session was chosen to stall */
};

/* A request in flight. */
struct null_request {
	uint64_t tag;
	uint64_t ready_ns; /* when it will be complete */
};

struct null_db {
	struct db base;
	struct null_params slow; /* stall_ms is 0 except in the session that stalls */
	uint64_t hangs_until_ns;
	struct db_value value;
	/* Ring in the order of submission, which is also that of completion. */
	struct null_request *queue;
	unsigned depth, first, n;
};

#define FIELD(f) offsetof(struct null_params, f)

static const struct prop_spec null_props[] = {
	{"null.stall_ms", PROP_U64, FIELD(stall_ms), "0", 0, 3600000, NULL},
	{"null.stall_at", PROP_U64, FIELD(stall_at), "500", 1, 0, NULL},
	{"null.delay_us", PROP_U64, FIELD(delay_us), "0", 0, 60000000, NULL},
};

static int null_init(const struct db_setup *setup, struct db_store **store_out)
{
	struct null_store *s = calloc(1, sizeof(*s));

	if (!s)
		goto err_none;
	if (props_read(setup->props, null_props, ARRAY_SIZE(null_props),
		       &s->params)) {
		free(s);
		return FARKV_EINVAL;
	}
	s->len = setup->value_len;
	s->queue_depth = setup->queue_depth;
	s->value = malloc(s->len + 1);
	if (!s->value)
		goto err_store;
	memset(s->value, '0', s->len);
	s->base.ops = &db_null_ops;
	*store_out = &s->base;
	return 0;
err_store:
	free(s);
err_none:
	return err_set(FARKV_ENOMEM, "no memory for the null binding");
}

static void null_fini(struct db_store *store)
{
	struct null_store *s = (struct null_store *)store;

	free(s->value);
	free(s);
}

static int null_open(struct db_store *store, struct db **db_out)
{
	struct null_store *s = (struct null_store *)store;
	struct null_db *n = calloc(1, sizeof(*n));

	if (!n)
		goto err_none;
	n->depth = s->queue_depth;
	n->queue = calloc(n->depth + 1, sizeof(*n->queue));
	if (!n->queue)
		goto err_session;
	n->slow = s->params;
	if (!s->params.stall_ms || atomic_flag_test_and_set(&s->stalling))
		n->slow.stall_ms = 0;
	n->base.ops = n->slow.stall_ms || n->slow.delay_us ? &slow_ops
							   : &db_null_ops;
	n->value = (struct db_value){.data = s->value, .len = s->len};
	*db_out = &n->base;
	return 0;
err_session:
	free(n);
err_none:
	return err_set(FARKV_ENOMEM, "no memory for a null session");
}

static void null_close(struct db *db)
{
	free(((struct null_db *)db)->queue);
	free(db);
}

static enum db_status null_read(struct db *db, const char *key, size_t key_len,
				struct db_value *value_out)
{
	(void)key;
	(void)key_len;
	*value_out = ((struct null_db *)db)->value;
	return DB_OK;
}

static enum db_status null_write(struct db *db, const char *key,
				 size_t key_len, const void *value,
				 size_t value_len)
{
	(void)db;
	(void)key;
	(void)key_len;
	(void)value;
	(void)value_len;
	return DB_OK;
}

static enum db_status null_remove(struct db *db, const char *key,
				  size_t key_len)
{
	(void)db;
	(void)key;
	(void)key_len;
	return DB_OK;
}

static void null_read_many(struct db *db, struct db_item *items, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		items[i].value = ((struct null_db *)db)->value;
		items[i].status = DB_OK;
	}
}

static void null_write_many(struct db *db, struct db_item *items, size_t n)
{
	(void)db;
	for (size_t i = 0; i < n; i++)
		items[i].status = DB_OK;
}

/* True if this operation stalls. */
static bool hangs(struct null_db *n)
{
	return n->slow.stall_ms && n->slow.stall_at &&
	       --n->slow.stall_at == 0;
}

static enum db_status null_submit(struct db *db, const struct db_request *r)
{
	struct null_db *n = (struct null_db *)db;
	uint64_t now = clock_now_ns();

	if (n->n == n->depth)
		return DB_ERROR;
	if (hangs(n))
		n->hangs_until_ns = now + n->slow.stall_ms * NS_PER_MS;
	n->queue[(n->first + n->n++) % n->depth] = (struct null_request){
		r->tag, now + n->slow.delay_us * 1000};
	return DB_OK;
}

static enum db_status null_poll(struct db *db, struct db_completion *out,
				size_t *n_out)
{
	struct null_db *n = (struct null_db *)db;
	uint64_t now = clock_now_ns();
	size_t k = 0;

	while (k < DB_POLL_MAX && n->n && now >= n->hangs_until_ns &&
	       now >= n->queue[n->first].ready_ns) {
		out[k++] = (struct db_completion){
			.tag = n->queue[n->first].tag, .value = n->value};
		n->first = (n->first + 1) % n->depth;
		n->n--;
	}
	*n_out = k;
	return DB_OK;
}

static const char *null_error(struct db *db)
{
	(void)db;
	return "";
}

const struct db_ops db_null_ops = {
	.name = "null",
	.props = null_props,
	.n_props = ARRAY_SIZE(null_props),
	.summary = "does nothing; shows the cost of kvbench itself",
	.forks = true,
	.init = null_init,
	.fini = null_fini,
	.open = null_open,
	.close = null_close,
	.read = null_read,
	.update = null_write,
	.insert = null_write,
	.remove = null_remove,
	.read_many = null_read_many,
	.write_many = null_write_many,
	.submit = null_submit,
	.poll = null_poll,
	.error = null_error,
};

/* ---- delayed calls, separate so that the others stay fast ------------------------- */

static void take_time(struct db *db, size_t ops)
{
	struct null_db *n = (struct null_db *)db;
	uint64_t now = clock_now_ns(), end;

	end = now + ops * n->slow.delay_us * 1000;
	for (size_t i = 0; i < ops; i++)
		if (hangs(n))
			end += n->slow.stall_ms * NS_PER_MS;
	while ((now = clock_now_ns()) < end)
		if (end - now >= NS_PER_MS)
			clock_sleep_ns(NS_PER_MS);
}

static enum db_status slow_read(struct db *db, const char *key,
				    size_t key_len, struct db_value *value_out)
{
	take_time(db, 1);
	return null_read(db, key, key_len, value_out);
}

static enum db_status slow_write(struct db *db, const char *key,
				     size_t key_len, const void *value,
				     size_t value_len)
{
	take_time(db, 1);
	return null_write(db, key, key_len, value, value_len);
}

/* Takes as long as single calls. */
static void slow_read_many(struct db *db, struct db_item *items, size_t n)
{
	take_time(db, n);
	null_read_many(db, items, n);
}

static void slow_write_many(struct db *db, struct db_item *items, size_t n)
{
	take_time(db, n);
	null_write_many(db, items, n);
}

static const struct db_ops slow_ops = {
	.name = "null",
	.init = null_init,
	.fini = null_fini,
	.open = null_open,
	.close = null_close,
	.read = slow_read,
	.update = slow_write,
	.insert = slow_write,
	.remove = null_remove,
	.read_many = slow_read_many,
	.write_many = slow_write_many,
	.submit = null_submit,
	.poll = null_poll,
	.error = null_error,
};
