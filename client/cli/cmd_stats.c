/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "cli.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <jansson.h>

#include "common/base/util.h"

#include "output.h"

enum unit { COUNT, BYTES, MS, NS, PERMILLE, DATE };

static const struct {
	const char *name;  /* in JSON */
	const char *title; /* in the table */
	size_t offset;
	enum unit unit;
} rows[] = {
#define ROW(f, title, unit) {#f, title, offsetof(struct farkv_stats, f), unit}
	ROW(uptime_ms, "server running for", MS),
	ROW(cpu_ns, "  processor time", NS),
	ROW(region_bytes, "region", BYTES),
	ROW(heap_bytes, "memory for values and index", BYTES),
	ROW(used_bytes, "  of which in use", BYTES),
	ROW(index_bytes, "  of which index", BYTES),
	ROW(retired_bytes, "  of which waiting for a barrier", BYTES),
	ROW(pages_refused, "  times the machine was out of memory", COUNT),
	ROW(items, "items", COUNT),
	ROW(item_bytes, "  their blocks", BYTES),
	ROW(expired, "expired values freed", COUNT),
	ROW(saves, "snapshots saved", COUNT),
	ROW(saves_failed, "  that failed", COUNT),
	ROW(saved_at_ms, "  last saved at", DATE),
	ROW(followers, "servers with a copy", COUNT),
	ROW(follower_lag_ms, "  how old it is at most", MS),
	ROW(index_slots, "index slots", COUNT),
	ROW(index_load_permille, "  in use", PERMILLE),
	ROW(dead_slots, "  of deleted keys", COUNT),
	ROW(subtables, "  in subtables", COUNT),
	ROW(dir_depth, "directory, depth", COUNT),
	ROW(dir_doublings, "  doublings", COUNT),
	ROW(splits, "splits of subtables", COUNT),
	ROW(compactions, "compactions of subtables", COUNT),
	ROW(migration_ns, "  time for both", NS),
	ROW(migration_ns_max, "  the longest", NS),
	ROW(blocks_granted, "blocks with clients or published", COUNT),
	ROW(blocks_live, "  with an item", COUNT),
	ROW(blocks_dead, "  of deleted keys", COUNT),
	ROW(blocks_held, "  in clients' hands", COUNT),
	ROW(blocks_free, "blocks free at the server", COUNT),
	ROW(free_bytes, "  their bytes, in all sizes", BYTES),
	ROW(blocks_deferred, "blocks waiting out the grace period", COUNT),
	ROW(blocks_exhausted, "blocks exhausted", COUNT),
	ROW(blocks_damaged, "blocks dropped as damaged", COUNT),
	ROW(blocks_swept, "blocks swept", COUNT),
	ROW(sweeps, "sweeps done", COUNT),
	ROW(sweep_ns, "  the last one took", NS),
	ROW(sweep_deaths, "  dead sessions to be swept", COUNT),
	ROW(barriers, "barriers done", COUNT),
	ROW(barrier_waits, "  sessions that one is waiting for", COUNT),
	ROW(gets, "gets", COUNT),
	ROW(hits, "  that found a value", COUNT),
	ROW(misses, "  that found none", COUNT),
	ROW(sets, "values stored", COUNT),
	ROW(cache, "evicts when it is full (1: yes)", COUNT),
	ROW(evictions, "values evicted", COUNT),
	ROW(evicted_bytes, "  their blocks", BYTES),
	ROW(victim_age_ms, "  the last one unused for at least", MS),
	ROW(moves, "values moved for other sizes", COUNT),
	ROW(sessions, "sessions open", COUNT),
	ROW(sessions_total, "sessions since the start", COUNT),
	ROW(grants, "requests for blocks", COUNT),
	ROW(hints, "hints that the index fills up", COUNT),
	ROW(protocol_errors, "messages against the rules", COUNT),
	ROW(max_key, "longest key, bytes", COUNT),
	ROW(max_value, "longest value", BYTES),
	ROW(grace_ns, "grace period", NS),
#undef ROW
};

static uint64_t value_of(const struct farkv_stats *s, size_t row)
{
	return output_field(s, rows[row].offset);
}

static bool size_empty(const struct farkv_size_stats *n)
{
	return !n->evictions && !n->expired;
}

static json_t *sizes_json(const struct farkv_stats *s)
{
	json_t *all = json_array();

	for (unsigned i = 0; i < FARKV_SIZES; i++) {
		const struct farkv_size_stats *n = &s->sizes[i];

		if (!size_empty(n))
			json_array_append_new(
				all, json_pack("{sI sI sI sI}", "block_bytes",
					       (json_int_t)64 << i, "evictions",
					       (json_int_t)n->evictions, "expired",
					       (json_int_t)n->expired, "victim_age_ms",
					       (json_int_t)n->victim_age_ms));
	}
	return all;
}

static void print_json(const struct farkv_stats *s)
{
	json_t *o = json_object();

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		output_count(o, rows[i].name, value_of(s, i));
	json_object_set_new(o, "sizes", sizes_json(s));
	output_print(o);
}

/* Since 1970; 0: never. */
static void print_date(uint64_t ms)
{
	time_t t = (time_t)(ms / 1000);
	char text[40];
	struct tm tm;

	if (ms && gmtime_r(&t, &tm) && strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S UTC", &tm))
		printf("%s\n", text);
	else
		printf("never\n");
}

static void print_row(const char *title, uint64_t v, enum unit unit)
{
	char size[24];

	printf("%-38s", title);
	switch (unit) {
	case BYTES:
		printf("%s\n", util_format_size(v, size, sizeof(size)));
		break;
	case MS:
		printf("%" PRIu64 ".%" PRIu64 " s\n", v / 1000,
		       v % 1000 / 100);
		break;
	case NS:
		printf("%" PRIu64 ".%03" PRIu64 " ms\n", v / 1000000,
		       v % 1000000 / 1000);
		break;
	case DATE:
		print_date(v);
		break;
	case PERMILLE:
		printf("%" PRIu64 ".%" PRIu64 " %%\n", v / 10, v % 10);
		break;
	default:
		printf("%" PRIu64 "\n", v);
		break;
	}
}

/* Print what expired or was evicted, by the size of its blocks. */
static void print_sizes(const struct farkv_stats *s)
{
	for (unsigned i = 0; i < FARKV_SIZES; i++) {
		const struct farkv_size_stats *n = &s->sizes[i];
		char from[24], line[48];

		if (size_empty(n))
			continue;
		util_format_size(UINT64_C(64) << i, from, sizeof(from));
		snprintf(line, sizeof(line), "blocks from %s on", from);
		printf("%-38s%" PRIu64 " evicted, %" PRIu64 " expired; last one unused for %" PRIu64
		       ".%" PRIu64 " s\n",
		       line, n->evictions, n->expired, n->victim_age_ms / 1000,
		       n->victim_age_ms % 1000 / 100);
	}
}

static void print_text(const struct farkv_stats *s)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		print_row(rows[i].title, value_of(s, i), rows[i].unit);
	/* With fewer items, index and half-empty segments dominate. */
	if (s->items >= 1000)
		printf("%-38s%.1f bytes\n", "memory in use for each item",
		       (double)s->used_bytes / (double)s->items);
	print_sizes(s);
}

int cmd_stats(struct cli *cli, int argc, char **argv)
{
	struct farkv_stats s = {.size = sizeof(s)};
	int code = cli_connect(cli), err;

	(void)argc;
	(void)argv;
	if (code)
		return code;
	err = farkv_stats(cli->kv, &s);
	if (err)
		return cli_fail(cli, err, NULL, 0);
	if (cli->json)
		print_json(&s);
	else
		print_text(&s);
	return CLI_OK;
}
