/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The register itself, and a check of histories by trying all orders: slow, simple, and
 * written without a look at linear_search.c, which is tested against it.
 */
#ifndef TESTS_LAB_REGISTER_H
#define TESTS_LAB_REGISTER_H

#include <stdbool.h>

#include "history.h"

/** The operation's result when the key has `*state`, which it may change. */
uint8_t register_do(uint64_t *state, struct history_op *op);

/** Is there an order? One key, at most 16 operations. */
bool register_explains(const struct history *h);

/** Operations of `clients` on `keys`, carried out one by one within their times. */
struct register_plan {
	uint64_t seed;
	uint32_t clients, keys;
	size_t ops;
	unsigned unknown_permille; /* that end so, done or not */
	unsigned failed_permille;
	uint64_t longest; /* ns from invocation to response */
};

void register_history(const struct register_plan *plan, struct history *out);

/** Another number at each call. */
uint64_t register_random(uint64_t *state);

#endif
