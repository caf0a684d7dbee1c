/* SPDX-License-Identifier: BSD-3-Clause */
/* Redis's commands for all keys. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/random.h>

#include "common/base/clock.h"
#include "common/base/util.h"
#include "glob.h"
#include "resp_cmds.h"
#include "resp_reply.h"
#include "store.h"

static struct slice item_key(const struct farkv_scan_item *i)
{
	return (struct slice){i->key, i->key_len};
}

static bool is_all(struct slice pattern)
{
	return pattern.len == 1 && pattern.p[0] == '*';
}

/* Add those that match to the scratch, because their number comes before them. Returns how many. */
static size_t add_matching(struct client *c, const struct farkv_scan_item *items, size_t n,
			   struct slice pattern)
{
	struct buf *out = c->out;
	size_t found = 0;

	c->out = c->scratch;
	for (size_t i = 0; i < n; i++)
		if (is_all(pattern) || glob_match(pattern, item_key(&items[i]))) {
			reply_bulk(c, items[i].key, items[i].key_len);
			found++;
		}
	c->out = out;
	return found;
}

/* Answer with the `n` keys in the scratch. */
static void reply_found(struct client *c, size_t n)
{
	reply_array(c, n);
	buf_add(c->out, c->scratch->p, c->scratch->len);
	c->out->failed |= c->scratch->failed;
}

void resp_keys(struct client *c, const struct args *a)
{
	const struct farkv_scan_item *items;
	size_t before = c->out->len, found = 0, n = 0;
	uint64_t cursor = 0;
	int err;

	c->scratch->len = 0;
	do {
		err = farkv_scan(c->kv, &cursor, SIZE_MAX, &items, &n);
		if (!err)
			found += add_matching(c, items, n, a->v[1]);
	} while (!err && cursor && c->scratch->len <= c->gate->cfg.max_output);
	if (err) {
		reply_store_error(c, err);
		return;
	}
	reply_found(c, found);
	reply_too_long(c, before);
}

struct scan_options {
	struct slice pattern;
	int64_t count;
	bool no_type; /* TYPE of something else than strings */
};

static bool scan_options(struct client *c, const struct args *a, struct scan_options *o)
{
	for (size_t i = 2; i < a->n; i += 2) {
		struct slice value;

		if (i + 1 == a->n) {
			reply_syntax_error(c);
			return false;
		}
		value = a->v[i + 1];
		if (slice_is(a->v[i], "match")) {
			o->pattern = value;
		} else if (slice_is(a->v[i], "type")) {
			o->no_type = !slice_is(value, "string");
		} else if (slice_is(a->v[i], "count")) {
			if (!reply_or_i64(c, value, &o->count))
				return false;
		} else {
			o->count = 0;
		}
		if (o->count < 1) {
			reply_syntax_error(c);
			return false;
		}
	}
	return true;
}

/*
 * A client's cursor is half of the store's: clients such as phpredis read it as a signed number.
 * The bit that is lost tells two neighbours of the 2^64 positions apart, so a key would be listed
 * twice only if a call ended between it and a key at the next position.
 */
static bool read_cursor(struct slice text, uint64_t *cursor_out)
{
	uint64_t half;

	if (!slice_u64(text, &half) || half > INT64_MAX)
		return false;
	*cursor_out = half << 1;
	return true;
}

void resp_scan(struct client *c, const struct args *a)
{
	struct scan_options o = {.pattern = {"*", 1}, .count = 10};
	const struct farkv_scan_item *items;
	size_t n, found = 0;
	uint64_t cursor;
	char digits[24];
	int err;

	if (!read_cursor(a->v[1], &cursor)) {
		reply_error(c, "ERR invalid cursor");
		return;
	}
	if (!scan_options(c, a, &o))
		return;
	err = farkv_scan(c->kv, &cursor, UTIL_MAX((uint64_t)o.count, FARKV_SCAN_MIN), &items, &n);
	if (err) {
		reply_store_error(c, err);
		return;
	}
	c->scratch->len = 0;
	if (!o.no_type)
		found = add_matching(c, items, n, o.pattern);
	reply_array(c, 2);
	snprintf(digits, sizeof(digits), "%" PRIu64, cursor >> 1);
	reply_text(c, digits);
	reply_found(c, found);
}

void resp_dbsize(struct client *c, const struct args *a)
{
	uint64_t n;
	int err = store_count(c, &n);

	(void)a;
	if (err)
		reply_store_error(c, err);
	else
		reply_int(c, (int64_t)n);
}

void resp_randomkey(struct client *c, const struct args *a)
{
	const struct farkv_scan_item *items = NULL;
	uint64_t cursor, random[2];
	bool wrapped = false;
	size_t n = 0;

	(void)a;
	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		random[0] = random[1] = clock_now_ns();
	cursor = random[0];
	while (!n) {
		int err = farkv_scan(c->kv, &cursor, FARKV_SCAN_MIN, &items, &n);

		if (err && err != FARKV_ECORRUPT) {
			reply_store_error(c, err);
			return;
		}
		if (!cursor && wrapped)
			break;
		wrapped |= !cursor;
	}
	if (n) {
		size_t i = random[1] % n;

		reply_bulk(c, items[i].key, items[i].key_len);
	} else {
		reply_null(c);
	}
}

void resp_flush(struct client *c, const struct args *a)
{
	int err;

	if (a->n > 2 || (a->n == 2 && !slice_is(a->v[1], "sync") && !slice_is(a->v[1], "async"))) {
		reply_syntax_error(c);
		return;
	}
	GATE_COUNT(c->counts, flushes, 1);
	err = farkv_clear(c->kv, NULL);
	if (err)
		reply_store_error(c, err);
	else
		reply_ok(c);
}
