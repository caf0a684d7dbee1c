/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The server's loopback lane, as growth uses it: it changes all words of a subtable by
 * compare-and-swap while clients change them too, also when the lane breaks. Needs a
 * device; run by make check-rdma.
 */
#include "config.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <farkv.h>

#include "common/base/atomic.h"
#include "common/base/clock.h"
#include "common/base/util.h"
#include "common/xport/xport.h"
#include "common/rdma/verbs.h"
#include "tests/rig/cases.h"
#include "tests/rig/verbs_far.h"

#define WORDS 4096u
#define FROZEN (UINT64_C(1) << 62)

static uint64_t *words;
static struct xport_lane *own;

static void setup(void)
{
	words = mmap(NULL, WORDS * 8, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(words, MAP_FAILED);
	far_open(words, WORDS * 8);
	own = far_own_lane();
}

static void teardown(void)
{
	far_close();
	munmap(words, WORDS * 8);
}

/* ---- a rival -------------------------------------------------------------------- */

struct rival {
	struct xport_lane *lane;
	bool stop;
	int status;
	uint64_t won[WORDS]; /* how often it raised the word */
	unsigned n_won, n_frozen;
};

/* Raise a word; false when it was found frozen. */
static bool raise_word(struct rival *r, unsigned w, uint64_t *seen)
{
	struct xport_chain c = {.n = 1};

	c.wr[0] = (struct xport_wr){.opcode = XPORT_CAS,
				    .off = w * 8,
				    .len = 8,
				    .expect = *seen,
				    .swap = *seen + 1};
	if (xport_post(r->lane, &c))
		return false;
	while (!c.done)
		xport_poll(r->lane);
	r->status = c.status;
	*seen = c.wr[0].found == *seen ? *seen + 1 : c.wr[0].found;
	if (c.status || c.wr[0].found & FROZEN)
		return false;
	if (c.wr[0].found == c.wr[0].expect) {
		r->won[w]++;
		__atomic_fetch_add(&r->n_won, 1, __ATOMIC_RELAXED);
	}
	return true;
}

/* Random words, until all that it tries are frozen, or it is stopped. */
static void *rival_run(void *arg)
{
	struct rival *r = arg;
	static uint64_t seen[WORDS];
	static bool frozen[WORDS];
	uint32_t at = 1;

	memset(seen, 0, sizeof(seen));
	memset(frozen, 0, sizeof(frozen));
	while (!atom_load_relaxed(&r->stop) && r->n_frozen < WORDS &&
	       !r->status) {
		at = (at * 1664525u + 1013904223u);
		if (frozen[at >> 20])
			continue;
		frozen[at >> 20] = !raise_word(r, at >> 20, &seen[at >> 20]);
		r->n_frozen += frozen[at >> 20];
	}
	return NULL;
}

/* ---- freezing ------------------------------------------------------------------- */

struct freeze {
	struct xport_chain chain[WORDS];
	unsigned chain_len; /* requests in one chain */
	unsigned window;    /* requests under way at most, 0: no limit */
	uint64_t post_ns;   /* the longest post of a pass */
};

static void post(struct freeze *f, struct xport_chain *first)
{
	uint64_t began = clock_now_ns();

	ck_assert_int_eq(xport_post(own, first), 0);
	f->post_ns = UTIL_MAX(f->post_ns, clock_now_ns() - began);
}

/* Chains for the words from `at` that are not frozen, one post of at most the
 * window; returns the word that comes next, *last_out is NULL if there are none. */
static unsigned freeze_some(struct freeze *f, unsigned at, unsigned room,
			    struct xport_chain *first,
			    struct xport_chain **last_out)
{
	struct xport_chain *c = first - 1;
	unsigned n = 0;

	for (; at < WORDS && n < room; at++) {
		uint64_t w = atom_load_relaxed(&words[at]);

		if (w & FROZEN)
			continue;
		if (n++ % f->chain_len == 0) {
			c++;
			c->n = 0;
			c->next = c + 1;
		}
		c->wr[c->n++] = (struct xport_wr){.opcode = XPORT_CAS,
						  .off = far_own_off() + at * 8,
						  .len = 8,
						  .expect = w,
						  .swap = w | FROZEN};
	}
	*last_out = n ? c : NULL;
	if (n)
		c->next = NULL;
	return at;
}

/*
 * One pass over all words in groups: a group is posted when the previous one is done, so
 * the lane is never idle. Fails if the lane broke.
 */
static int freeze_pass(struct freeze *f)
{
	unsigned at = 0, half = f->window ? f->window / 2 : WORDS, group = 0;
	unsigned per = (half + f->chain_len - 1) / f->chain_len;
	struct xport_chain *last[2] = {NULL, NULL};

	for (; at < WORDS; group ^= 1) {
		struct xport_chain *first = &f->chain[f->window ? group * per : 0];

		if (last[group])
			far_wait(own, last[group]);
		at = freeze_some(f, at, half, first, &last[group]);
		if (last[group])
			post(f, first);
	}
	for (group = 0; group < 2; group++)
		if (last[group])
			far_wait(own, last[group]);
	return xport_broken(own);
}

static bool all_frozen(void)
{
	for (unsigned i = 0; i < WORDS; i++)
		if (!(atom_load_relaxed(&words[i]) & FROZEN))
			return false;
	return true;
}

static void check_words(const struct rival *r)
{
	for (unsigned i = 0; i < WORDS; i++)
		ck_assert_uint_eq(words[i], r->won[i] | FROZEN);
}

static struct rival *rival_new(void)
{
	struct rival *r = calloc(1, sizeof(*r));

	ck_assert_ptr_nonnull(r);
	r->lane = far_lane(&(struct far_lane){0});
	return r;
}

/* The client runs by then. */
static void wait_until_it_wins(const struct rival *r)
{
	for (unsigned i = 0; i < 10000; i++) {
		if (__atomic_load_n(&r->n_won, __ATOMIC_RELAXED) >= 10)
			return;
		usleep(1000);
	}
	ck_abort_msg("the client has won nothing");
}

/* 0: no limit, one post of all. */
static const unsigned windows[] = {0, 96, 384};

TEST_GROUP(.setup = setup, .teardown = teardown);

TEST_EACH(freeze_of_4096_words_beside_a_client_loses_no_update, windows)
{
	struct freeze *f = calloc(1, sizeof(*f));
	struct rival *r = rival_new();
	unsigned passes = 0;
	pthread_t t;

	f->chain_len = XPORT_CHAIN_MAX;
	f->window = windows[_i];
	ck_assert_int_eq(pthread_create(&t, NULL, rival_run, r), 0);
	wait_until_it_wins(r);
	do {
		ck_assert_int_eq(freeze_pass(f), 0);
		passes++;
	} while (!all_frozen());
	pthread_join(t, NULL);
	ck_assert_int_eq(r->status, 0);
	ck_assert_uint_gt(r->n_won, 0);
	ck_assert_uint_eq(r->n_frozen, WORDS);
	check_words(r);
	ck_assert_uint_ge(own->counters.cas, WORDS);
	printf("  window %u: %u passes, %llu CAS, %u of the client's won\n",
	       f->window, passes, (unsigned long long)own->counters.cas,
	       r->n_won);
	fflush(stdout);
	free(f);
	free(r);
}

/* ---- the lane breaks ----------------------------------------------------------------- */

static void *break_soon(void *arg)
{
	usleep(10000);
	xport_break(own, FARKV_EDISCONNECTED);
	return arg;
}

/*
 * It breaks in the middle and is replaced, and the freeze goes on from the state of the
 * words: no word is changed twice or in part, none by a late request.
 */
TEST(lane_that_breaks_is_replaced_and_no_word_changes_twice)
{
	struct freeze *f = calloc(1, sizeof(*f));
	struct rival *r = rival_new();
	unsigned breaks = 0;
	uint64_t before[WORDS];
	pthread_t t, breaker;

	f->chain_len = XPORT_CHAIN_MAX;
	ck_assert_int_eq(pthread_create(&t, NULL, rival_run, r), 0);
	do {
		bool hit;

		ck_assert_int_eq(
			pthread_create(&breaker, NULL, break_soon, NULL), 0);
		/* When few words are left the rival always holds one. */
		do
			hit = freeze_pass(f) != 0;
		while (!hit && !all_frozen());
		pthread_join(breaker, NULL);
		if (!hit)
			xport_poll(own);
		ck_assert_int_ne(xport_broken(own), 0);
		breaks += hit;
		far_own_renew();
		ck_assert_int_eq(xport_broken(own), 0);
	} while (!all_frozen());
	ck_assert_uint_gt(breaks, 0);
	pthread_join(t, NULL);
	check_words(r);
	memcpy(before, words, sizeof(before));
	usleep(100000);
	ck_assert(memcmp(before, words, sizeof(before)) == 0);
	printf("  broke %u times in the middle\n", breaks);
	fflush(stdout);
	free(f);
	free(r);
}

TEST(broken_lane_ends_all_chains_and_refuses_posts_until_replaced)
{
	struct xport_chain c[3] = {{.n = 1}, {.n = 1}, {.n = 1}};

	for (unsigned i = 0; i < 3; i++)
		c[i].wr[0] = (struct xport_wr){.opcode = XPORT_CAS,
					       .off = far_own_off() + i * 8,
					       .len = 8,
					       .swap = i + 1};
	far_run(own, &c[0]);
	ck_assert_int_eq(c[0].status, 0);
	xport_break(own, FARKV_EDISCONNECTED);
	far_run(own, &c[1]);
	ck_assert_int_eq(c[1].status, FARKV_EDISCONNECTED);
	ck_assert_uint_eq(c[1].n_done, 0);
	far_own_renew();
	far_run(own, &c[2]);
	ck_assert_int_eq(c[2].status, 0);
	ck_assert_uint_eq(words[0], 1);
	ck_assert_uint_eq(words[1], 0);
	ck_assert_uint_eq(words[2], 3);
}

/* ---- how fast ------------------------------------------------------------------------- */

/* Only its end is tested: it measures chains and windows on this device. */
TEST(freeze_of_4096_words_at_several_sizes_ends)
{
	static const unsigned chain[] = {1, XPORT_CHAIN_MAX};
	static const unsigned window[] = {12, 24, 48, 96, 192, 384, 768, 1536, 0};
	struct freeze *f = calloc(1, sizeof(*f));

	for (unsigned i = 0; i < ARRAY_SIZE(chain); i++)
		for (unsigned j = 0; j < ARRAY_SIZE(window); j++) {
			uint64_t best = UINT64_MAX, began;

			f->post_ns = 0;
			f->chain_len = chain[i];
			f->window = window[j];
			for (unsigned round = 0; round < 3; round++) {
				memset(words, 0, WORDS * 8);
				began = clock_now_ns();
				ck_assert_int_eq(freeze_pass(f), 0);
				best = UTIL_MIN(best, clock_now_ns() - began);
				ck_assert(all_frozen());
			}
			printf("  4096 CAS, chains of %u, window %4u: %6.1f ms; "
			       "a post %.2f ms at most\n",
			       chain[i], window[j], (double)best / 1e6,
			       (double)f->post_ns / 1e6);
			fflush(stdout);
			ck_assert_uint_lt(best, 5 * NS_PER_SEC);
		}
	free(f);
}

TEST_SUITE("loopback", far_require())
