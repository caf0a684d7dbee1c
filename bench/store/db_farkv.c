/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * farkv: a handle per thread; insert and update are farkv_put(), a batch is farkv_mget(),
 * farkv_mget_into(), farkv_mput() or farkv_mexists(), a request in flight farkv_submit().
 */
#include "config.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <farkv.h>

#include "common/base/err.h"
#include "common/base/util.h"

#include "db.h"
#include "servers.h"

struct farkv_params {
	const char *uri;
	uint64_t op_timeout_ms;
	uint64_t connect_timeout_ms;
	uint64_t cache_entries;
	uint64_t cache_bytes;
};

struct farkv_store {
	struct db_store base;
	struct farkv_params params;
	pthread_mutex_t lock;       /* guards what follows */
	unsigned queue_depth;       /* of each session; 0: the library's own */
	bool opened;                /* by this process */
	uint64_t page_bytes;        /* page size of the store's mapping here; 0: not
				       mapped */
	uint64_t huge_bytes;        /* bytes of it mapped by huge pages */
	struct farkv_counters total; /* of closed sessions */
	struct servers servers;
};

struct farkv_db {
	struct db base;
	struct farkv_store *store;
	struct farkv *kv;
	uint32_t errors[DB_SERVERS_MAX]; /* by the server that they name */
	union {
		struct farkv_get_item get[DB_BATCH_MAX];
		struct farkv_put_item put[DB_BATCH_MAX];
		struct farkv_key key[DB_BATCH_MAX];
	} items;
};

#define FIELD(f) offsetof(struct farkv_params, f)

static const struct prop_spec farkv_props[] = {
	{"farkv.uri", PROP_STR, FIELD(uri), NULL, 0, 0, NULL},
	{"farkv.op_timeout_ms", PROP_U64, FIELD(op_timeout_ms), "5000", 1, 3600000,
	 NULL},
	{"farkv.connect_timeout_ms", PROP_U64, FIELD(connect_timeout_ms), "5000", 1,
	 3600000, NULL},
	{"farkv.cache_entries", PROP_U64, FIELD(cache_entries), NULL, 0,
	 UINT32_MAX, NULL},
	{"farkv.cache_bytes", PROP_U64, FIELD(cache_bytes), NULL, 0, UINT32_MAX,
	 NULL},
};

static int kv_init(const struct db_setup *setup, struct db_store **store_out)
{
	struct farkv_store *s = calloc(1, sizeof(*s));
	struct farkv_options o;
	int err;

	if (!s)
		return err_set(FARKV_ENOMEM, "no memory for the farkv binding");
	farkv_options_init(&o);
	s->params.cache_entries = o.cache_entries;
	s->params.cache_bytes = o.cache_bytes;
	err = props_read(setup->props, farkv_props, ARRAY_SIZE(farkv_props),
			 &s->params);
	if (err) {
		free(s);
		return err;
	}
	if (setup->uri)
		s->params.uri = setup->uri;
	s->queue_depth = setup->queue_depth;
	pthread_mutex_init(&s->lock, NULL);
	s->base.ops = &db_farkv_ops;
	*store_out = &s->base;
	return 0;
}

static void kv_fini(struct db_store *store)
{
	struct farkv_store *s = (struct farkv_store *)store;

	pthread_mutex_destroy(&s->lock);
	free(s);
}

/*
 * How this process maps the store, from the kernel's smaps under the name that kvserver
 * gives its memory. Nothing for RDMA.
 */
static void look_at_pages(struct farkv_store *s)
{
	FILE *f = fopen("/proc/self/smaps", "re");
	char line[512];
	bool ours = false;
	unsigned long long kb;

	while (f && fgets(line, sizeof(line), f)) {
		if (strstr(line, "memfd:farkv-data"))
			ours = true;
		else if (!ours)
			continue;
		else if (sscanf(line, "KernelPageSize: %llu kB", &kb) == 1)
			s->page_bytes = kb << 10;
		else if (sscanf(line, "ShmemPmdMapped: %llu kB", &kb) == 1)
			s->huge_bytes += kb << 10;
		else if (strncmp(line, "VmFlags", 7) == 0)
			ours = false;
	}
	if (f)
		fclose(f);
}

static int kv_open(struct db_store *store, struct db **db_out)
{
	struct farkv_store *s = (struct farkv_store *)store;
	struct farkv_db *d = calloc(1, sizeof(*d));
	struct farkv_options o;
	int err;

	if (!d)
		return err_set(FARKV_ENOMEM, "no memory for a farkv session");
	farkv_options_init(&o);
	o.op_timeout_ms = (uint32_t)s->params.op_timeout_ms;
	o.connect_timeout_ms = (uint32_t)s->params.connect_timeout_ms;
	o.cache_entries = (uint32_t)s->params.cache_entries;
	o.cache_bytes = s->params.cache_bytes;
	o.name = "kvbench";
	o.queue_depth = s->queue_depth;
	err = farkv_open(s->params.uri, &o, &d->kv);
	if (err) {
		/* The library has its own detail. */
		err_set(err, "%s", *farkv_errdetail() ? farkv_errdetail()
						      : farkv_strerror(err));
		free(d);
		return err;
	}
	d->base.ops = &db_farkv_ops;
	d->store = s;
	pthread_mutex_lock(&s->lock);
	if (!s->opened)
		look_at_pages(s);
	s->opened = true;
	servers_opened(&s->servers, d->kv);
	pthread_mutex_unlock(&s->lock);
	*db_out = &d->base;
	return 0;
}

/* Of struct farkv_counters, all of them uint64_t. */
static const struct {
	const char *name;
	size_t offset;
} figures[] = {
#define FIGURE(name, field) {name, offsetof(struct farkv_counters, field)}
	FIGURE("READs", reads),
	FIGURE("WRITEs", writes),
	FIGURE("CASs", cas),
	FIGURE("ReadBytes", read_bytes),
	FIGURE("WriteBytes", write_bytes),
	FIGURE("Doorbells", doorbells),
	FIGURE("RoundTrips", round_trips),
	FIGURE("Retries", retries),
	FIGURE("ControlMessages", control_msgs),
	FIGURE("Registrations", registrations),
	FIGURE("CacheHits", cache_hits),
	FIGURE("CacheStale", cache_stale),
	FIGURE("CacheMisses", cache_misses),
	FIGURE("CacheValues", cache_values),
#undef FIGURE
};

static uint64_t *counter_at(struct farkv_counters *c, size_t i)
{
	return (uint64_t *)(void *)((char *)c + figures[i].offset);
}

static void kv_close(struct db *db)
{
	struct farkv_db *d = (struct farkv_db *)db;
	struct farkv_counters *t = &d->store->total, c = {.size = sizeof(c)};
	bool counted = farkv_counters(d->kv, &c) == 0;

	pthread_mutex_lock(&d->store->lock);
	for (size_t i = 0; counted && i < ARRAY_SIZE(figures); i++)
		*counter_at(t, i) += *counter_at(&c, i);
	servers_closing(&d->store->servers, d->kv, d->errors);
	pthread_mutex_unlock(&d->store->lock);
	farkv_close(d->kv);
	free(d);
}

static enum db_status status_of(int err)
{
	switch (err) {
	case FARKV_OK:
		return DB_OK;
	case FARKV_ENOTFOUND:
		return DB_NOT_FOUND;
	case FARKV_ENOSPC:
	case FARKV_EINDEXFULL:
		return DB_NO_SPACE;
	case FARKV_ETOOLARGE:
	case FARKV_EINVAL:
		return DB_BAD_REQUEST;
	case FARKV_EPERM:
		return DB_FORBIDDEN;
	case FARKV_ECORRUPT:
	case FARKV_ETOOSMALL:
		return DB_UNEXPECTED_STATE;
	case FARKV_ENOTSUP:
		return DB_NOT_IMPLEMENTED;
	case FARKV_EDISCONNECTED:
	case FARKV_EUNREACHABLE:
	case FARKV_ENOROUTE:
	case FARKV_ELINKDOWN:
	case FARKV_EREFUSED:
		return DB_SERVICE_UNAVAILABLE;
	default:
		return DB_ERROR;
	}
}

/* The status of an operation that failed with this error and detail. */
static __attribute__((noinline)) enum db_status failed(struct db *db, int err, const char *detail)
{
	struct farkv_db *d = (struct farkv_db *)db;
	unsigned server;

	if (err && err != FARKV_ENOTFOUND && err != FARKV_EAGAIN) {
		server = servers_find(&d->store->servers, detail);
		if (server < d->store->servers.n)
			d->errors[server]++;
	}
	return status_of(err);
}

/* The status of the call that has just returned. */
static enum db_status result_of(struct db *db, int err)
{
	return __builtin_expect(err, 0) ? failed(db, err, farkv_errdetail()) : DB_OK;
}

static enum db_status kv_read(struct db *db, const char *key, size_t key_len,
			      struct db_value *value_out)
{
	struct farkv_value v;
	int err = farkv_get(((struct farkv_db *)db)->kv, key, key_len, &v);

	if (__builtin_expect(err, 0))
		return result_of(db, err);
	value_out->data = v.data;
	value_out->len = v.len;
	return DB_OK;
}

static enum db_status kv_write(struct db *db, const char *key, size_t key_len,
			       const void *value, size_t value_len)
{
	return result_of(db, farkv_put(((struct farkv_db *)db)->kv, key, key_len,
				       value, value_len));
}

static enum db_status kv_update_ttl(struct db *db, const char *key,
				    size_t key_len, struct db_value value,
				    uint64_t ttl_ms)
{
	const struct farkv_write_options o = {.size = sizeof(o),
					      .ttl_ms = ttl_ms};
	const struct farkv_request req = {.kind = FARKV_REQUEST_PUT,
					  .key = key,
					  .key_len = key_len,
					  .value = value.data,
					  .value_len = value.len,
					  .options = &o};

	return result_of(
		db, farkv_write(((struct farkv_db *)db)->kv, &req, NULL));
}

static enum db_status kv_remove(struct db *db, const char *key, size_t key_len)
{
	return result_of(
		db, farkv_delete(((struct farkv_db *)db)->kv, key, key_len));
}

/*
 * Items that a failed call did not reach get the call's error. The call's detail is of the first
 * item that failed, "item 3 of 32: server b: ...": the others count as that server's.
 */
static enum db_status item_status(struct db *db, int result, int err)
{
	const char *detail = err ? strstr(farkv_errdetail(), "server ") : NULL;

	return failed(db, result == FARKV_EABORTED ? err : result, detail ? detail : "");
}

static void kv_read_many(struct db *db, struct db_item *items, size_t n)
{
	struct farkv_db *d = (struct farkv_db *)db;
	struct farkv_get_item *g = d->items.get;
	int err;

	for (size_t i = 0; i < n; i++)
		g[i] = (struct farkv_get_item){.key = items[i].key,
					       .key_len = items[i].key_len,
					       .result = FARKV_EABORTED};
	err = farkv_mget(d->kv, g, n);
	for (size_t i = 0; i < n; i++) {
		items[i].status = item_status(db, g[i].result, err);
		items[i].value.data = g[i].value.data;
		items[i].value.len = g[i].value.len;
	}
}

static void kv_write_many(struct db *db, struct db_item *items, size_t n)
{
	struct farkv_db *d = (struct farkv_db *)db;
	struct farkv_put_item *p = d->items.put;
	int err;

	for (size_t i = 0; i < n; i++)
		p[i] = (struct farkv_put_item){
			.key = items[i].key,
			.key_len = items[i].key_len,
			.value = items[i].value.data,
			.value_len = items[i].value.len,
			.result = FARKV_EABORTED,
		};
	err = farkv_mput(d->kv, p, n);
	for (size_t i = 0; i < n; i++)
		items[i].status = item_status(db, p[i].result, err);
}

/* If the call failed a key without a value may be one that was not asked for. */
static void kv_exists(struct db *db, struct db_item *items, size_t n)
{
	struct farkv_db *d = (struct farkv_db *)db;
	struct farkv_key *k = d->items.key;
	uint8_t bits[DB_BATCH_MAX / 8];
	enum db_status missing;
	int err;

	for (size_t i = 0; i < n; i++)
		k[i] = (struct farkv_key){items[i].key, items[i].key_len};
	err = farkv_mexists(d->kv, k, n, bits, NULL);
	missing = err ? result_of(db, err) : DB_NOT_FOUND;
	for (size_t i = 0; i < n; i++)
		items[i].status = bits[i / 8] >> i % 8 & 1 ? DB_OK : missing;
}

static void kv_read_into(struct db *db, struct db_item *items, size_t n)
{
	struct farkv_get_into_item get[DB_BATCH_MAX];
	int err;

	for (size_t i = 0; i < n; i++)
		get[i] = (struct farkv_get_into_item){.key = items[i].key,
						      .key_len = items[i].key_len,
						      .buf = items[i].into,
						      .cap = items[i].cap,
						      .result = FARKV_EABORTED};
	err = farkv_mget_into(((struct farkv_db *)db)->kv, get, n);
	for (size_t i = 0; i < n; i++) {
		items[i].status = item_status(db, get[i].result, err);
		if (!get[i].result)
			items[i].value = (struct db_value){get[i].buf, get[i].len};
	}
}

static void *kv_buf_new(struct db *db, size_t bytes)
{
	void *buf;
	int err = farkv_buf_alloc(((struct farkv_db *)db)->kv, bytes, &buf);

	if (!err)
		return buf;
	err_set(err, "%s", farkv_errdetail());
	return NULL;
}

static void kv_buf_free(struct db *db, void *buf)
{
	farkv_buf_free(((struct farkv_db *)db)->kv, buf);
}

static enum db_status kv_submit(struct db *db, const struct db_request *r)
{
	struct farkv_request req = {
		.tag = r->tag,
		.kind = r->write ? FARKV_REQUEST_PUT : FARKV_REQUEST_GET,
		.key = r->key,
		.key_len = r->key_len,
		.value = r->write ? r->value.data : NULL,
		.value_len = r->write ? r->value.len : 0,
	};
	int n = farkv_submit(((struct farkv_db *)db)->kv, &req, 1);

	return n == 1 ? DB_OK : result_of(db, n);
}

static enum db_status kv_poll(struct db *db, struct db_completion *out,
			      size_t *n_out)
{
	struct farkv_completion c[DB_POLL_MAX];
	int n = farkv_poll(((struct farkv_db *)db)->kv, c, DB_POLL_MAX);

	if (n < 0)
		return result_of(db, n);
	for (int i = 0; i < n; i++)
		out[i] = (struct db_completion){
			.tag = c[i].tag,
			.status = failed(db, c[i].result, c[i].detail ? c[i].detail : ""),
			.value = {c[i].value.data, c[i].value.len},
			.why = c[i].detail,
		};
	*n_out = (size_t)n;
	return DB_OK;
}

static const char *kv_error(struct db *db)
{
	(void)db;
	return farkv_errdetail();
}

static uint64_t kv_server_cpu(struct db *db)
{
	struct farkv_stats st = {.size = sizeof(st)};

	return farkv_stats(((struct farkv_db *)db)->kv, &st) ? 0 : st.cpu_ns;
}

static void kv_facts(struct db_store *store, db_fact_fn fn, void *arg)
{
	struct farkv_store *s = (struct farkv_store *)store;
	char text[96];

	fn(arg, "Library", farkv_version());
	if (!s->opened) /* other processes did */
		return;
	fn(arg, "Transport", s->page_bytes ? "shm" : "rdma");
	if (!s->page_bytes)
		return;
	snprintf(text, sizeof(text), "%llu KiB; %llu MiB mapped as huge pages",
		 (unsigned long long)(s->page_bytes >> 10),
		 (unsigned long long)(s->huge_bytes >> 20));
	fn(arg, "Pages", text);
}

static void kv_figures(struct db_store *store, db_figure_fn fn, void *arg)
{
	struct farkv_store *s = (struct farkv_store *)store;
	struct farkv_counters *t = &s->total;

	for (size_t i = 0; i < ARRAY_SIZE(figures); i++)
		fn(arg, figures[i].name, (double)*counter_at(t, i));
	memset(t, 0, sizeof(*t));
}

static unsigned kv_servers(struct db_store *store, struct db_served out[DB_SERVERS_MAX])
{
	return servers_tell(&((struct farkv_store *)store)->servers, out);
}

const struct db_ops db_farkv_ops = {
	.name = "farkv",
	.props = farkv_props,
	.n_props = ARRAY_SIZE(farkv_props),
	.summary = "farkv, over shared memory or RDMA",
	.forks = true,
	.init = kv_init,
	.fini = kv_fini,
	.open = kv_open,
	.close = kv_close,
	.read = kv_read,
	.update = kv_write,
	.insert = kv_write,
	.remove = kv_remove,
	.update_ttl = kv_update_ttl,
	.read_many = kv_read_many,
	.write_many = kv_write_many,
	.exists = kv_exists,
	.read_into = kv_read_into,
	.buf_new = kv_buf_new,
	.buf_free = kv_buf_free,
	.submit = kv_submit,
	.poll = kv_poll,
	.error = kv_error,
	.server_cpu = kv_server_cpu,
	.facts = kv_facts,
	.figures = kv_figures,
	.servers = kv_servers,
};
