/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "fake_region.h"

#include <string.h>
#include <sys/mman.h>

#include <farkv.h>

#include "common/region/hash.h"
#include "marks.h"

#define GUARD_BYTES 4096u

/* Zeros that take memory only where used, between two inaccessible pages. */
static uint8_t *map_guarded(size_t bytes)
{
	uint8_t *p = mmap(NULL, bytes + 2 * GUARD_BYTES, PROT_NONE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	ck_assert_ptr_ne(p, MAP_FAILED);
	ck_assert_int_eq(mprotect(p + GUARD_BYTES, bytes,
				  PROT_READ | PROT_WRITE), 0);
	return p + GUARD_BYTES;
}

void fake_region_init(struct fake_region *r, uint32_t depth,
		      uint64_t heap_pages, uint64_t grace_ns)
{
	uint64_t subtables = UINT64_C(1) << depth;

	memset(r, 0, sizeof(*r));
	r->sb.meta_bytes = META_ALIGN;
	r->sb.region_bytes =
		META_ALIGN + (subtables + heap_pages) * PAGE_BYTES;
	r->sb.region_id[0] = 0x1122334455667788;
	r->sb.hash_seed = 42;
	r->sb.max_value = 1u << 20;
	r->sb.max_key = FARKV_KEY_MAX;
	r->sb.grace_ns = grace_ns;
	superblock_seal(&r->sb);
	r->base = map_guarded(r->sb.region_bytes);
	memcpy(r->base, &r->sb, sizeof(r->sb));
	r->next_page = META_ALIGN / PAGE_BYTES;
	r->next_gen = 1;
	*fake_region_d(r) = dirword_pack(REGION_DIR_OFF, depth);
	for (uint64_t i = 0; i < subtables; i++)
		*fake_region_entry(r, i) = fake_region_subtable(r, depth);
}

void fake_region_fini(struct fake_region *r)
{
	munmap(r->base - GUARD_BYTES,
	       r->sb.region_bytes + r->sb.heat_bytes + 2 * GUARD_BYTES);
}

void fake_region_add_heat(struct fake_region *r)
{
	struct superblock sb = r->sb;
	uint8_t *base;

	sb.flags = REGION_CACHE;
	sb.heat_bytes = 16 * HEAT_ALIGN;
	superblock_seal(&sb);
	base = map_guarded(sb.region_bytes + sb.heat_bytes);
	memcpy(base, r->base, sb.region_bytes);
	memcpy(base, &sb, sizeof(sb));
	fake_region_fini(r);
	r->base = base;
	r->sb = sb;
}

uint64_t fake_region_subtable(struct fake_region *r, uint32_t depth)
{
	uint64_t used = (r->next_block + PAGE_BYTES - 1) / PAGE_BYTES;
	uint64_t e, *slots;

	if (r->next_page < used)
		r->next_page = used;
	ck_assert(region_page_ok(&r->sb, r->next_page));
	e = entry_pack(r->next_page++, r->next_gen++, depth);
	slots = fake_region_slots(r, e);
	for (unsigned i = 0; i < SUBTABLE_SLOTS; i++)
		slots[i] = slot_empty(entry_gen(e));
	r->next_block = r->next_page * PAGE_BYTES;
	return e;
}

void fake_region_grant(struct fake_region *r, struct alloc *a, uint8_t cls,
		       unsigned n)
{
	while (n--) {
		struct block_ref ref = {.off = r->next_block, .cls = cls};

		ck_assert(region_block_ok(&r->sb, ref.off, cls));
		r->next_block += class_bytes(cls);
		ck_assert_int_eq(alloc_granted(a, cls, &ref, 1), 0);
	}
}

uint64_t *fake_region_entry(struct fake_region *r, uint64_t i)
{
	return (uint64_t *)(void *)(r->base + dirword_off(*fake_region_d(r)) +
				    i * 8);
}

uint64_t *fake_region_d(struct fake_region *r)
{
	return (uint64_t *)(void *)(r->base + REGION_D_OFF);
}

uint64_t *fake_region_slots(struct fake_region *r, uint64_t entry)
{
	return (uint64_t *)(void *)(r->base + entry_page(entry) * PAGE_BYTES);
}

struct index_key fake_region_key(const struct fake_region *r, const char *s)
{
	return (struct index_key){.data = s,
				  .len = (uint16_t)strlen(s),
				  .hash = hash_key(r->sb.hash_seed, s,
						   strlen(s))};
}

uint64_t *fake_region_window(struct fake_region *r, struct index_key k)
{
	uint32_t depth = dirword_depth(*fake_region_d(r));
	uint64_t e = *fake_region_entry(r, hash_dir_index(k.hash, depth));

	return fake_region_slots(r, e) + hash_home_line(k.hash) * LINE_SLOTS;
}
