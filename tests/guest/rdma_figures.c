/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How long single operations take, for tests/guest/figures.sh.
 *
 *   rdma_figures URI round N     medians of N operations of each kind, in us, and
 *                                keys each second of gets in batches of 16:
 *                                "get 45.1 put 70.2 insert 60.3 cached_get 30.5
 *                                cached_put 41.0 mget 30100 cached_value_get 20.1"; of
 *                                handles that remember nothing; places; and values
 *   rdma_figures URI work N      N operations, get and put in turn, after a
 *                                warm-up; waits for a line on stdin before and
 *                                after, having printed "ready" and "done"
 */
#include <farkv.h>

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define VALUE_BYTES 256
#define WARM_UP 200
/* Until the handle has the deferred blocks that its rate of writing needs. */
#define WORK_WARM_UP 10000
#define KEYS 64
#define KEY_BYTES 9
#define BATCH 16

static char value[VALUE_BYTES];
static char keys[KEYS][KEY_BYTES + 1]; /* no work on keys while the clock runs */
static uint32_t process, inserted;
static struct farkv_value got;

static void check(int err, const char *what)
{
	if (!err)
		return;
	fprintf(stderr, "rdma_figures: %s: %s: %s\n", what, farkv_strerror(err),
		farkv_errdetail());
	exit(1);
}

static double now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

static void get(struct farkv *kv, unsigned i)
{
	check(farkv_get(kv, keys[i % KEYS], KEY_BYTES, &got), "get");
}

/* The value that get() got; not while the clock runs. */
static void check_value(void)
{
	if (got.len == sizeof(value) && !memcmp(got.data, value, got.len))
		return;
	fprintf(stderr, "rdma_figures: a key has another value\n");
	exit(1);
}

static void put(struct farkv *kv, unsigned i)
{
	check(farkv_put(kv, keys[i % KEYS], KEY_BYTES, value, sizeof(value)),
	      "put");
}

static void insert(struct farkv *kv, unsigned i)
{
	uint32_t key[3] = {process, ++inserted, i};

	check(farkv_put(kv, key, sizeof(key), value, sizeof(value)), "insert");
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median_of(void (*op)(struct farkv *, unsigned), struct farkv *kv,
			unsigned n)
{
	double *took = malloc(n * sizeof(*took)), median;

	if (!took)
		check(FARKV_ENOMEM, "times");
	for (unsigned i = 0; i < WARM_UP; i++)
		op(kv, i);
	for (unsigned i = 0; i < n; i++) {
		double began = now_us();

		op(kv, i);
		took[i] = now_us() - began;
		if (op == get)
			check_value();
	}
	qsort(took, n, sizeof(*took), by_size);
	median = took[n / 2];
	free(took);
	return median;
}

/* Keys each second of gets in batches; what fills the batches is not counted. */
static double batch_rate(struct farkv *kv, unsigned n)
{
	struct farkv_get_item items[BATCH];
	double took = 0, began;

	for (unsigned i = 0; i < WARM_UP / BATCH + n / BATCH; i++) {
		for (unsigned k = 0; k < BATCH; k++)
			items[k] = (struct farkv_get_item){
				.key = keys[(i * BATCH + k) % KEYS],
				.key_len = KEY_BYTES};
		began = now_us();
		check(farkv_mget(kv, items, BATCH), "mget");
		if (i >= WARM_UP / BATCH)
			took += now_us() - began;
		for (unsigned k = 0; k < BATCH; k++) {
			check(items[k].result, "mget");
			got = items[k].value;
			check_value();
		}
	}
	return n / BATCH * BATCH * 1e6 / took;
}

static void await_line(const char *say)
{
	char line[16];

	puts(say);
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		exit(1);
}

static void work(struct farkv *kv, unsigned n)
{
	for (unsigned i = 0; i < WORK_WARM_UP; i++) {
		get(kv, i);
		put(kv, i);
	}
	await_line("ready");
	for (unsigned i = 0; i < n / 2; i++) {
		get(kv, i);
		check_value();
		put(kv, i);
	}
	await_line("done");
}

static void show_counters(struct farkv *kv)
{
	struct farkv_counters c = {.size = sizeof(c)};

	check(farkv_counters(kv, &c), "counters");
	fprintf(stderr,
		"reads %" PRIu64 " writes %" PRIu64 " cas %" PRIu64
		" doorbells %" PRIu64 " retries %" PRIu64 " messages %" PRIu64
		"\n",
		c.reads, c.writes, c.cas, c.doorbells, c.retries,
		c.control_msgs);
}

/* The cache of a handle. */
enum memory { NOTHING, PLACES, VALUES };

static struct farkv *open_store(const char *uri, enum memory memory)
{
	struct farkv_options o;
	struct farkv *kv;

	farkv_options_init(&o);
	if (memory < PLACES)
		o.cache_entries = 0;
	if (memory < VALUES)
		o.cache_bytes = 0;
	check(farkv_open(uri, &o, &kv), "open");
	return kv;
}

static void measure_round(struct farkv *kv, const char *uri, unsigned n)
{
	struct farkv *searcher = open_store(uri, NOTHING);
	struct farkv *keeper = open_store(uri, VALUES);
	double g = median_of(get, searcher, n), p = median_of(put, searcher, n);
	double i = median_of(insert, searcher, n);

	printf("get %.2f put %.2f insert %.2f", g, p, i);
	g = median_of(get, kv, n);
	p = median_of(put, kv, n);
	printf(" cached_get %.2f cached_put %.2f mget %.0f", g, p,
	       batch_rate(kv, n));
	printf(" cached_value_get %.2f\n", median_of(get, keeper, n));
	farkv_close(keeper);
	farkv_close(searcher);
}

int main(int argc, char **argv)
{
	struct farkv *kv;
	unsigned n;

	if (argc != 4) {
		fprintf(stderr, "usage: rdma_figures URI round|work N\n");
		return 64;
	}
	n = (unsigned)strtoul(argv[3], NULL, 10);
	memset(value, 'v', sizeof(value));
	kv = open_store(argv[1], PLACES);
	process = (uint32_t)getpid();
	for (unsigned i = 0; i < KEYS; i++) {
		snprintf(keys[i], sizeof(keys[i]), "key%06u", i);
		put(kv, i);
	}
	if (strcmp(argv[2], "work") == 0)
		work(kv, n);
	else
		measure_round(kv, argv[1], n);
	show_counters(kv);
	farkv_close(kv);
	return 0;
}
