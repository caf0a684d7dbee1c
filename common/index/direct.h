/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * index/direct.h - mapped windows: find the window of a key by the cached directory, prefetch it,
 * and check that a slot still holds a word. For shm.h, search.c and try.c, and for the phases that
 * use loads where the region is mapped. Inline functions only.
 */
#ifndef COMMON_INDEX_DIRECT_H
#define COMMON_INDEX_DIRECT_H

#include "common/base/atomic.h"
#include "common/region/fetch.h"
#include "index_state.h"
#include "op.h"
#include "window_scan.h"

/**
 * True if the slot still holds `word`. If so, the block was published, and so unchanged (I2), ever
 * since the word was first loaded; the clock of I4 is not needed.
 */
static inline bool still_holds(const uint64_t *slot, uint64_t word)
{
	atom_fence_copy_done();
	return atom_load_follow(slot) == word;
}

/** True if a directory entry is valid and its page lies in the region. */
static inline bool entry_usable(const struct index *ix, uint64_t entry)
{
	return (entry & ENTRY_VALID) && region_page_ok(&ix->sb, entry_page(entry));
}

/** True if the region is mapped, the lane is not broken, and the directory is cached. */
static inline bool loads_usable(const struct index *ix)
{
	return (ix->lane->caps & XPORT_DIRECT) && !xport_broken(ix->lane) && ix->dirword;
}

/**
 * With loads_usable(): the window of a key of this hash; NULL if the directory's entry is not
 * usable.
 */
static inline const uint64_t *window_of(const struct index *ix, uint64_t hash)
{
	uint64_t entry = ix->entries[hash_dir_index(hash, dirword_depth(ix->dirword))];
	const uint8_t *at = ix->lane->base + window_at(entry, hash);

	return entry_usable(ix, entry) ? (const uint64_t *)(const void *)at : NULL;
}

/**
 * Prefetch the window of a key of this hash. False if loads cannot be used, or if the window does
 * not lie in the region.
 */
IN_LINE bool window_prefetch(const struct index *ix, uint64_t hash, const uint64_t **window_out)
{
	uint64_t entry, off;

	if (!loads_usable(ix))
		return false;
	/* Any address may be prefetched. */
	entry = ix->entries[hash_dir_index(hash, dirword_depth(ix->dirword))];
	off = window_at(entry, hash);
	*window_out = (const uint64_t *)(const void *)(ix->lane->base + off);
	fetch_line(*window_out);
	return (entry & ENTRY_VALID) && off >= ix->sb.meta_bytes &&
	       off + WINDOW_BYTES <= ix->sb.region_bytes;
}

/**
 * The window of the operation's key, by the cached directory; sets its directory entry. NULL if
 * that is not usable.
 */
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

/** True if the operation is a write that index_run() would begin. */
static inline bool may_write(const struct index *ix, const struct index_op *op)
{
	return (ix->lane->caps & XPORT_DIRECT_STORE) && ix->alloc &&
	       op->doubt == DOUBT_NONE && op->phase == OP_START && op->key.len > 0 &&
	       op->key.len <= ix->sb.max_key &&
	       op->value_len <= ix->sb.max_value;
}

/**
 * Operations whose memory is requested together. Their lines fit into a first-level cache of 32
 * KiB, except for blocks of 1 KiB and more, which spill into the next level.
 */
#define STAGE_OPS 32u

/** Prefetch a block that is about to be written. */
static inline void fetch_block(const struct index *ix, uint64_t off,
			       uint64_t bytes)
{
	fetch_lines_to_write(ix->lane->base + off, bytes);
}

#endif
