/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * alloc.h - a session's own blocks: free lists, limbo, and how many to ask for.
 *
 * The server grants blocks; the session writes values into them; whoever
 * unlinks a block by a CAS owns it next. An unlinked block waits in limbo for T
 * (I4), then is free again under the next incarnation. Steady overwriting thus
 * needs no server. No system call; memory grows with the number of blocks held.
 *
 * No locks: one thread at a time. In a session that is its handle's thread inside
 * the gate, or who holds the inventory's lock while that thread is outside of it
 * (client/inventory.h).
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
 * Bound what is kept unused by the size of the region: above ALLOC_HOARD_BYTES, or
 * 1/ALLOC_HOARD_SHARE of the region if that is less, free blocks are surplus, and no
 * request but a first one is for more than half of it. Without this call
 * ALLOC_HOARD_BYTES holds.
 */
void alloc_set_region(struct alloc *a, uint64_t region_bytes);

/**
 * Add every block held to `j`, and from now on those that come by alloc_retire(),
 * until the journal is off. `j` is the caller's and outlives the allocator.
 */
void alloc_record(struct alloc *a, struct journal *j);

/**
 * Take a block of class `cls` to write into: a free one, else the oldest in
 * limbo if T has passed at `now`. False if there is none.
 */
bool alloc_take(struct alloc *a, uint8_t cls, uint64_t now,
		struct block_ref *ref_out);

/**
 * Where the block lies that alloc_take() will bring when it has brought `ahead` others,
 * if nothing else happens meanwhile; 0 if that cannot be told. For fetching ahead.
 */
uint64_t alloc_peek(const struct alloc *a, uint8_t cls, uint32_t ahead);

/** Put back a block whose content was never published: free at once. */
int alloc_put(struct alloc *a, struct block_ref ref);

/**
 * As alloc_put(), where content that was written, though never published, must not
 * pass for what comes next: its next content has the next incarnation.
 */
int alloc_put_written(struct alloc *a, struct block_ref ref);

/**
 * Own a block that this session's CAS unlinked, completed at `now`. Its next
 * incarnation is ref.inc + 1. FARKV_ENOMEM leaks the block (the sweep finds it).
 */
int alloc_retire(struct alloc *a, struct block_ref ref, uint64_t now);

/**
 * The same for a CAS that has completed without a look at the clock: the block's T
 * begins at the next alloc_date(), or alloc_retire(). It does not become free before.
 */
int alloc_retire_undated(struct alloc *a, struct block_ref ref);

/** It is `now`: T of all that are undated begins. */
void alloc_date(struct alloc *a, uint64_t now);

/** Blocks of `cls` in limbo, ready or not, dated or not. */
uint32_t alloc_deferred_count(const struct alloc *a, uint8_t cls);

/**
 * When the oldest limbo block of `cls` becomes free; 0 if there is none. UINT64_MAX if
 * it is undated.
 */
uint64_t alloc_next_ready(const struct alloc *a, uint8_t cls);

/** Blocks at hand whose incarnations ran out: to be given back. */
uint32_t alloc_exhausted(const struct alloc *a);

/** Free blocks of a class at hand, limbo not counted. */
uint32_t alloc_count(const struct alloc *a, uint8_t cls);

/** Are so few blocks of `cls` at hand that alloc_request() would ask for some? */
bool alloc_low(const struct alloc *a, uint8_t cls, uint64_t now,
	       uint32_t spoken_for);

/**
 * How many blocks of `cls` to ask the server for now: 0 if more than `spoken_for`
 * and enough are at hand, counting one in limbo that has become ready at `now`, or
 * if a request is outstanding. Starts at 2, so that a value can be overwritten
 * without the server (I7), and doubles at each request, bounded by ALLOC_GRANT_MAX
 * blocks and ALLOC_GRANT_BYTES bytes (but at least 1).
 * A non-zero answer marks the request as outstanding.
 */
uint32_t alloc_request(struct alloc *a, uint8_t cls, uint64_t now,
		    uint32_t spoken_for);

/** The request for `cls` was answered: `n` blocks (0: out of memory). */
int alloc_granted(struct alloc *a, uint8_t cls, const struct block_ref *refs,
		size_t n);

/** True while a request for `cls` is outstanding. */
bool alloc_asking(const struct alloc *a, uint8_t cls);

/**
 * Take out up to `cap` blocks that must or should go back: worn ones first, then free
 * ones of classes whose stock is above ALLOC_SURPLUS times the last grant and above the
 * most that were in limbo at once (halved after 32 T with fewer, of which between two of
 * these calls T at most counts), then what is above the bound of alloc_set_region() over
 * all classes, the class first that has not been used for longest. Blocks in limbo that
 * are ready count as free. All of them share the state written to *state_out. Returns the
 * count.
 */
size_t alloc_surplus(struct alloc *a, uint64_t now, struct block_ref *refs,
		     size_t cap, enum return_kind *state_out);

/**
 * A block of `cls` that was retired has come in for one of another class, which there may
 * soon be too many of. A delete of a large value trades its block for a small one.
 */
void alloc_gain(struct alloc *a, uint8_t cls);

/**
 * Is it time for alloc_surplus(), since so many have come in by alloc_gain():
 * ALLOC_GAIN_BLOCKS, or 1/ALLOC_GAIN_SHARE of the bound of alloc_set_region() in bytes?
 * True once, then it is counted anew, whatever comes of it. What is taken again meanwhile
 * is not taken off.
 */
bool alloc_surplus_due(struct alloc *a);

/** Take out up to `cap` blocks of `cls` in limbo, ready or not; they share RETURN_DEFERRED. */
size_t alloc_give_deferred(struct alloc *a, uint8_t cls, struct block_ref *refs,
			size_t cap);

/**
 * As alloc_surplus(), for closing and when others lack memory: everything held,
 * batch by batch, until 0. What is asked for afterwards starts small again.
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
