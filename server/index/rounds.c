/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "rounds.h"

#include <string.h>

#include "common/base/util.h"

#define AGE_MAX 15u
#define COUNT_ONE 0x10u
#define COUNT_MAX 0x30u
#define IN_MAIN 0x40u
#define VISITED 0x80u
/* Probation's share of the bytes, in percent. */
#define PROBATION 10u
/* Ghosts that count, in percent of the subtable's keys. */
#define GHOST_SHARE 80u

/* Keys by their index, oldest first; what is pushed follows. At most all keys are in it. */
struct queue {
	uint16_t key[SUBTABLE_SLOTS];
	unsigned at, n;
	uint8_t in_main; /* IN_MAIN: of main's keys; 0: of probation's */
};

static void push(struct queue *q, uint16_t key)
{
	q->key[(q->at + q->n++) % SUBTABLE_SLOTS] = key;
}

static uint16_t pop(struct queue *q)
{
	uint16_t key = q->key[q->at];

	q->at = (q->at + 1) % SUBTABLE_SLOTS;
	q->n--;
	return key;
}

/* ---- ghosts -------------------------------------------------------------------- */

static void ghost_add(struct rounds *r, uint16_t print)
{
	r->ghost[r->ghosts++ % ROUNDS_GHOSTS] = print;
}

/* The latest ghosts as a set of bits; `n` keys are in the subtable. */
static void ghost_set(const struct rounds *r, unsigned n, uint64_t set[65536 / 64])
{
	uint32_t count = UTIL_MIN(UTIL_MIN(n * GHOST_SHARE / 100, ROUNDS_GHOSTS), r->ghosts);

	memset(set, 0, 65536 / 8);
	for (uint32_t i = 1; i <= count; i++) {
		uint16_t print = r->ghost[(r->ghosts - i) % ROUNDS_GHOSTS];

		set[print / 64] |= UINT64_C(1) << print % 64;
	}
}

/* ---- a visit -------------------------------------------------------------------- */

/* Count uses; a key that is met for the first time and was a ghost enters main. */
static void account(struct rounds *r, const struct rounds_key *keys, unsigned n)
{
	uint64_t ghosts[65536 / 64];

	ghost_set(r, n, ghosts);
	for (unsigned i = 0; i < n; i++) {
		uint8_t *state = &r->state[keys[i].slot];
		uint16_t print = keys[i].print;

		if (!(*state & VISITED) && ghosts[print / 64] >> print % 64 & 1)
			*state |= IN_MAIN;
		if (keys[i].hot && (*state & COUNT_MAX) != COUNT_MAX)
			*state += COUNT_ONE;
		*state |= VISITED;
	}
}

/* Fill `q` with its keys by age, the oldest first. */
static void line_up(const struct rounds *r, const struct rounds_key *keys, unsigned n,
		    unsigned first, struct queue *q)
{
	unsigned at[AGE_MAX + 2] = {0}; /* by youth: AGE_MAX - age */

	q->at = q->n = 0;
	for (unsigned i = 0; i < n; i++)
		if (!keys[i].drop && (r->state[keys[i].slot] & IN_MAIN) == q->in_main) {
			at[AGE_MAX - (r->state[keys[i].slot] & AGE_MAX) + 1]++;
			q->n++;
		}
	for (unsigned youth = 0; youth < AGE_MAX; youth++)
		at[youth + 1] += at[youth];
	for (unsigned j = 0; j < n; j++) {
		unsigned i = (first + j) % n;
		uint8_t state = r->state[keys[i].slot];

		if (!keys[i].drop && (state & IN_MAIN) == q->in_main)
			q->key[at[AGE_MAX - (state & AGE_MAX)]++] = (uint16_t)i;
	}
}

/* The expired keys leave; returns their bytes. */
static uint64_t drop_expired(struct rounds_key *keys, unsigned n)
{
	uint64_t bytes = 0;

	for (unsigned i = 0; i < n; i++) {
		keys[i].drop = keys[i].expired;
		bytes += keys[i].expired ? keys[i].bytes : 0;
	}
	return bytes;
}

/* Bytes of the keys that stay. */
static uint64_t sum(const struct rounds_key *keys, const struct queue *q)
{
	uint64_t bytes = 0;

	for (unsigned i = 0; i < q->n; i++)
		bytes += keys[q->key[i]].bytes;
	return bytes;
}

/* Take keys from the heads of the queues until `want` bytes have left. */
static void drop_oldest(struct rounds *r, struct rounds_key *keys, struct queue *probation,
			struct queue *in_main, uint64_t want)
{
	uint64_t fresh = sum(keys, probation);
	uint64_t limit = (fresh + sum(keys, in_main)) * PROBATION / 100;

	for (uint64_t gone = 0; gone < want && probation->n + in_main->n;) {
		bool young = probation->n && (fresh > limit || !in_main->n);
		uint16_t i = pop(young ? probation : in_main);
		uint8_t *state = &r->state[keys[i].slot];

		fresh -= young ? keys[i].bytes : 0;
		if (*state & COUNT_MAX) {
			*state = (uint8_t)(VISITED | IN_MAIN |
					   (young ? 0 : (*state & COUNT_MAX) - COUNT_ONE));
			push(in_main, i);
			continue;
		}
		keys[i].drop = true;
		gone += keys[i].bytes;
		if (young)
			ghost_add(r, keys[i].print);
	}
}

void rounds_visit(struct rounds *r, struct rounds_key *keys, unsigned n, uint64_t want,
		  uint32_t random)
{
	struct queue probation = {.in_main = 0}, in_main = {.in_main = IN_MAIN};
	uint64_t gone = drop_expired(keys, n);

	account(r, keys, n);
	if (n && gone < want) {
		line_up(r, keys, n, random % n, &probation);
		line_up(r, keys, n, random % n, &in_main);
		drop_oldest(r, keys, &probation, &in_main, want - gone);
	}
	for (unsigned i = 0; i < n; i++) {
		uint8_t *state = &r->state[keys[i].slot];

		if (keys[i].drop)
			*state = 0;
		else if ((*state & AGE_MAX) != AGE_MAX)
			*state += 1;
	}
}
