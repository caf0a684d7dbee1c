/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "db.h"

#include <string.h>

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
	};

	return names[s];
}
