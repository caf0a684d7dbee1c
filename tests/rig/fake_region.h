/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * fake_region.h - a region in plain memory for unit tests: one superblock, a directory
 * and a few subtables; the test itself grants the blocks.
 */
#ifndef TESTS_RIG_FAKE_REGION_H
#define TESTS_RIG_FAKE_REGION_H

#include "common/index/index.h"
#include "common/index/run.h"
#include "common/index/try.h"

struct fake_region {
	struct superblock sb;
	uint8_t *base;
	uint64_t next_page; /* first page not allocated yet */
	uint64_t next_block; /* offset of the next fresh block */
	uint32_t next_gen;
};

/** A region of 2^depth subtables and `heap_pages` more; grace in ns. */
void fake_region_init(struct fake_region *r, uint32_t depth,
		      uint64_t heap_pages, uint64_t grace_ns);
void fake_region_fini(struct fake_region *r);
/** Right after fake_region_init(): make it a cache's, with a heat area after the data. */
void fake_region_add_heat(struct fake_region *r);

/** A fresh subtable, all EMPTY; returns its entry word at `depth`. */
uint64_t fake_region_subtable(struct fake_region *r, uint32_t depth);

/** Grant `n` fresh blocks of a class to an allocator. */
void fake_region_grant(struct fake_region *r, struct alloc *a, uint8_t cls,
		       unsigned n);

/** The directory's entry `i`, and D, writable. */
uint64_t *fake_region_entry(struct fake_region *r, uint64_t i);
uint64_t *fake_region_d(struct fake_region *r);

/** The slots of an entry's subtable. */
uint64_t *fake_region_slots(struct fake_region *r, uint64_t entry);

/** A key of the region's hash; `s` is not copied. */
struct index_key fake_region_key(const struct fake_region *r, const char *s);
/** Start of the key's window. */
uint64_t *fake_region_window(struct fake_region *r, struct index_key k);

#endif
