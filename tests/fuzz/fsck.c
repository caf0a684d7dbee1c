/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The server's readers of a region that clients write: fsck of subtables and directory,
 * migrations, and the marks of sweeps, over slots and blocks that the input damaged. The
 * server's own accounts stay correct.
 */
#include "config.h"

#include "fuzz.h"

#include "common/base/clock.h"
#include "common/region/hash.h"
#include "fake_clock.h"
#include "seal.h"
#include "server/index/fsck_index.h"
#include "server/index/migrate.h"
#include "server/memory/slab_marks.h"

#define MEMORY (UINT64_C(1) << 20)
#define BLOCKS 24u
#define COMMANDS_MAX 64u

static struct region region;
static struct slab *slab;
static struct xport_lane *lane;
static struct fuzz_in in;
static struct block_ref blocks[BLOCKS];

/* ---- scribbling --------------------------------------------------------------------- */

static struct block_ref some_block(uint8_t how)
{
	struct block_ref ref = blocks[fuzz_u8(&in) % BLOCKS];

	if (how & 1)
		ref.off += fuzz_u8(&in) * PTR_UNIT;
	if (how & 2)
		ref.cls = fuzz_u8(&in) & SLOT_CLASS_MASK;
	if (how & 4)
		ref.inc = fuzz_u16(&in) & SLOT_INC_MASK;
	if (how & 8)
		ref.off = fuzz_u64(&in) & SLOT_PTR_MASK * PTR_UNIT;
	return ref;
}

/* An item in its place, or in one that is wrong in some way. */
static void put_item(void)
{
	uint8_t how = fuzz_u8(&in), key[2] = {fuzz_u8(&in) & 15, 7};
	uint64_t hash = hash_key(region.sb.hash_seed, key, sizeof(key));
	uint64_t *slots = region_slots(&region, region_entry(&region, hash));
	struct block_ref ref = some_block(how & 7);
	unsigned at = hash_home_line(hash) * LINE_SLOTS + (how >> 4);
	uint32_t fp = hash_fp(hash);

	if (how & 8) {
		at = (at + fuzz_u8(&in)) % SUBTABLE_SLOTS;
		fp ^= fuzz_u8(&in);
	}
	if (region_block_ok(&region.sb, ref.off, ref.cls))
		block_encode(region_at(&region, ref.off), ref, 1,
			     &(struct block_pair){.key = key, .key_hash = hash,
						  .key_len = sizeof(key),
						  .value = "", .value_len = 0});
	slots[at] = slot_pack(ref, fp,
			      (uint64_t)(fuzz_u8(&in) & 7) << 53);
}

static void put_word(void)
{
	uint64_t entry = region_entry(&region, (uint64_t)fuzz_u8(&in) << 56);
	uint8_t how = fuzz_u8(&in);
	unsigned at = fuzz_u16(&in) % SUBTABLE_SLOTS;
	uint64_t w = fuzz_u64(&in);

	if (how & 16)
		w = slot_pack(some_block(how), (uint32_t)(w >> 56), w);
	for (unsigned n = how & 32 ? WINDOW_SLOTS : 1;
	     n && at < SUBTABLE_SLOTS; n--)
		region_slots(&region, entry)[at++] = w;
}

static void put_block(void)
{
	struct block_ref ref = blocks[fuzz_u8(&in) % BLOCKS];
	uint8_t *p = region_at(&region, ref.off), how = fuzz_u8(&in);
	size_t have = region.sb.region_bytes - ref.off;
	struct block_header h;

	memcpy(&h, p, sizeof(h));
	h.value_len = how & 1 ? fuzz_u32(&in) : fuzz_u8(&in);
	h.key_len = how & 2 ? fuzz_u16(&in) : fuzz_u8(&in);
	h.inc_flags = fuzz_u16(&in);
	memcpy(p, &h, sizeof(h));
	if (how & 8)
		ref.inc = h.inc_flags & BLOCK_INC_MASK;
	if (how & 4)
		seal_block(p, have, ref, region.sb.hash_seed);
}

/*
 * ---- readers
 * -----------------------------------------------------------------------------
 */

static bool directory_sound(void)
{
	for (uint64_t i = 0; i < UINT64_C(1) << region.depth; i++)
		if (!fsck_entry_ok(&region, region_dir(&region)[i]))
			return false;
	return true;
}

static void check_subtables(void)
{
	static struct fsck_subtable t;
	struct region_walk walk = {0};
	uint64_t entry, hash;

	while (region_walk_next(&region, &walk, &entry, &hash)) {
		fsck_subtable_begin(&t, entry, hash);
		while (fsck_subtable_step(&t, &region, slab, 0))
			;
		FUZZ_CHECK(t.at == SUBTABLE_SLOTS);
		FUZZ_CHECK(t.found.items + t.found.dead + t.found.bad_empty +
				   t.found.bad_words + t.found.damaged +
				   t.found.shared <=
			   SUBTABLE_SLOTS);
	}
}

static void mark_all(void)
{
	const uint64_t *slots =
		region_slots(&region, region_entry(&region, 0));
	struct block_ref refs[64];
	struct slab_list found = {.refs = refs, .cap = 64};
	uint64_t cursor = 0;
	bool more;

	for (unsigned i = 0; i < SUBTABLE_SLOTS; i++)
		if (!slot_is_null(slots[i]))
			(void)slab_mark(slab, slot_block(slots[i]));
	do {
		found.n = 0;
		more = slab_unmarked(slab, &cursor, 1, &found);
		for (size_t i = 0; i < found.n; i++)
			FUZZ_CHECK(slab_is_out(slab, refs[i]));
	} while (more);
	cursor = 0;
	while (slab_unmark(slab, &cursor, 4))
		;
}

/* The rebuilt part replaces whatever was there before. */
static void check_fresh(const struct migrate_result *res)
{
	static struct fsck_subtable t;

	for (unsigned i = 0; i < 2; i++) {
		uint64_t hash = res->page_hash[i];

		if (!res->page[i])
			continue;
		fsck_subtable_begin(&t, region_entry(&region, hash), hash);
		while (fsck_subtable_step(&t, &region, slab, UINT64_MAX))
			;
		FUZZ_CHECK(t.found.misplaced == 0 && t.found.bad_empty == 0 &&
			   t.found.behind_empty == 0);
	}
}

static void migrate(void)
{
	uint8_t how = fuzz_u8(&in);
	uint64_t hash = (uint64_t)fuzz_u8(&in) << 56;
	struct migration *m = migration_new(&region, slab, lane, NULL);

	FUZZ_CHECK(m);
	if (migration_begin(m, hash,
			    how & 1 ? MIGRATE_SPLIT : MIGRATE_COMPACT) ==
	    MIGRATE_BEGUN) {
		unsigned steps = 0;

		while (migration_step(m, how & 2 ? 0 : UINT64_MAX) ==
		       MIGRATE_MORE)
			FUZZ_CHECK(++steps < 10 * SUBTABLE_SLOTS);
		FUZZ_CHECK(migration_pages(m) == 0);
		check_fresh(migration_result(m));
	}
	migration_free(m);
	if (heap_barrier_begin(region.heap) && how & 4)
		heap_barrier_passed(region.heap);
}

static void check_directory(void)
{
	static struct fsck_found f;

	f = (struct fsck_found){0};
	fsck_directory(&region, &f);
	FUZZ_CHECK(directory_sound() || f.bad_directory > 0);
}

static void act(void)
{
	switch (fuzz_u8(&in) % 8) {
	case 0:
	case 1:
	case 2:
		put_item();
		break;
	case 3:
		put_word();
		break;
	case 4:
		put_block();
		break;
	case 5:
		mark_all();
		break;
	case 6:
		migrate();
		break;
	default:
		check_subtables();
		check_directory();
		break;
	}
}

/* ---- life ------------------------------------------------------------------------------- */

static void begin(uint8_t how)
{
	static const uint8_t classes[] = {0, 3, 10, 30};
	struct region_config rc = {.memory = MEMORY,
				   .index_slots = how & 1 ? 8192 : 0,
				   .max_value = 1 << 16,
				   .max_key = 1000,
				   .grace_ns = NS_PER_MS};
	unsigned n = 0;

	FUZZ_CHECK(region_create(&rc, &region) == 0);
	region.sb.hash_seed = 42;
	region.sb.region_id[0] = region.sb.region_id[1] = 7;
	superblock_seal(&region.sb);
	memcpy(region.meta, &region.sb, sizeof(region.sb));
	slab = slab_new(region.heap, region.sb.meta_bytes / PAGE_BYTES,
			heap_total(region.heap), region.sb.grace_ns);
	lane = xport_shm_open(region.data - region.sb.meta_bytes,
			      region.sb.region_bytes, false);
	FUZZ_CHECK(slab && lane);
	while (n < BLOCKS)
		n += (unsigned)slab_grant(slab, classes[n * 4 / BLOCKS], 1,
					  clock_now_ns(), &blocks[n]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct region_walk walk = {0};
	uint64_t entry, hash, bad_entry = 0;
	uint8_t how, at = 0;

	in = fuzz_begin(data, size);
	how = fuzz_u8(&in);
	if (how & 2) {
		at = fuzz_u8(&in);
		bad_entry = fuzz_u64(&in);
	}
	fake_clock_reset();
	begin(how);
	for (unsigned i = 0; i < COMMANDS_MAX && fuzz_left(&in); i++)
		act();
	FUZZ_CHECK(slab_audit(slab));
	FUZZ_CHECK(directory_sound());
	while (region_walk_next(&region, &walk, &entry, &hash))
		FUZZ_CHECK(region_page_ok(&region.sb, entry_page(entry)));
	/* Damage that only the server could do: fsck alone may see it. */
	if (how & 2)
		region_dir(&region)[at & ((1u << region.depth) - 1)] =
			bad_entry;
	check_directory();
	xport_close(lane);
	slab_free(slab);
	region_destroy(&region);
	return 0;
}
