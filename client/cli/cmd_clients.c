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

static void print_json(const struct farkv_client *c)
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
	json_object_set_new(o, "kind", json_string(kind_of(c)));
	json_object_set_new(o, "role", json_string(role_of(c)));
	output_bytes(o, "peer", c->peer, strlen(c->peer));
	output_bytes(o, "name", c->name, strlen(c->name));
	json_object_set_new(o, "self", json_boolean(c->flags & FARKV_CLIENT_SELF));
	output_print(o);
}

static void print_csv(const struct farkv_client *c)
{
	printf("%" PRIu64 ",%s,%s,", c->session, kind_of(c), role_of(c));
	output_csv(c->peer, strlen(c->peer));
	printf(",%" PRIu64 ".%03" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",", c->age_ms / 1000,
	       c->age_ms % 1000, c->hits, c->misses, c->sets);
	output_csv(c->name, strlen(c->name));
	putchar('\n');
}

static void print_row(const struct farkv_client *c)
{
	char name[sizeof(c->name)];

	snprintf(name, sizeof(name), "%s", c->name);
	printf("%-10" PRIu64 " %-4s %-4s %-24s %8" PRIu64 " %12" PRIu64 " %12" PRIu64 " %12" PRIu64
	       "  %s%s\n",
	       c->session, kind_of(c), role_of(c), c->peer, c->age_ms / 1000, c->hits, c->misses,
	       c->sets, util_one_line(name), c->flags & FARKV_CLIENT_SELF ? " (this one)" : "");
}

int cmd_clients(struct cli *cli, int argc, char **argv)
{
	struct farkv_client c = {.size = sizeof(c)};
	int code = cli_connect(cli), err;

	(void)argc;
	(void)argv;
	if (code)
		return code;
	if (cli->csv)
		puts("id,kind,role,peer,age_s,hits,misses,sets,name");
	else if (!cli->json && !cli->quiet)
		printf("%-10s %-4s %-4s %-24s %8s %12s %12s %12s  %s\n", "ID", "KIND", "ROLE",
		       "PEER", "AGE (s)", "HITS", "MISSES", "SETS", "NAME");
	while (!code && (err = farkv_client_next(cli->kv, &c)) == 0) {
		if (cli->json)
			print_json(&c);
		else if (cli->csv)
			print_csv(&c);
		else
			print_row(&c);
		code = cli_output_check(cli, code);
	}
	return code || err == FARKV_ENOTFOUND ? code : cli_fail(cli, err, NULL, 0);
}

int cmd_kill(struct cli *cli, int argc, char **argv)
{
	uint64_t id;
	int code, err;

	(void)argc;
	if (!util_parse_u64(argv[0], &id))
		return cli_error(cli, CLI_USAGE,
				 "'%s' is no session; take the ID that clients prints", argv[0]);
	code = cli_connect(cli);
	if (code)
		return code;
	err = farkv_kill(cli->kv, id);
	return err ? cli_fail(cli, err, NULL, 0) : CLI_OK;
}
