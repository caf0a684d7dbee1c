/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Redis (or a server of its protocol) through hiredis, over a Unix socket or TCP: a value
 * is a string, a batch of reads is one MGET, a batch of writes is many SET in one send.
 */
#include "config.h"

#include <hiredis/hiredis.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <farkv.h>

#include "common/base/err.h"
#include "common/base/util.h"

#include "address.h"
#include "db.h"

struct redis_params {
	const char *uri;
	uint64_t timeout_ms;
};

struct redis_store {
	struct db_store base;
	struct redis_params params;
	struct address address;
};

struct redis_db {
	struct db base;
	redisContext *redis;
	redisReply *reply; /* of the last read: its values are in use */
	char error[256];
};

#define FIELD(f) offsetof(struct redis_params, f)

static const struct prop_spec redis_props[] = {
	{"redis.uri", PROP_STR, FIELD(uri), "127.0.0.1", 0, 0, NULL},
	{"redis.timeout_ms", PROP_U64, FIELD(timeout_ms), "5000", 1, 3600000,
	 NULL},
};

static int redis_init(const struct db_setup *setup, struct db_store **store_out)
{
	struct redis_store *s = calloc(1, sizeof(*s));
	int err;

	if (!s)
		return err_set(FARKV_ENOMEM, "no memory for the redis binding");
	err = props_read(setup->props, redis_props, ARRAY_SIZE(redis_props),
			 &s->params);
	if (!err)
		err = address_parse("redis.uri", s->params.uri, 6379,
				    &s->address);
	if (err) {
		free(s);
		return err;
	}
	s->base.ops = &db_redis_ops;
	*store_out = &s->base;
	return 0;
}

static void redis_fini(struct db_store *store)
{
	free(store);
}

static redisContext *connect_to(const struct address *a, uint64_t timeout_ms)
{
	struct timeval tv = {.tv_sec = (time_t)(timeout_ms / 1000),
			     .tv_usec = (suseconds_t)(timeout_ms % 1000 * 1000)};
	redisContext *c = a->path[0]
				  ? redisConnectUnixWithTimeout(a->path, tv)
				  : redisConnectWithTimeout(a->host, a->port,
							    tv);

	if (c && !c->err)
		redisSetTimeout(c, tv);
	return c;
}

/* hiredis sends without MSG_NOSIGNAL; a closed connection must give an error, not SIGPIPE. */
static void block_sigpipe(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGPIPE);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
}

static int redis_open(struct db_store *store, struct db **db_out)
{
	struct redis_store *s = (struct redis_store *)store;
	struct redis_db *d = calloc(1, sizeof(*d));
	int err;

	if (!d)
		goto err_none;
	d->redis = connect_to(&s->address, s->params.timeout_ms);
	if (!d->redis)
		goto err_db;
	if (d->redis->err) {
		err = err_set(FARKV_EUNREACHABLE,
			      "redis: cannot connect to %s: %s", s->params.uri,
			      d->redis->errstr);
		redisFree(d->redis);
		free(d);
		return err;
	}
	block_sigpipe(); /* for this thread, which makes all calls */
	d->base.ops = &db_redis_ops;
	*db_out = &d->base;
	return 0;
err_db:
	free(d);
err_none:
	return err_set(FARKV_ENOMEM, "no memory for a redis session");
}

static void redis_close(struct db *db)
{
	struct redis_db *d = (struct redis_db *)db;

	if (d->reply)
		freeReplyObject(d->reply);
	redisFree(d->redis);
	free(d);
}

/* Replace the last reply, which releases its values. */
static void keep(struct redis_db *d, redisReply *reply)
{
	if (d->reply)
		freeReplyObject(d->reply);
	d->reply = reply;
}

static enum db_status failed(struct redis_db *d, const redisReply *r)
{
	if (!r) {
		snprintf(d->error, sizeof(d->error), "%s",
			 d->redis->errstr[0] ? d->redis->errstr
					     : "redis gave no answer");
		return DB_SERVICE_UNAVAILABLE;
	}
	snprintf(d->error, sizeof(d->error), "%s",
		 r->type == REDIS_REPLY_ERROR ? r->str
					      : "redis gave a strange answer");
	/* maxmemory without eviction. */
	return !strncmp(d->error, "OOM ", 4) ? DB_NO_SPACE : DB_ERROR;
}

static enum db_status value_of(struct redis_db *d, const redisReply *r,
			       struct db_value *out)
{
	if (r && r->type == REDIS_REPLY_NIL)
		return DB_NOT_FOUND;
	if (!r || r->type != REDIS_REPLY_STRING)
		return failed(d, r);
	*out = (struct db_value){.data = r->str, .len = r->len};
	return DB_OK;
}

static enum db_status redis_read(struct db *db, const char *key, size_t key_len,
				 struct db_value *value_out)
{
	struct redis_db *d = (struct redis_db *)db;
	const char *argv[] = {"GET", key};
	const size_t lens[] = {3, key_len};

	keep(d, redisCommandArgv(d->redis, 2, argv, lens));
	return value_of(d, d->reply, value_out);
}

static void redis_read_many(struct db *db, struct db_item *items, size_t n)
{
	struct redis_db *d = (struct redis_db *)db;
	const char *argv[DB_BATCH_MAX + 1] = {"MGET"};
	size_t lens[DB_BATCH_MAX + 1] = {4};
	const redisReply *r;

	for (size_t i = 0; i < n; i++) {
		argv[i + 1] = items[i].key;
		lens[i + 1] = items[i].key_len;
	}
	keep(d, redisCommandArgv(d->redis, (int)n + 1, argv, lens));
	r = d->reply;
	for (size_t i = 0; i < n; i++)
		items[i].status =
			r && r->type == REDIS_REPLY_ARRAY && r->elements == n
				? value_of(d, r->element[i], &items[i].value)
				: failed(d, r);
}

/* The answer to a write: OK, or the number of keys removed. */
static enum db_status take_done(struct redis_db *d)
{
	enum db_status status = DB_OK;
	redisReply *r = NULL;

	if (redisGetReply(d->redis, (void **)&r) != REDIS_OK)
		r = NULL;
	if (r && r->type == REDIS_REPLY_INTEGER)
		status = r->integer ? DB_OK : DB_NOT_FOUND;
	else if (!r || r->type != REDIS_REPLY_STATUS)
		status = failed(d, r);
	if (r)
		freeReplyObject(r);
	return status;
}

static void redis_write_many(struct db *db, struct db_item *items, size_t n)
{
	struct redis_db *d = (struct redis_db *)db;

	for (size_t i = 0; i < n; i++) {
		const char *argv[] = {"SET", items[i].key, items[i].value.data};
		const size_t lens[] = {3, items[i].key_len, items[i].value.len};

		redisAppendCommandArgv(d->redis, 3, argv, lens);
	}
	for (size_t i = 0; i < n; i++)
		items[i].status = take_done(d);
}

static enum db_status redis_update_ttl(struct db *db, const char *key,
				       size_t key_len, struct db_value value,
				       uint64_t ttl_ms)
{
	struct redis_db *d = (struct redis_db *)db;
	char ms[24];
	const char *argv[] = {"SET", key, value.data, "PX", ms};
	size_t lens[] = {3, key_len, value.len, 2, 0};

	lens[4] = (size_t)snprintf(ms, sizeof(ms), "%llu",
				   (unsigned long long)ttl_ms);
	redisAppendCommandArgv(d->redis, 5, argv, lens);
	return take_done(d);
}

/* EXISTS of one key: 1, or 0. */
static void redis_exists(struct db *db, struct db_item *items, size_t n)
{
	struct redis_db *d = (struct redis_db *)db;

	for (size_t i = 0; i < n; i++) {
		const char *argv[] = {"EXISTS", items[i].key};
		const size_t lens[] = {6, items[i].key_len};

		redisAppendCommandArgv(d->redis, 2, argv, lens);
	}
	for (size_t i = 0; i < n; i++)
		items[i].status = take_done(d);
}

static enum db_status redis_remove(struct db *db, const char *key,
				   size_t key_len)
{
	struct redis_db *d = (struct redis_db *)db;
	const char *argv[] = {"DEL", key};
	const size_t lens[] = {3, key_len};

	redisAppendCommandArgv(d->redis, 2, argv, lens);
	return take_done(d);
}

static const char *redis_error(struct db *db)
{
	return ((struct redis_db *)db)->error;
}

const struct db_ops db_redis_ops = {
	.name = "redis",
	.props = redis_props,
	.n_props = ARRAY_SIZE(redis_props),
	.summary = "Redis, over a Unix socket or TCP",
	.init = redis_init,
	.fini = redis_fini,
	.open = redis_open,
	.close = redis_close,
	.read = redis_read,
	.update = db_write_one,
	.insert = db_write_one,
	.remove = redis_remove,
	.update_ttl = redis_update_ttl,
	.exists = redis_exists,
	.read_many = redis_read_many,
	.write_many = redis_write_many,
	.error = redis_error,
};
