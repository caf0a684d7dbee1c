/* SPDX-License-Identifier: BSD-3-Clause */
/* memory: where the bytes are, by the size of blocks. */
#include "config.h"

#include "cli.h"

#include <inttypes.h>
#include <stdio.h>

#include <jansson.h>

#include "common/base/util.h"

#include "output.h"

static void print_json(const struct farkv_class *c)
{
	const struct {
		const char *name;
		uint64_t value;
	} numbers[] = {
		{"block_bytes", c->block_bytes}, {"out", c->out},
		{"free", c->free},               {"deferred", c->deferred},
		{"exhausted", c->exhausted},
	};
	json_t *o = json_object();

	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		output_count(o, numbers[i].name, numbers[i].value);
	output_print(o);
}

static void print_class(const struct cli *cli, const struct farkv_class *c)
{
	char block[24], out[24], free[24];

	if (cli->json)
		print_json(c);
	else if (cli->csv)
		printf("%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 "\n",
		       c->block_bytes, c->out, c->free, c->deferred, c->exhausted);
	else
		printf("%-10s %12" PRIu64 " %12s %12" PRIu64 " %12s %10" PRIu64 " %10" PRIu64 "\n",
		       util_format_size(c->block_bytes, block, sizeof(block)), c->out,
		       util_format_size(c->out * c->block_bytes, out, sizeof(out)), c->free,
		       util_format_size(c->free * c->block_bytes, free, sizeof(free)), c->deferred,
		       c->exhausted);
}

static void print_head(const struct cli *cli, const struct farkv_stats *s)
{
	char used[24], heap[24], index[24], retired[24];

	if (cli->csv)
		puts("block_bytes,out,free,deferred,exhausted");
	if (cli->csv || cli->json || cli->quiet)
		return;
	printf("%s of %s in use: %s index, %s waiting for a barrier, the rest blocks:\n",
	       util_format_size(s->used_bytes, used, sizeof(used)),
	       util_format_size(s->heap_bytes, heap, sizeof(heap)),
	       util_format_size(s->index_bytes, index, sizeof(index)),
	       util_format_size(s->retired_bytes, retired, sizeof(retired)));
	printf("%-10s %12s %12s %12s %12s %10s %10s\n", "BLOCK", "OUT", "BYTES", "FREE", "BYTES",
	       "DEFERRED", "EXHAUSTED");
}

int cmd_memory(struct cli *cli, int argc, char **argv)
{
	struct farkv_class c = {.size = sizeof(c)};
	struct farkv_stats s = {.size = sizeof(s)};
	int code = cli_connect(cli), err;

	(void)argc;
	(void)argv;
	if (code)
		return code;
	err = farkv_stats(cli->kv, &s);
	if (err)
		return cli_fail(cli, err, NULL, 0);
	print_head(cli, &s);
	while (!code && (err = farkv_class_next(cli->kv, &c)) == 0) {
		print_class(cli, &c);
		code = cli_output_check(cli, code);
	}
	return code || err == FARKV_ENOTFOUND ? code : cli_fail(cli, err, NULL, 0);
}
