/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Splits and compactions of a real region, with a client that works between any two
 * steps, and a server that stops at any step.
 */
#include "config.h"

#include "tests/rig/cases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <farkv.h>

#include "common/index/alloc.h"
#include "common/base/atomic.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/region/hash.h"
#include "common/index/index.h"
#include "common/region/block.h"
#include "common/index/run.h"
#include "server/memory/evacuate.h"
#include "server/memory/heap.h"
#include "server/index/evict.h"
#include "server/index/migrate.h"
#include "server/memory/region.h"
#include "server/memory/slab.h"
#include "server/memory/slab_marks.h"

#define KEYS_MAX 20000u
#define NOBODY UINT64_MAX

static struct region r;
static struct slab *slab;
static struct xport_lane *lane;  /* the server's */
static struct migration *migration;
static struct evict *evict; /* of a cache */

/* A client of it. */
static uint8_t *base;
static struct xport_lane *client_lane;
static struct alloc *alloc;
static struct index *client;
static struct index_op op;

static uint64_t expected[KEYS_MAX]; /* value of each key; 0: none */

/* ---- region and client --------------------------------------------------------- */

static void map_region(void)
{
	size_t meta = r.sb.meta_bytes, all = r.sb.region_bytes;

	base = mmap(NULL, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(base, MAP_FAILED);
	ck_assert_ptr_eq(mmap(base, meta, PROT_READ, MAP_SHARED | MAP_FIXED,
			      r.meta_ro_fd, 0),
			 base);
	ck_assert_ptr_eq(mmap(base + meta, all - meta, PROT_READ | PROT_WRITE,
			      MAP_SHARED | MAP_FIXED, r.data_fd, 0),
			 base + meta);
}

static void setup_of(bool cache)
{
	const struct region_config config = {
		.memory = 24u << 20,
		.index_slots = 1,
		.max_value = 4096,
		.max_key = 64,
		.grace_ns = NS_PER_SEC,
		.cache = cache,
	};

	memset(expected, 0, sizeof(expected));
	ck_assert_int_eq(region_create(&config, &r), 0);
	slab = slab_new(r.heap, r.sb.meta_bytes / PAGE_BYTES,
			heap_total(r.heap), r.sb.grace_ns);
	lane = xport_shm_open(r.data - r.sb.meta_bytes, r.sb.region_bytes,
			      false);
	evict = cache ? evict_new(&r) : NULL;
	migration = migration_new(&r, slab, lane, evict);
	map_region();
	client_lane = xport_shm_open(base, r.sb.region_bytes, false);
	alloc = alloc_new(r.sb.grace_ns);
	ck_assert_int_eq(index_open(&r.sb, client_lane, alloc, NOBODY, &client),
			 0);
	index_set_prefix(client, 1);
	index_op_init(&op);
}

static void setup(void)
{
	setup_of(false);
}

static void teardown(void)
{
	index_op_fini(client, &op);
	index_close(client);
	alloc_free(alloc);
	xport_close(client_lane);
	munmap(base, r.sb.region_bytes);
	migration_free(migration);
	evict_free(evict);
	xport_close(lane);
	slab_free(slab);
	region_destroy(&r);
}

static void barrier(void)
{
	bool heap = heap_barrier_begin(r.heap);
	bool exhausted = slab_barrier_begin(slab);

	index_drop_cache(client);
	if (heap)
		heap_barrier_passed(r.heap);
	if (exhausted)
		slab_barrier_passed(slab);
}

/* ---- operations ------------------------------------------------------------------- */

static void key_text(unsigned k, char text[16])
{
	snprintf(text, 16, "key-%07u", k);
}

static void blocks(uint8_t cls)
{
	struct block_ref refs[64];
	size_t n = slab_grant(slab, cls, 64, clock_now_ns(), refs);

	ck_assert_uint_gt(n, 0);
	ck_assert_int_eq(alloc_granted(alloc, cls, refs, n), 0);
}

/* Run an operation until it ends or waits; returns its result or INDEX_PENDING. */
static int run(enum index_kind kind, unsigned k, uint64_t value)
{
	struct index_op *ops[1] = {&op};
	char text[16];
	struct index_key key = {.data = text};

	key_text(k, text);
	key.len = (uint16_t)strlen(text);
	key.hash = hash_key(r.sb.hash_seed, text, key.len);
	index_op_start(&op, kind, &key, &value, sizeof(value));
	do {
		index_run(client, ops, 1, 0, NOBODY);
		if (op.result == INDEX_PENDING && op.wait == INDEX_WAIT_BLOCK)
			blocks(op.cls);
	} while (op.result == INDEX_PENDING && op.wait == INDEX_WAIT_BLOCK);
	return op.result;
}

static void abandon(void)
{
	index_abandon(client, &op, FARKV_ETIMEDOUT);
}

static void check_get(unsigned k)
{
	uint64_t value;
	int rc = run(INDEX_GET, k, 0);

	if (!expected[k]) {
		ck_assert_int_eq(rc, FARKV_ENOTFOUND);
		return;
	}
	ck_assert_msg(rc == 0, "key %u: %d, expected %llu", k, rc,
		      (unsigned long long)expected[k]);
	ck_assert_uint_eq(op.view.value_len, sizeof(value));
	memcpy(&value, op.view.value, sizeof(value));
	ck_assert_uint_eq(value, expected[k]);
}

/* Write key `k`; false if its subtable is being rebuilt or its window is full. */
static bool put(unsigned k, uint64_t value)
{
	int rc = run(INDEX_PUT, k, value);

	if (rc == INDEX_PENDING) {
		ck_assert(op.wait == INDEX_WAIT_FROZEN ||
			  op.wait == INDEX_WAIT_FULL);
		abandon();
		return false;
	}
	ck_assert_int_eq(rc, 0);
	expected[k] = value;
	return true;
}

static bool drop(unsigned k)
{
	int rc = run(INDEX_DELETE, k, 0);

	if (rc == INDEX_PENDING) {
		abandon();
		return false;
	}
	ck_assert_int_eq(rc, expected[k] ? 0 : FARKV_ENOTFOUND);
	expected[k] = 0;
	return true;
}

static void check_all(unsigned n)
{
	for (unsigned k = 0; k < n; k++)
		check_get(k);
	ck_assert_msg(slab_audit(slab), "%s", err_detail());
}

/* ---- migrations -------------------------------------------------------------------- */

static uint64_t hash_of(unsigned k)
{
	char text[16];

	key_text(k, text);
	return hash_key(r.sb.hash_seed, text, strlen(text));
}

static void migrate(uint64_t hash, enum migrate_kind kind)
{
	ck_assert_int_eq(migration_begin(migration, hash, kind), MIGRATE_BEGUN);
	while (migration_step(migration, NOBODY) == MIGRATE_MORE)
		;
}

static void fill(unsigned from, unsigned to)
{
	for (unsigned k = from; k < to; k++)
		while (!put(k, k + 1)) {
			migrate(hash_of(k), MIGRATE_SPLIT);
			barrier();
		}
}

static void count_all(uint64_t *live_out, uint64_t *dead_out)
{
	struct region_walk w = {0};
	uint64_t entry, hash, n = 0;
	uint32_t live, dead;

	*live_out = *dead_out = 0;
	while (region_walk_next(&r, &w, &entry, &hash)) {
		migration_count(&r, hash, &live, &dead);
		*live_out += live;
		*dead_out += dead;
		n++;
	}
	ck_assert_uint_eq(n, r.subtables);
}

TEST(migration_split_on_full_windows_index_grows_and_keeps_all)
{
	uint64_t live, dead;

	setup();
	fill(0, KEYS_MAX);
	ck_assert_uint_ge(r.subtables, 5);
	check_all(KEYS_MAX);
	count_all(&live, &dead);
	ck_assert_uint_eq(live, KEYS_MAX);
	ck_assert_uint_eq(dead, 0);
	/* No page is lost: the index and the segments hold all. */
	ck_assert_uint_eq(heap_used(r.heap),
			  r.subtables + slab_count(slab).pages);
	teardown();
}

/* A number that fits one subtable, except for one hash seed in 260 at 2500. */
#define COMPACT_KEYS 1800u

TEST(migration_compaction_returns_the_blocks_of_tombstones)
{
	uint64_t live, dead, out;

	setup();
	fill(0, COMPACT_KEYS);
	for (unsigned k = 0; k < COMPACT_KEYS; k += 2)
		ck_assert(drop(k));
	out = slab_count(slab).out;
	migrate(0, MIGRATE_COMPACT);
	ck_assert_uint_eq(migration_result(migration)->dead, COMPACT_KEYS / 2);
	ck_assert_uint_eq(migration_result(migration)->live, COMPACT_KEYS / 2);
	count_all(&live, &dead);
	ck_assert_uint_eq(live, COMPACT_KEYS / 2);
	ck_assert_uint_eq(dead, 0);
	ck_assert_uint_eq(slab_count(slab).out, out - COMPACT_KEYS / 2);
	ck_assert_uint_eq(slab_count(slab).deferred, COMPACT_KEYS / 2);
	check_all(COMPACT_KEYS);
	barrier();
	/* The keys that were dropped can be inserted again. */
	for (unsigned k = 0; k < COMPACT_KEYS; k += 2)
		ck_assert(put(k, k + 7));
	check_all(COMPACT_KEYS);
	teardown();
}

/* The client's operations between two steps: reads, overwrites, inserts, deletes. */
static void meddle(unsigned *k, unsigned n)
{
	for (unsigned i = 0; i < 24; i++) {
		unsigned a = (*k * 7919u + i * 104729u) % n;

		check_get(a);
		if (i % 3 == 0)
			(void)drop(a);
		else
			(void)put(a, ((uint64_t)*k << 32) + i + 1);
		check_get(a);
	}
	(*k)++;
}

TEST_LOOP(migration_client_between_steps_sees_every_key_as_it_is, 0, 2)
{
	enum migrate_kind kind = _i ? MIGRATE_SPLIT : MIGRATE_COMPACT;
	unsigned k = 1, steps = 0;

	setup();
	fill(0, 2500);
	for (unsigned round = 0; round < 6; round++) {
		uint64_t hash = hash_of(round);

		ck_assert_int_eq(migration_begin(migration, hash, kind),
				 MIGRATE_BEGUN);
		while (migration_step(migration, 0) == MIGRATE_MORE) {
			meddle(&k, 2600);
			steps++;
		}
		ck_assert_uint_eq(migration_result(migration)->damaged, 0);
		check_all(2600);
		barrier();
	}
	/* Sixteen of the survey, the CAS in groups, and the rest. */
	ck_assert_uint_gt(steps, 6 * 30);
	check_all(2600);
	teardown();
}

/* How the next server finishes what a dead one began. */
static void recover(enum migrate_kind kind)
{
	struct region_walk w = {0};
	uint64_t entry, hash;

	migration_free(migration);
	migration = migration_new(&r, slab, lane, NULL);
	index_drop_cache(client); /* all clients are new */
	for (uint64_t i = 0; i < UINT64_C(1) << r.depth; i++) {
		entry = region_dir(&r)[i];
		if (atom_load_relaxed(&region_slots(&r, entry)[0]) &
		    SLOT_FROZEN)
			migrate(i << (63 - r.depth) << 1, kind);
	}
	while (region_walk_next(&r, &w, &entry, &hash)) {
		const uint64_t *slots = region_slots(&r, entry);

		for (unsigned s = 0; s < SUBTABLE_SLOTS; s++)
			ck_assert(!(slots[s] & SLOT_FROZEN));
	}
}

TEST_LOOP(migration_of_a_server_that_dies_is_finished_by_the_next, 0, 4)
{
	enum migrate_kind kind = _i & 1 ? MIGRATE_SPLIT : MIGRATE_COMPACT;
	bool over = false;
	unsigned k = 1;

	for (unsigned stop = 0; !over; stop++) {
		setup();
		fill(0, 1200);
		for (unsigned d = 0; d < 1200; d += 5)
			ck_assert(drop(d));
		/* A directory that is deeper than the subtable. */
		if (_i & 2) {
			migrate(0, MIGRATE_SPLIT);
			migrate(0, MIGRATE_SPLIT);
		}
		ck_assert_int_eq(migration_begin(migration, UINT64_MAX, kind),
				 MIGRATE_BEGUN);
		for (unsigned i = 0; i < stop && !over; i++)
			over = migration_step(migration, 0) != MIGRATE_MORE;
		meddle(&k, 1200);
		if (!over)
			recover(_i & 2 ? !kind : kind); /* the server's copy may differ */
		meddle(&k, 1200);
		check_all(1200);
		teardown();
	}
}

static int break_at;

static int on_request(void *arg, const struct xport_chain *chain, unsigned i,
		      bool after)
{
	(void)arg;
	(void)chain;
	(void)i;
	return !after && break_at-- == 0 ? FARKV_EDISCONNECTED : 0;
}

TEST(migration_reports_a_broken_lane_and_another_finishes)
{
	const struct xport_fault_config cfg = {.hook = on_request};
	unsigned k = 3;

	setup();
	fill(0, 2000);
	migration_free(migration);
	lane = xport_fault_open(lane, &cfg);
	migration = migration_new(&r, slab, lane, NULL);
	break_at = 1000;
	ck_assert_int_eq(migration_begin(migration, 0, MIGRATE_SPLIT),
			 MIGRATE_BEGUN);
	for (;;) {
		enum migrate_state s = migration_step(migration, NOBODY);

		ck_assert_int_ne(s, MIGRATE_DONE);
		if (s == MIGRATE_LOST)
			break;
	}
	check_all(2000);
	/* It still is. */
	ck_assert_int_eq(migration_step(migration, NOBODY), MIGRATE_LOST);
	xport_close(lane);
	lane = xport_shm_open(r.data - r.sb.meta_bytes, r.sb.region_bytes,
			      false);
	recover(MIGRATE_SPLIT);
	meddle(&k, 2000);
	check_all(2000);
	teardown();
}

TEST(migration_slots_that_lead_nowhere_are_dropped_and_counted)
{
	uint64_t *slots, good = 0;
	unsigned bad = 0;

	setup();
	fill(0, 1000);
	slots = region_slots(&r, region_entry(&r, 0));
	for (unsigned s = 0; s < SUBTABLE_SLOTS && bad < 3; s++) {
		if (slot_is_null(slots[s]))
			continue;
		good = slots[s];
		switch (bad++) {
		case 0: /* out of the region */
			slots[s] |= SLOT_PTR_MASK;
			break;
		case 1: /* another incarnation */
			slots[s] ^= UINT64_C(1) << SLOT_INC_SHIFT;
			break;
		default: /* another key's block, in a window not its own */
			for (unsigned t = 3000; t < SUBTABLE_SLOTS; t++)
				if (!slot_is_null(slots[t])) {
					slots[s] = slots[t];
					break;
				}
		}
	}
	(void)good;
	migrate(0, MIGRATE_SPLIT);
	ck_assert_uint_eq(migration_result(migration)->damaged, 3);
	ck_assert_uint_eq(migration_result(migration)->live, 997);
	teardown();
}

/* A rogue client that thaws frozen slots, or changes a slot before each freeze. */
static enum { THAWS, CHANGES_ONE } rogue_does;
static unsigned rogue_cas;

static int rogue_hook(void *arg, const struct xport_chain *c, unsigned i,
		      bool after)
{
	uint64_t *slots = region_slots(&r, region_entry(&r, 0));
	uint64_t *slot = region_at(&r, c->wr[i].off);

	(void)arg;
	if (c->wr[i].opcode != XPORT_CAS)
		return 0;
	rogue_cas += !after;
	if (rogue_does == THAWS && !after && rogue_cas == 100)
		*slot ^= SLOT_BLIND; /* so that there is another pass */
	if (rogue_does == THAWS && after)
		slots[(slot - slots + SUBTABLE_SLOTS - 1) % SUBTABLE_SLOTS] &=
			~SLOT_FROZEN;
	if (rogue_does == CHANGES_ONE && !after && slot == &slots[1000])
		*slot ^= SLOT_BLIND;
	return 0;
}

TEST_LOOP(migration_does_not_wait_for_a_client_that_thaws_slots, 0, 2)
{
	const struct xport_fault_config cfg = {.hook = rogue_hook};
	unsigned more = 0;
	uint64_t began;

	setup();
	fill(0, 2000);
	rogue_does = _i ? CHANGES_ONE : THAWS;
	rogue_cas = 0;
	migration_free(migration);
	lane = xport_fault_open(lane, &cfg);
	migration = migration_new(&r, slab, lane, NULL);
	ck_assert_int_eq(migration_begin(migration, 0, MIGRATE_SPLIT),
			 MIGRATE_BEGUN);
	began = clock_now_ns();
	/* Nobody else waits meanwhile. */
	while (migration_step(migration, clock_now_ns() + NS_PER_MS) ==
	       MIGRATE_MORE)
		more++;
	ck_assert_uint_lt(clock_now_ns() - began, 10 * NS_PER_SEC);
	ck_assert_uint_eq(migration_result(migration)->damaged, _i);
	if (_i)
		ck_assert_uint_ge(more, 3);
	else /* each slot was frozen once */
		ck_assert_uint_eq(rogue_cas, SUBTABLE_SLOTS + 1);
	index_drop_cache(client);
	check_all(2000);
	teardown();
}

TEST(migration_begin_without_memory_changes_nothing)
{
	uint64_t used;

	setup();
	fill(0, 100);
	while (heap_take_index(r.heap))
		;
	used = heap_used(r.heap);
	ck_assert_int_eq(migration_begin(migration, 0, MIGRATE_COMPACT),
			 MIGRATE_NO_PAGE);
	ck_assert_int_eq(migration_begin(migration, 0, MIGRATE_SPLIT),
			 MIGRATE_NO_PAGE);
	heap_give(r.heap, r.sb.meta_bytes / PAGE_BYTES + 5, 1);
	ck_assert_int_eq(migration_begin(migration, 0, MIGRATE_SPLIT),
			 MIGRATE_NO_PAGE);
	ck_assert_uint_eq(heap_used(r.heap), used - 1);
	check_all(100);
	teardown();
}

TEST(migration_begin_at_the_largest_directory_refuses_to_split)
{
	setup();
	fill(0, 100);
	while (r.depth < r.max_depth)
		migrate(0, MIGRATE_SPLIT);
	ck_assert_int_eq(migration_begin(migration, 0, MIGRATE_SPLIT),
			 MIGRATE_DIR_FULL);
	/* Other subtables can still be split. */
	migrate(UINT64_MAX, MIGRATE_SPLIT);
	migrate(0, MIGRATE_COMPACT);
	check_all(100);
	teardown();
}

/* The key's word, wherever its window has it. */
static uint64_t word_of(unsigned k)
{
	uint64_t hash = hash_of(k), entry = region_entry(&r, hash);
	const uint64_t *slot = region_slots(&r, entry) + hash_home_line(hash) * LINE_SLOTS;
	uint64_t found = 0;
	char text[16];

	key_text(k, text);
	for (unsigned s = 0; s < WINDOW_SLOTS; s++)
		if (!slot_is_null(slot[s]) && slot_fp(slot[s]) == hash_fp(hash) &&
		    memcmp((uint8_t *)region_at(&r, slot_off(slot[s])) + BLOCK_HEADER_BYTES, text,
			   strlen(text)) == 0)
			found = slot[s];
	ck_assert_uint_ne(found, 0);
	return found;
}

/* Visit every subtable. */
static void visit_all(void)
{
	struct region_walk w = {0};
	uint64_t entry, hash;

	while (region_walk_next(&r, &w, &entry, &hash)) {
		ck_assert_int_eq(migration_begin_visit(migration, hash, false), MIGRATE_BEGUN);
		while (migration_step(migration, NOBODY) == MIGRATE_MORE)
			;
	}
}

/*
 * A reader that knows the old places reads all values until they are used again. The put that a
 * moved word stands for is over: a later put that loses to it must not be taken for absorbed by
 * it, so the word is not blind.
 */
TEST(migration_of_an_evacuated_segment_moves_its_values_and_their_words_are_not_blind)
{
	const unsigned n = 1000; /* of 64 bytes, in pages of 512: their windows do not overlap */
	unsigned moved = 0;

	setup_of(true);
	slab_keep_no_reserve(slab);
	fill(0, n);
	check_all(n);
	ck_assert_uint_gt(evacuate_begin(slab, &(struct evacuation){.run = 1, .pages = 4,
								    .force = true,
								    .cls = CLASS_COUNT}), 0);
	for (unsigned k = 0; k < n; k++) {
		ck_assert(word_of(k) & SLOT_BLIND);
		moved += evacuate_leaves(slab, slot_off(word_of(k)));
	}
	ck_assert_uint_gt(moved, 100);
	visit_all();
	ck_assert_uint_eq(migration_result(migration)->moved, moved);
	check_all(n);
	for (unsigned k = 0; k < n; k++) {
		uint64_t w = word_of(k);

		ck_assert(!evacuate_leaves(slab, slot_off(w)));
		moved -= !(w & SLOT_BLIND);
	}
	ck_assert_uint_eq(moved, 0);
	barrier();
	/* The client keeps blocks of these segments, but not all of them. */
	(void)evacuate_end(slab);
	barrier();
	check_all(n);
	for (unsigned k = 0; k < n; k++)
		ck_assert(put(k, k + 7));
	check_all(n);
	teardown();
}

TEST_SUITE("migrate")
