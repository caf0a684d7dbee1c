/* SPDX-License-Identifier: BSD-3-Clause */
/* The reaper: which words of a subtable it swaps, for what, and a rival that is faster. */
#include "config.h"

#include "tests/rig/cases.h"

#include <string.h>

#include <farkv.h>

#include "common/base/clock.h"
#include "common/region/block.h"
#include "common/xport/xport.h"
#include "server/index/reap.h"
#include "server/memory/region.h"

#define NOW 5000u

static struct region r;
static struct xport_lane *shm, *lane;
static struct reaper *reaper;
static uint64_t entry, next_block;
static uint64_t *slots;

/* Before a CAS at this slot the slot gets another word; not with ~0. */
static unsigned rival_at;
static uint64_t rival_word;

static int hook(void *arg, const struct xport_chain *c, unsigned i, bool after)
{
	(void)arg;
	if (!after && c->wr[i].opcode == XPORT_CAS && rival_at < SUBTABLE_SLOTS)
		slots[rival_at] = rival_word;
	return 0;
}

static void setup(void)
{
	struct region_config cfg = {.memory = 2 << 20, .max_value = 1024, .max_key = 64,
				    .grace_ns = NS_PER_MS};
	struct xport_fault_config faults = {.hide_direct = true, .hook = hook};

	ck_assert_int_eq(region_create(&cfg, &r), 0);
	shm = xport_shm_open(r.data - r.sb.meta_bytes, r.sb.region_bytes, false);
	lane = xport_fault_open(shm, &faults);
	reaper = reaper_new(&r, lane);
	ck_assert_ptr_nonnull(reaper);
	entry = region_entry(&r, 0);
	slots = region_slots(&r, entry);
	next_block = r.sb.meta_bytes;
	rival_at = ~0u;
}

static void teardown(void)
{
	reaper_free(reaper);
	xport_close(lane);
	region_destroy(&r);
}

/* A value in slot `s` that expires so, or never. */
static uint64_t value(unsigned s, struct block_expiry e)
{
	struct block_ref ref = {.off = next_block, .inc = 3, .cls = 1};
	struct block_pair pair = {.key = "key", .key_len = 3, .value = "value", .value_len = 5,
				  .expiry = e.at, .flags = e.flags};

	next_block += class_bytes(1);
	block_encode(region_at(&r, ref.off), ref, s + 1, &pair);
	return slots[s] = slot_pack(ref, 7, SLOT_BLIND);
}

static struct reap_counts walk_at(uint64_t now)
{
	reaper_begin(reaper, entry);
	while (reaper_step(reaper, now, 0) == REAP_MORE)
		;
	return reaper_counts(reaper);
}

static struct reap_counts walk(void)
{
	return walk_at(NOW);
}

TEST_GROUP(.setup = setup, .teardown = teardown);

TEST(values_of_each_kind_only_the_expired_become_dead_and_not_blind)
{
	struct reap_counts n;
	uint64_t never, later, past, seconds, dead;

	never = value(0, (struct block_expiry){0});
	later = value(9, block_expiry_encode(NOW, 1));
	past = value(10, block_expiry_encode(NOW - 1, 1));
	seconds = value(4095, (struct block_expiry){.at = NOW / 1000, .flags = BLOCK_SECONDS});
	dead = value(100, block_expiry_encode(1, 1)) | SLOT_DEAD;
	slots[100] = dead;
	n = walk();
	ck_assert_uint_eq(slots[0], never);
	ck_assert_uint_eq(slots[9], later);
	ck_assert_uint_eq(slots[10], (past & ~SLOT_BLIND) | SLOT_DEAD);
	ck_assert_uint_eq(slots[4095], (seconds & ~SLOT_BLIND) | SLOT_DEAD);
	ck_assert_uint_eq(slots[100], dead);
	ck_assert_uint_eq(n.live, 2);
	ck_assert_uint_eq(n.dead, 3);
	ck_assert_uint_eq(n.expired, 2);
}

TEST(many_expired_all_are_found)
{
	struct reap_counts n;

	for (unsigned s = 0; s < 3000; s++)
		value(s, block_expiry_encode(NOW - 10, s % 20 + 1));
	n = walk();
	ck_assert_uint_eq(n.expired, 1500);
	ck_assert_uint_eq(n.live, 1500);
	for (unsigned s = 0; s < 3000; s++)
		ck_assert_int_eq((slots[s] & SLOT_DEAD) != 0, s % 20 + 1 <= 10);
}

/* Notes of earlier walks neither hide what is due nor a word that has come since. */
TEST(each_walk_finds_what_has_expired_since_the_last)
{
	for (unsigned s = 0; s < 4000; s++)
		value(s, block_expiry_encode(NOW, 1 + s * 20));
	for (uint64_t now = NOW; now < NOW + 81000; now += 700) {
		uint64_t due = now - NOW < 1 ? 0 : (now - NOW - 1) / 20 + 1;
		struct reap_counts n = walk_at(now);

		ck_assert_uint_eq(n.dead, due < 4000 ? due : 4000);
	}
	next_block = r.sb.meta_bytes;
	value(7, block_expiry_encode(NOW + 80000, 100000));
	ck_assert_uint_eq(walk_at(NOW + 81000).expired, 0);
	next_block = r.sb.meta_bytes + 64000;
	value(7, block_expiry_encode(NOW + 80000, 500));
	ck_assert_uint_eq(walk_at(NOW + 81000).expired, 1);
}

/* ... so a header is not read again before its time. */
TEST(values_that_are_not_due_are_not_looked_at)
{
	uint64_t never = value(11, (struct block_expiry){0});
	struct block_header *h;

	value(10, block_expiry_encode(NOW, 30000));
	ck_assert_uint_eq(walk().expired, 0);
	h = (struct block_header *)region_at(&r, slot_off(slots[10]));
	h->expiry = NOW - 1;
	ck_assert_uint_eq(walk_at(NOW + 29000).expired, 0);
	/* A new neighbour changes nothing for them. */
	value(12, block_expiry_encode(NOW, 1));
	ck_assert_uint_eq(walk_at(NOW + 29000).expired, 1);
	ck_assert_uint_eq(walk_at(NOW + 31000).expired, 1);
	ck_assert_uint_eq(slots[11], never);
}

TEST(rival_writes_first_its_word_stays)
{
	struct reap_counts n;

	value(5, block_expiry_encode(1, 1));
	rival_at = 5;
	rival_word = slots[5] + (UINT64_C(1) << SLOT_INC_SHIFT);
	n = walk();
	ck_assert_uint_eq(slots[5], rival_word);
	ck_assert_uint_eq(n.expired, 0);
}

/* The slot's word is older than the block: it cannot be what the CAS would find. */
TEST(block_of_another_incarnation_says_nothing)
{
	uint64_t w = value(5, block_expiry_encode(1, 1));

	slots[5] = w + (UINT64_C(1) << SLOT_INC_SHIFT);
	ck_assert_uint_eq(walk().expired, 0);
}

TEST(frozen_words_and_words_that_lead_nowhere_are_left_alone)
{
	uint64_t frozen = value(5, block_expiry_encode(1, 1)) | SLOT_FROZEN;
	struct block_ref nowhere = {.off = r.sb.region_bytes, .inc = 1, .cls = 3};

	slots[5] = frozen;
	slots[6] = slot_pack(nowhere, 9, 0);
	ck_assert_uint_eq(walk().expired, 0);
	ck_assert_uint_eq(slots[5], frozen);
}

TEST_SUITE("reap")
