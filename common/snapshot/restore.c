/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "restore.h"

#include <errno.h>
#include <time.h>
#include <unistd.h>

#include <farkv.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/util.h"

#define BATCH 128u

struct run {
	struct restore *r;
	struct snapshot_reader reader;
	uint64_t before; /* bytes read by the first pass */
	struct farkv_request reqs[BATCH];
	struct farkv_write_options options[BATCH];
	size_t n;
};

static bool stopped(const struct restore *r)
{
	return r->stop && *r->stop;
}

static int store_failed(struct restore *r, int err, const struct farkv_request *req,
			const char *detail)
{
	r->of_store = true;
	r->store_failed(r->arg, err, req ? req->key : NULL, req ? req->key_len : 0,
			*detail ? detail : farkv_strerror(err));
	return err;
}

static int record_done(struct run *u, const struct farkv_completion *c)
{
	const struct farkv_request *req = &u->reqs[c->tag];
	struct restore *r = u->r;

	if (c->result == FARKV_EEXISTS) {
		r->kept++;
		return 0;
	}
	if (c->result)
		return store_failed(r, c->result, req, c->detail);
	r->stored++;
	r->bytes += req->key_len + req->value_len;
	return 0;
}

/* Write the batch. After an error the requests in flight end, and no more are submitted. */
static int write_batch(struct run *u)
{
	struct farkv_completion done[BATCH];
	struct farkv *kv = u->r->kv;
	size_t sent = 0;
	int err = 0;

	while ((!err && sent < u->n) || farkv_in_flight(kv)) {
		int n = !err && sent < u->n ? farkv_submit(kv, u->reqs + sent, u->n - sent) : 0;

		if (n >= 0)
			sent += (size_t)n;
		else if (n != FARKV_EAGAIN)
			err = store_failed(u->r, n, &u->reqs[sent], farkv_errdetail());
		n = farkv_wait(kv, done, BATCH, UINT32_MAX);
		if (n < 0)
			return err ? err : store_failed(u->r, n, NULL, farkv_errdetail());
		for (int i = 0; i < n; i++)
			err = err ? err : record_done(u, &done[i]);
	}
	u->n = 0;
	return err;
}

static uint64_t wall_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / NS_PER_MS;
}

/* Time to live that is left of `ttl_ms`; 0: none. */
static uint64_t ttl_left(const struct run *u, uint64_t ttl_ms)
{
	uint64_t now = wall_ms(), moment = u->reader.moment_ms;
	uint64_t gone = now > moment ? now - moment : 0;

	return ttl_ms > gone ? UTIL_MIN(ttl_ms - gone, FARKV_TTL_MAX_MS) : 0;
}

static void add(struct run *u, const struct snapshot_record *rec)
{
	struct farkv_write_options *o = &u->options[u->n];

	*o = (struct farkv_write_options){.size = sizeof(*o), .user = rec->user};
	if (rec->ttl_ms) {
		o->ttl_ms = ttl_left(u, rec->ttl_ms);
		if (!o->ttl_ms) {
			u->r->expired++;
			return;
		}
	}
	u->reqs[u->n] = (struct farkv_request){
		.tag = u->n,
		.kind = u->r->if_absent ? FARKV_REQUEST_ADD : FARKV_REQUEST_PUT,
		.key = rec->key,
		.key_len = rec->key_len,
		.value = rec->value,
		.value_len = rec->value_len,
		.options = o,
	};
	u->n++;
}

static int write_chunk(struct run *u)
{
	struct snapshot_record rec;
	int err = 0;

	while (!err && snapshot_next(&u->reader, &rec)) {
		add(u, &rec);
		if (u->n == BATCH)
			err = write_batch(u);
	}
	return err ? err : write_batch(u);
}

static int write_records(struct run *u)
{
	struct restore *r = u->r;
	bool got = true;
	int err;

	u->reader = (struct snapshot_reader){.fd = r->fd, .name = r->name, .stop = r->stop};
	err = snapshot_read_begin(&u->reader);
	while (!err && got) {
		if (stopped(r))
			err = err_set(FARKV_EABORTED, "interrupted");
		else
			err = snapshot_read_chunk(&u->reader, &got);
		if (!err && got) {
			r->begun = true;
			err = write_chunk(u);
		}
		if (r->progress)
			r->progress(r->arg, u->before + u->reader.bytes, r->stored);
	}
	snapshot_read_free(&u->reader);
	return err;
}

int snapshot_verify(struct snapshot_reader *r, void (*progress)(void *arg, uint64_t bytes,
								uint64_t records), void *arg)
{
	bool got = true;
	int err = snapshot_read_begin(r);

	while (!err && got) {
		err = snapshot_read_chunk(r, &got);
		if (progress)
			progress(arg, r->bytes, 0);
	}
	snapshot_read_free(r);
	return err;
}

static int verify_first(struct run *u)
{
	struct restore *r = u->r;
	off_t begin = lseek(r->fd, 0, SEEK_CUR);
	int err;

	u->reader = (struct snapshot_reader){.fd = r->fd, .name = r->name, .stop = r->stop};
	err = snapshot_verify(&u->reader, r->progress, r->arg);
	if (err)
		return err;
	r->total = u->reader.totals.records;
	u->before = u->reader.bytes;
	if (lseek(r->fd, begin, SEEK_SET) < 0)
		return err_set_errno(FARKV_ESYS, errno, "cannot read %s", r->name);
	return 0;
}

int restore_store(struct restore *r)
{
	struct run u = {.r = r};
	int err = r->size ? verify_first(&u) : 0;

	return err ? err : write_records(&u);
}
