/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * When the server evicts, and what a request waits for: the control loop of a cache of 8 MiB, and
 * clients that are functions. Keys are written by the test itself.
 */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "common/base/atomic.h"
#include "common/base/util.h"
#include "common/region/block.h"
#include "common/region/hash.h"
#include "server/index/evict.h"
#include "server/loop/evictor.h"
#include "server/loop/grow.h"
#include "server/memory/evacuate.h"
#include "server/memory/slab_marks.h"
#include "tests/rig/cases.h"
#include "tests/rig/control_rig.h"

#define LONG class_for(100 << 10)
#define SHORT class_for(160)
#define PAGE_CLASS class_for(4000)

static void setup(void)
{
	rig_begin_cache(8 * MIB);
}

static uint64_t evictions(void)
{
	return evict_counts(evictor_books(c))[EVICT_SUM].evictions;
}

static uint64_t memory(void)
{
	return heap_total(region.heap) * PAGE_BYTES;
}

/* ---- keys ---------------------------------------------------------------------------- */

static uint64_t key_text(unsigned k, char text[16])
{
	int len = snprintf(text, 16, "key%u", k);

	ck_assert(len > 0 && len < 16);
	return hash_key(region.sb.hash_seed, text, (size_t)len);
}

static bool has_key(uint64_t w, const char *text)
{
	const uint8_t *block = region_at(&region, slot_off(w));
	struct block_header h;

	memcpy(&h, block, sizeof(h));
	return h.key_len == strlen(text) && memcmp(block + sizeof(h), text, h.key_len) == 0;
}

/* The first slot of the key's window that has its word, or that is empty if there is no `text`. */
static uint64_t *find(uint64_t hash, const char *text)
{
	uint64_t entry = region_entry(&region, hash);
	uint64_t *slot = region_slots(&region, entry) + hash_home_line(hash) * LINE_SLOTS;

	for (unsigned s = 0; s < WINDOW_SLOTS; s++, slot++) {
		uint64_t w = atom_load_relaxed(slot) & ~SLOT_FROZEN;

		if (text ? !slot_is_null(w) && slot_fp(w) == hash_fp(hash) && has_key(w, text) :
			   w == slot_empty(entry_gen(entry)))
			return slot;
	}
	return NULL;
}

static bool there(unsigned k)
{
	char text[16];

	return find(key_text(k, text), text) != NULL;
}

static unsigned count(unsigned from, unsigned to)
{
	unsigned n = 0;

	for (unsigned k = from; k < to; k++)
		n += there(k);
	return n;
}

/* The client finds the key's window full: it asks until the subtable is another one. */
static void hint(uint64_t hash)
{
	uint64_t entry = region_entry(&region, hash);
	struct msg m = {.type = MSG_HINT, .hint = {.page = entry_page(entry),
						   .gen = entry_gen(entry), .full = 1}};

	while (region_entry(&region, hash) == entry) {
		ck_assert(say(&alice, &m, NULL));
		turns(1);
	}
}

/* Put a key with the last block that alice holds. */
static void publish(unsigned k)
{
	struct block_ref ref = alice.held[--alice.n_held];
	char text[16];
	uint64_t hash = key_text(k, text), *slot;

	while (!(slot = find(hash, NULL)))
		hint(hash);
	block_encode(region_at(&region, ref.off), ref, 1,
		     &(struct block_pair){.key = text, .key_hash = hash,
					  .key_len = (uint16_t)strlen(text),
					  .value = "", .value_len = 1});
	atom_store_publish(slot, slot_pack(ref, hash_fp(hash), 0));
}

/* Put keys, with blocks of a class that alice asks for: she gets some each time. */
static void put(unsigned from, unsigned to, uint8_t cls)
{
	for (unsigned k = from; k < to; k++) {
		if (alice.n_held == 0)
			ck_assert_uint_gt(rig_get(&alice, cls, 64), 0);
		publish(k);
		if (k % 64 == 0)
			turn();
	}
}

/* What alice did not need goes back as it came. */
static void give_rest(void)
{
	while (alice.n_held) {
		uint32_t n = (uint32_t)UTIL_MIN(alice.n_held, (size_t)100);
		struct msg m = {.type = MSG_RETURN, .blocks = {.state = RETURN_FREE, .n = n}};

		alice.n_held -= n;
		ck_assert(say(&alice, &m, alice.held + alice.n_held));
	}
}

/* ---- cases --------------------------------------------------------------------------- */

TEST_GROUP(.setup = setup, .teardown = rig_end);

TEST(memory_runs_short_keys_leave_before_it_is_gone)
{
	struct slab_counts n;

	put(0, 6000, PAGE_CLASS);
	ck_assert_uint_gt(evictions(), 3000);
	ck_assert_uint_eq(count(0, 6000), 6000 - evictions());
	turns(200);
	n = slab_count(c->slab);
	ck_assert_uint_ge(n.bytes_free + heap_left(region.heap) * PAGE_BYTES, memory() / 80);
	/* One visit of the only subtable frees an eighth. */
	ck_assert_uint_le(n.bytes_free, memory() / 6);
	/* The last ones are there. */
	ck_assert_uint_ge(count(5500, 6000), 450);
	give_rest();
}

TEST(memory_of_short_values_goes_to_long_ones_and_back)
{
	unsigned many = (unsigned)(2 * memory() / class_bytes(LONG));

	put(0, 40000, SHORT);
	give_rest();
	put(100000, 100000 + many, LONG);
	ck_assert_uint_ge(count(100000, 100000 + many) * class_bytes(LONG),
			  (memory() - region.subtables * PAGE_BYTES) * 8 / 10);
	give_rest();
	put(200000, 280000, SHORT);
	ck_assert_uint_ge(slab_count_class(c->slab, SHORT).bytes_out,
			  (memory() - region.subtables * PAGE_BYTES) * 8 / 10);
	give_rest();
}

/* Long values have all memory: what the index needs comes from them, not from short values. */
TEST(index_needs_pages_long_values_leave_for_it)
{
	unsigned many = (unsigned)(memory() / class_bytes(LONG));

	put(100000, 100000 + many, LONG);
	give_rest();
	ck_assert_uint_eq(region.subtables, 1);
	put(0, 20000, SHORT);
	ck_assert_uint_gt(region.subtables, 4);
	ck_assert_uint_gt(count(0, 20000), 12000);
	give_rest();
}

TEST(clients_hold_all_memory_a_round_evicts_nothing_the_request_is_refused)
{
	size_t n = rig_get_all(&alice, PAGE_CLASS);

	ck_assert_uint_gt(n * class_bytes(PAGE_CLASS), memory() * 8 / 10);
	join(&bob, &rig_local, getpid());
	ck_assert_uint_eq(rig_get(&bob, LONG, 1), 0);
	ck_assert_uint_ge(alice.reclaims, 1);
	/* And when she has answered, the same request is served. */
	give_rest();
	ck_assert_uint_eq(rig_get(&bob, LONG, 1), 1);
	rig_give(&bob, 1, RETURN_FREE);
}

TEST(few_pages_are_left_a_session_gets_what_it_has_taken_lately)
{
	size_t before = 0;

	ck_assert_uint_eq(rig_get(&alice, SHORT, 64), 64);
	give_rest();
	put(0, 60000, SHORT);
	give_rest();
	join(&bob, &rig_local, getpid());
	for (unsigned i = 0; i < 4; i++) {
		size_t n = rig_get(&bob, SHORT, 64);

		ck_assert_uint_ge(n, 1);
		ck_assert_uint_le(n, UTIL_MAX(before, (size_t)16));
		before += n;
	}
	rig_give(&bob, (uint32_t)before, RETURN_FREE);
}

/* All sizes together lack more than the free pages hold. */
TEST(sizes_in_use_lack_blocks_keys_leave)
{
	uint64_t before;

	put(0, 6000, PAGE_CLASS);
	give_rest();
	/* As requests do: visits that had to stop for lack of pages begin again. */
	while (evictor_needs_visits(c)) {
		(void)grow_evict(c);
		turn();
	}
	before = evictions();
	/* Demand leaks by the clock: it goes on until a key has left, or the case takes too long.
	 */
	while (evictions() == before) {
		for (uint8_t cls = 0; cls < CLASS_COUNT; cls++)
			evictor_granted(alice.session, cls, 1000);
		(void)grow_evict(c);
		turn();
	}
}

/* A client holds a block of each third segment of long values: the others become free. */
TEST(clients_hold_a_block_in_some_segments_others_are_emptied)
{
	unsigned many = (unsigned)(memory() / class_bytes(LONG));
	static struct block_ref pinned[64];
	size_t n = 0;

	for (unsigned k = 0; k < many * 8 / 10; k++) {
		if (alice.n_held == 0)
			ck_assert_uint_gt(rig_get(&alice, LONG, 1), 0);
		if (k % 9 == 4 && n < 64)
			pinned[n++] = alice.held[--alice.n_held];
		else
			publish(k);
	}
	ck_assert_uint_gt(n, 2);
	give_rest();
	put(100000, 150000, SHORT);
	give_rest();
	ck_assert_uint_gt(slab_count_class(c->slab, SHORT).bytes_out, memory() / 4);
	for (size_t i = 0; i < n; i++)
		ck_assert(slab_is_out(c->slab, pinned[i]));
	/* Her answers free the rest. */
	memcpy(alice.held, pinned, n * sizeof(*pinned));
	alice.n_held = n;
	give_rest();
	put(200000, 260000, SHORT);
	ck_assert_uint_eq(slab_count_class(c->slab, LONG).out, 0);
	give_rest();
}

TEST_SUITE("evictor")
