/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kvcli cluster: make the map of a cluster, and show the state of its servers; cluster_plan.h has
 * the commands that change it. kvcli wait: wait until followers have all earlier writes.
 */
#include "config.h"

#include "cli.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "common/base/err.h"
#include "common/base/util.h"
#include "common/proto/clustermap.h"
#include "common/snapshot/outfile.h"
#include "server/cluster/coord.h"

#include "cluster_plan.h"
#include "output.h"

/* ---- init -------------------------------------------------------------------------------- */

static int write_all(const struct outfile *o, const char *text, size_t len)
{
	while (len > 0) {
		ssize_t n = write(o->fd, text, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_set_errno(FARKV_ESYS, errno, "cannot write %s", o->name);
		text += n;
		len -= (size_t)n;
	}
	return 0;
}

/* Anyone may read a map, but outfile_open() makes files that only their owner can read. */
static int let_others_read(const struct outfile *o)
{
	mode_t mask = umask(0);

	umask(mask);
	if (!o->temp || fchmod(o->fd, 0644 & ~mask) == 0)
		return 0;
	return err_set_errno(FARKV_ESYS, errno, "cannot write %s", o->name);
}

static int save(const struct clustermap *map, const char *path)
{
	char text[CLUSTERMAP_TEXT_MAX + 1];
	size_t len = clustermap_print(map, text);
	struct outfile o;
	int err = outfile_open(&o, path);

	if (err)
		return err;
	err = let_others_read(&o);
	if (!err)
		err = write_all(&o, text, len);
	if (!err)
		return outfile_commit(&o);
	outfile_abort(&o);
	return err;
}

#define LEASE_MS 1000u

/* Make the cluster in ZooKeeper. */
static int init_coordinator(struct cli *cli, struct clustermap *map, const char *url)
{
	char text[CLUSTERMAP_TEXT_MAX + 1];
	int err;

	clustermap_set_lease(map, LEASE_MS);
	clustermap_set_replicas(map, (uint32_t)cli->replicas);
	err = coord_make(url, text, clustermap_print(map, text), ZOOKEEPER_MS);
	if (err == FARKV_EINVAL || err == FARKV_EEXISTS)
		return cli_error(cli, CLI_USAGE, "%s", err_detail());
	if (err)
		return cli_error(cli, CLI_FAILED, "%s", err_detail());
	if (!cli->quiet)
		cli_error(cli, CLI_OK, "made %s; start each server with --cluster %s --node-name NAME",
			  url, url);
	return CLI_OK;
}

static int init(struct cli *cli, const char *path)
{
	bool file = strncmp(path, "zk:", 3) != 0;
	struct clustermap *map;
	int err;

	if (!cli->servers)
		return cli_error(cli, CLI_USAGE,
				 "give the servers by --servers NAME=ADDRESS,NAME=ADDRESS,...");
	if (file && cli->replicas)
		return cli_error(cli, CLI_USAGE,
				 "--replicas needs a map in ZooKeeper, zk://HOST:PORT/PATH");
	if (file && strcmp(path, "-") != 0 && access(path, F_OK) == 0)
		return cli_error(cli, CLI_USAGE,
				 "%s is there already: another map has another seed, by which no key "
				 "is found that was stored by this one; remove it first", path);
	err = clustermap_make(cli->servers, &map);
	if (err)
		return cli_error(cli, CLI_USAGE, "--servers: %s", err_detail());
	if (!file) {
		int code = init_coordinator(cli, map, path);

		free(map);
		return code;
	}
	err = save(map, path);
	if (!err && !cli->quiet)
		cli_error(cli, CLI_OK, "wrote %s; start each server with --cluster-map %s --node-name NAME",
			  path, path);
	free(map);
	return err ? cli_error(cli, CLI_FAILED, "%s", err_detail()) : CLI_OK;
}

/* ---- status ------------------------------------------------------------------------------ */

static void print_json(const struct farkv_server *s, const struct farkv_stats *st, int err)
{
	json_t *o = json_object();

	json_object_set_new(o, "server", json_string(s->name));
	json_object_set_new(o, "address", json_string(s->address));
	output_count(o, "epoch", s->epoch);
	output_count(o, "partitions", s->partitions);
	json_object_set_new(o, "serves", json_boolean(!err));
	if (err) {
		json_object_set_new(o, "error", json_string(farkv_errdetail()));
	} else {
		output_count(o, "uptime_ms", st->uptime_ms);
		output_count(o, "items", st->items);
		output_count(o, "used_bytes", st->used_bytes);
		output_count(o, "heap_bytes", st->heap_bytes);
		output_count(o, "sessions", st->sessions);
		output_count(o, "followers", st->followers);
		output_count(o, "follower_lag_ms", st->follower_lag_ms);
	}
	json_object_set_new(o, "follower", json_string(s->follower));
	output_count(o, "moving", s->moving);
	output_print(o);
}

static void print_row(FILE *f, const struct farkv_server *s, const struct farkv_stats *st, int err)
{
	char used[24], heap[24];

	fprintf(f, "%-16s %10" PRIu64 "  ", s->name, s->partitions);
	if (err)
		fprintf(f, "%-6s %35s", "away", "");
	else
		fprintf(f, "%-6s %10" PRIu64 "  %10.10s of %-9.9s", "serves", st->items,
			util_format_size(st->used_bytes, used, sizeof(used)),
			util_format_size(st->heap_bytes, heap, sizeof(heap)));
	fprintf(f, "  %s", s->address);
	if (*s->follower)
		fprintf(f, ", follower %s", s->follower);
	if (*s->follower && !err && st->followers)
		fprintf(f, " %" PRIu64 " ms later", st->follower_lag_ms);
	if (s->moving)
		fprintf(f, ", %" PRIu64 " partitions to move", s->moving);
	putc('\n', f);
}

/* Print a row of the table, or JSON, for each server. Returns an exit code. */
static int ask_servers(struct cli *cli, FILE *table)
{
	struct farkv_server s = {.size = sizeof(s)};
	int code = CLI_OK;

	for (size_t i = 0; farkv_server(cli->kv, i, &s) == 0; i++) {
		struct farkv_stats st = {.size = sizeof(st)};
		int err;

		if (s.epoch == 0)
			return cli_error(cli, CLI_NO, "%s is one server and belongs to no cluster",
					 s.address);
		if (i == 0)
			fprintf(table, "map of epoch %" PRIu64 "\n%-16s %10s  %-6s %10s  %23s  %s\n",
				s.epoch, "server", "partitions", "", "items", "memory         ",
				"address");
		err = farkv_stats(s.handle, &st);
		if (cli->json)
			print_json(&s, &st, err);
		else
			print_row(table, &s, &st, err);
		if (err)
			code = cli_fail(cli, err, NULL, 0);
	}
	return code;
}

/* Print the whole table after the errors of servers that do not answer. */
static int status(struct cli *cli)
{
	char *text = NULL;
	size_t len = 0;
	FILE *table;
	int code = cli_connect(cli);

	if (code)
		return code;
	table = open_memstream(&text, &len);
	if (!table)
		return cli_fail(cli, FARKV_ENOMEM, NULL, 0);
	code = ask_servers(cli, table);
	if (fclose(table))
		code = cli_fail(cli, FARKV_ENOMEM, NULL, 0);
	else if (!cli->json)
		fputs(text, stdout);
	free(text);
	return code;
}

int cmd_cluster(struct cli *cli, int argc, char **argv)
{
	bool makes = cli->servers || cli->replicas;

	if (strcmp(argv[0], "init") == 0 && argc == 2 && !cli->no_wait)
		return init(cli, argv[1]);
	if (strcmp(argv[0], "status") == 0 && argc <= 2 && !makes && !cli->no_wait)
		return argc == 1 ? status(cli) : cluster_show(cli, argv[1]);
	if (strcmp(argv[0], "add") == 0 && argc == 3 && !makes)
		return cluster_add(cli, argv[1], argv[2]);
	if (strcmp(argv[0], "drain") == 0 && argc == 3 && !makes)
		return cluster_drain(cli, argv[1], argv[2]);
	if (strcmp(argv[0], "rebalance") == 0 && argc == 2 && !makes)
		return cluster_rebalance(cli, argv[1]);
	return cli_error(cli, CLI_USAGE,
			 "usage: kvcli cluster init --servers NAME=ADDRESS,... [--replicas 1] FILE|URL, or "
			 "add NAME=ADDRESS URL, drain NAME URL, rebalance URL, status [FILE|URL]");
}

/* ---- wait -------------------------------------------------------------------------------- */

#define WAIT_MS 10000u

int cmd_wait(struct cli *cli, int argc, char **argv)
{
	uint64_t ms = WAIT_MS;
	int code, err;

	if (argc == 1 && (!util_parse_u64(argv[0], &ms) || ms > UINT32_MAX))
		return cli_error(cli, CLI_USAGE, "'%s' is not a number of milliseconds", argv[0]);
	code = cli_connect(cli);
	if (code)
		return code;
	err = farkv_wait_followers(cli->kv, (uint32_t)ms);
	return err ? cli_error(cli, CLI_NO, "%s", farkv_errdetail()) : CLI_OK;
}
