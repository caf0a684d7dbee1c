/* SPDX-License-Identifier: BSD-3-Clause */
/** buffers_churn.h - random allocations and frees of buffers of many sizes. */
#ifndef TESTS_RIG_BUFFERS_CHURN_H
#define TESTS_RIG_BUFFERS_CHURN_H

#include <stdbool.h>
#include <stdint.h>

#include "client/buffers.h"
#include "test_main.h"

#define CHURN_SLOTS 64

struct churn_slot {
	uint8_t *p;
	size_t len;
	uint8_t mark;
};

/** The allocator, and the length for a random number. */
struct churn {
	uint8_t *(*take)(struct buffers *b, size_t bytes);
	size_t (*length)(uint64_t rnd);
};

static inline void churn_give_back(struct buffers *b, struct churn_slot *s)
{
	if (!s->p)
		return;
	ck_assert_uint_eq(s->p[0], s->mark);
	ck_assert_uint_eq(s->p[s->len / 2], s->mark);
	ck_assert_uint_eq(s->p[s->len - 1], s->mark);
	buffers_free(b, s->p);
	s->p = NULL;
}

/**
 * The same sequence each time. Checks that each buffer keeps its content; frees all at
 * the end.
 */
static inline void buffers_churn(struct buffers *b, unsigned rounds,
				 const struct churn *how)
{
	struct churn_slot slots[CHURN_SLOTS] = {0}, *s;
	uint64_t rnd = 88172645463325252u;

	for (unsigned i = 0; i < rounds; i++) {
		rnd ^= rnd << 13;
		rnd ^= rnd >> 7;
		rnd ^= rnd << 17;
		s = &slots[rnd % CHURN_SLOTS];
		if (s->p) {
			churn_give_back(b, s);
			continue;
		}
		s->len = how->length(rnd);
		s->mark = (uint8_t)i;
		s->p = how->take(b, s->len);
		s->p[0] = s->p[s->len / 2] = s->p[s->len - 1] = s->mark;
	}
	for (unsigned k = 0; k < CHURN_SLOTS; k++)
		churn_give_back(b, &slots[k]);
}

#endif
