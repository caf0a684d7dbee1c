/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "save.h"

#include <time.h>

#include <farkv.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/util.h"

#include "outfile.h"
#include "snapshot.h"

#define BATCH 128u
/* Bytes of the values of one farkv_mget(), unless it gets a single one. */
#define BATCH_BYTES ((uint64_t)1 << 20)

struct run {
	struct save *s;
	struct snapshot_writer writer;
	uint64_t moment_ns; /* of the snapshot */
};

static bool stopped(const struct save *s)
{
	return s->stop && *s->stop;
}

static uint64_t since_moment_ms(const struct run *r)
{
	return (clock_now_ns() - r->moment_ns) / NS_PER_MS;
}

static int store_failed(struct save *s, int err, const void *key, size_t key_len)
{
	const char *detail = farkv_errdetail();

	s->of_store = true;
	s->store_failed(s->arg, err, key, key_len, *detail ? detail : farkv_strerror(err));
	return err;
}

static int save_item(struct run *r, const struct farkv_get_item *it)
{
	struct snapshot_record rec = {
		.key = it->key,
		.key_len = it->key_len,
		.value = it->value.data,
		.value_len = it->value.len,
		.version = it->value.version,
		.user = it->value.user,
	};

	if (it->result == FARKV_ENOTFOUND) /* deleted since it was listed */
		return 0;
	if (it->result)
		return store_failed(r->s, it->result, it->key, it->key_len);
	if (it->value.ttl_ms)
		rec.ttl_ms = it->value.ttl_ms + since_moment_ms(r);
	return snapshot_write(&r->writer, &rec);
}

/* Save some of the keys; *n_out is how many. */
static int save_batch(struct run *r, const struct farkv_scan_item *keys, size_t n, size_t *n_out)
{
	struct farkv_get_item items[BATCH];
	uint64_t bytes = 0;
	size_t some = 0;
	int err;

	while (some < UTIL_MIN(n, (size_t)BATCH) &&
	       (some == 0 || bytes + keys[some].value_len <= BATCH_BYTES)) {
		items[some] = (struct farkv_get_item){.key = keys[some].key,
						      .key_len = keys[some].key_len};
		bytes += keys[some++].value_len;
	}
	*n_out = some;
	err = farkv_mget(r->s->kv, items, some);
	if (err && err != FARKV_ECORRUPT) /* ECORRUPT: of a key, reported with it */
		return store_failed(r->s, err, NULL, 0);
	err = 0;
	for (size_t i = 0; i < some && !err; i++)
		err = save_item(r, &items[i]);
	return err;
}

/* A cursor is a position among the keys' hashes, which are spread evenly. */
static double part_done(uint64_t cursor)
{
	return cursor ? (double)cursor / 0x1p64 : 1.0;
}

static void show(const struct run *r, uint64_t cursor)
{
	struct save *s = r->s;

	s->bytes = r->writer.bytes;
	s->records = r->writer.totals.records;
	outfile_flush(s->file);
	if (s->progress)
		s->progress(s->arg, part_done(cursor), s->bytes, s->records);
}

static int save_records(struct run *r)
{
	const struct farkv_scan_item *keys;
	uint64_t cursor = 0;
	size_t n, some;
	int err;

	do {
		err = farkv_scan(r->s->kv, &cursor, SIZE_MAX, &keys, &n);
		if (err) /* an error of one key, too: a snapshot has all keys */
			return store_failed(r->s, err, NULL, 0);
		for (size_t at = 0; at < n && !err; at += some) {
			if (stopped(r->s))
				return err_set(FARKV_EABORTED, "interrupted");
			err = save_batch(r, keys + at, n - at, &some);
		}
		show(r, cursor);
	} while (!err && cursor);
	return err;
}

static uint64_t wall_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / NS_PER_MS;
}

int save_store(struct save *s)
{
	struct run r = {.s = s, .writer = {.fd = s->file->fd, .name = s->file->name,
					   .stop = s->stop}};
	int err = snapshot_write_begin(&r.writer, wall_ms());

	s->of_store = false;
	r.moment_ns = clock_now_ns();
	if (!err)
		err = save_records(&r);
	if (!err) {
		r.writer.totals.took_ms = since_moment_ms(&r);
		err = snapshot_write_end(&r.writer);
	}
	s->bytes = r.writer.bytes;
	s->records = r.writer.totals.records;
	snapshot_write_free(&r.writer);
	return err;
}
