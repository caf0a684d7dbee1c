/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "latency.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/atomic.h"
#include "common/base/util.h"

#define LAST (FARKV_LATENCY_COUNTERS - 1)
#define STEPS 16u /* counters for each power of two */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct latency *first;
static struct latency closed; /* sum of the retired ones */

/* ---- times ----------------------------------------------------------------------------- */

static size_t counter_of(uint64_t ns)
{
	uint64_t x = ns ? ns - 1 : 0;
	unsigned shift;

	if (x < STEPS)
		return (size_t)x;
	shift = 59 - (unsigned)__builtin_clzll(x);
	return UTIL_MIN(shift * STEPS + (size_t)(x >> shift), (size_t)LAST);
}

uint64_t latency_bound(size_t i)
{
	if (i < STEPS)
		return i + 1;
	return i < LAST ? (uint64_t)(STEPS + 1 + i % STEPS) << (i / STEPS - 1) : UINT64_MAX;
}

/* ---- one handle's ---------------------------------------------------------------------- */

/* Each word has one writer, the handle's thread. */
static void add(uint64_t *word, uint64_t n)
{
	atom_store_relaxed(word, atom_load_relaxed(word) + n);
}

static bool is_error(int result)
{
	return result < 0 && result != FARKV_ENOTFOUND && result != FARKV_EEXISTS &&
	       result != FARKV_EVERSION;
}

void latency_record(struct latency *l, enum farkv_latency_kind kind, int result, uint64_t ns)
{
	struct farkv_latency *k = &l->kind[kind];
	uint64_t min = atom_load_relaxed(&k->min_ns);

	/* 0 would mean that there was no call. */
	ns = UTIL_MAX(ns, UINT64_C(1));
	add(&k->counters[counter_of(ns)], 1);
	add(&k->sum_ns, ns);
	if (!min || ns < min)
		atom_store_relaxed(&k->min_ns, ns);
	if (ns > atom_load_relaxed(&k->max_ns))
		atom_store_relaxed(&k->max_ns, ns);
	if (__builtin_expect(is_error(result), 0))
		add(&k->errors, 1);
}

void latency_store(struct latency *l, const struct farkv_counters *c, uint64_t now_ns)
{
	uint64_t now[LATENCY_FIGURES];

	memcpy(now, (const uint8_t *)c + sizeof(c->size), sizeof(now));
	for (size_t i = 0; i < LATENCY_FIGURES; i++)
		atom_store_relaxed(&l->figures[i], now[i]);
	l->figures_ns = now_ns;
}

/* ---- sums ------------------------------------------------------------------------------ */

static void add_kind(struct farkv_latency *sum, const struct farkv_latency *k)
{
	uint64_t min = atom_load_relaxed(&k->min_ns), max = atom_load_relaxed(&k->max_ns);

	sum->errors += atom_load_relaxed(&k->errors);
	sum->sum_ns += atom_load_relaxed(&k->sum_ns);
	if (min && (!sum->min_ns || min < sum->min_ns))
		sum->min_ns = min;
	sum->max_ns = UTIL_MAX(sum->max_ns, max);
	for (size_t i = 0; i < FARKV_LATENCY_COUNTERS; i++) {
		uint64_t n = atom_load_relaxed(&k->counters[i]);

		sum->counters[i] += n;
		sum->count += n;
	}
}

static void add_figures(uint64_t sum[LATENCY_FIGURES], const struct latency *l)
{
	for (size_t i = 0; i < LATENCY_FIGURES; i++)
		sum[i] += atom_load_relaxed(&l->figures[i]);
}

void latency_read(const struct latency *l, enum farkv_latency_kind kind,
		  struct farkv_latency *out)
{
	memset(out, 0, sizeof(*out));
	if (l) {
		add_kind(out, &l->kind[kind]);
		return;
	}
	pthread_mutex_lock(&lock);
	add_kind(out, &closed.kind[kind]);
	for (l = first; l; l = l->next)
		add_kind(out, &l->kind[kind]);
	pthread_mutex_unlock(&lock);
}

uint64_t latency_figures(uint64_t sum_out[LATENCY_FIGURES])
{
	uint64_t n = 0;

	memset(sum_out, 0, LATENCY_FIGURES * sizeof(sum_out[0]));
	pthread_mutex_lock(&lock);
	add_figures(sum_out, &closed);
	for (const struct latency *l = first; l; l = l->next, n++)
		add_figures(sum_out, l);
	pthread_mutex_unlock(&lock);
	return n;
}

/* ---- the list -------------------------------------------------------------------------- */

struct latency *latency_new(void)
{
	struct latency *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	pthread_mutex_lock(&lock);
	l->next = first;
	first = l;
	pthread_mutex_unlock(&lock);
	return l;
}

void latency_retire(struct latency *l)
{
	struct latency **at = &first;

	if (!l)
		return;
	pthread_mutex_lock(&lock);
	while (*at != l)
		at = &(*at)->next;
	*at = l->next;
	for (size_t i = 0; i < LATENCY_KINDS; i++)
		add_kind(&closed.kind[i], &l->kind[i]);
	add_figures(closed.figures, l);
	pthread_mutex_unlock(&lock);
	free(l);
}

void latency_fork_prepare(void)
{
	pthread_mutex_lock(&lock);
}

void latency_fork_end(void)
{
	pthread_mutex_unlock(&lock);
}
