/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "snapshot.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <farkv.h>

#include "common/base/err.h"
#include "common/base/textfile.h"
#include "common/base/util.h"
#include "common/base/wire.h"
#include "common/region/hash.h"

#define MAGIC UINT64_C(0x706e73766b726166) /* farkvsnp */
#define FORMAT_VERSION 1u
#define MARK_CHUNK UINT32_C(0x4b4e4843) /* CHNK */
#define MARK_TAIL UINT32_C(0x4c494154)  /* TAIL */
/* A length from the file allocates memory only as its bytes arrive. */
#define READ_STEP SNAPSHOT_CHUNK

struct snapshot_sum {
	XXH3_state_t state;
};

static struct snapshot_sum *sum_new(void)
{
	/* The state wants 64-byte alignment. */
	struct snapshot_sum *s = aligned_alloc(64, util_align_up(sizeof(*s), 64));

	if (s)
		XXH3_64bits_reset(&s->state);
	return s;
}

static void sum_add(struct snapshot_sum *s, const void *data, size_t len)
{
	XXH3_64bits_update(&s->state, data, len);
}

/* ---- writer ---------------------------------------------------------------------- */

static int write_all(struct snapshot_writer *w, const void *data, size_t len)
{
	const uint8_t *p = data;

	while (len) {
		ssize_t n;

		if (w->stop && *w->stop)
			return err_set(FARKV_EABORTED, "%s: interrupted", w->name);
		n = write(w->fd, p, len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EPIPE)
			return err_set(FARKV_EDISCONNECTED, "%s: the reader is gone", w->name);
		if (n < 0)
			return err_set_errno(FARKV_ESYS, errno, "cannot write %s", w->name);
		p += n;
		len -= (size_t)n;
		w->bytes += (uint64_t)n;
	}
	return 0;
}

int snapshot_write_begin(struct snapshot_writer *w, uint64_t moment_ms)
{
	uint8_t head[SNAPSHOT_HEADER_BYTES];
	struct wire out = wire_writer(head, sizeof(head));

	w->sum = sum_new();
	w->cap = SNAPSHOT_FRAME_BYTES + SNAPSHOT_CHUNK;
	w->chunk = malloc(w->cap);
	w->used = SNAPSHOT_FRAME_BYTES;
	if (!w->sum || !w->chunk)
		return err_set(FARKV_ENOMEM, "out of memory for a snapshot");
	wire_put_u64(&out, MAGIC);
	wire_put_u32(&out, FORMAT_VERSION);
	wire_put_u32(&out, 0);
	wire_put_u64(&out, moment_ms);
	wire_put_u64(&out, hash_image(head, sizeof(head) - 8));
	sum_add(w->sum, head, sizeof(head));
	return write_all(w, head, sizeof(head));
}

static int write_chunk(struct snapshot_writer *w)
{
	size_t len = w->used - SNAPSHOT_FRAME_BYTES;
	struct wire out = wire_writer(w->chunk, SNAPSHOT_FRAME_BYTES);
	int err;

	wire_put_u32(&out, MARK_CHUNK);
	wire_put_u32(&out, w->records);
	wire_put_u64(&out, w->totals.chunks);
	wire_put_u64(&out, len);
	wire_put_u64(&out, hash_image(w->chunk + SNAPSHOT_FRAME_BYTES, len));
	wire_put_u64(&out, hash_image(w->chunk, SNAPSHOT_FRAME_BYTES - 8));
	sum_add(w->sum, w->chunk, SNAPSHOT_FRAME_BYTES);
	err = write_all(w, w->chunk, w->used);
	w->totals.chunks++;
	w->used = SNAPSHOT_FRAME_BYTES;
	w->records = 0;
	return err;
}

/* Make room for `len` more bytes in the chunk; a full chunk is written first. */
static int make_room(struct snapshot_writer *w, size_t len)
{
	uint8_t *p;
	int err = 0;

	if (w->records && w->used + len > SNAPSHOT_FRAME_BYTES + SNAPSHOT_CHUNK)
		err = write_chunk(w);
	if (err || w->used + len <= w->cap)
		return err;
	p = realloc(w->chunk, w->used + len);
	if (!p)
		return err_set(FARKV_ENOMEM, "out of memory for a record of %zu bytes", len);
	w->chunk = p;
	w->cap = w->used + len;
	return 0;
}

int snapshot_write(struct snapshot_writer *w, const struct snapshot_record *r)
{
	size_t len = SNAPSHOT_RECORD_BYTES + r->key_len + r->value_len;
	int err = make_room(w, len);
	struct wire out;

	if (err)
		return err;
	out = wire_writer(w->chunk + w->used, len);
	wire_put_u16(&out, (uint16_t)r->key_len);
	wire_put_u16(&out, 0);
	wire_put_u32(&out, r->user);
	wire_put_u64(&out, r->value_len);
	wire_put_u64(&out, r->version);
	wire_put_u64(&out, r->ttl_ms);
	wire_put_bytes(&out, r->key, r->key_len);
	wire_put_bytes(&out, r->value, r->value_len);
	w->used += len;
	w->records++;
	w->totals.records++;
	w->totals.key_bytes += r->key_len;
	w->totals.value_bytes += r->value_len;
	w->totals.expiring += r->ttl_ms != 0;
	return 0;
}

int snapshot_write_end(struct snapshot_writer *w)
{
	uint8_t tail[SNAPSHOT_TRAILER_BYTES];
	struct wire out = wire_writer(tail, sizeof(tail));
	int err = w->records ? write_chunk(w) : 0;

	if (err)
		return err;
	wire_put_u32(&out, MARK_TAIL);
	wire_put_u32(&out, 0);
	wire_put_u64(&out, w->totals.chunks);
	wire_put_u64(&out, w->totals.records);
	wire_put_u64(&out, w->totals.key_bytes);
	wire_put_u64(&out, w->totals.value_bytes);
	wire_put_u64(&out, w->totals.expiring);
	wire_put_u64(&out, w->totals.took_ms);
	sum_add(w->sum, tail, sizeof(tail) - 8);
	wire_put_u64(&out, XXH3_64bits_digest(&w->sum->state));
	return write_all(w, tail, sizeof(tail));
}

void snapshot_write_free(struct snapshot_writer *w)
{
	free(w->chunk);
	free(w->sum);
	w->chunk = NULL;
	w->sum = NULL;
}

/* ---- reader ---------------------------------------------------------------------- */

static int damaged(const struct snapshot_reader *r, const char *what)
{
	return err_set(FARKV_EFORMAT,
		       "%s: chunk %" PRIu64 ", before byte %" PRIu64 ": %s; the file is damaged, "
		       "use another one",
		       r->name, r->totals.chunks, r->bytes, what);
}

/* Read `len` bytes, or up to the end of the file. */
static int read_some(struct snapshot_reader *r, void *buf, size_t len, size_t *len_out)
{
	size_t have = 0;

	while (have < len) {
		ssize_t n;

		if (r->stop && *r->stop)
			return err_set(FARKV_EABORTED, "%s: interrupted", r->name);
		n = read(r->fd, (uint8_t *)buf + have, len - have);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_set_errno(FARKV_ESYS, errno, "cannot read %s", r->name);
		if (n == 0)
			break;
		have += (size_t)n;
	}
	r->bytes += have;
	*len_out = have;
	return 0;
}

static int read_all(struct snapshot_reader *r, void *buf, size_t len)
{
	size_t got;
	int err = read_some(r, buf, len, &got);

	if (err || got == len)
		return err;
	return err_set(FARKV_EFORMAT, "%s: cut off at byte %" PRIu64 "; use another file", r->name,
		       r->bytes);
}

int snapshot_read_begin(struct snapshot_reader *r)
{
	uint8_t head[SNAPSHOT_HEADER_BYTES];
	uint32_t version, flags;
	struct wire in;
	size_t got;
	int err;

	r->sum = sum_new();
	if (!r->sum)
		return err_set(FARKV_ENOMEM, "out of memory for a snapshot");
	err = read_some(r, head, sizeof(head), &got);
	if (err)
		return err;
	in = wire_reader(head, got);
	if (textfile_check(r->name, head, got, NULL)) /* compressed */
		return FARKV_EFORMAT;
	if (got < 8 || wire_get_u64(&in) != MAGIC)
		return err_set(FARKV_EFORMAT, "%s: this is no snapshot of kvcli save", r->name);
	if (got < sizeof(head))
		return err_set(FARKV_EFORMAT, "%s: cut off at byte %zu; use another file", r->name,
			       got);
	version = wire_get_u32(&in);
	flags = wire_get_u32(&in);
	r->moment_ms = wire_get_u64(&in);
	if (wire_get_u64(&in) != hash_image(head, sizeof(head) - 8))
		return err_set(FARKV_EFORMAT, "%s: the header is damaged; use another file",
			       r->name);
	if (version != FORMAT_VERSION || flags)
		return err_set(FARKV_EFORMAT,
			       "%s: format %" PRIu32 " with flags %" PRIu32 ", but this program reads "
			       "format %u; use the version of farkv that saved it",
			       r->name, version, flags, FORMAT_VERSION);
	sum_add(r->sum, head, sizeof(head));
	return 0;
}

static int read_payload(struct snapshot_reader *r, uint64_t len)
{
	r->len = r->at = 0;
	while (r->len < len) {
		size_t step = (size_t)UTIL_MIN(len - r->len, UTIL_MAX(r->len, READ_STEP));
		int err;

		if (r->len + step > r->cap) {
			uint8_t *p = realloc(r->payload, r->len + step);

			if (!p)
				return err_set(FARKV_ENOMEM, "%s: out of memory for a chunk of %"
					       PRIu64 " bytes", r->name, len);
			r->payload = p;
			r->cap = r->len + step;
		}
		err = read_all(r, r->payload + r->len, step);
		if (err)
			return err;
		r->len += step;
	}
	return 0;
}

bool snapshot_next(struct snapshot_reader *r, struct snapshot_record *out)
{
	struct snapshot_record rec;
	struct wire in;
	uint16_t flags;
	uint64_t value_len;

	if (r->at == r->len) /* and before the first chunk there is no payload */
		return false;
	in = wire_reader(r->payload + r->at, r->len - r->at);
	rec.key_len = wire_get_u16(&in);
	flags = wire_get_u16(&in);
	rec.user = wire_get_u32(&in);
	value_len = wire_get_u64(&in);
	rec.version = wire_get_u64(&in);
	rec.ttl_ms = wire_get_u64(&in);
	rec.key = wire_get_bytes(&in, rec.key_len);
	if (in.error || flags || rec.key_len == 0 || value_len > wire_left(&in))
		return false;
	rec.value_len = (size_t)value_len;
	rec.value = wire_get_bytes(&in, rec.value_len);
	r->at = r->len - wire_left(&in);
	*out = rec;
	return true;
}

/* True if all records of the chunk are whole, with nothing between or after them. */
static int check_records(struct snapshot_reader *r, uint32_t records)
{
	struct snapshot_record rec;
	uint32_t n = 0;

	while (snapshot_next(r, &rec)) {
		n++;
		r->totals.key_bytes += rec.key_len;
		r->totals.value_bytes += rec.value_len;
		r->totals.expiring += rec.ttl_ms != 0;
	}
	if (r->at != r->len || n != records)
		return damaged(r, "its records are malformed");
	r->totals.records += n;
	r->at = 0;
	return 0;
}

/* `frame`: the first bytes of the chunk. */
static int read_chunk(struct snapshot_reader *r, const uint8_t *frame)
{
	struct wire in = wire_reader(frame + 4, SNAPSHOT_FRAME_BYTES - 4);
	uint32_t records = wire_get_u32(&in);
	uint64_t number = wire_get_u64(&in), len = wire_get_u64(&in), sum = wire_get_u64(&in);
	int err;

	if (wire_get_u64(&in) != hash_image(frame, SNAPSHOT_FRAME_BYTES - 8))
		return damaged(r, "the checksum of its header differs");
	if (number != r->totals.chunks)
		return damaged(r, "another chunk is in its place");
	if (records == 0 || (len > SNAPSHOT_CHUNK && records > 1))
		return damaged(r, "its header is malformed");
	sum_add(r->sum, frame, SNAPSHOT_FRAME_BYTES);
	err = read_payload(r, len);
	if (err)
		return err;
	if (hash_image(r->payload, r->len) != sum)
		return damaged(r, "its checksum differs");
	err = check_records(r, records);
	if (!err)
		r->totals.chunks++;
	return err;
}

/* `tail`: the first SNAPSHOT_FRAME_BYTES of the trailer, with room for all of it. */
static int read_trailer(struct snapshot_reader *r, uint8_t *tail)
{
	struct wire in = wire_reader(tail + 4, SNAPSHOT_TRAILER_BYTES - 4);
	const struct snapshot_totals *t = &r->totals;
	bool same;
	uint8_t more;
	size_t got;
	int err = read_all(r, tail + SNAPSHOT_FRAME_BYTES,
			   SNAPSHOT_TRAILER_BYTES - SNAPSHOT_FRAME_BYTES);

	if (err)
		return err;
	sum_add(r->sum, tail, SNAPSHOT_TRAILER_BYTES - 8);
	same = wire_get_u32(&in) == 0;
	same &= wire_get_u64(&in) == t->chunks;
	same &= wire_get_u64(&in) == t->records;
	same &= wire_get_u64(&in) == t->key_bytes;
	same &= wire_get_u64(&in) == t->value_bytes;
	same &= wire_get_u64(&in) == t->expiring;
	r->totals.took_ms = wire_get_u64(&in);
	if (wire_get_u64(&in) != XXH3_64bits_digest(&r->sum->state))
		return damaged(r, "the checksum of the whole file differs");
	if (!same)
		return damaged(r, "the totals at the end differ");
	err = read_some(r, &more, 1, &got);
	if (!err && got)
		err = damaged(r, "more bytes follow the end");
	return err;
}

int snapshot_read_chunk(struct snapshot_reader *r, bool *got_out)
{
	uint8_t frame[SNAPSHOT_TRAILER_BYTES];
	uint32_t mark;
	int err = read_all(r, frame, SNAPSHOT_FRAME_BYTES);
	struct wire in;

	if (err)
		return err;
	in = wire_reader(frame, SNAPSHOT_FRAME_BYTES);
	mark = wire_get_u32(&in);
	r->len = r->at = 0;
	if (mark == MARK_CHUNK)
		err = read_chunk(r, frame);
	else if (mark == MARK_TAIL)
		err = read_trailer(r, frame);
	else
		err = damaged(r, "no chunk begins there");
	if (!err)
		*got_out = mark == MARK_CHUNK;
	return err;
}

void snapshot_read_free(struct snapshot_reader *r)
{
	free(r->payload);
	free(r->sum);
	r->payload = NULL;
	r->sum = NULL;
}
