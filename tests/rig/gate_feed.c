/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "gate_feed.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/util.h"
#include "gate/mc_parse.h"
#include "gate/resp_parse.h"

struct feed {
	struct resp_parser resp;
	struct mc_parser mc;
	struct buf *trace;
	bool ended;
};

typedef size_t step_fn(struct feed *f, char *data, size_t len);

static void trace_words(struct feed *f, const struct args *a)
{
	for (size_t i = 0; i < a->n; i++) {
		buf_text(f->trace, i ? " <" : "<");
		buf_add(f->trace, a->v[i].p, a->v[i].len);
		buf_text(f->trace, ">");
	}
}

static void trace_bad(struct feed *f, const char *error)
{
	buf_text(f->trace, "BAD ");
	buf_text(f->trace, error);
	buf_text(f->trace, "\n");
	f->ended = true;
}

static size_t step_resp(struct feed *f, char *data, size_t len)
{
	static const struct resp_limits limits = {GATE_FEED_REQUEST_MAX, true};
	const char *error = NULL;
	size_t done;

	switch (resp_parse(&f->resp, data, len, &limits, &error)) {
	case RESP_MORE:
		return 0;
	case RESP_BAD:
		trace_bad(f, error);
		return 0;
	case RESP_REQUEST:
		break;
	}
	trace_words(f, &f->resp.args);
	buf_text(f->trace, "\n");
	done = f->resp.pos;
	resp_parser_next(&f->resp);
	return done;
}

static size_t step_mc(struct feed *f, char *data, size_t len)
{
	static const struct mc_limits limits = {GATE_FEED_REQUEST_MAX, GATE_FEED_VALUE_MAX};
	const char *error = NULL;
	size_t done;

	switch (mc_parse(&f->mc, data, len, &limits, &error)) {
	case MC_MORE:
		return 0;
	case MC_BAD:
		trace_bad(f, error);
		return 0;
	case MC_SKIPPED:
		done = f->mc.pos;
		f->mc.pos = 0;
		return done;
	case MC_REQUEST:
		break;
	}
	trace_words(f, &f->mc.args);
	if (f->mc.body_due)
		buf_text(f->trace, f->mc.too_large ? " too large" :
				   f->mc.bad_body  ? " bad|" :
						     "|");
	buf_add(f->trace, f->mc.data.p, f->mc.data.len);
	buf_text(f->trace, "\n");
	done = f->mc.pos;
	mc_parser_next(&f->mc);
	return done;
}

/* Execute what is complete; returns how many bytes that were. */
static size_t steps(struct feed *f, char *data, size_t len, step_fn *step)
{
	size_t done = 0, n;

	while (done < len && !f->ended && (n = step(f, data + done, len - done)))
		done += n;
	return done;
}

static void feed(struct feed *f, const char *data, size_t len, const size_t pieces[2],
		 step_fn *step)
{
	char *have = NULL;
	size_t kept = 0, done;

	for (size_t at = 0, i = 0; at < len && !f->ended; i = 1) {
		size_t piece = UTIL_MIN(pieces[i], len - at);
		char *now = malloc(kept + piece + (kept + piece == 0));

		if (kept)
			memcpy(now, have, kept);
		memcpy(now + kept, data + at, piece);
		free(have);
		have = now;
		at += piece;
		kept += piece;
		done = steps(f, have, kept, step);
		kept -= done;
		if (done) {
			now = malloc(kept + !kept);
			memcpy(now, have + done, kept);
			free(have);
			have = now;
		}
	}
	free(have);
	args_free(&f->resp.args);
	args_free(&f->mc.args);
}

void gate_feed_resp(const void *data, size_t len, size_t first, size_t rest, struct buf *trace)
{
	struct feed f = {.trace = trace};

	feed(&f, data, len, (const size_t[]){first, rest}, step_resp);
}

void gate_feed_mc(const void *data, size_t len, size_t first, size_t rest, struct buf *trace)
{
	struct feed f = {.trace = trace};

	feed(&f, data, len, (const size_t[]){first, rest}, step_mc);
}

bool gate_feed_same(gate_feed *fn, const uint8_t *data, size_t size)
{
	struct buf whole = {0}, pieces = {0};
	bool same;

	if (size < 2)
		return true;
	fn(data + 2, size - 2, size, 1, &whole);
	fn(data + 2, size - 2, data[0], data[1] + 1u, &pieces);
	same = whole.len == pieces.len && (!whole.len || memcmp(whole.p, pieces.p, whole.len) == 0);
	buf_free(&whole);
	buf_free(&pieces);
	return same;
}
