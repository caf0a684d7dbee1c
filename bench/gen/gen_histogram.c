/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "gen_histogram.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/base/util.h"

/* Limits beyond which a file counts as damaged. */
#define BUCKETS_MAX 65536
#define NUMBER_MAX (UINT64_C(1) << 32)

static int bad_line(const char *path, unsigned line, const char *what)
{
	return err_set(FARKV_EINVAL, "%s:%u: %s", path, line, what);
}

/* Split "name<blank>number" at `text` in place; false if it is not that. */
static bool split(char *text, char **name_out, uint64_t *number_out)
{
	char *save, *name = strtok_r(text, " \t\r\n", &save);
	char *number = name ? strtok_r(NULL, " \t\r\n", &save) : NULL;

	if (!number || strtok_r(NULL, " \t\r\n", &save))
		return false;
	*name_out = name;
	return util_parse_u64(number, number_out) && *number_out <= NUMBER_MAX;
}

static int add_bucket(struct gen_histogram *g, uint64_t weight)
{
	uint64_t before = g->buckets ? g->upto[g->buckets - 1] : 0;
	uint64_t *grown;

	grown = realloc(g->upto, (g->buckets + 1) * sizeof(*grown));
	if (!grown)
		return err_set(FARKV_ENOMEM, "no memory for the histogram");
	g->upto = grown;
	g->upto[g->buckets++] = before + weight;
	return 0;
}

static int read_lines(struct gen_histogram *g, FILE *f, const char *path)
{
	char text[256], *name;
	uint64_t number, bucket;
	unsigned line = 0;
	int err;

	while (fgets(text, sizeof(text), f)) {
		line++;
		if (line > 1 && !text[strspn(text, " \t\r\n")])
			continue;
		if (!split(text, &name, &number))
			return bad_line(path, line,
					"not a name and a number up to 2^32 "
					"with a tab between them");
		if (line == 1) {
			if (strcmp(name, "BlockSize") != 0 || !number)
				return bad_line(path, line,
						"the first line has to be "
						"\"BlockSize\", a tab and a "
						"number above 0");
			g->block = number;
			continue;
		}
		if (!util_parse_u64(name, &bucket) || bucket != g->buckets)
			return bad_line(path, line,
					"buckets have to be numbered 0, 1, 2 "
					"in this order");
		if (g->buckets == BUCKETS_MAX)
			return bad_line(path, line, "more than 65536 buckets");
		err = add_bucket(g, number);
		if (err)
			return err;
	}
	if (ferror(f))
		return err_set_errno(FARKV_ESYS, errno, "cannot read %s", path);
	if (!g->buckets || !g->upto[g->buckets - 1])
		return bad_line(path, line, "no bucket has a weight");
	return 0;
}

int gen_histogram_load(struct gen_histogram *g, const char *path)
{
	FILE *f = fopen(path, "re");
	int err;

	memset(g, 0, sizeof(*g));
	if (!f)
		return err_set_errno(FARKV_ESYS, errno,
				     "cannot open the field length histogram "
				     "%s", path);
	err = read_lines(g, f, path);
	fclose(f);
	if (err)
		gen_histogram_fini(g);
	return err;
}

void gen_histogram_fini(struct gen_histogram *g)
{
	free(g->upto);
	g->upto = NULL;
	g->buckets = 0;
}

uint64_t gen_histogram_next(const struct gen_histogram *g, struct rng *r)
{
	uint64_t x = rng_below(r, g->upto[g->buckets - 1]);
	size_t low = 0, high = g->buckets - 1;

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (x < g->upto[mid])
			high = mid;
		else
			low = mid + 1;
	}
	return (low + 1) * g->block;
}

uint64_t gen_histogram_max(const struct gen_histogram *g)
{
	return g->buckets * g->block;
}

uint64_t gen_histogram_min(const struct gen_histogram *g)
{
	return g->block;
}
