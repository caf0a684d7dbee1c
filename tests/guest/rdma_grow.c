/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Clients that make the index grow, and clients that read meanwhile.
 *
 *	rdma_grow [-n KEYS] [-w WRITERS] [-r READERS] [-l LIVE] [-T MS] [-e]
 *		  [-k NAME] URI
 *
 * Writer W puts the keys NAME.W.0, NAME.W.1, ... and, with -l, deletes each again when LIVE
 * more have been put. Readers get keys that are there for certain, and know their
 * values; at the end every key is looked at once more. Each thread has a handle of
 * its own. -T: timeout of an operation. -e: errors may happen (a link goes down),
 * writers repeat what failed.
 *
 * "halfway" is printed when half of the keys were put. 0: every value right, no
 * error without -e.
 */
#include "config.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <farkv.h>

#include "common/base/atomic.h"
#include "common/base/clock.h"
#include "common/base/util.h"

#define THREADS_MAX 16u
#define VALUE_WORDS 6u

static struct {
	const char *uri, *name;
	uint64_t keys, writers, readers, live, timeout_ms;
	bool errors;
} cfg = {.keys = 100000, .writers = 1, .readers = 1, .timeout_ms = 30000,
	 .name = "k"};

static uint32_t wrong, stopping;

struct worker {
	pthread_t thread;
	struct farkv *kv;
	uint64_t done;    /* writer: keys put */
	uint64_t deleted; /* writer: of which deletion has begun */
	uint64_t errors;
	uint32_t *us;     /* what operations took */
	size_t n, cap;
};
static struct worker writers[THREADS_MAX], readers[THREADS_MAX];

/* ---- what they find -------------------------------------------------------------- */

static void took(struct worker *w, uint64_t began)
{
	if (w->n == w->cap) {
		w->cap = w->cap ? 2 * w->cap : 65536;
		w->us = realloc(w->us, w->cap * sizeof(*w->us));
		if (!w->us)
			abort();
	}
	w->us[w->n++] = (uint32_t)((clock_now_ns() - began) / 1000);
}

static int failed(struct worker *w, const char *what, const char *key, int err)
{
	w->errors++;
	if (!cfg.errors) {
		printf("%s %s: %d: %s\n", what, key, err, farkv_errdetail());
		atom_store_relaxed(&wrong, 1);
	}
	return err;
}

static void say_wrong(const char *what, const char *key)
{
	printf("WRONG: %s %s\n", key, what);
	atom_store_relaxed(&wrong, 1);
}

/* ---- writers ---------------------------------------------------------------------- */

static size_t key_of(uint64_t writer, uint64_t i, char key[32])
{
	return (size_t)snprintf(key, 32, "%.8s.%llu.%llu", cfg.name,
				(unsigned long long)writer,
				(unsigned long long)i);
}

static void value_of(uint64_t writer, uint64_t i, uint64_t v[VALUE_WORDS])
{
	for (unsigned k = 0; k < VALUE_WORDS; k++)
		v[k] = (writer << 48 | i) * UINT64_C(0x9E3779B97F4A7C15) + k;
}

/* One operation, again while it fails; true if it was done at last. */
static bool change(struct worker *w, uint64_t i, bool delete)
{
	uint64_t v[VALUE_WORDS], id = (uint64_t)(w - writers), began;
	char key[32];
	size_t len = key_of(id, i, key);
	int err;

	value_of(id, i, v);
	do {
		began = clock_now_ns();
		err = delete ? farkv_delete(w->kv, key, len) :
			       farkv_put(w->kv, key, len, v, sizeof(v));
		took(w, began);
		/* One that was repeated may have happened before. */
		if (delete && err == FARKV_ENOTFOUND && cfg.errors)
			err = 0;
		if (err)
			(void)failed(w, delete ? "delete" : "put", key, err);
		if (err && cfg.errors)
			clock_sleep_ns(10 * NS_PER_MS);
	} while (err && cfg.errors);
	return err == 0;
}

static void *writer_main(void *arg)
{
	struct worker *w = arg;
	uint64_t n = cfg.keys / cfg.writers;

	for (uint64_t i = 0; i < n && !atom_load_relaxed(&wrong); i++) {
		if (!change(w, i, false))
			break;
		atom_store_publish(&w->done, i + 1);
		if (cfg.live && i >= cfg.live) {
			atom_store_publish(&w->deleted, i - cfg.live + 1);
			if (!change(w, i - cfg.live, true))
				break;
		}
		if (w == writers && i == n / 2)
			puts("halfway");
	}
	return NULL;
}

/* ---- readers ------------------------------------------------------------------------- */

static void check(struct worker *r, uint64_t writer, uint64_t i)
{
	uint64_t v[VALUE_WORDS], began = clock_now_ns();
	const struct worker *w = &writers[writer];
	struct farkv_value got;
	char key[32];
	size_t len = key_of(writer, i, key);
	int err = farkv_get(r->kv, key, len, &got);

	took(r, began);
	if (err == FARKV_ENOTFOUND) {
		if (i >= atom_load_follow(&w->deleted))
			say_wrong("is gone", key);
		return;
	}
	if (err) {
		(void)failed(r, "get", key, err);
		return;
	}
	value_of(writer, i, v);
	if (got.len != sizeof(v) || memcmp(got.data, v, sizeof(v)) != 0)
		say_wrong("has another value", key);
}

static void *reader_main(void *arg)
{
	struct worker *r = arg;
	uint64_t x = (uint64_t)(r - readers) + 88172645463325252u;

	while (!atom_load_relaxed(&stopping)) {
		uint64_t writer, from, n;

		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		writer = (x >> 40) % cfg.writers;
		n = atom_load_follow(&writers[writer].done);
		from = atom_load_follow(&writers[writer].deleted);
		if (n > from)
			check(r, writer, from + (x & 0xFFFFFFFF) % (n - from));
	}
	return NULL;
}

/* All keys that were put are present, and no deleted ones. */
static void check_all(struct worker *r)
{
	for (uint64_t writer = 0; writer < cfg.writers; writer++) {
		const struct worker *w = &writers[writer];
		char key[32];

		for (uint64_t i = w->deleted; i < w->done; i++)
			check(r, writer, i);
		for (uint64_t i = 0; i < w->deleted; i++) {
			struct farkv_value got;
			size_t len = key_of(writer, i, key);

			if (farkv_get(r->kv, key, len, &got) != FARKV_ENOTFOUND)
				say_wrong("is back", key);
		}
	}
}

/* ---- all of them ------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static void say(const char *who, struct worker *all, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		struct worker *w = &all[i];

		if (w->n == 0)
			continue;
		qsort(w->us, w->n, sizeof(*w->us), compare);
		printf("%s %llu: %zu operations, median %u us, p99 %u us, "
		       "longest %u us, %llu errors\n",
		       who, (unsigned long long)i, w->n, w->us[w->n / 2],
		       w->us[w->n * 99 / 100], w->us[w->n - 1],
		       (unsigned long long)w->errors);
	}
}

static bool options(int argc, char **argv)
{
	int c;

	while ((c = getopt(argc, argv, "n:w:r:l:T:k:e")) != -1) {
		uint64_t *into = c == 'n' ? &cfg.keys :
				 c == 'w' ? &cfg.writers :
				 c == 'r' ? &cfg.readers :
				 c == 'l' ? &cfg.live :
				 c == 'T' ? &cfg.timeout_ms : NULL;

		if (c == 'e')
			cfg.errors = true;
		else if (c == 'k')
			cfg.name = optarg;
		else if (!into || !util_parse_u64(optarg, into))
			return false;
	}
	cfg.uri = argv[optind];
	return cfg.uri && cfg.writers && cfg.writers <= THREADS_MAX &&
	       cfg.readers && cfg.readers <= THREADS_MAX;
}

static void start(struct worker *all, uint64_t n, void *(*run)(void *))
{
	struct farkv_options o;

	farkv_options_init(&o);
	o.op_timeout_ms = (uint32_t)cfg.timeout_ms;
	o.connect_timeout_ms = 60000;
	for (uint64_t i = 0; i < n; i++) {
		if (farkv_open(cfg.uri, &o, &all[i].kv)) {
			printf("open: %s\n", farkv_errdetail());
			exit(2);
		}
		if (pthread_create(&all[i].thread, NULL, run, &all[i]))
			exit(2);
	}
}

int main(int argc, char **argv)
{
	if (!options(argc, argv)) {
		fputs("usage: rdma_grow [-n KEYS] [-w WRITERS] [-r READERS] "
		      "[-l LIVE] [-T MS] [-e] [-k NAME] URI\n",
		      stderr);
		return 64;
	}
	setlinebuf(stdout);
	start(readers, cfg.readers, reader_main);
	start(writers, cfg.writers, writer_main);
	for (uint64_t i = 0; i < cfg.writers; i++)
		pthread_join(writers[i].thread, NULL);
	atom_store_relaxed(&stopping, 1);
	for (uint64_t i = 0; i < cfg.readers; i++)
		pthread_join(readers[i].thread, NULL);
	say("writer", writers, cfg.writers);
	say("reader", readers, cfg.readers);
	check_all(&readers[0]);
	for (uint64_t i = 0; i < cfg.readers; i++)
		farkv_close(readers[i].kv);
	for (uint64_t i = 0; i < cfg.writers; i++)
		farkv_close(writers[i].kv);
	puts("closed");
	return atom_load_relaxed(&wrong) ? 1 : 0;
}
