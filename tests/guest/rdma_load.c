/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Clients that go on whatever happens, say what they meet, and know at any moment
 * what a key may hold.
 *
 *	rdma_load [-t THREADS] [-T MS] [-B MS] [-n OPS] [-v BYTES] [-p MS] [-H] URI
 *
 * Each thread has a handle and keys of its own, and puts, gets and deletes until
 * OPS operations or SIGTERM. A line for every change: "T3 ok", "T3 put
 * FARKV_ETIMEDOUT after 1002 ms: detail". SIGUSR1: "ops N", what succeeded so far.
 * -T: timeout of an operation, -B: what takes longer is a failure of the test,
 * -p: pause after each.
 *
 * -H: the first two threads overwrite one value without rest, the others read it.
 *
 * 0: no wrong value, nothing over its bound.
 */
#include "config.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <farkv.h>

#include "common/base/atomic.h"
#include "common/base/clock.h"
#include "common/base/util.h"

#define THREADS_MAX 128u
#define KEYS 4u
#define MAYBES 64u /* values a key may hold */
#define PAUSE_NS (2 * NS_PER_MS)

static struct {
	const char *uri;
	uint64_t threads, timeout_ms, bound_ms, ops, value_bytes, pause_ms;
	bool hammer;
} cfg = {.threads = 1, .timeout_ms = 2000, .bound_ms = 10000,
	 .value_bytes = 100};

static uint32_t stopping, wrong;

/* What a key may hold: numbers of values, 0 is none. */
struct may {
	uint64_t value[MAYBES];
	unsigned n;
};

struct worker {
	pthread_t thread;
	unsigned id;
	struct farkv *kv;
	int last; /* result that was said last; 1: none yet */
	uint64_t done, failed, longest_ns, retries;
	uint64_t next; /* number of the next value */
	struct may may[KEYS];
	uint8_t *buf;
};
static struct worker workers[THREADS_MAX];

/* ---- words ------------------------------------------------------------------------ */

static const char *name_of(int err)
{
	static const struct {
		int err;
		const char *name;
	} names[] = {{FARKV_ENOSPC, "FARKV_ENOSPC"},
		     {FARKV_ETIMEDOUT, "FARKV_ETIMEDOUT"},
		     {FARKV_EMAYBE, "FARKV_EMAYBE"},
		     {FARKV_EPERM, "FARKV_EPERM"},
		     {FARKV_EDISCONNECTED, "FARKV_EDISCONNECTED"},
		     {FARKV_EUNREACHABLE, "FARKV_EUNREACHABLE"},
		     {FARKV_EREFUSED, "FARKV_EREFUSED"},
		     {FARKV_EPROTOCOL, "FARKV_EPROTOCOL"},
		     {FARKV_ENOROUTE, "FARKV_ENOROUTE"},
		     {FARKV_ELINKDOWN, "FARKV_ELINKDOWN"},
		     {FARKV_ECORRUPT, "FARKV_ECORRUPT"},
		     {FARKV_ENOTSUP, "FARKV_ENOTSUP"},
		     {FARKV_ESYS, "FARKV_ESYS"},
		     {FARKV_ENOMEM, "FARKV_ENOMEM"}};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (names[i].err == err)
			return names[i].name;
	return "another error";
}

static void say_result(struct worker *w, const char *what, int err,
		       uint64_t took_ns)
{
	uint64_t ms = took_ns / NS_PER_MS;

	w->longest_ns = UTIL_MAX(w->longest_ns, took_ns);
	if (ms > cfg.bound_ms) {
		printf("T%u %s TOO LONG: %llu ms\n", w->id, what,
		       (unsigned long long)ms);
		atom_store_relaxed(&wrong, 1);
	}
	if (err)
		w->failed++;
	else
		atom_count(&w->done, 1);
	if (err == w->last)
		return;
	w->last = err;
	if (err)
		printf("T%u %s %s after %llu ms: %s\n", w->id, what,
		       name_of(err), (unsigned long long)ms, farkv_errdetail());
	else
		printf("T%u ok\n", w->id);
}

static void say_wrong(const struct worker *w, const char *what, uint64_t value)
{
	printf("T%u WRONG: %s (value %llu)\n", w->id, what,
	       (unsigned long long)value);
	atom_store_relaxed(&wrong, 1);
}

/* ---- values ------------------------------------------------------------------------- */

static void fill(uint8_t *p, size_t n, uint64_t number)
{
	uint64_t x = number * UINT64_C(0x9E3779B97F4A7C15) + 1;

	for (size_t i = 0; i + 8 <= n; i += 8) {
		uint64_t word = i ? x : number;

		memcpy(p + i, &word, 8);
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
	}
}

/* The number of an intact value; 0 for any other. */
static uint64_t number_of(const struct worker *w, const struct farkv_value *v)
{
	uint64_t number;

	if (v->len != cfg.value_bytes)
		return 0;
	memcpy(&number, v->data, 8);
	fill(w->buf, v->len, number);
	return memcmp(w->buf, v->data, v->len) == 0 ? number : 0;
}

static void may_be(struct may *m, uint64_t value)
{
	m->value[0] = value;
	m->n = 1;
}

static void may_also(struct may *m, uint64_t value)
{
	if (m->n == MAYBES)
		memmove(&m->value[1], &m->value[2],
			(--m->n - 1) * sizeof(m->value[0]));
	m->value[m->n++] = value;
}

static bool may_have(const struct may *m, uint64_t value)
{
	for (unsigned i = 0; i < m->n; i++)
		if (m->value[i] == value)
			return true;
	return false;
}

/* ---- one operation -------------------------------------------------------------------- */

/*
 * What a failure says of the store: EMAYBE that it may have happened,
 * EDISCONNECTED that the store may be a new and empty one, all others that
 * nothing changed.
 */
static void failed(struct worker *w, struct may *m, int err, uint64_t value)
{
	if (err == FARKV_EMAYBE)
		may_also(m, value);
	if (err == FARKV_EDISCONNECTED)
		for (unsigned k = 0; k < KEYS; k++)
			may_also(&w->may[k], 0);
	/* Limits the output while no server is there. */
	clock_sleep_ns(PAUSE_NS);
}

static void do_put(struct worker *w, const char *key, struct may *m)
{
	uint64_t began = clock_now_ns(), value = ++w->next;
	int err;

	fill(w->buf, cfg.value_bytes, value);
	err = farkv_put(w->kv, key, strlen(key), w->buf, cfg.value_bytes);
	say_result(w, "put", err, clock_now_ns() - began);
	if (err)
		failed(w, m, err, value);
	else
		may_be(m, value);
}

static void do_delete(struct worker *w, const char *key, struct may *m)
{
	uint64_t began = clock_now_ns();
	int err = farkv_delete(w->kv, key, strlen(key));

	if (err == FARKV_ENOTFOUND && !may_have(m, 0))
		say_wrong(w, "a value is gone", m->value[0]);
	if (err == FARKV_ENOTFOUND)
		err = 0;
	say_result(w, "delete", err, clock_now_ns() - began);
	if (err)
		failed(w, m, err, 0);
	else
		may_be(m, 0);
}

static void do_get(struct worker *w, const char *key, struct may *m)
{
	uint64_t began = clock_now_ns(), value = 0;
	struct farkv_value v;
	int err = farkv_get(w->kv, key, strlen(key), &v);

	if (!err) {
		value = number_of(w, &v);
		if (!value)
			say_wrong(w, "damaged", 0);
	}
	if (err == FARKV_ENOTFOUND)
		err = 0;
	say_result(w, "get", err, clock_now_ns() - began);
	if (err) {
		failed(w, m, err, 0);
		return;
	}
	if (!may_have(m, value))
		say_wrong(w, value ? "stale" : "a value is gone",
			  value ? value : m->value[0]);
	may_be(m, value);
}

static void work_once(struct worker *w, uint64_t i)
{
	unsigned k = (unsigned)(i / 4 % KEYS);
	char key[32];

	snprintf(key, sizeof(key), "%u-%u-%u", (unsigned)getpid(), w->id, k);
	switch (i % 8) {
	case 0:
	case 4:
	case 6:
		do_put(w, key, &w->may[k]);
		break;
	case 3:
		do_delete(w, key, &w->may[k]);
		break;
	default:
		do_get(w, key, &w->may[k]);
	}
}

/* One key that everybody knows. */
static void hammer_once(struct worker *w, uint64_t i)
{
	uint64_t began = clock_now_ns();
	struct farkv_value v;
	int err;

	if (w->id < 2) {
		fill(w->buf, cfg.value_bytes, ++i * 2 + w->id);
		err = farkv_put(w->kv, "hammer", 6, w->buf, cfg.value_bytes);
		say_result(w, "put", err, clock_now_ns() - began);
		return;
	}
	err = farkv_get(w->kv, "hammer", 6, &v);
	if (!err && !number_of(w, &v))
		say_wrong(w, "damaged", 0);
	if (err == FARKV_ENOTFOUND)
		err = 0;
	say_result(w, "get", err, clock_now_ns() - began);
}

static void *worker_main(void *arg)
{
	struct worker *w = arg;
	struct farkv_counters n = {.size = sizeof(n)};
	/* In a hammer run readers count, and writers go on until they are done. */
	bool counts = !cfg.hammer || w->id >= 2;

	for (uint64_t i = 0; !atom_load_relaxed(&stopping); i++) {
		if (cfg.ops && counts && i >= cfg.ops)
			break;
		if (cfg.hammer)
			hammer_once(w, i);
		else
			work_once(w, i);
		if (cfg.pause_ms)
			clock_sleep_ns(cfg.pause_ms * NS_PER_MS);
	}
	if (farkv_counters(w->kv, &n) == 0)
		w->retries = n.retries;
	return NULL;
}

/* ---- all of them ------------------------------------------------------------------------ */

static bool options(int argc, char **argv)
{
	int c;

	while ((c = getopt(argc, argv, "t:T:B:n:v:p:H")) != -1) {
		uint64_t *into = c == 't' ? &cfg.threads :
				 c == 'T' ? &cfg.timeout_ms :
				 c == 'B' ? &cfg.bound_ms :
				 c == 'n' ? &cfg.ops :
				 c == 'v' ? &cfg.value_bytes :
				 c == 'p' ? &cfg.pause_ms : NULL;

		if (c == 'H')
			cfg.hammer = true;
		else if (!into || !util_parse_u64(optarg, into))
			return false;
	}
	cfg.value_bytes = util_align_up(UTIL_MAX(cfg.value_bytes, 16u), 8);
	cfg.uri = argv[optind];
	return cfg.uri && cfg.threads >= (cfg.hammer ? 3 : 1) &&
	       cfg.threads <= THREADS_MAX;
}

static bool start(struct worker *w, unsigned id)
{
	struct farkv_options o;
	int err;

	farkv_options_init(&o);
	o.op_timeout_ms = (uint32_t)cfg.timeout_ms;
	o.connect_timeout_ms = 20000;
	w->id = id;
	w->last = 1;
	w->buf = malloc(cfg.value_bytes);
	for (unsigned k = 0; k < KEYS; k++)
		may_be(&w->may[k], 0);
	err = farkv_open(cfg.uri, &o, &w->kv);
	if (err)
		printf("T%u open %s: %s\n", id, name_of(err),
		       farkv_errdetail());
	return w->buf && !err;
}

static void say_sum(void)
{
	uint64_t done = 0, longest = 0, errors = 0, retries = 0;

	for (unsigned i = 0; i < cfg.threads; i++) {
		done += workers[i].done;
		errors += workers[i].failed;
		longest = UTIL_MAX(longest, workers[i].longest_ns);
		if (!cfg.hammer || i >= 2)
			retries += workers[i].retries;
	}
	printf("done: %llu operations, %llu errors, longest %llu ms, retries "
	       "%llu\n",
	       (unsigned long long)done, (unsigned long long)errors,
	       (unsigned long long)(longest / NS_PER_MS),
	       (unsigned long long)retries);
}

/* Answers SIGUSR1; ends all at SIGTERM. */
static void *signals_main(void *arg)
{
	const sigset_t *set = arg;
	int sig;

	while (sigwait(set, &sig) == 0 && sig == SIGUSR1) {
		uint64_t done = 0;

		for (unsigned i = 0; i < cfg.threads; i++)
			done += atom_load_relaxed(&workers[i].done);
		printf("ops %llu\n", (unsigned long long)done);
	}
	atom_store_relaxed(&stopping, 1);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t signals;
	sigset_t set;

	if (!options(argc, argv)) {
		fputs("usage: rdma_load [-t THREADS] [-T MS] [-B MS] [-n OPS] "
		      "[-v BYTES] [-p MS] [-H] URI\n", stderr);
		return 64;
	}
	setlinebuf(stdout);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	for (unsigned i = 0; i < cfg.threads; i++)
		if (!start(&workers[i], i))
			return 2;
	if (pthread_create(&signals, NULL, signals_main, &set))
		return 2;
	for (unsigned i = 0; i < cfg.threads; i++)
		if (pthread_create(&workers[i].thread, NULL, worker_main,
				   &workers[i]))
			return 2;
	for (uint64_t i = cfg.threads; i-- > 0;) {
		/* The hammer's readers have finished: writers may stop. */
		if (cfg.hammer && i == 1)
			atom_store_relaxed(&stopping, 1);
		pthread_join(workers[i].thread, NULL);
	}
	say_sum();
	for (unsigned i = 0; i < cfg.threads; i++)
		farkv_close(workers[i].kv);
	puts("closed");
	return atom_load_relaxed(&wrong) ? 1 : 0;
}
