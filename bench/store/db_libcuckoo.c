/* SPDX-License-Identifier: BSD-3-Clause */
/* libcuckoo in this process: a hash table that no other process can use. */
#include "config.h"

#include <stdlib.h>

#include <farkv.h>

#include "common/base/err.h"
#include "common/base/util.h"

#include "cuckoo.h"
#include "db.h"

struct cuckoo_store {
	struct db_store base;
	struct cuckoo *map;
	size_t stride; /* of a value in the session's buffer */
};

struct cuckoo_db {
	struct db base;
	struct cuckoo_store *store;
	char *values; /* values read, of a batch one after the other */
	size_t cap;   /* values that fit */
};

static int lc_init(const struct db_setup *setup, struct db_store **store_out)
{
	struct cuckoo_store *s = calloc(1, sizeof(*s));

	if (!s)
		goto err_none;
	s->stride = util_align_up(setup->value_len + 1, 64);
	s->map = cuckoo_new(setup->records, setup->key_len, setup->value_len);
	if (!s->map)
		goto err_store;
	s->base.ops = &db_libcuckoo_ops;
	*store_out = &s->base;
	return 0;
err_store:
	free(s);
err_none:
	return err_set(FARKV_ENOMEM, "libcuckoo: no memory for %llu records",
		       (unsigned long long)setup->records);
}

static void lc_fini(struct db_store *store)
{
	struct cuckoo_store *s = (struct cuckoo_store *)store;

	cuckoo_free(s->map);
	free(s);
}

static bool lc_starts_empty(const struct db_store *store)
{
	(void)store;
	return true;
}

static int lc_open(struct db_store *store, struct db **db_out)
{
	struct cuckoo_store *s = (struct cuckoo_store *)store;
	struct cuckoo_db *d = calloc(1, sizeof(*d));

	if (!d)
		goto err_none;
	d->values = malloc(s->stride);
	if (!d->values)
		goto err_db;
	d->cap = 1;
	d->base.ops = &db_libcuckoo_ops;
	d->store = s;
	*db_out = &d->base;
	return 0;
err_db:
	free(d);
err_none:
	return err_set(FARKV_ENOMEM, "no memory for a libcuckoo session");
}

static void lc_close(struct db *db)
{
	free(((struct cuckoo_db *)db)->values);
	free(db);
}

static enum db_status get(struct cuckoo_db *d, const char *key, size_t key_len,
			  size_t at, struct db_value *value_out)
{
	char *buf = d->values + at * d->store->stride;
	int64_t n = cuckoo_get(d->store->map, key, key_len, buf);

	if (n < 0)
		return DB_NOT_FOUND;
	*value_out = (struct db_value){.data = buf, .len = (size_t)n};
	return DB_OK;
}

static enum db_status lc_read(struct db *db, const char *key, size_t key_len,
			      struct db_value *value_out)
{
	return get((struct cuckoo_db *)db, key, key_len, 0, value_out);
}

static enum db_status lc_write(struct db *db, const char *key, size_t key_len,
			       const void *value, size_t value_len)
{
	return cuckoo_put(((struct cuckoo_db *)db)->store->map, key, key_len,
			  value, value_len)
		       ? DB_ERROR
		       : DB_OK;
}

static enum db_status lc_remove(struct db *db, const char *key, size_t key_len)
{
	return cuckoo_remove(((struct cuckoo_db *)db)->store->map, key, key_len)
		       ? DB_NOT_FOUND
		       : DB_OK;
}

/* libcuckoo has no batches: one call per item. */
static void lc_read_many(struct db *db, struct db_item *items, size_t n)
{
	struct cuckoo_db *d = (struct cuckoo_db *)db;

	if (n > d->cap) {
		char *more = realloc(d->values, n * d->store->stride);

		for (size_t i = 0; !more && i < n; i++)
			items[i].status = DB_ERROR;
		if (!more)
			return;
		d->values = more;
		d->cap = n;
	}
	for (size_t i = 0; i < n; i++)
		items[i].status = get(d, items[i].key, items[i].key_len, i,
				      &items[i].value);
}

static void lc_write_many(struct db *db, struct db_item *items, size_t n)
{
	for (size_t i = 0; i < n; i++)
		items[i].status = lc_write(db, items[i].key, items[i].key_len,
					   items[i].value.data,
					   items[i].value.len);
}

static const char *lc_error(struct db *db)
{
	(void)db;
	return "out of memory";
}

const struct db_ops db_libcuckoo_ops = {
	.name = "libcuckoo",
	.summary = "libcuckoo, a hash table in this process",
	.init = lc_init,
	.fini = lc_fini,
	.open = lc_open,
	.close = lc_close,
	.read = lc_read,
	.update = lc_write,
	.insert = lc_write,
	.remove = lc_remove,
	.read_many = lc_read_many,
	.write_many = lc_write_many,
	.error = lc_error,
	.starts_empty = lc_starts_empty,
};
