/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * LMDB, set up for speed as in its own benchmarks: no syncs, a writable map, and per thread
 * one read transaction that is reset and renewed around every get, which avoids the reader
 * table's lock. A get returns LMDB's own bytes, without a copy. Every write is a
 * transaction, and so is a batch of writes.
 */
#include "config.h"

#include <errno.h>
#include <limits.h>
#include <lmdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/err.h"
#include "common/base/util.h"

#include "db.h"

struct lmdb_params {
	const char *path;
	uint64_t mapsize;
	bool sync;
};

struct lmdb_store {
	struct db_store base;
	MDB_env *env;
	MDB_dbi dbi;
	bool temporary;
};

struct lmdb_db {
	struct db base;
	struct lmdb_store *store;
	MDB_txn *reader; /* reset between reads */
	bool reading;    /* renewed: the last value is in use */
	int last_error;
};

#define FIELD(f) offsetof(struct lmdb_params, f)

static const struct prop_spec lmdb_props[] = {
	{"lmdb.path", PROP_STR, FIELD(path), NULL, 0, 0, NULL},
	{"lmdb.mapsize", PROP_U64, FIELD(mapsize), "0", 0, 0, NULL},
	{"lmdb.sync", PROP_BOOL, FIELD(sync), "false", 0, 0, NULL},
};

static int fail(int rc, const char *what, const char *path)
{
	return err_set(rc == ENOMEM ? FARKV_ENOMEM : FARKV_ESYS,
		       "lmdb: cannot %s %s: %s", what, path, mdb_strerror(rc));
}

/* Pages are at least half full; large values take whole pages. */
static size_t map_size(const struct lmdb_params *p, const struct db_setup *s)
{
	uint64_t item = s->key_len + s->value_len + 64;

	if (p->mapsize)
		return (size_t)p->mapsize;
	if (s->value_len > 1500)
		item += 4096;
	return (size_t)(s->records * item * 3 + (UINT64_C(256) << 20));
}

/* A directory in memory if there is one. */
static int make_temporary(char *path, size_t cap)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(path, cap, "/dev/shm/kvbench-lmdb.XXXXXX");
	if (mkdtemp(path))
		return 0;
	snprintf(path, cap, "%s/kvbench-lmdb.XXXXXX", tmp ? tmp : "/tmp");
	if (mkdtemp(path))
		return 0;
	return err_set_errno(FARKV_ESYS, errno,
			     "lmdb: cannot make a directory %s", path);
}

/* Unlink at once: the files exist until the process ends, even by a crash. */
static void unlink_temporary(const char *path)
{
	char file[PATH_MAX + 16];

	snprintf(file, sizeof(file), "%s/data.mdb", path);
	unlink(file);
	snprintf(file, sizeof(file), "%s/lock.mdb", path);
	unlink(file);
	rmdir(path);
}

/* A run with a mistyped path must not leave a database. */
static int prepare_path(const struct db_setup *setup, const char *path)
{
	char file[PATH_MAX + 16];

	snprintf(file, sizeof(file), "%s/data.mdb", path);
	if (setup->loads)
		mkdir(path, 0700); /* failure shows when opening */
	else if (access(file, F_OK))
		return err_set(FARKV_EINVAL,
			       "lmdb.path: %s has no database; load one with "
			       "kvbench load lmdb and this path", path);
	return 0;
}

static int open_dbi(struct lmdb_store *s, const char *path)
{
	MDB_txn *txn;
	int rc = mdb_txn_begin(s->env, NULL, 0, &txn);

	if (rc)
		return fail(rc, "begin a transaction in", path);
	rc = mdb_dbi_open(txn, NULL, 0, &s->dbi);
	if (rc) {
		mdb_txn_abort(txn);
		return fail(rc, "open the database in", path);
	}
	rc = mdb_txn_commit(txn);
	return rc ? fail(rc, "commit to", path) : 0;
}

static int open_env(struct lmdb_store *s, const struct db_setup *setup,
		    const struct lmdb_params *p, const char *path)
{
	unsigned flags = MDB_NOTLS | MDB_NORDAHEAD;
	int rc = mdb_env_create(&s->env);

	if (rc)
		return fail(rc, "make an environment for", path);
	if (!p->sync)
		flags |= MDB_NOSYNC | MDB_NOMETASYNC | MDB_WRITEMAP;
	rc = mdb_env_set_mapsize(s->env, map_size(p, setup));
	if (!rc)
		rc = mdb_env_set_maxreaders(s->env, setup->threads + 16);
	if (!rc)
		rc = mdb_env_open(s->env, path, flags, 0600);
	if (!rc)
		return open_dbi(s, path);
	return fail(rc, "open", path);
}

static int lmdb_init(const struct db_setup *setup, struct db_store **store_out)
{
	struct lmdb_store *s = calloc(1, sizeof(*s));
	struct lmdb_params p = {0};
	char path[PATH_MAX];
	int err;

	if (!s)
		return err_set(FARKV_ENOMEM, "no memory for the lmdb binding");
	err = props_read(setup->props, lmdb_props, ARRAY_SIZE(lmdb_props), &p);
	if (err)
		goto err_store;
	s->temporary = !p.path || !*p.path;
	if (s->temporary) {
		err = make_temporary(path, sizeof(path));
	} else {
		snprintf(path, sizeof(path), "%s", p.path);
		err = prepare_path(setup, path);
	}
	if (err)
		goto err_store;
	err = open_env(s, setup, &p, path);
	if (s->temporary)
		unlink_temporary(path);
	if (err)
		goto err_env;
	s->base.ops = &db_lmdb_ops;
	*store_out = &s->base;
	return 0;
err_env:
	if (s->env)
		mdb_env_close(s->env);
err_store:
	free(s);
	return err;
}

static void lmdb_fini(struct db_store *store)
{
	struct lmdb_store *s = (struct lmdb_store *)store;

	mdb_env_close(s->env);
	free(s);
}

static bool lmdb_starts_empty(const struct db_store *store)
{
	return ((const struct lmdb_store *)store)->temporary;
}

static int lmdb_open(struct db_store *store, struct db **db_out)
{
	struct lmdb_store *s = (struct lmdb_store *)store;
	struct lmdb_db *d = calloc(1, sizeof(*d));
	int rc;

	if (!d)
		return err_set(FARKV_ENOMEM, "no memory for an lmdb session");
	rc = mdb_txn_begin(s->env, NULL, MDB_RDONLY, &d->reader);
	if (rc) {
		free(d);
		return fail(rc, "begin", "a read transaction");
	}
	mdb_txn_reset(d->reader);
	d->base.ops = &db_lmdb_ops;
	d->store = s;
	*db_out = &d->base;
	return 0;
}

static void lmdb_close(struct db *db)
{
	struct lmdb_db *d = (struct lmdb_db *)db;

	mdb_txn_abort(d->reader);
	free(d);
}

static enum db_status status_of(struct lmdb_db *d, int rc)
{
	if (!rc)
		return DB_OK;
	d->last_error = rc;
	switch (rc) {
	case MDB_NOTFOUND:
		return DB_NOT_FOUND;
	case MDB_BAD_VALSIZE:
		return DB_BAD_REQUEST;
	case MDB_MAP_FULL:
		return DB_NO_SPACE;
	default:
		return DB_ERROR;
	}
}

/* Release the value of the last read. */
static void end_read(struct lmdb_db *d)
{
	if (d->reading)
		mdb_txn_reset(d->reader);
	d->reading = false;
}

static int begin_read(struct lmdb_db *d)
{
	int rc;

	end_read(d);
	rc = mdb_txn_renew(d->reader);
	d->reading = !rc;
	return rc;
}

static int get(struct lmdb_db *d, const char *key, size_t key_len,
	       struct db_value *value_out)
{
	MDB_val k = {.mv_size = key_len, .mv_data = (void *)(uintptr_t)key};
	MDB_val v;
	int rc = mdb_get(d->reader, d->store->dbi, &k, &v);

	if (rc)
		return rc;
	value_out->data = v.mv_data;
	value_out->len = v.mv_size;
	return 0;
}

static enum db_status lmdb_read(struct db *db, const char *key, size_t key_len,
				struct db_value *value_out)
{
	struct lmdb_db *d = (struct lmdb_db *)db;
	int rc = begin_read(d);

	if (!rc)
		rc = get(d, key, key_len, value_out);
	return status_of(d, rc);
}

static void lmdb_read_many(struct db *db, struct db_item *items, size_t n)
{
	struct lmdb_db *d = (struct lmdb_db *)db;
	int begun = begin_read(d);

	for (size_t i = 0; i < n; i++) {
		int rc = begun;

		if (!rc)
			rc = get(d, items[i].key, items[i].key_len,
				 &items[i].value);
		items[i].status = status_of(d, rc);
	}
}

static void lmdb_write_many(struct db *db, struct db_item *items, size_t n)
{
	struct lmdb_db *d = (struct lmdb_db *)db;
	MDB_txn *txn;
	int rc;

	end_read(d);
	rc = mdb_txn_begin(d->store->env, NULL, 0, &txn);
	for (size_t i = 0; i < n && !rc; i++) {
		MDB_val k = {.mv_size = items[i].key_len,
			     .mv_data = (void *)(uintptr_t)items[i].key};
		MDB_val v = {.mv_size = items[i].value.len,
			     .mv_data = (void *)(uintptr_t)items[i].value.data};

		rc = mdb_put(txn, d->store->dbi, &k, &v, 0);
		if (rc)
			mdb_txn_abort(txn);
	}
	if (!rc)
		rc = mdb_txn_commit(txn);
	/* One transaction: all items or none. */
	for (size_t i = 0; i < n; i++)
		items[i].status = status_of(d, rc);
}

static enum db_status lmdb_remove(struct db *db, const char *key,
				  size_t key_len)
{
	struct lmdb_db *d = (struct lmdb_db *)db;
	MDB_val k = {.mv_size = key_len, .mv_data = (void *)(uintptr_t)key};
	MDB_txn *txn;
	int rc;

	end_read(d);
	rc = mdb_txn_begin(d->store->env, NULL, 0, &txn);
	if (rc)
		return status_of(d, rc);
	rc = mdb_del(txn, d->store->dbi, &k, NULL);
	if (rc)
		mdb_txn_abort(txn);
	else
		rc = mdb_txn_commit(txn);
	return status_of(d, rc);
}

static const char *lmdb_error(struct db *db)
{
	return mdb_strerror(((struct lmdb_db *)db)->last_error);
}

const struct db_ops db_lmdb_ops = {
	.name = "lmdb",
	.props = lmdb_props,
	.n_props = ARRAY_SIZE(lmdb_props),
	.summary = "LMDB in this process, without syncs; a transaction per get",
	.init = lmdb_init,
	.fini = lmdb_fini,
	.open = lmdb_open,
	.close = lmdb_close,
	.read = lmdb_read,
	.update = db_write_one,
	.insert = db_write_one,
	.remove = lmdb_remove,
	.read_many = lmdb_read_many,
	.write_many = lmdb_write_many,
	.error = lmdb_error,
	.starts_empty = lmdb_starts_empty,
};
