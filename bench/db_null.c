/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A store that does nothing: every operation succeeds at once, every read
 * gives the same bytes at full length. A run against it shows what kvbench
 * itself costs.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "common/err.h"
#include "db.h"

struct null_store {
	struct db_store base;
	char *value;
	size_t len;
};

struct null_db {
	struct db base;
	struct db_value value;
};

static int null_init(const struct db_setup *setup, struct db_store **store_out)
{
	struct null_store *s = calloc(1, sizeof(*s));

	if (!s)
		goto err_none;
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
