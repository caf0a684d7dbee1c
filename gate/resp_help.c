/* SPDX-License-Identifier: BSD-3-Clause */
/* COMMAND, out of the table. */
#include "config.h"

#include <string.h>

#include "resp_reply.h"
#include "resp_table.h"

static bool exists(const struct resp_command *t)
{
	return t && !(t->flags & RESP_REFUSED);
}

static size_t n_commands(void)
{
	const struct resp_command *t;
	size_t n = 0;

	for (size_t i = 0; (t = resp_at(i)); i++)
		n += exists(t);
	return n;
}

static void reply_flags(struct client *c, const struct resp_command *t)
{
	bool keys = t->first != 0;
	bool early = t->flags & RESP_NO_AUTH, admin = t->flags & RESP_ADMIN;

	reply_array(c, (size_t)keys + early + admin);
	if (keys)
		reply_simple(c, t->flags & RESP_WRITE ? "write" : "readonly");
	if (early)
		reply_simple(c, "no_auth");
	if (admin)
		reply_simple(c, "admin");
}

/* As COMMAND of Redis 6 describes one: what is new in 7 is empty. */
static void reply_info(struct client *c, const struct resp_command *t)
{
	if (!exists(t)) {
		buf_text(c->out, c->resp == 3 ? "_\r\n" : "*-1\r\n");
		return;
	}
	reply_array(c, 10);
	reply_text(c, t->name);
	reply_int(c, t->arity);
	reply_flags(c, t);
	reply_int(c, t->first);
	reply_int(c, t->last);
	reply_int(c, t->step);
	for (unsigned i = 0; i < 4; i++)
		reply_array(c, 0);
}

/* The first argument of a list, up to a blank that is not in brackets. */
static struct slice argument_at(const char *at)
{
	size_t len = 0, depth = 0;

	for (; at[len] && (at[len] != ' ' || depth); len++)
		depth += (size_t)(at[len] == '[') - (size_t)(at[len] == ']');
	return (struct slice){at, len};
}

/* redis-cli shows the name; so one of several words may be that of several arguments. */
static void reply_argument(struct client *c, struct slice text)
{
	bool optional = text.p[0] == '[', several;

	if (optional)
		text = (struct slice){text.p + 1, text.len - 2};
	several = text.len > 3 && memcmp(text.p + text.len - 3, "...", 3) == 0;
	if (several)
		text.len -= 3;
	reply_map(c, 3);
	reply_text(c, "name");
	reply_bulk(c, text.p, text.len);
	reply_text(c, "type");
	reply_text(c, "string");
	reply_text(c, "flags");
	reply_array(c, (size_t)optional + several);
	if (optional)
		reply_simple(c, "optional");
	if (several)
		reply_simple(c, "multiple");
}

static void reply_arguments(struct client *c, const char *list)
{
	struct slice text;
	size_t n = 0;

	for (const char *at = list; *at; at += text.len + (at[text.len] == ' '), n++)
		text = argument_at(at);
	reply_text(c, "arguments");
	reply_array(c, n);
	for (const char *at = list; *at; at += text.len + (at[text.len] == ' ')) {
		text = argument_at(at);
		reply_argument(c, text);
	}
}

static void reply_docs(struct client *c, const struct resp_command *t)
{
	reply_text(c, t->name);
	reply_map(c, 4);
	reply_text(c, "summary");
	reply_text(c, t->summary);
	reply_text(c, "since");
	reply_text(c, t->since);
	reply_text(c, "group");
	reply_text(c, t->group);
	reply_arguments(c, t->arguments);
}

static void command_docs(struct client *c, const struct args *a)
{
	const struct resp_command *t;
	size_t n = 0;

	if (a->n == 2) {
		reply_map(c, n_commands());
		for (size_t i = 0; (t = resp_at(i)); i++)
			if (exists(t))
				reply_docs(c, t);
		return;
	}
	for (size_t i = 2; i < a->n; i++)
		n += exists(resp_find(a->v[i]));
	reply_map(c, n);
	for (size_t i = 2; i < a->n; i++)
		if (exists(t = resp_find(a->v[i])))
			reply_docs(c, t);
}

static void command_list(struct client *c)
{
	const struct resp_command *t;

	reply_array(c, n_commands());
	for (size_t i = 0; (t = resp_at(i)); i++)
		if (exists(t))
			reply_text(c, t->name);
}

static void command_getkeys(struct client *c, const struct args *a)
{
	const struct resp_command *t = a->n > 2 ? resp_find(a->v[2]) : NULL;
	size_t n = a->n - 2, last;

	if (!exists(t) || !t->first) {
		reply_error(c, exists(t) ? "ERR The command has no key arguments" :
					   "ERR Invalid command specified");
		return;
	}
	last = t->last < 0 ? n - 1 : (size_t)t->last;
	if ((t->arity > 0 ? n != (size_t)t->arity : n < (size_t)-t->arity) || last >= n) {
		reply_error(c, "ERR Invalid number of arguments specified for command");
		return;
	}
	reply_array(c, (last - (size_t)t->first) / (size_t)t->step + 1);
	for (size_t i = (size_t)t->first; i <= last; i += (size_t)t->step)
		reply_bulk(c, a->v[2 + i].p, a->v[2 + i].len);
}

void resp_command(struct client *c, const struct args *a)
{
	const struct resp_command *t;

	if (a->n == 1 || (a->n == 2 && slice_is(a->v[1], "info"))) {
		reply_array(c, n_commands());
		for (size_t i = 0; (t = resp_at(i)); i++)
			if (exists(t))
				reply_info(c, t);
	} else if (slice_is(a->v[1], "count") && a->n == 2) {
		reply_int(c, (int64_t)n_commands());
	} else if (slice_is(a->v[1], "docs")) {
		command_docs(c, a);
	} else if (slice_is(a->v[1], "info")) {
		reply_array(c, a->n - 2);
		for (size_t i = 2; i < a->n; i++)
			reply_info(c, resp_find(a->v[i]));
	} else if (slice_is(a->v[1], "list") && a->n == 2) {
		command_list(c);
	} else if (slice_is(a->v[1], "getkeys")) {
		command_getkeys(c, a);
	} else {
		reply_error(c, "ERR unknown subcommand or wrong number of arguments for '%.*s'. "
			       "Try COMMAND COUNT, DOCS, INFO, LIST or GETKEYS.",
			    REPLY_WORD(a->v[1]));
	}
}
