/* SPDX-License-Identifier: BSD-3-Clause */
/* --latency, --latency-history and --intrinsic-latency. */
#include "config.h"

#include "cli.h"

#include <inttypes.h>
#include <stdio.h>

#include <jansson.h>

#include "common/base/util.h"

#include "live.h"
#include "output.h"

/* Pause between two samples. */
#define SAMPLE_NS (10 * NS_PER_MS)

/* Times in buckets of 1/16 of their power of two. */
#define BUCKETS (64u * 16)

struct times {
	uint64_t n, least, most, bucket[BUCKETS];
};

static unsigned bucket_of(uint64_t ns)
{
	unsigned top = ns < 16 ? 4 : 63u - (unsigned)__builtin_clzll(ns);

	return ns < 16 ? (unsigned)ns : (top - 3) * 16 + (unsigned)(ns >> (top - 4) & 15);
}

/* The smallest time of a bucket. */
static uint64_t bucket_ns(unsigned b)
{
	return b < 16 ? b : (UINT64_C(16) + b % 16) << (b / 16 - 1);
}

static void times_add(struct times *t, uint64_t ns)
{
	t->least = t->n ? UTIL_MIN(t->least, ns) : ns;
	t->most = UTIL_MAX(t->most, ns);
	t->n++;
	t->bucket[bucket_of(ns)]++;
}

static double quantile_us(const struct times *t, double q)
{
	uint64_t sum = 0, want = (uint64_t)((double)t->n * q);
	unsigned b = 0;

	while (b < BUCKETS - 1 && (sum += t->bucket[b]) <= want)
		b++;
	return (double)UTIL_MIN(UTIL_MAX(bucket_ns(b), t->least), t->most) / 1e3;
}

static void times_print(const struct cli *cli, const char *what, const struct times *t)
{
	double least = (double)t->least / 1e3, half = quantile_us(t, 0.5);
	double p99 = quantile_us(t, 0.99), most = (double)t->most / 1e3;

	if (cli->json)
		printf("{\"what\":\"%s\",\"min_us\":%.3f,\"median_us\":%.3f,\"p99_us\":%.3f,"
		       "\"max_us\":%.3f,\"samples\":%" PRIu64 "}\n", what, least, half, p99, most, t->n);
	else if (cli->csv)
		printf("%s,%.3f,%.3f,%.3f,%.3f,%" PRIu64 "\n", what, least, half, p99, most, t->n);
	else
		printf("%-5s min %.1f us, median %.1f, 99%% %.1f, max %.1f (%" PRIu64 " samples)\n",
		       what, least, half, p99, most, t->n);
}

/* A get of a key that probably does not exist, and a ping. */
static int sample(struct cli *cli, struct times *gets, struct times *pings)
{
	static const char key[] = "kvcli --latency";
	uint64_t start = clock_now_ns(), ns;
	struct farkv_value v;
	int err = farkv_get(cli->kv, key, sizeof(key), &v);

	if (err && err != FARKV_ENOTFOUND)
		return err;
	times_add(gets, clock_now_ns() - start);
	err = farkv_ping(cli->kv, &ns);
	if (!err)
		times_add(pings, ns);
	return err;
}

static int measure(struct cli *cli, uint64_t for_ns)
{
	struct times gets = {0}, pings = {0};
	uint64_t end = clock_now_ns() + for_ns;
	int err;

	do {
		err = sample(cli, &gets, &pings);
		if (err)
			return cli_fail(cli, err, NULL, 0);
		clock_sleep_ns(SAMPLE_NS);
	} while (!cli_signal && clock_now_ns() < end);
	times_print(cli, "get", &gets);
	times_print(cli, "ping", &pings);
	return cli_finish(cli, CLI_OK);
}

static int latency(struct cli *cli, uint64_t times, uint64_t for_ns)
{
	int code = cli_connect(cli);

	if (code)
		return code;
	cli_catch_signals();
	if (cli->csv)
		puts("what,min_us,median_us,p99_us,max_us,samples");
	for (uint64_t i = 0; !code && !cli_signal && (!times || i < times); i++)
		code = measure(cli, for_ns);
	return code;
}

int cmd_latency(struct cli *cli, int argc, char **argv)
{
	(void)argc;
	(void)argv;
	return latency(cli, 1, live_interval_ns(cli, 1000));
}

int cmd_latency_history(struct cli *cli, int argc, char **argv)
{
	(void)argc;
	(void)argv;
	return latency(cli, cli->repeat, live_interval_ns(cli, 15000));
}

int cmd_intrinsic(struct cli *cli, int argc, char **argv)
{
	struct times gaps = {0};
	uint64_t last = clock_now_ns(), end = last + cli->intrinsic_s * NS_PER_SEC;

	(void)argc;
	(void)argv;
	cli_catch_signals();
	while (last < end && !cli_signal) {
		uint64_t now = clock_now_ns();

		times_add(&gaps, now - last);
		last = now;
	}
	if (cli->csv)
		puts("what,min_us,median_us,p99_us,max_us,samples");
	times_print(cli, "gap", &gaps);
	return CLI_OK;
}
