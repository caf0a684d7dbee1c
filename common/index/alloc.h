/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * alloc.h - a session's own blocks: free lists, deferred blocks, and how many to ask for.
 *
 * The server grants blocks, and the session writes values into them. A session owns each block that
 * its CAS unlinks. An unlinked block is deferred: it waits for the grace period T (I4), then is
 * free again under the next incarnation. So steady overwriting needs no server. No system call;
 * memory grows with the number of blocks held.
 *
 * No locks: one thread at a time. In a session that is its handle's thread inside the critical
 * section, or the holder of the inventory's lock while that thread is outside (client/inventory.h).
 */
#ifndef COMMON_INDEX_ALLOC_H
#define COMMON_INDEX_ALLOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "journal.h"
#include "common/region/layout.h"

struct alloc;

/** `grace_ns` is T. NULL if out of memory. */
struct alloc *alloc_new(uint64_t grace_ns);
void alloc_free(struct alloc *a);

/**
 * Bound the unused blocks by the region's size. Free blocks above ALLOC_HOARD_BYTES, or above
 * 1/ALLOC_HOARD_SHARE of the region if that is less, are surplus; no request but a first one is for
 * more than half of it. Without this call the bound is ALLOC_HOARD_BYTES.
 */
void alloc_set_region(struct alloc *a, uint64_t region_bytes);

/**
 * Add every block held to `j`, and each block that is retired later, until the journal is off. `j`
 * is the caller's and must outlive the allocator.
 */
void alloc_record(struct alloc *a, struct journal *j);

/**
 * Take a block of class `cls`: a free one, or the oldest deferred one if T has passed at `now`.
 * False if there is none.
 */
bool alloc_take(struct alloc *a, uint8_t cls, uint64_t now,
		struct block_ref *ref_out);

/**
 * Offset of the block that alloc_take() will return after `ahead` others, if nothing else happens;
 * 0 if unknown. For prefetching.
 */
uint64_t alloc_peek(const struct alloc *a, uint8_t cls, uint32_t ahead);

/** Put back a block whose content was never published: free at once. */
int alloc_put(struct alloc *a, struct block_ref ref);

/**
 * alloc_put() of a block that was written: its next content has the next incarnation, so that the
 * unpublished content cannot pass for it.
 */
int alloc_put_written(struct alloc *a, struct block_ref ref);

/**
 * Own and defer a block that this session's CAS, completed at `now`, has unlinked. Its next
 * incarnation is ref.inc + 1. FARKV_ENOMEM leaks the block; the sweep finds it.
 */
int alloc_retire(struct alloc *a, struct block_ref ref, uint64_t now);

/**
 * The same without a look at the clock: the block's T begins at the next alloc_date() or
 * alloc_retire().
 */
int alloc_retire_undated(struct alloc *a, struct block_ref ref);

/** Begin T of all undated blocks at `now`. */
void alloc_date(struct alloc *a, uint64_t now);

/** Deferred blocks of `cls`, whether ready or dated or not. */
uint32_t alloc_deferred_count(const struct alloc *a, uint8_t cls);

/**
 * When the oldest deferred block of `cls` becomes free; 0 if there is none, UINT64_MAX if it is
 * undated.
 */
uint64_t alloc_next_ready(const struct alloc *a, uint8_t cls);

/** Exhausted blocks, which must be given back. */
uint32_t alloc_exhausted(const struct alloc *a);

/** Free blocks of a class, without deferred ones. */
uint32_t alloc_count(const struct alloc *a, uint8_t cls);

/** True if alloc_request() would ask for blocks of `cls`. */
bool alloc_low(const struct alloc *a, uint8_t cls, uint64_t now,
	       uint32_t spoken_for);

/**
 * How many blocks of `cls` to ask the server for. 0 if a request is outstanding, if more blocks than
 * three eighths of the last grant are free beyond `spoken_for`, or if a deferred one is ready at
 * `now`. Starts at 2, so that a value can be overwritten without the server (I7), and doubles at each
 * request, up to ALLOC_GRANT_MAX blocks and ALLOC_GRANT_BYTES bytes (but at least 1). Any other
 * result than 0 marks the request as outstanding.
 */
uint32_t alloc_request(struct alloc *a, uint8_t cls, uint64_t now,
		    uint32_t spoken_for);

/**
 * The request for `cls` was answered by `n` blocks; 0: the server is out of memory. FARKV_ENOMEM.
 */
int alloc_granted(struct alloc *a, uint8_t cls, const struct block_ref *refs,
		size_t n);

/** True while a request for `cls` is outstanding. */
bool alloc_asking(const struct alloc *a, uint8_t cls);

/**
 * Take out up to `cap` blocks that should go back. Returns their number; all share *state_out. In
 * this order:
 *
 *   - exhausted blocks;
 *   - free blocks of a class above ALLOC_SURPLUS times its last grant and above the most that
 *     were deferred at once (halved after 32 T with fewer; the time between two calls counts as
 *     T at most);
 *   - free blocks above the bound of alloc_set_region() over all classes, first of the class that
 *     has not been used for longest.
 *
 * Deferred blocks that are ready count as free.
 */
size_t alloc_surplus(struct alloc *a, uint64_t now, struct block_ref *refs,
		     size_t cap, enum return_kind *state_out);

/**
 * Note that a block of `cls` was retired in exchange for one of another class, as when a DELETE
 * exchanges a large value's block for a small one. `cls` may soon have too many.
 */
void alloc_gain(struct alloc *a, uint8_t cls);

/**
 * True if alloc_surplus() is due, because alloc_gain() has noted ALLOC_GAIN_BLOCKS blocks, or
 * 1/ALLOC_GAIN_SHARE of the bound of alloc_set_region() in bytes. Then counting starts again.
 * Blocks taken meanwhile are not subtracted.
 */
bool alloc_surplus_due(struct alloc *a);

/** Take out up to `cap` deferred blocks of `cls`, ready or not; all are RETURN_DEFERRED. */
size_t alloc_give_deferred(struct alloc *a, uint8_t cls, struct block_ref *refs,
			size_t cap);

/**
 * Like alloc_surplus(), but everything held, batch by batch, until it returns 0. For closing, and
 * when others lack memory. Later requests start small again.
 */
size_t alloc_drain(struct alloc *a, uint64_t now, struct block_ref *refs,
		   size_t cap, enum return_kind *state_out);

#define ALLOC_GRANT_MAX 1024u
#define ALLOC_GRANT_BYTES (4u << 20)
#define ALLOC_SURPLUS 4u
#define ALLOC_HOARD_BYTES (UINT64_C(64) << 20)
#define ALLOC_HOARD_SHARE 16u
#define ALLOC_GAIN_SHARE 8u
#define ALLOC_GAIN_BLOCKS 128u

#endif
