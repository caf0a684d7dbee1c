/* SPDX-License-Identifier: BSD-3-Clause */
/* Redis's commands for the connection. */
#include "config.h"

#include <string.h>

#include "resp_cmds.h"
#include "resp_reply.h"

void resp_ping(struct client *c, const struct args *a)
{
	if (a->n > 2)
		reply_error(c, "ERR wrong number of arguments for 'ping' command");
	else if (a->n == 2)
		reply_bulk(c, a->v[1].p, a->v[1].len);
	else
		reply_simple(c, "PONG");
}

void resp_echo(struct client *c, const struct args *a)
{
	reply_bulk(c, a->v[1].p, a->v[1].len);
}

static bool is_default(struct slice user)
{
	return slice_same(user, "default");
}

/* False: an error was answered. */
static bool login(struct client *c, struct slice user, struct slice password)
{
	if (!c->gate->clients)
		reply_error(c, "ERR AUTH <password> called without any password configured for "
			       "the default user. Are you sure your configuration is correct?");
	else if (!client_login(c, is_default(user) ? (struct slice){"", 0} : user, password))
		reply_error(c, "WRONGPASS invalid username-password pair or user is disabled.");
	else
		return true;
	return false;
}

void resp_auth(struct client *c, const struct args *a)
{
	if (a->n > 3)
		reply_syntax_error(c);
	else if (login(c, a->n == 3 ? a->v[1] : (struct slice){"", 0}, a->v[a->n - 1]))
		reply_ok(c);
}

static bool name_ok(struct client *c, struct slice name)
{
	for (size_t i = 0; i < name.len; i++)
		if (name.p[i] < '!' || name.p[i] > '~') {
			reply_error(c, "ERR Client names cannot contain spaces, newlines or special "
				       "characters.");
			return false;
		}
	return true;
}

static void describe(struct client *c)
{
	reply_map(c, 7);
	reply_text(c, "server");
	reply_text(c, "redis");
	reply_text(c, "version");
	reply_text(c, AS_REDIS_VERSION);
	reply_text(c, "proto");
	reply_int(c, c->resp);
	reply_text(c, "id");
	reply_int(c, (int64_t)c->id);
	reply_text(c, "mode");
	reply_text(c, "standalone");
	reply_text(c, "role");
	reply_text(c, "master");
	reply_text(c, "modules");
	reply_array(c, 0);
}

void resp_hello(struct client *c, const struct args *a)
{
	struct slice name = {NULL, 0};
	int64_t version = c->resp;

	if (a->n > 1 && (!slice_i64(a->v[1], &version) || version < 2 || version > 3)) {
		reply_error(c, slice_i64(a->v[1], &version) ?
				       "NOPROTO unsupported protocol version" :
				       "ERR Protocol version is not an integer or out of range");
		return;
	}
	for (size_t i = 2; i < a->n; i++) {
		size_t left = a->n - i - 1;

		if (slice_is(a->v[i], "auth") && left >= 2) {
			if (!login(c, a->v[i + 1], a->v[i + 2]))
				return;
			i += 2;
		} else if (slice_is(a->v[i], "setname") && left >= 1) {
			name = a->v[++i];
			if (!name_ok(c, name))
				return;
		} else {
			reply_error(c, "ERR Syntax error in HELLO option '%.*s'",
				    REPLY_WORD(a->v[i]));
			return;
		}
	}
	if (!c->authenticated) {
		reply_error(c, "NOAUTH HELLO must be called with the client already "
			       "authenticated, otherwise the HELLO <proto> AUTH <user> <pass> "
			       "option can be used to authenticate the client and select the RESP "
			       "protocol version at the same time");
		return;
	}
	if (name.p)
		client_set_text(c, c->name, name);
	c->resp = (unsigned)version;
	describe(c);
}

void resp_select(struct client *c, const struct args *a)
{
	int64_t n;

	if (!slice_i64(a->v[1], &n))
		reply_error(c, "ERR invalid DB index");
	else if (n)
		reply_error(c, "ERR DB index is out of range");
	else
		reply_ok(c);
}

void resp_quit(struct client *c, const struct args *a)
{
	(void)a;
	reply_ok(c);
	c->closing = true;
}

void resp_reset(struct client *c, const struct args *a)
{
	(void)a;
	client_set_text(c, c->name, (struct slice){"", 0});
	c->resp = 2;
	c->authenticated = !c->gate->clients;
	c->read_only = false;
	reply_simple(c, "RESET");
}

/* ---- CLIENT -------------------------------------------------------------------------- */

/* The older form names an address and is answered by OK, or by an error. */
static void kill_address(struct client *c, struct slice addr)
{
	struct clients_filter f = {.addr = addr};
	bool self;

	if (!clients_kill(c, &f, &self)) {
		reply_error(c, "ERR No such client");
		return;
	}
	reply_ok(c);
	c->closing |= self;
}

static void client_kill(struct client *c, const struct args *a)
{
	struct clients_filter f = {.not = c};
	uint64_t n;
	bool self;

	if (a->n == 3) {
		kill_address(c, a->v[2]);
		return;
	}
	for (size_t i = 2; i < a->n; i += 2) {
		struct slice value = i + 1 < a->n ? a->v[i + 1] : (struct slice){"", 0};

		if (slice_is(a->v[i], "id") && slice_u64(value, &f.id) && f.id)
			continue;
		if (slice_is(a->v[i], "addr") && value.len)
			f.addr = value;
		else if (slice_is(a->v[i], "laddr") && value.len)
			f.local = value;
		else if (slice_is(a->v[i], "user") && value.len)
			f.user = value;
		else if (slice_is(a->v[i], "skipme") && slice_is(value, "no"))
			f.not = NULL;
		else if (!(slice_is(a->v[i], "type") && slice_is(value, "normal")) &&
			 !(slice_is(a->v[i], "skipme") && slice_is(value, "yes"))) {
			reply_syntax_error(c);
			return;
		}
	}
	n = clients_kill(c, &f, &self);
	reply_int(c, (int64_t)n);
	c->closing |= self;
}

static void client_list(struct client *c, const struct client *only)
{
	c->scratch->len = 0;
	clients_list(c->gate, only, c->scratch);
	reply_lines(c, c->scratch->p, c->scratch->len);
}

static void client_setinfo(struct client *c, const struct args *a)
{
	bool name = slice_is(a->v[2], "lib-name");

	if (!name && !slice_is(a->v[2], "lib-ver")) {
		reply_error(c, "ERR Unrecognized option '%.*s'",
			    REPLY_WORD(a->v[2]));
	} else if (name_ok(c, a->v[3])) {
		client_set_text(c, name ? c->lib_name : c->lib_version, a->v[3]);
		reply_ok(c);
	}
}

void resp_client(struct client *c, const struct args *a)
{
	struct slice sub = a->v[1];

	if (slice_is(sub, "id") && a->n == 2) {
		reply_int(c, (int64_t)c->id);
	} else if (slice_is(sub, "getname") && a->n == 2) {
		if (*c->name)
			reply_text(c, c->name);
		else
			reply_null(c);
	} else if (slice_is(sub, "setname") && a->n == 3) {
		if (name_ok(c, a->v[2])) {
			client_set_text(c, c->name, a->v[2]);
			reply_ok(c);
		}
	} else if (slice_is(sub, "setinfo") && a->n == 4) {
		client_setinfo(c, a);
	} else if (slice_is(sub, "list") && a->n == 2) {
		client_list(c, NULL);
	} else if (slice_is(sub, "info") && a->n == 2) {
		client_list(c, c);
	} else if (slice_is(sub, "kill") && a->n >= 3) {
		if (c->read_only)
			reply_error(c, "NOPERM a key of the role ro may not close connections");
		else
			client_kill(c, a);
	} else {
		reply_error(c, "ERR unknown subcommand or wrong number of arguments for '%.*s'. "
			       "Try CLIENT ID, INFO, LIST, KILL, GETNAME, SETNAME or SETINFO.",
			    REPLY_WORD(sub));
	}
}
