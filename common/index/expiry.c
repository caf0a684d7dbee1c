/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "expiry.h"

#include <farkv.h>

#include "common/base/err.h"

/*
 * A writer computes its value's expiry from a sample of at most this age. If the server was stopped
 * since the sample, the value lives longer by that time.
 */
#define SAMPLE_AGE_NS NS_PER_SEC

/* ---- CLOCK is READ --------------------------------------------------------- */

/* Scratch word for CLOCK; a look at the slot uses the first two. */
#define CLOCK_AT 2u

/* READ CLOCK next, or where words tear twice. */
static void add_clock(const struct index *ix, struct index_op *op)
{
	uint64_t *s = op_scratch(op) + CLOCK_AT;

	op->aged.at_ns = index_now(ix);
	op_chain_add(op, XPORT_READ, REGION_CLOCK_OFF, &s[0], 8);
	if (!(ix->lane->caps & XPORT_READ8_ATOMIC))
		op_chain_add(op, XPORT_READ, REGION_CLOCK_OFF, &s[1], 8);
}

/* Take the sample; false if it may be torn. */
static bool take_clock(struct index *ix, struct index_op *op)
{
	const uint64_t *s = op_scratch(op) + CLOCK_AT;

	if (!(ix->lane->caps & XPORT_READ8_ATOMIC) && s[0] != s[1])
		return false;
	ix->clock_ms = s[0];
	ix->clock_at_ns = op->aged.at_ns;
	return true;
}

void expiry_add_clock(const struct index *ix, struct index_op *op, uint64_t word)
{
	op->aged.word = word;
	add_clock(ix, op);
}

bool expiry_take_clock(struct index *ix, struct index_op *op)
{
	bool whole = take_clock(ix, op);

	if (whole)
		op->aged.ms = ix->clock_ms;
	else
		op->aged.word = 0;
	return whole;
}

static uint64_t since_sample_ms(const struct index *ix)
{
	return (index_now(ix) - ix->clock_at_ns) / NS_PER_MS;
}

/* ---- has a block expired? ---------------------------------------------------- */

static uint64_t left_at(const struct block_view *view, uint64_t clock_ms)
{
	return block_ttl_left(view->expiry, view->flags, clock_ms);
}

/* True if op->left_ms could be set without another READ. */
static bool known_by_sample(const struct index *ix, struct index_op *op,
			    const struct block_view *view)
{
	uint64_t since;

	/*
	 * CLOCK had reached this before the slot was READ, so the value had expired at that READ.
	 */
	if (op->search.clock_ms && left_at(view, op->search.clock_ms) == 0) {
		op->left_ms = 0;
		return true;
	}
	if (!ix->clock_ms)
		return false;
	/* The latest that CLOCK can show now: clocks run at rates within a factor of two. */
	since = since_sample_ms(ix);
	if (left_at(view, ix->clock_ms + REGION_CLOCK_STEP_MS + 2 * (since + 1)) == 0)
		return false;
	op->left_ms = left_at(view, ix->clock_ms + since);
	return true;
}

bool expiry_known(struct index *ix, struct index_op *op, uint64_t word,
		  const struct block_view *view)
{
	uint64_t *s = op_scratch(op);

	op->search.dated = view->expiry != 0;
	op->left_ms = BLOCK_NEVER;
	if (!view->expiry)
		return true;
	/* The slot held the word before CLOCK was READ, and holds it now. */
	if (op->aged.word == word) {
		op->left_ms = left_at(view, op->aged.ms);
		return true;
	}
	if (known_by_sample(ix, op, view))
		return true;
	op->view = *view;
	op_chain_begin(op, OP_CLOCK);
	expiry_add_clock(ix, op, word);
	op_chain_add(op, XPORT_READ, op_slot_off(op), &s[0], 8);
	if (!(ix->lane->caps & XPORT_READ8_ATOMIC))
		op_chain_add(op, XPORT_READ, op_slot_off(op), &s[1], 8);
	return false;
}

bool expiry_looked(struct index *ix, struct index_op *op)
{
	const uint64_t *s = op_scratch(op);

	if (!expiry_take_clock(ix, op))
		return false;
	if (!(ix->lane->caps & XPORT_READ8_ATOMIC) && s[0] != s[1])
		return false;
	if (s[0] != op->aged.word)
		return false;
	op->left_ms = left_at(&op->view, op->aged.ms);
	return true;
}

/* ---- a value that is to expire ------------------------------------------------- */

bool expiry_date_now(const struct index *ix, struct index_op *op)
{
	uint64_t now;

	if (!op->ttl_ms || op->expires.at)
		return true;
	now = expiry_clock(ix);
	if (now)
		op->expires = block_expiry_encode(now, op->ttl_ms);
	return now != 0;
}

bool expiry_date(struct index *ix, struct index_op *op, enum next *next_out)
{
	if (!op->ttl_ms || op->expires.at)
		return true;
	if (ix->lane->caps & XPORT_DIRECT) {
		if (expiry_date_now(ix, op))
			return true;
		*next_out = op_wait(ix, op, INDEX_WAIT_CLOCK);
		return false;
	}
	if (ix->clock_ms && index_now(ix) - ix->clock_at_ns <= SAMPLE_AGE_NS) {
		op->expires = block_expiry_encode(ix->clock_ms + since_sample_ms(ix),
						  op->ttl_ms);
		return true;
	}
	if (index_op_reserve(ix, op, 0)) {
		*next_out = op_done(ix, op, err_set(FARKV_ENOMEM, "no memory for a window"));
		return false;
	}
	op_chain_begin(op, OP_DATE);
	add_clock(ix, op);
	*next_out = NEXT_POST;
	return false;
}

enum next expiry_dated(struct index *ix, struct index_op *op)
{
	if (!take_clock(ix, op))
		return op_again(ix, op);
	if (!ix->clock_ms)
		return op_wait(ix, op, INDEX_WAIT_CLOCK);
	op->phase = OP_START;
	return NEXT_AGAIN;
}
