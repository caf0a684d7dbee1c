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
#include "priv.h"
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
static inline bool entry_leads(const struct index *ix, uint64_t entry)
{
	return (entry & ENTRY_VALID) && region_page_ok(&ix->sb, entry_page(entry));
}

/** Where in the region a slot lies. */
static inline uint64_t slot_off_of(const struct index *ix, const uint64_t *slot)
{
	return (uint64_t)((const uint8_t *)slot - ix->lane->base);
}

/** A lane and a directory that loads can use. */
static inline bool loads_lead(const struct index *ix)
{
	return (ix->lane->caps & XPORT_DIRECT) && !xport_broken(ix->lane) && ix->dirword;
}

/** If so: the window of a key of this hash, or NULL if the directory leads nowhere. */
static inline const uint64_t *window_of(const struct index *ix, uint64_t hash)
{
	uint64_t entry = ix->entries[hash_dir_index(hash, dirword_depth(ix->dirword))];
	const uint8_t *at = ix->lane->base + window_at(entry, hash);

	return entry_leads(ix, entry) ? (const uint64_t *)(const void *)at : NULL;
}

/** Request the window of a key of this hash. False: index_expect() is NULL. */
IN_LINE bool index_prefetch(const struct index *ix, uint64_t hash, const uint64_t **window_out)
{
	uint64_t entry, off;

	if (!loads_lead(ix))
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
	if (!entry_leads(ix, op->entry))
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
#define MANY 32u

/** The lines of a block that is to be written are on their way before. */
static inline void fetch_block(const struct index *ix, uint64_t off,
			       uint64_t bytes)
{
	fetch_lines_to_write(ix->lane->base + off, bytes);
}

/**
 * A clock is as dear as half a search by loads, and some 1 % of a write by RDMA (measured on
 * rxe). Who has many blocks at rest can let the last few rest a little longer; who has few
 * would miss them.
 */
#define UNDATED_MAX 16u
/** Blocks of larger classes, of more than 32 KiB, are worth having at once. */
#define UNDATED_CLASS 34u
static_assert(CLASS_BYTES(UNDATED_CLASS) == 32768, "UNDATED_CLASS");

/** May a block rest without a look at the clock, this time? */
static inline bool may_stay_undated(const struct index *ix, uint8_t cls)
{
	return cls <= UNDATED_CLASS &&
	       alloc_class_deferred(&ix->alloc->cls[cls]) >= 2 * UNDATED_MAX &&
	       ix->undated + 1 < UNDATED_MAX;
}

/** A block is this session's now, for one of class `instead` that it gave. */
static inline void op_trade(struct index *ix, struct block_ref ref, uint8_t instead)
{
	if (__builtin_expect(ref.cls != instead, 0))
		alloc_gain(ix->alloc, ref.cls);
}

/** A CAS has unlinked this block, for one of class `instead`: it rests from now on. */
static inline void op_retire(struct index *ix, struct block_ref ref, uint8_t instead)
{
	op_trade(ix, ref, instead);
	/* On failure the block is leaked; the sweep finds it. */
	if (may_stay_undated(ix, ref.cls)) {
		ix->undated++;
		(void)alloc_retire_undated(ix->alloc, ref);
		return;
	}
	ix->undated = 0;
	ix->recent_ns = index_now(ix);
	(void)alloc_retire(ix->alloc, ref, ix->recent_ns);
}

/* ---- index/shm.h, index/shm.c ----------------------------------------------------- */

/** Bytes of a block that is written or read in line with the caller. */
#define SHM_SMALL_MAX 640u
/**
 * ... and of a fast PUT's block that is written by a call. What is left of a longer one's
 * time is the copying; and so is what is left of a longer key's.
 */
#define PUT_ROOM_MAX 131072u
#define PUT_KEY_MAX 512u

/** Is the block of a struct put written? */
enum block_written { NOT_WRITTEN, WRITTEN };

/**
 * A PUT that is about to be carried out, behind others: it takes its block, if it will
 * go straight on with it, and the block is fetched ahead.
 */
void index_put_prepare(const struct index *ix, struct index_op *op);

/**
 * A PUT by loads: in one piece, from a block at hand to the CAS, for the commonest case;
 * index_put_search() for all others, and if that CAS is lost. The commonest: the key's slot
 * is in its home line, alive or dead, its value no larger than that. `slots` is the key's
 * window, on its way to the cache.
 */
bool index_put_fast(struct index *ix, struct index_op *op, const uint64_t *slots);

/**
 * A GET by loads: in one piece for the commonest case, index_get_search() for all others,
 * and if something moves. The commonest: the key's slot is in its home line, alive, its
 * value small. `slots` is the key's window.
 */
bool index_get_fast(struct index *ix, struct index_op *op, const uint64_t *slots);

#endif
