/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "mc_reply.h"

#include <stdio.h>
#include <string.h>

#include "common/base/util.h"
#include "store.h"

#define DAYS_30 (60 * 60 * 24 * 30)

void mc_line(struct client *c, const char *text)
{
	if (c->noreply)
		return;
	buf_text(c->out, text);
	buf_add(c->out, "\r\n", 2);
}

void mc_error(struct client *c, const char *text)
{
	GATE_COUNT(c->counts, errors, 1);
	mc_line(c, text);
}

void mc_bad_format(struct client *c)
{
	mc_error(c, "CLIENT_ERROR bad command line format");
}

void mc_store_error(struct client *c, int err)
{
	char line[700];

	switch (err) {
	case FARKV_ENOSPC:
	case FARKV_EINDEXFULL:
		mc_error(c, "SERVER_ERROR out of memory storing object");
		break;
	case FARKV_ETOOLARGE:
		mc_error(c, "SERVER_ERROR object too large for cache");
		break;
	default:
		snprintf(line, sizeof(line), "SERVER_ERROR %s: %s", farkv_strerror(err),
			 farkv_errdetail());
		mc_error(c, line);
		break;
	}
}

bool mc_key_fits(const struct client *c, struct slice key)
{
	return key.len && key.len <= MC_KEY_MAX && key.len <= c->gate->max_key;
}

bool mc_key_ok(struct client *c, struct slice key)
{
	if (mc_key_fits(c, key))
		return true;
	mc_bad_format(c);
	return false;
}

bool mc_time_read(struct slice word, struct mc_time *out)
{
	bool minus = word.len && word.p[0] == '-';
	struct slice digits = {word.p + minus, word.len - minus};
	int64_t date = store_date_ms();
	uint64_t n;

	if (!slice_u64(digits, &n))
		return false;
	n = UTIL_MIN(n, (uint64_t)UINT32_MAX);
	*out = (struct mc_time){.over = minus && n};
	if (minus || !n)
		return true;
	if (n <= DAYS_30)
		out->ttl_ms = n * 1000;
	else if ((int64_t)n * 1000 > date)
		out->ttl_ms = UTIL_MIN(n * 1000 - (uint64_t)date, FARKV_TTL_MAX_MS);
	else
		out->over = true;
	return true;
}
