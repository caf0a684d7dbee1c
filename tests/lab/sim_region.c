/* SPDX-License-Identifier: BSD-3-Clause */
/* The region in plain memory, cheap to make, and the checks of it at the end. */
#include "config.h"

#include <string.h>

#include "common/region/block.h"
#include "common/base/err.h"
#include "common/region/hash.h"
#include "server/memory/slab_marks.h"
#include "sim.h"

#define META META_ALIGN

void sim_region_setup(void)
{
	struct region *r = &sim.region;
	uint64_t page, *slots;

	memset(r, 0, sizeof(*r));
	r->sb.meta_bytes = META;
	r->sb.region_bytes = META + sim.pages * PAGE_BYTES;
	r->sb.region_id[0] = 1;
	r->sb.hash_seed = 42;
	r->sb.max_value = SIM_WORDS * sizeof(uint64_t);
	r->sb.max_key = 64;
	r->sb.grace_ns = SIM_T;
	if (sim.mix.evict) {
		r->sb.flags = REGION_CACHE;
		r->sb.heat_bytes = PAGE_BYTES;
	}
	superblock_seal(&r->sb);
	memset(sim.base, 0, PAGE_BYTES);
	memset(sim.base + META, 0, sim.pages * PAGE_BYTES);
	memcpy(sim.base, &r->sb, sizeof(r->sb));
	r->meta = sim.base;
	r->data = sim.base + META;
	r->meta_fd = r->data_fd = r->meta_ro_fd = r->data_ro_fd = r->sessions_fd = -1;
	r->heat_fd = -1;
	if (sim.mix.evict) {
		r->heat = sim.base + r->sb.region_bytes;
		memset(r->heat, 0, r->sb.heat_bytes);
	}
	r->heap = heap_new(META / PAGE_BYTES, sim.pages);
	memset(region_page_map(r), 0, sim.pages * sizeof(uint32_t));
	heap_set_map(r->heap, region_page_map(r));
	r->max_depth = 6;
	page = heap_take_index(r->heap);
	r->subtables = 1;
	region_dir(r)[0] = entry_pack(page, region_next_gen(r), 0);
	slots = region_slots(r, region_dir(r)[0]);
	for (unsigned i = 0; i < SUBTABLE_SLOTS; i++)
		slots[i] = slot_empty(r->last_gen);
	*(uint64_t *)(void *)(sim.base + REGION_D_OFF) =
		dirword_pack(region_dir_off(0), 0);
}

/* All of it is there, room for the largest directory too; there is no file to ask. */
bool __wrap_region_dir_reserve(const struct region *r, uint32_t depth);
bool __wrap_region_dir_reserve(const struct region *r, uint32_t depth)
{
	return depth <= r->max_depth;
}

unsigned sim_region_key(uint64_t word)
{
	struct block_ref ref = slot_block(word);
	unsigned k = 0;
	uint64_t h;

	if (!block_key_hash(sim.base + ref.off, class_bytes(ref.cls), ref, 42, &h))
		sim_fail("the block of %llx is damaged", (unsigned long long)word);
	while (k < SIM_KEYS && sim_key_hash[k] != h)
		k++;
	if (k == SIM_KEYS)
		sim_fail("the block of %llx has an unknown key", (unsigned long long)word);
	return k;
}

uint64_t sim_region_word(unsigned key)
{
	const struct region *r = &sim.region;
	uint64_t entry = region_entry(r, sim_key_hash[key]);
	const uint64_t *slots = region_slots(r, entry) +
				hash_home_line(sim_key_hash[key]) * LINE_SLOTS;

	for (unsigned i = 0; i < WINDOW_SLOTS && slots[i] != slot_empty(entry_gen(entry)); i++)
		if (sim_region_key(slots[i]) == key)
			return slots[i];
	return 0;
}

/* The key of a slot's word; it has no other slot. */
static unsigned slot_key(struct slab *slab, uint64_t word, bool found[SIM_KEYS])
{
	unsigned k;

	if (slab_mark(slab, slot_block(word)) != SLAB_SEEN_FIRST)
		sim_fail("a slot's block is not out, or has two");
	k = sim_region_key(word);
	if (found[k])
		sim_fail("key %u has two slots", k);
	found[k] = true;
	return k;
}

static void audit_slots(struct slab *slab)
{
	struct region *r = &sim.region;
	struct region_walk w = {0};
	uint64_t entry, first;
	bool found[SIM_KEYS] = {false};

	while (region_walk_next(r, &w, &entry, &first))
		for (unsigned i = 0; i < SUBTABLE_SLOTS; i++) {
			uint64_t word = region_slots(r, entry)[i];
			unsigned k;

			if (word == slot_empty(entry_gen(entry)))
				continue;
			if (slot_is_null(word) || word & SLOT_FROZEN)
				sim_fail("slot %u holds %llx", i,
					 (unsigned long long)word);
			k = slot_key(slab, word, found);
			if (region_entry(r, sim_key_hash[k]) != entry ||
			    i / LINE_SLOTS - hash_home_line(sim_key_hash[k]) >=
				    WINDOW_LINES)
				sim_fail("key %u is out of reach", k);
			if (!!(word & SLOT_DEAD) != !sim_current(k))
				sim_fail("key %u is not as it was written last",
					 k);
		}
	for (unsigned k = 0; k < SIM_KEYS; k++)
		if (!found[k] && sim_current(k))
			sim_fail("key %u is lost", k);
}

void sim_region_audit(struct slab *slab)
{
	struct block_ref refs[64];
	struct slab_list found = {.refs = refs, .cap = 64};
	uint64_t cursor = 0;
	bool more;

	audit_slots(slab);
	do {
		more = slab_unmarked(slab, &cursor, 64, &found);
		if (found.n)
			sim_fail("block %llx is nobody's",
				 (unsigned long long)refs[0].off);
	} while (more);
	if (!slab_audit(slab) || !heap_audit(sim.region.heap))
		sim_fail("%s", err_detail());
	if (heap_used(sim.region.heap) !=
	    sim.region.subtables + slab_count(slab).pages +
		    heap_retired(sim.region.heap))
		sim_fail("pages are lost");
}
