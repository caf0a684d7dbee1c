/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "resp_reply.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <farkv.h>


void reply_simple(struct client *c, const char *text)
{
	buf_add(c->out, "+", 1);
	buf_text(c->out, text);
	buf_add(c->out, "\r\n", 2);
}

void reply_ok(struct client *c)
{
	buf_add(c->out, "+OK\r\n", 5);
}

void reply_error(struct client *c, const char *fmt, ...)
{
	char line[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	for (char *p = line; *p; p++)
		if (*p == '\r' || *p == '\n')
			*p = ' ';
	GATE_COUNT(c->counts, errors, 1);
	buf_printf(c->out, "-%s\r\n", line);
}

void reply_store_error(struct client *c, int err)
{
	switch (err) {
	case FARKV_ENOSPC:
	case FARKV_EINDEXFULL:
		reply_error(c, "OOM command not allowed: %s", farkv_errdetail());
		break;
	case FARKV_EPERM:
		reply_error(c, "NOPERM %s", farkv_errdetail());
		break;
	case FARKV_EMAYBE:
		reply_error(c, "ERR the outcome is unknown, it may have happened: %s",
			    farkv_errdetail());
		break;
	default:
		reply_error(c, "ERR %s: %s", farkv_strerror(err), farkv_errdetail());
		break;
	}
}

static void head(struct client *c, char kind, uint64_t n)
{
	char *to = buf_room(c->out, 24);

	if (!to)
		return;
	if (n < 10) { /* most lengths are short */
		to[0] = kind;
		to[1] = (char)('0' + n);
		to[2] = '\r';
		to[3] = '\n';
		c->out->len += 4;
		return;
	}
	buf_add(c->out, &kind, 1);
	buf_u64(c->out, n);
	buf_add(c->out, "\r\n", 2);
}

void reply_int(struct client *c, int64_t n)
{
	if (n >= 0) {
		head(c, ':', (uint64_t)n);
		return;
	}
	buf_add(c->out, ":", 1);
	buf_i64(c->out, n);
	buf_add(c->out, "\r\n", 2);
}

void reply_bulk(struct client *c, const void *data, size_t len)
{
	head(c, '$', len);
	buf_add(c->out, data, len);
	buf_add(c->out, "\r\n", 2);
}

void reply_text(struct client *c, const char *text)
{
	reply_bulk(c, text, strlen(text));
}

void reply_null(struct client *c)
{
	buf_text(c->out, c->resp == 3 ? "_\r\n" : "$-1\r\n");
}

void reply_array(struct client *c, size_t n)
{
	head(c, '*', n);
}

void reply_map(struct client *c, size_t n)
{
	head(c, c->resp == 3 ? '%' : '*', c->resp == 3 ? n : 2 * n);
}

void reply_lines(struct client *c, const void *data, size_t len)
{
	if (c->resp != 3) {
		reply_bulk(c, data, len);
		return;
	}
	head(c, '=', len + 4);
	buf_add(c->out, "txt:", 4);
	buf_add(c->out, data, len);
	buf_add(c->out, "\r\n", 2);
}

void reply_syntax_error(struct client *c)
{
	reply_error(c, "ERR syntax error");
}

bool reply_too_long(struct client *c, size_t before)
{
	if (c->out->len - before <= c->gate->cfg.max_output)
		return false;
	c->out->len = before;
	reply_error(c, "ERR the answer is longer than the gate's --max-output");
	return true;
}

bool reply_or_i64(struct client *c, struct slice s, int64_t *out)
{
	if (slice_i64(s, out))
		return true;
	reply_error(c, "ERR value is not an integer or out of range");
	return false;
}
