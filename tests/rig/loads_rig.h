/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * loads_rig.h - the fast path, compiled here with hooks between its steps: for the one
 * source file of a program that includes it.
 */
#ifndef TESTS_RIG_LOADS_RIG_H
#define TESTS_RIG_LOADS_RIG_H

#include "common/base/atomic.h"

static void (*at_spin)(void);

static void spin(void)
{
	void (*act)(void) = at_spin;

	at_spin = NULL;
	if (act)
		act();
}

/* Before struct index, whose backoff is in line. */
#define atom_spin_hint spin
#include "common/index/window_scan.h"
#include "index_rig.h"

static void (*at_swap)(void);
static unsigned swaps_made; /* swaps without a chain, of any client */

/* Hook: others change a word just before a write without a chain swaps it. */
static uint64_t swap(uint64_t *slot, uint64_t expect, uint64_t to)
{
	void (*act)(void) = at_swap;

	at_swap = NULL;
	if (act)
		act();
	swaps_made++;
	return atom_cas_u64(slot, expect, to);
}

static void (*at_copy)(void);

/* Hook: others act while a write copies its block. */
static void copy(void *to, const void *from, size_t len)
{
	void (*act)(void) = at_copy;

	atom_copy_block(to, from, len);
	at_copy = NULL;
	if (act)
		act();
}

static void seal_copy(uint8_t *block, const uint8_t *image, uint64_t binding, size_t end,
		      size_t room)
{
	void (*act)(void) = at_copy;

	block_seal_copy(block, image, binding, end, room);
	at_copy = NULL;
	if (act)
		act();
}

static void (*at_block)(void), (*after_block)(void);

/* Hook: the same for the copy of a fast GET. */
static bool copy_holds(uint8_t *to, const uint8_t *block, uint64_t binding,
		       uint16_t key_len, uint32_t value_len)
{
	void (*before)(void) = at_block, (*after)(void) = after_block;
	bool holds;

	at_block = NULL;
	after_block = NULL;
	if (before)
		before();
	holds = block_copy_holds(to, block, binding, key_len, value_len);
	if (after)
		after();
	return holds;
}

static void (*at_key)(void);

/* Hook: others act between a PUT's reads of a block's header and of its key. */
static uint64_t differs(const void *own, const void *block, size_t len)
{
	void (*act)(void) = at_key;

	at_key = NULL;
	if (act)
		act();
	return atom_block_differs(own, block, len);
}

static unsigned scans; /* lines of windows that the fast path has read */

static struct line_masks scan(const uint64_t *line, uint32_t fp)
{
	scans++;
	return window_scan(line, fp);
}

#define window_scan scan
#define atom_block_differs differs
#define block_copy_holds copy_holds
#define atom_cas_u64 swap
#define atom_copy_block copy
#define block_seal_copy seal_copy
#include "common/index/shm.c"
#include "common/index/search.c"
#include "common/index/try.c"

static struct index_key k;

/* A version for each block that `me` has written, and the swaps of all. */
struct effort {
	unsigned written, swaps;
};

static __attribute__((unused)) struct effort effort_so_far(void)
{
	return (struct effort){me.ix->versions.counter, swaps_made};
}

static __attribute__((unused)) void check_effort(struct effort before, unsigned written,
						 unsigned swaps)
{
	ck_assert_uint_eq(me.ix->versions.counter - before.written, written);
	ck_assert_uint_eq(swaps_made - before.swaps, swaps);
}

/* `me` has put the key and read it: its next put or get finds everything in its caches. */
static __attribute__((unused)) void setup_over(const char *key, uint32_t fp)
{
	setup(false);
	k = fp ? key_at(key, fp) : key_of(key);
	fake_region_grant(&region, me.alloc, 0, 8);
	PUT(&me, k, "first");
	PUT(&me, k, "second");
	ck_assert(me.op.has_spare);
	check_value(&me, k, "second");
}

static __attribute__((unused)) void freeze(void)
{
	*slots_of(k) |= SLOT_FROZEN;
}

/* The migration thaws the slot: the operation of `me` succeeds. */
static __attribute__((unused)) void thaw_and_end(void)
{
	struct index_op *op = &me.op;

	*slots_of(k) &= ~SLOT_FROZEN;
	index_run(me.ix, &op, 1, 0, clock_now_ns() + NS_PER_SEC);
	ck_assert_int_eq(op->result, 0);
	check_value(&other, k, "mine");
	teardown();
}

static __attribute__((unused)) void cut(void)
{
	xport_break(me.lane, FARKV_EDISCONNECTED);
}

#endif
