/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "mc.h"

#include "common/base/util.h"
#include "mc_cmds.h"

struct mc_command {
	const char *name;
	mc_handler *run;
	unsigned min, max; /* words */
	bool write;        /* not for keys of the role ro */
	bool meta;         /* noreply is no word of it */
};

#define ANY UINT32_MAX

static const struct mc_command table[] = {
	{"get", mc_get, 2, ANY, false, true},
	{"gets", mc_gets, 2, ANY, false, true},
	{"set", mc_set, 5, 6, true, false},
	{"mg", mc_mg, 2, ANY, false, true},
	{"ms", mc_ms, 2, ANY, true, true},
	{"md", mc_md, 2, ANY, true, true},
	{"ma", mc_ma, 2, ANY, true, true},
	{"mn", mc_mn, 1, ANY, false, true},
	{"me", mc_me, 2, ANY, false, true},
	{"gat", mc_gat, 3, ANY, true, true},
	{"gats", mc_gats, 3, ANY, true, true},
	{"add", mc_add, 5, 6, true, false},
	{"replace", mc_replace, 5, 6, true, false},
	{"append", mc_append, 5, 6, true, false},
	{"prepend", mc_prepend, 5, 6, true, false},
	{"cas", mc_cas, 6, 7, true, false},
	{"incr", mc_incr, 3, 4, true, false},
	{"decr", mc_decr, 3, 4, true, false},
	{"touch", mc_touch, 3, 4, true, false},
	{"delete", mc_delete, 2, 4, true, false},
	{"flush_all", mc_flush_all, 1, 3, true, false},
	{"stats", mc_stats, 1, ANY, false, true},
	{"version", mc_version, 1, ANY, false, true},
	{"verbosity", mc_verbosity, 1, ANY, false, false},
	{"quit", mc_quit, 1, ANY, false, true},
};

static const struct mc_command *find(struct slice name)
{
	for (size_t i = 0; i < ARRAY_SIZE(table); i++)
		if (slice_same(name, table[i].name))
			return &table[i];
	return NULL;
}

/* The password comes as the value of any key: "NAME KEY". */
static void login(struct client *c, const struct args *a)
{
	struct slice text = c->mc.data;
	const char *blank = text.p ? memchr(text.p, ' ', text.len) : NULL;
	size_t name = blank ? (size_t)(blank - text.p) : 0;

	if (!a->n || !slice_same(a->v[0], "set") || !c->mc.body_due || c->mc.too_large)
		mc_error(c, "CLIENT_ERROR unauthenticated");
	else if (!name || !client_login(c, (struct slice){text.p, name},
					(struct slice){blank + 1, text.len - name - 1}))
		mc_error(c, "CLIENT_ERROR authentication failure");
	else
		mc_line(c, "STORED");
}

/* A browser that a page makes send requests to the ports of its machine. */
static bool is_http(struct slice word)
{
	static const char *const methods[] = {"GET", "PUT", "POST", "DELETE", "HEAD", "OPTIONS"};

	for (size_t i = 0; i < ARRAY_SIZE(methods); i++)
		if (slice_same(word, methods[i]))
			return true;
	return false;
}

/* The last word, if the command takes one more than it needs: a key may be called noreply, too. */
static bool is_noreply(const struct mc_command *t, const struct args *a)
{
	return !t->meta && a->n > t->min && a->n <= t->max &&
	       slice_same(a->v[a->n - 1], "noreply");
}

static void execute(struct client *c, const struct args *a)
{
	const struct mc_command *t = a->n ? find(a->v[0]) : NULL;

	c->noreply = t && c->authenticated && is_noreply(t, a);
	if (t)
		atom_store_relaxed(&c->command, t->name);
	if (!t && a->n && is_http(a->v[0]))
		c->closing = true;
	else if (!c->authenticated)
		login(c, a);
	else if (!t || a->n < t->min || a->n > t->max)
		mc_error(c, "ERROR");
	else if (t->write && c->read_only)
		mc_error(c, "CLIENT_ERROR a key of the role ro may not write");
	else {
		c->scratch->failed = false; /* of an earlier command */
		t->run(c, a);
	}
}

size_t mc_step(struct client *c, const char *data, size_t len)
{
	/* Before the login nothing longer than a name and a key has to be kept. */
	struct mc_limits limits = {c->gate->cfg.max_request,
				   c->authenticated ? c->gate->max_value : 256};
	const char *error = NULL;
	size_t done;

	switch (mc_parse(&c->mc, data, len, &limits, &error)) {
	case MC_MORE:
		return 0;
	case MC_BAD:
		c->noreply = false; /* of an earlier command */
		mc_error(c, error);
		c->closing = true;
		return 0;
	case MC_SKIPPED:
		done = c->mc.pos;
		c->mc.pos = 0;
		return done;
	case MC_REQUEST:
		break;
	}
	done = c->mc.pos;
	GATE_COUNT(c->counts, commands, 1);
	execute(c, &c->mc.args);
	mc_parser_next(&c->mc);
	return done;
}
