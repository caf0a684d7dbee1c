/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "gen_counter.h"

#include <stdlib.h>

#include "bench/base/shared.h"

bool gen_counter_init(struct gen_counter *g, uint64_t start)
{
	g->window = shared_new(COUNTER_WINDOW * sizeof(*g->window));
	if (!g->window)
		return false;
	atomic_init(&g->next, start);
	atomic_init(&g->limit, start);
	atomic_flag_clear(&g->sliding);
	return true;
}

void gen_counter_fini(struct gen_counter *g)
{
	shared_free((void *)g->window);
	g->window = NULL;
}

static _Atomic uint8_t *slot(struct gen_counter *g, uint64_t number)
{
	return &g->window[number & (COUNTER_WINDOW - 1)];
}

/* Advance the limit over acknowledged numbers. Only with `sliding` held. */
static uint64_t slide(struct gen_counter *g)
{
	uint64_t limit = atomic_load_explicit(&g->limit, memory_order_relaxed);

	while (atomic_load_explicit(slot(g, limit), memory_order_acquire)) {
		atomic_store_explicit(slot(g, limit), 0, memory_order_relaxed);
		limit++;
	}
	atomic_store_explicit(&g->limit, limit, memory_order_release);
	return limit;
}

bool gen_counter_ack(struct gen_counter *g, uint64_t number)
{
	uint64_t limit = atomic_load_explicit(&g->limit, memory_order_acquire);

	if (number - limit >= COUNTER_WINDOW)
		return false;
	atomic_store_explicit(slot(g, number), 1, memory_order_seq_cst);
	/*
	 * The holder of the flag may have passed this slot already; it checks again after
	 * releasing the flag, so no acknowledgement waits.
	 */
	do {
		if (atomic_flag_test_and_set_explicit(&g->sliding,
						      memory_order_seq_cst))
			return true;
		limit = slide(g);
		atomic_flag_clear_explicit(&g->sliding, memory_order_seq_cst);
	} while (atomic_load_explicit(slot(g, limit), memory_order_seq_cst));
	return true;
}
