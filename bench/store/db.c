/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "db.h"

#include <stdlib.h>
#include <string.h>

#include <farkv.h>

#include "common/base/err.h"
#include "common/base/util.h"

const struct db_ops *const db_bindings[] = {
	&db_farkv_ops,
	&db_null_ops,
	&db_memcached_ops,
#ifdef HAVE_HIREDIS
	&db_redis_ops,
#endif
#ifdef HAVE_LMDB
	&db_lmdb_ops,
#endif
#ifdef HAVE_LIBCUCKOO
	&db_libcuckoo_ops,
#endif
	NULL,
};

const struct db_ops *db_find(const char *name, size_t name_len)
{
	for (size_t i = 0; db_bindings[i]; i++)
		if (strlen(db_bindings[i]->name) == name_len &&
		    !memcmp(db_bindings[i]->name, name, name_len))
			return db_bindings[i];
	return NULL;
}

const char *db_status_name(enum db_status s)
{
	static const char *const names[DB_STATUS_COUNT] = {
		[DB_OK] = "OK",
		[DB_ERROR] = "ERROR",
		[DB_NOT_FOUND] = "NOT_FOUND",
		[DB_NOT_IMPLEMENTED] = "NOT_IMPLEMENTED",
		[DB_UNEXPECTED_STATE] = "UNEXPECTED_STATE",
		[DB_BAD_REQUEST] = "BAD_REQUEST",
		[DB_FORBIDDEN] = "FORBIDDEN",
		[DB_SERVICE_UNAVAILABLE] = "SERVICE_UNAVAILABLE",
		[DB_NO_SPACE] = "NO_SPACE",
	};

	return names[s];
}

static void read_value(struct db *db, struct db_item *it)
{
	it->status = db->ops->read(db, it->key, it->key_len, &it->value);
}

enum db_status db_write_one(struct db *db, const char *key, size_t key_len,
			    const void *value, size_t value_len)
{
	struct db_item item = {.key = key,
			       .key_len = key_len,
			       .value = {.data = value, .len = value_len}};

	db->ops->write_many(db, &item, 1);
	return item.status;
}

void db_exists(struct db *db, struct db_item *items, size_t n)
{
	for (size_t i = 0; i < n && !db->ops->exists; i++)
		read_value(db, &items[i]);
	for (size_t i = 0; i < n && db->ops->exists; i += DB_BATCH_MAX)
		db->ops->exists(db, items + i,
				UTIL_MIN(n - i, (size_t)DB_BATCH_MAX));
}

static void read_and_copy(struct db *db, struct db_item *it)
{
	read_value(db, it);
	if (it->status == DB_OK && it->value.len > it->cap)
		it->status = DB_UNEXPECTED_STATE;
	if (it->status != DB_OK)
		return;
	memcpy(it->into, it->value.data, it->value.len);
	it->value.data = it->into;
}

void db_read_into(struct db *db, struct db_item *items, size_t n)
{
	for (size_t i = 0; i < n && !db->ops->read_into; i++)
		read_and_copy(db, &items[i]);
	for (size_t i = 0; i < n && db->ops->read_into; i += DB_BATCH_MAX)
		db->ops->read_into(db, items + i,
				   UTIL_MIN(n - i, (size_t)DB_BATCH_MAX));
}

void *db_buf_new(struct db *db, size_t bytes)
{
	void *buf;

	if (db->ops->buf_new)
		return db->ops->buf_new(db, bytes);
	buf = aligned_alloc(4096, util_align_up(bytes, 4096));
	if (!buf)
		err_set(FARKV_ENOMEM, "no memory for %zu bytes of values", bytes);
	return buf;
}

void db_buf_free(struct db *db, void *buf)
{
	if (db->ops->buf_free)
		db->ops->buf_free(db, buf);
	else
		free(buf);
}
