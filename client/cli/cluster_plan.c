/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "cluster_plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/util.h"
#include "common/proto/clustermap.h"
#include "server/cluster/coord.h"

#include "output.h"
#include "progress.h"


/* The request, and its result. */
struct plan {
	struct cli *cli;
	const char *url;
	char name[CLUSTERMAP_NAME_MAX + 1]; /* of the server; of rebalance: "" */
	const char *address; /* add */
	int (*change)(const struct plan *p, const struct clustermap *m, uint64_t living,
		      struct clustermap **out);
	uint32_t moves; /* that the map has after the change */
	bool absent;    /* the server does not run */
	uint8_t final[CLUSTERMAP_PARTITIONS]; /* the owners after all moves */
	/* while waiting */
	struct progress progress;
	uint32_t left, other; /* partitions still to move; with another owner than planned */
	uint64_t epoch;
};

/* ---- the change -------------------------------------------------------------------------- */

/* The registered servers, and those that partitions move to, which may start later. */
static uint64_t living(const struct clustermap *m, const struct coord_view *v)
{
	uint64_t set = clustermap_set_of(m, v->members, v->n_members);

	for (uint32_t i = 0; i < CLUSTERMAP_PARTITIONS; i++)
		if (m->to[i] != CLUSTERMAP_NONE)
			set |= UINT64_C(1) << m->to[i];
	return set;
}

static int add(const struct plan *p, const struct clustermap *m, uint64_t living_,
	       struct clustermap **out)
{
	struct clustermap *with, *balanced = NULL;
	int err = clustermap_add(m, p->name, p->address, &with);

	if (err)
		return err;
	err = clustermap_balance(with, living_ | UINT64_C(1) << clustermap_find(with, p->name), &balanced);
	if (err && err != FARKV_EEXISTS) {
		free(with);
		return err;
	}
	*out = err ? with : balanced;
	if (!err)
		free(with);
	return 0;
}

static int drain(const struct plan *p, const struct clustermap *m, uint64_t living_,
		 struct clustermap **out)
{
	uint32_t server = clustermap_find(m, p->name);

	if (server == m->n_servers)
		return err_set(FARKV_EINVAL, "the cluster has no server '%s'", p->name);
	return clustermap_drain(m, server, living_, out);
}

static int rebalance(const struct plan *p, const struct clustermap *m, uint64_t living_,
		     struct clustermap **out)
{
	(void)p;
	return clustermap_balance(m, living_, out);
}

static void note(struct plan *p, const struct clustermap *m)
{
	p->moves = p->left = m->n_moves;
	p->epoch = m->epoch;
	for (uint32_t i = 0; i < CLUSTERMAP_PARTITIONS; i++)
		p->final[i] = m->to[i] != CLUSTERMAP_NONE ? m->to[i] : m->owner[i];
}

static int change(void *arg, const struct coord_view *v, char *text_out, size_t *len_out)
{
	struct plan *p = arg;
	struct clustermap *m = NULL, *next = NULL;
	int err = clustermap_parse(p->url, v->map, v->map_len, &m);

	if (err)
		return err;
	p->absent = true;
	for (size_t i = 0; i < v->n_members; i++)
		if (strcmp(v->members[i], p->name) == 0)
			p->absent = false;
	err = p->change(p, m, living(m, v), &next);
	note(p, err ? m : next);
	if (!err)
		*len_out = clustermap_print(next, text_out);
	free(next);
	free(m);
	return err;
}

/* ---- waiting ----------------------------------------------------------------------------- */

/* True while the map has moves. */
static bool look(void *arg, const struct coord_view *v)
{
	struct plan *p = arg;
	struct clustermap *m = NULL;
	char text[64];

	if (clustermap_parse(p->url, v->map, v->map_len, &m))
		return true; /* the servers' logs report it */
	p->left = m->n_moves;
	p->epoch = m->epoch;
	p->other = 0;
	for (uint32_t i = 0; i < CLUSTERMAP_PARTITIONS; i++)
		p->other += m->owner[i] != p->final[i];
	free(m);
	snprintf(text, sizeof(text), "%" PRIu32 " partitions are still to move", p->left);
	progress_show_text(&p->progress, 1 - (double)UTIL_MIN(p->left, p->moves) / p->moves, text);
	return p->left > 0 && !cli_signal;
}

static int wait_for_moves(struct plan *p)
{
	struct cli *cli = p->cli;
	uint64_t ns;
	int err;

	cli_catch_signals();
	progress_begin(&p->progress, cli->quiet, 0);
	err = coord_read(p->url, ZOOKEEPER_MS, look, p);
	ns = progress_end(&p->progress);
	if (err)
		return cli_error(cli, cli_exit_for(err), "%s; the moves go on", err_detail());
	if (p->left > 0)
		return cli_error(cli, CLI_FAILED,
				 "the moves go on: kvcli cluster status %s shows what is left", p->url);
	if (p->other > 0)
		return cli_error(cli, CLI_FAILED,
				 "%" PRIu32 " partitions have not moved as planned: a server was lost, or "
				 "another plan was made; kvcli cluster rebalance %s makes a new one",
				 p->other, p->url);
	if (!cli->quiet)
		cli_error(cli, CLI_OK, "moved %" PRIu32 " partitions in %.1f s; map of epoch %" PRIu64,
			  p->moves, (double)ns / 1e9, p->epoch);
	return CLI_OK;
}

/* Print one line: the plan. */
static void tell(const struct plan *p, int err)
{
	char start[1024] = "";

	if (p->cli->quiet)
		return;
	if (p->address && p->absent)
		snprintf(start, sizeof(start), "; start the server with --cluster %s --node-name %s", p->url,
			 p->name);
	if (err)
		cli_error(p->cli, CLI_OK, "%s%s", err_detail(), start);
	else if (p->moves)
		cli_error(p->cli, CLI_OK, "%" PRIu32 " partitions are to move%s", p->moves, start);
	else
		cli_error(p->cli, CLI_OK, "nothing has to move%s", start);
}

static int run(struct plan *p)
{
	struct cli *cli = p->cli;
	int err;

	if (strncmp(p->url, "zk:", 3) != 0)
		return cli_error(cli, CLI_USAGE,
				 "'%s' is no zk://HOST:PORT/PATH: only a cluster whose map is in ZooKeeper "
				 "changes", p->url);
	err = coord_change(p->url, ZOOKEEPER_MS, change, p);
	if (err && err != FARKV_EEXISTS)
		return cli_error(cli, cli_exit_for(err), "%s", err_detail());
	tell(p, err);
	return p->moves == 0 || cli->no_wait ? CLI_OK : wait_for_moves(p);
}

int cluster_add(struct cli *cli, const char *pair, const char *url)
{
	const char *eq = strchr(pair, '=');
	struct plan p = {.cli = cli, .url = url, .change = add};

	if (!eq || (size_t)(eq - pair) > CLUSTERMAP_NAME_MAX)
		return cli_error(cli, CLI_USAGE, "'%s' is no NAME=ADDRESS, with a NAME of at most %u bytes",
				 pair, CLUSTERMAP_NAME_MAX);
	memcpy(p.name, pair, (size_t)(eq - pair));
	p.address = eq + 1;
	return run(&p);
}

int cluster_drain(struct cli *cli, const char *name, const char *url)
{
	struct plan p = {.cli = cli, .url = url, .change = drain};

	snprintf(p.name, sizeof(p.name), "%s", name);
	return run(&p);
}

int cluster_rebalance(struct cli *cli, const char *url)
{
	struct plan p = {.cli = cli, .url = url, .change = rebalance};

	return run(&p);
}

/* ---- the map ----------------------------------------------------------------------------- */

struct pair {
	uint32_t moves, fenced;
};

/* Print the moves from one server to another. */
static struct pair count(const struct clustermap *m, uint32_t from, uint32_t to)
{
	struct pair n = {0, 0};

	for (uint32_t i = 0; i < CLUSTERMAP_PARTITIONS; i++)
		if (m->owner[i] == from && m->to[i] == to) {
			n.moves++;
			n.fenced += m->fenced[i];
		}
	return n;
}

static const char *follower(const struct clustermap *m, uint32_t server)
{
	uint8_t at = m->server[server].follower;

	return at == CLUSTERMAP_NONE ? "" : m->server[at].name;
}

/* Print whether a server runs. */
enum state { STATE_UNKNOWN, STATE_HERE, STATE_AWAY };

static void print_json(const struct clustermap *m, uint32_t server, enum state state)
{
	const struct clustermap_server *s = &m->server[server];
	json_t *o = json_object(), *moves = json_array();

	json_object_set_new(o, "server", json_string(s->name));
	json_object_set_new(o, "address", json_string(s->address));
	output_count(o, "epoch", m->epoch);
	output_count(o, "replicas", m->replicas);
	output_count(o, "partitions", s->partitions);
	if (state != STATE_UNKNOWN)
		json_object_set_new(o, "registered", json_boolean(state == STATE_HERE));
	json_object_set_new(o, "drained", json_boolean(s->drained));
	json_object_set_new(o, "follower", json_string(follower(m, server)));
	output_count(o, "emptied", s->emptied);
	for (uint32_t to = 0; to < m->n_servers; to++) {
		struct pair n = count(m, server, to);

		if (n.moves)
			json_array_append_new(moves, json_pack("{s:s, s:i, s:i}", "to", m->server[to].name,
							       "partitions", (int)n.moves, "fenced",
							       (int)n.fenced));
	}
	json_object_set_new(o, "moves", moves);
	output_print(o);
}

static void print_row(const struct clustermap *m, uint32_t server, enum state state)
{
	static const char *const words[] = {"-", "here", "away"};
	const struct clustermap_server *s = &m->server[server];
	const char *at = follower(m, server);

	printf("%-16s %10" PRIu32 "  %-4s  %-7s  %-16s  %s\n", s->name, s->partitions, words[state],
	       s->drained ? "drained" : "", *at ? at : "-", s->address);
}

static void print_moves(const struct clustermap *m)
{
	for (uint32_t from = 0; from < m->n_servers; from++)
		for (uint32_t to = 0; to < m->n_servers; to++) {
			struct pair n = count(m, from, to);

			if (!n.moves)
				continue;
			printf("%" PRIu32 " partitions are to move from %s to %s", n.moves,
			       m->server[from].name, m->server[to].name);
			if (n.fenced)
				printf(", %" PRIu32 " of them now", n.fenced);
			putchar('\n');
		}
}

/* `v` is NULL if it is unknown which servers run. Returns an exit code. */
static int print_map(const struct cli *cli, const struct clustermap *m, const struct coord_view *v)
{
	int code = CLI_OK;

	if (!cli->json)
		printf("map of epoch %" PRIu64 "%s\n%-16s %10s  %-4s  %-7s  %-16s  %s\n", m->epoch,
		       m->replicas ? ", 1 replica" : "", "server", "partitions", "", "", "follower",
		       "address");
	for (uint32_t i = 0; i < m->n_servers; i++) {
		enum state state = v ? STATE_AWAY : STATE_UNKNOWN;

		for (size_t k = 0; v && k < v->n_members; k++)
			if (strcmp(v->members[k], m->server[i].name) == 0)
				state = STATE_HERE;
		if (state == STATE_AWAY && m->server[i].partitions)
			code = CLI_UNREACHABLE;
		if (cli->json)
			print_json(m, i, state);
		else
			print_row(m, i, state);
	}
	if (!cli->json)
		print_moves(m);
	return code;
}

struct shown {
	struct cli *cli;
	const char *url;
	int code;
};

static bool show(void *arg, const struct coord_view *v)
{
	struct shown *s = arg;
	struct clustermap *m = NULL;

	if (clustermap_parse(s->url, v->map, v->map_len, &m))
		s->code = cli_error(s->cli, CLI_FAILED, "%s", err_detail());
	else
		s->code = print_map(s->cli, m, v);
	free(m);
	return false;
}

int cluster_show(struct cli *cli, const char *from)
{
	struct shown s = {.cli = cli, .url = from, .code = CLI_OK};
	struct clustermap *m = NULL;
	int err;

	if (strncmp(from, "zk:", 3) == 0) {
		err = coord_read(from, ZOOKEEPER_MS, show, &s);
	} else {
		err = clustermap_load(from, &m);
		if (!err)
			s.code = print_map(cli, m, NULL);
		free(m);
	}
	return err ? cli_error(cli, cli_exit_for(err), "%s", err_detail()) : s.code;
}
