/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * index/direct.h - what operations by loads share: where the window is, whether a word
 * still stands, and how a block is prefetched and retired.
 */
#ifndef COMMON_INDEX_DIRECT_H
#define COMMON_INDEX_DIRECT_H

#include "alloc_inline.h"
#include "common/base/atomic.h"
#include "common/region/fetch.h"
#include "index_priv.h"
#include "try.h"
#include "window_scan.h"

/**
 * I4 without a clock: a word that still stands after the copy kept the block
 * published, and so unchanged (I2), all the while.
 */
static inline bool still_holds(const uint64_t *slot, uint64_t word)
{
	atom_fence_copy_done();
	return atom_load_follow(slot) == word;
}

/** Does a directory's entry lead to a page of the region's? */
static inline bool entry_usable(const struct index *ix, uint64_t entry)
{
	return (entry & ENTRY_VALID) && region_page_ok(&ix->sb, entry_page(entry));
}

/** Where in the region a slot lies. */
static inline uint64_t slot_off_of(const struct index *ix, const uint64_t *slot)
{
	return (uint64_t)((const uint8_t *)slot - ix->lane->base);
}

/** A lane and a directory that loads can use. */
static inline bool loads_usable(const struct index *ix)
{
	return (ix->lane->caps & XPORT_DIRECT) && !xport_broken(ix->lane) && ix->dirword;
}

/** If so: the window of a key of this hash, or NULL if the directory leads nowhere. */
static inline const uint64_t *window_of(const struct index *ix, uint64_t hash)
{
	uint64_t entry = ix->entries[hash_dir_index(hash, dirword_depth(ix->dirword))];
	const uint8_t *at = ix->lane->base + window_at(entry, hash);

	return entry_usable(ix, entry) ? (const uint64_t *)(const void *)at : NULL;
}

/** Request the window of a key of this hash. False: index_prefetch_window() is NULL. */
IN_LINE bool window_prefetch(const struct index *ix, uint64_t hash, const uint64_t **window_out)
{
	uint64_t entry, off;

	if (!loads_usable(ix))
		return false;
	/* Wherever the entry leads: fetching ahead does no harm. */
	entry = ix->entries[hash_dir_index(hash, dirword_depth(ix->dirword))];
	off = window_at(entry, hash);
	*window_out = (const uint64_t *)(const void *)(ix->lane->base + off);
	fetch_line(*window_out);
	return (entry & ENTRY_VALID) && off >= ix->sb.meta_bytes &&
	       off + WINDOW_BYTES <= ix->sb.region_bytes;
}

/** The key's window, by the cached directory; NULL if that leads nowhere. */
static inline const uint64_t *direct_window(const struct index *ix,
					    struct index_op *op)
{
	op->dirword = ix->dirword;
	op->dir_index = hash_dir_index(op->key.hash,
				       dirword_depth(op->dirword));
	op->entry = ix->entries[op->dir_index];
	if (!entry_usable(ix, op->entry))
		return NULL;
	return (const uint64_t *)(const void *)(ix->lane->base +
						window_off(op));
}

/** Is it a write that index_run() would begin, too? */
static inline bool may_write(const struct index *ix, const struct index_op *op)
{
	return (ix->lane->caps & XPORT_DIRECT_STORE) && ix->alloc &&
	       op->doubt == DOUBT_NONE && op->phase == OP_START && op->key.len > 0 &&
	       op->key.len <= ix->sb.max_key &&
	       op->value_len <= ix->sb.max_value;
}

/**
 * So many operations wait for memory together. Their lines fit into the nearest cache, but
 * for those of blocks of a kibibyte, where that cache has 32 KiB: what does not is in the
 * next one.
 */
#define STAGE_OPS 32u

/** The lines of a block that is to be written are on their way before. */
static inline void fetch_block(const struct index *ix, uint64_t off,
			       uint64_t bytes)
{
	fetch_lines_to_write(ix->lane->base + off, bytes);
}

#endif
