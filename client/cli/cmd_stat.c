/* SPDX-License-Identifier: BSD-3-Clause */
/* --stat: a line of rates for each interval. */
#include "config.h"

#include "cli.h"

#include <inttypes.h>
#include <stdio.h>

#include <jansson.h>

#include "common/base/util.h"

#include "live.h"
#include "output.h"

#define HEAD_EVERY 20u

enum { KEYS, USED, SESSIONS, GETS, HIT_SHARE, SETS, EXPIRED, EVICTED, CPU, COLUMNS };

static const struct {
	const char *name, *title;
	int width, digits;
} columns[COLUMNS] = {
	[KEYS] = {"items", "KEYS", 11, 0},
	[USED] = {"used_bytes", "MEMORY", 11, 0},
	[SESSIONS] = {"sessions", "SESSIONS", 9, 0},
	[GETS] = {"gets_per_second", "GETS/S", 12, 0},
	[HIT_SHARE] = {"hit_percent", "HITS %", 8, 1},
	[SETS] = {"sets_per_second", "SETS/S", 12, 0},
	[EXPIRED] = {"expired_per_second", "EXPIRED/S", 10, 0},
	[EVICTED] = {"evicted_per_second", "EVICTED/S", 10, 0},
	[CPU] = {"server_cpu_percent", "SERVER CPU %", 13, 1},
};

static void figure_out(const struct farkv_stats *a, const struct farkv_stats *b, double seconds,
		       double v[COLUMNS])
{
	double gets = live_rate(a->gets, b->gets, seconds);

	v[KEYS] = (double)b->items;
	v[USED] = (double)b->used_bytes;
	v[SESSIONS] = (double)b->sessions;
	v[GETS] = gets;
	v[HIT_SHARE] = gets > 0 ? 100 * live_rate(a->hits, b->hits, seconds) / gets : 0;
	v[SETS] = live_rate(a->sets, b->sets, seconds);
	v[EXPIRED] = live_rate(a->expired, b->expired, seconds);
	v[EVICTED] = live_rate(a->evictions, b->evictions, seconds);
	v[CPU] = live_rate(a->cpu_ns, b->cpu_ns, seconds) / 1e7;
}

static void print_head(const struct cli *cli)
{
	for (unsigned i = 0; i < COLUMNS && !cli->json; i++)
		if (cli->csv)
			printf("%s%s", i ? "," : "", columns[i].name);
		else
			printf("%*s", columns[i].width, columns[i].title);
	if (!cli->json)
		putchar('\n');
}

static void print_line(const struct cli *cli, const double v[COLUMNS])
{
	json_t *o = cli->json ? json_object() : NULL;
	char size[24];

	for (unsigned i = 0; i < COLUMNS; i++) {
		if (cli->json && columns[i].digits)
			json_object_set_new(o, columns[i].name, json_real(v[i]));
		else if (cli->json)
			json_object_set_new(o, columns[i].name,
					    json_integer((json_int_t)(v[i] + 0.5)));
		else if (cli->csv)
			printf("%s%.*f", i ? "," : "", columns[i].digits, v[i]);
		else if (i == USED)
			printf("%*s", columns[i].width,
			       util_format_size((uint64_t)v[i], size, sizeof(size)));
		else
			printf("%*.*f", columns[i].width, columns[i].digits, v[i]);
	}
	if (cli->json)
		output_print(o);
	else
		putchar('\n');
}

int cmd_stat(struct cli *cli, int argc, char **argv)
{
	struct farkv_stats before = {.size = sizeof(before)}, now = before;
	uint64_t pause_ns = live_interval_ns(cli, 1000), at_ns, last_ns;
	int code = cli_connect(cli), err;
	double v[COLUMNS];

	(void)argc;
	(void)argv;
	if (code)
		return code;
	cli_catch_signals();
	err = farkv_stats(cli->kv, &before);
	last_ns = clock_now_ns();
	for (uint64_t i = 0; !err && !code && live_goes_on(cli, i); i++) {
		if (i == 0 || (cli->pretty && i % HEAD_EVERY == 0))
			print_head(cli);
		clock_sleep_ns(pause_ns);
		if (cli_signal)
			break;
		err = farkv_stats(cli->kv, &now);
		if (err)
			break;
		at_ns = clock_now_ns();
		figure_out(&before, &now, live_seconds(last_ns, at_ns), v);
		print_line(cli, v);
		before = now;
		last_ns = at_ns;
		code = cli_finish(cli, CLI_OK);
	}
	return err ? cli_fail(cli, err, NULL, 0) : code;
}
