/* SPDX-License-Identifier: BSD-3-Clause */
/* --bigkeys: the largest values, and the distribution of sizes. Reads no values. */
#include "config.h"

#include "cli.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "common/base/util.h"

#include "output.h"

#define LARGEST_MAX 1000u

struct big {
	void *key;
	size_t key_len, value_len;
};

struct bigkeys {
	struct big big[LARGEST_MAX]; /* the largest value first */
	size_t n, most;
	uint64_t keys, bytes;
	uint64_t count[65], sum[65]; /* by the bits of the value's length */
};

static unsigned bits_of(uint64_t v)
{
	return v ? 64u - (unsigned)__builtin_clzll(v) : 0;
}

/* False: out of memory. */
static bool add(struct bigkeys *b, const struct farkv_scan_item *it)
{
	unsigned bits = bits_of(it->value_len);
	size_t at = b->n;
	void *key;

	b->keys++;
	b->bytes += it->key_len + it->value_len;
	b->count[bits]++;
	b->sum[bits] += it->value_len;
	while (at > 0 && b->big[at - 1].value_len < it->value_len)
		at--;
	if (at == b->most)
		return true;
	key = malloc(it->key_len);
	if (!key)
		return false;
	memcpy(key, it->key, it->key_len);
	if (b->n == b->most)
		free(b->big[--b->n].key);
	memmove(&b->big[at + 1], &b->big[at], (b->n - at) * sizeof(b->big[0]));
	b->big[at] = (struct big){key, it->key_len, it->value_len};
	b->n++;
	return true;
}

static void print_key(struct cli *cli, const struct big *big)
{
	char size[24];
	json_t *o;

	if (cli->json) {
		o = json_object();
		output_bytes(o, "key", big->key, big->key_len);
		output_count(o, "length", big->value_len);
		output_print(o);
	} else if (cli->csv) {
		output_csv(big->key, big->key_len);
		printf(",%zu\n", big->value_len);
	} else {
		printf("%-11s ", util_format_size(big->value_len, size, sizeof(size)));
		output_quoted(big->key, big->key_len);
		putchar('\n');
	}
}

static void print_sizes(const struct bigkeys *b)
{
	char size[24], upto[24];

	printf("\n%" PRIu64 " keys, %s with their values; values by size:\n", b->keys,
	       util_format_size(b->bytes, size, sizeof(size)));
	for (unsigned i = 0; i < 65; i++)
		if (b->count[i])
			printf("below %-10s %12" PRIu64 " keys %12s\n",
			       util_format_size(i < 64 ? UINT64_C(1) << i : UINT64_MAX, upto,
						sizeof(upto)),
			       b->count[i], util_format_size(b->sum[i], size, sizeof(size)));
}

static int scan_all(struct cli *cli, struct bigkeys *b)
{
	struct cli_scan scan = {.cli = cli};
	int code = CLI_OK;

	while (!code && !cli_signal && cli_scan_next(&scan, &code))
		for (size_t i = 0; i < scan.n && !code; i++)
			if (!add(b, &scan.items[i]))
				code = cli_fail(cli, FARKV_ENOMEM, NULL, 0);
	return code ? code : scan.code;
}

int cmd_bigkeys(struct cli *cli, int argc, char **argv)
{
	struct bigkeys *b;
	int code;

	(void)argc;
	(void)argv;
	if (cli->count > LARGEST_MAX)
		return cli_error(cli, CLI_USAGE, "--count is at most %u here", LARGEST_MAX);
	code = cli_connect(cli);
	if (code)
		return code;
	b = calloc(1, sizeof(*b));
	if (!b)
		return cli_fail(cli, FARKV_ENOMEM, NULL, 0);
	b->most = cli->count ? (size_t)cli->count : 10;
	cli_catch_signals();
	code = scan_all(cli, b);
	if (cli->csv)
		puts("key,length");
	for (size_t i = 0; i < b->n; i++)
		print_key(cli, &b->big[i]);
	if (!cli->json && !cli->csv && !cli->quiet)
		print_sizes(b);
	for (size_t i = 0; i < b->n; i++)
		free(b->big[i].key);
	free(b);
	return code;
}
