/* SPDX-License-Identifier: BSD-3-Clause */
/* Redis's counters: signed numbers of 64 bits, and floating point numbers. */
#include "config.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "resp_cmds.h"
#include "resp_reply.h"
#include "store.h"

struct sum {
	int64_t delta;
	long double float_delta;
	int64_t value;
	char text[SLICE_FLOAT_MAX];
	size_t len;
	const char *error;
};

static bool incr_decide(struct edit *e, void *arg)
{
	struct sum *s = arg;
	struct slice old = {e->old.data, e->old.len};

	s->value = 0;
	s->error = NULL;
	if (e->found && !slice_i64(old, &s->value))
		s->error = "ERR value is not an integer or out of range";
	else if (__builtin_add_overflow(s->value, s->delta, &s->value))
		s->error = "ERR increment or decrement would overflow";
	if (s->error)
		return false;
	e->len = (size_t)snprintf(s->text, sizeof(s->text), "%lld", (long long)s->value);
	e->data = s->text;
	return true;
}

static void incr(struct client *c, struct slice key, int64_t delta)
{
	struct sum s = {.delta = delta};
	struct edit e;
	int err = store_edit(c, key, incr_decide, &s, &e);

	if (err)
		reply_store_error(c, err);
	else if (s.error)
		reply_error(c, "%s", s.error);
	else
		reply_int(c, s.value);
}

void resp_incr(struct client *c, const struct args *a)
{
	incr(c, a->v[1], 1);
}

void resp_decr(struct client *c, const struct args *a)
{
	incr(c, a->v[1], -1);
}

void resp_incrby(struct client *c, const struct args *a)
{
	int64_t delta;

	if (reply_or_i64(c, a->v[2], &delta))
		incr(c, a->v[1], delta);
}

void resp_decrby(struct client *c, const struct args *a)
{
	int64_t delta;

	if (!reply_or_i64(c, a->v[2], &delta))
		return;
	if (delta == INT64_MIN)
		reply_error(c, "ERR decrement would overflow");
	else
		incr(c, a->v[1], -delta);
}

/* As Redis prints it: 17 digits after the point, without zeros at the end. It always fits. */
static size_t float_text(long double value, char *text)
{
	int len = snprintf(text, SLICE_FLOAT_MAX, "%.17Lf", value);

	while (text[len - 1] == '0')
		len--;
	if (text[len - 1] == '.')
		len--;
	if (len == 2 && memcmp(text, "-0", 2) == 0) {
		text[0] = '0';
		len = 1;
	}
	return (size_t)len;
}

static bool float_decide(struct edit *e, void *arg)
{
	struct sum *s = arg;
	struct slice old = {e->old.data, e->old.len};
	long double value = 0;

	s->error = NULL;
	if (e->found && !slice_float(old, &value))
		s->error = "ERR value is not a valid float";
	value += s->float_delta;
	if (!s->error && (isnan(value) || isinf(value)))
		s->error = "ERR increment would produce NaN or Infinity";
	if (s->error)
		return false;
	s->len = float_text(value, s->text);
	e->data = s->text;
	e->len = s->len;
	return true;
}

void resp_incrbyfloat(struct client *c, const struct args *a)
{
	struct sum s = {.delta = 0};
	struct edit e;
	int err;

	if (!slice_float(a->v[2], &s.float_delta)) {
		reply_error(c, "ERR value is not a valid float");
		return;
	}
	err = store_edit(c, a->v[1], float_decide, &s, &e);
	if (err)
		reply_store_error(c, err);
	else if (s.error)
		reply_error(c, "%s", s.error);
	else
		reply_bulk(c, s.text, s.len);
}
