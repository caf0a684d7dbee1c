/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A store that does nothing: every operation succeeds at once, every read
 * gives the same bytes at full length. A run against it shows what kvbench
 * itself costs.
 */
#include "config.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/err.h"
#include "common/clock.h"
#include "common/util.h"
#include "db.h"

static const struct db_ops stalling_ops;

/* A store that hangs once, to show what a report makes of it. */
struct null_params {
	uint64_t stall_ms; /* 0: it never does */
	uint64_t stall_at; /* which operation of the first session waits */
};

struct null_store {
	struct db_store base;
	char *value;
	size_t len;
	struct null_params params;
	atomic_flag stalling; /* a session has been chosen to hang */
};

struct null_db {
	struct db base;
	struct null_params stall;
	struct db_value value;
};

#define FIELD(f) offsetof(struct null_params, f)

static const struct prop_spec null_props[] = {
	{"null.stall_ms", PROP_U64, FIELD(stall_ms), "0", 0, 3600000, NULL},
	{"null.stall_at", PROP_U64, FIELD(stall_at), "500", 1, 0, NULL},
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
		return err_set(FARKV_ENOMEM, "no memory for a null session");
	n->base.ops = &db_null_ops;
	n->stall = s->params;
	if (s->params.stall_ms && !atomic_flag_test_and_set(&s->stalling))
		n->base.ops = &stalling_ops;
	n->value = (struct db_value){.data = s->value, .len = s->len};
	*db_out = &n->base;
	return 0;
}

static void null_close(struct db *db)
{
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

static const char *null_error(struct db *db)
{
	(void)db;
	return "";
}

const struct db_ops db_null_ops = {
	.name = "null",
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
	.error = null_error,
};

/* ---- with a stall; apart from the others, which it must cost nothing -------------- */

static void count(struct db *db)
{
	struct null_db *n = (struct null_db *)db;
	uint64_t end;

	if (n->stall.stall_at == 0 || --n->stall.stall_at > 0)
		return;
	end = clock_now_ns() + n->stall.stall_ms * NS_PER_MS;
	while (clock_now_ns() < end)
		clock_sleep_ns(NS_PER_MS);
}

static enum db_status stalling_read(struct db *db, const char *key,
				    size_t key_len, struct db_value *value_out)
{
	count(db);
	return null_read(db, key, key_len, value_out);
}

static enum db_status stalling_write(struct db *db, const char *key,
				     size_t key_len, const void *value,
				     size_t value_len)
{
	count(db);
	return null_write(db, key, key_len, value, value_len);
}

static const struct db_ops stalling_ops = {
	.name = "null",
	.init = null_init,
	.fini = null_fini,
	.open = null_open,
	.close = null_close,
	.read = stalling_read,
	.update = stalling_write,
	.insert = stalling_write,
	.remove = null_remove,
	.read_many = null_read_many,
	.write_many = null_write_many,
	.error = null_error,
};
