/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "resp.h"

#include "common/base/util.h"
#include "resp_reply.h"
#include "resp_table.h"

/* As Redis: the name and the first words, 128 bytes of each and of all. */
static void unknown(struct client *c, const struct args *a)
{
	char words[160];
	size_t n = 0;

	for (size_t i = 1; i < a->n && n < 128; i++) {
		size_t len = UTIL_MIN(a->v[i].len, 128 - n);

		words[n++] = '\'';
		memcpy(words + n, a->v[i].p, len);
		n += len;
		words[n++] = '\'';
		words[n++] = ' ';
	}
	reply_error(c, "ERR unknown command '%.*s', with args beginning with: %.*s",
		    (int)UTIL_MIN(a->v[0].len, (size_t)128), a->v[0].p, (int)n, words);
}

static bool arity_ok(const struct resp_command *t, size_t n)
{
	return t->arity > 0 ? n == (size_t)t->arity : n >= (size_t)-t->arity;
}

static void execute(struct client *c, const struct args *a)
{
	const struct resp_command *t = resp_find(a->v[0]);

	if (t)
		atom_store_relaxed(&c->command, t->name);
	/* A browser that a page makes send requests to the ports of its machine. */
	if (slice_is(a->v[0], "post") || slice_is(a->v[0], "host:"))
		c->closing = true;
	else if (!t)
		unknown(c, a);
	else if (t->flags & RESP_REFUSED)
		reply_error(c, "%s", t->summary);
	else if (!arity_ok(t, a->n))
		reply_error(c, "ERR wrong number of arguments for '%s' command", t->name);
	else if (!c->authenticated && !(t->flags & RESP_NO_AUTH))
		reply_error(c, "NOAUTH Authentication required.");
	else if (c->read_only && t->flags & (RESP_WRITE | RESP_ADMIN))
		reply_error(c, "NOPERM this user has no permissions to run the '%s' command",
			    t->name);
	else {
		c->scratch->failed = false; /* of an earlier command */
		t->run(c, a);
	}
}

size_t resp_step(struct client *c, char *data, size_t len)
{
	struct resp_limits limits = {c->gate->cfg.max_request, c->authenticated};
	const char *error = NULL;
	size_t done;

	switch (resp_parse(&c->parser, data, len, &limits, &error)) {
	case RESP_MORE:
		return 0;
	case RESP_BAD:
		reply_error(c, "ERR %s", error);
		c->closing = true;
		return 0;
	case RESP_REQUEST:
		break;
	}
	done = c->parser.pos;
	if (c->parser.args.n) {
		GATE_COUNT(c->counts, commands, 1);
		execute(c, &c->parser.args);
	}
	resp_parser_next(&c->parser);
	return done;
}
