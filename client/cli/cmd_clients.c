/* SPDX-License-Identifier: BSD-3-Clause */
/* clients and kill: who is connected. */
#include "config.h"

#include "cli.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "common/base/util.h"

#include "output.h"

static const char *kind_of(const struct farkv_client *c)
{
	return c->flags & FARKV_CLIENT_RDMA ? "rdma" : "shm";
}

static const char *role_of(const struct farkv_client *c)
{
	return c->flags & FARKV_CLIENT_READONLY ? "ro" : "rw";
}

/* The session's number, after the name of its server where the store has several. */
static const char *id_of(const struct farkv_server *s, const struct farkv_client *c, char buf[64])
{
	snprintf(buf, 64, "%s%s%" PRIu64, s->epoch ? s->name : "", s->epoch ? "/" : "", c->session);
	return buf;
}

static void print_json(const struct farkv_server *s, const struct farkv_client *c)
{
	const struct {
		const char *name;
		uint64_t value;
	} numbers[] = {
		{"id", c->session}, {"pid", c->pid},       {"age_ms", c->age_ms},
		{"hits", c->hits},  {"misses", c->misses}, {"sets", c->sets},
	};
	json_t *o = json_object();

	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		output_count(o, numbers[i].name, numbers[i].value);
	if (s->epoch)
		json_object_set_new(o, "server", json_string(s->name));
	json_object_set_new(o, "kind", json_string(kind_of(c)));
	json_object_set_new(o, "role", json_string(role_of(c)));
	output_bytes(o, "peer", c->peer, strlen(c->peer));
	output_bytes(o, "name", c->name, strlen(c->name));
	json_object_set_new(o, "self", json_boolean(c->flags & FARKV_CLIENT_SELF));
	output_print(o);
}

static void print_csv(const struct farkv_server *s, const struct farkv_client *c)
{
	char id[64];

	printf("%s,%s,%s,", id_of(s, c, id), kind_of(c), role_of(c));
	output_csv(c->peer, strlen(c->peer));
	printf(",%" PRIu64 ".%03" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",", c->age_ms / 1000,
	       c->age_ms % 1000, c->hits, c->misses, c->sets);
	output_csv(c->name, strlen(c->name));
	putchar('\n');
}

static void print_row(const struct farkv_server *s, const struct farkv_client *c)
{
	char name[sizeof(c->name)], peer[sizeof(c->peer)], id[64];

	snprintf(name, sizeof(name), "%s", c->name);
	snprintf(peer, sizeof(peer), "%s", c->peer);
	printf("%-10s %-4s %-4s %-24s %8" PRIu64 " %12" PRIu64 " %12" PRIu64 " %12" PRIu64
	       "  %s%s\n",
	       id_of(s, c, id), kind_of(c), role_of(c), util_one_line(peer), c->age_ms / 1000,
	       c->hits, c->misses, c->sets, util_one_line(name),
	       c->flags & FARKV_CLIENT_SELF ? " (this one)" : "");
}

static int list(struct cli *cli, const struct farkv_server *s)
{
	struct farkv_client c = {.size = sizeof(c)};
	int code = CLI_OK, err = 0;

	while (!code && (err = farkv_client_next(s->handle, &c)) == 0) {
		if (cli->json)
			print_json(s, &c);
		else if (cli->csv)
			print_csv(s, &c);
		else
			print_row(s, &c);
		code = cli_output_check(cli, code);
	}
	return code || err == FARKV_ENOTFOUND ? code : cli_fail(cli, err, NULL, 0);
}

int cmd_clients(struct cli *cli, int argc, char **argv)
{
	int code = cli_connect(cli);

	(void)argc;
	(void)argv;
	if (code)
		return code;
	if (cli->csv)
		puts("id,kind,role,peer,age_s,hits,misses,sets,name");
	else if (!cli->json && !cli->quiet)
		printf("%-10s %-4s %-4s %-24s %8s %12s %12s %12s  %s\n", "ID", "KIND", "ROLE",
		       "PEER", "AGE (s)", "HITS", "MISSES", "SETS", "NAME");
	return cli_each_server(cli, list);
}

/* The handle of the server of that name; NULL: there is none. Without a name: the store's own. */
static struct farkv *handle_of(struct farkv *kv, const char *name, size_t len)
{
	struct farkv_server s = {.size = sizeof(s)};

	if (!name)
		return kv;
	for (size_t i = 0; farkv_server(kv, i, &s) == 0; i++)
		if (s.epoch && strlen(s.name) == len && memcmp(s.name, name, len) == 0)
			return s.handle;
	return NULL;
}

int cmd_kill(struct cli *cli, int argc, char **argv)
{
	const char *slash = strrchr(argv[0], '/');
	struct farkv_server first = {.size = sizeof(first)};
	struct farkv *kv;
	uint64_t id;
	int code, err;

	(void)argc;
	if (!util_parse_u64(slash ? slash + 1 : argv[0], &id))
		return cli_error(cli, CLI_USAGE,
				 "'%s' is no session; take the ID that clients prints", argv[0]);
	code = cli_connect(cli);
	if (code)
		return code;
	if (!slash && farkv_server(cli->kv, 0, &first) == 0 && first.epoch)
		return cli_error(cli, CLI_USAGE, "the store has several servers; give SERVER/ID, as "
						 "clients prints it");
	kv = handle_of(cli->kv, slash ? argv[0] : NULL, slash ? (size_t)(slash - argv[0]) : 0);
	if (!kv)
		return cli_error(cli, CLI_NO, "'%s': the store has no server of that name", argv[0]);
	err = farkv_kill(kv, id);
	return err ? cli_fail(cli, err, NULL, 0) : CLI_OK;
}
