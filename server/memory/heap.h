/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * heap.h - which pages of the data area are in use: the server's private map, outside the
 * region, where clients cannot damage it. It writes the region's page map, for a later server.
 * Event loop only.
 */
#ifndef SERVER_MEMORY_HEAP_H
#define SERVER_MEMORY_HEAP_H

#include <stdbool.h>
#include <stdint.h>

struct heap;

/** `first` and `count`: the data area in pages from the region start. */
struct heap *heap_new(uint64_t first, uint64_t count);
void heap_free(struct heap *h);

/** Take pages at..at+n of the data area, and up to `more` after them, from the kernel.
 * Returns how many were taken. */
typedef uint64_t heap_back(void *arg, uint64_t at, uint64_t n, uint64_t more);

/**
 * Have `back` take each page once before it is first allocated: in runs from the first page up
 * and from the last page down, some of them in advance. Where it returns 0 the pages cannot
 * be had for now. Call before anything is allocated.
 */
void heap_set_back(struct heap *h, heap_back *back, void *arg);

/**
 * Keep the region's page map at `map`, an entry for each page, all 0; heap_new() keeps none. Pages
 * are entered by heap_take_index() and heap_map_segment() and cleared when they become free.
 * Call before anything is allocated.
 */
void heap_set_map(struct heap *h, uint32_t *map);

/**
 * Take over the page map of an earlier server: pages that it calls used are taken. Instead of
 * heap_set_map()'s empty map; call it after that and before anything is allocated. Later pages of
 * a segment whose first page is not entered become free: their server ended while it made or freed
 * them. 0, or FARKV_EFORMAT with a detail. Time: 1 ns per page.
 */
int heap_restore(struct heap *h);

/** The page's entry in the page map; there is one. */
uint32_t heap_map_at(const struct heap *h, uint64_t page);

/** Enter `n` pages of heap_take() as a segment. Call it before a block of theirs is granted. */
void heap_map_segment(struct heap *h, uint64_t page, uint64_t n, uint8_t cls);

/** True if the page's entry in the page map is `entry`, or if there is no map. */
bool heap_map_is(const struct heap *h, uint64_t page, uint32_t entry);

/** False, with a detail, if the page map calls a page free that is in use, or the reverse. */
bool heap_audit(const struct heap *h);

/**
 * Call spread() when the pages in use spread: `low` pages from the first one up and `high`
 * from the last one down are in use, or were. It is called at once with the present state.
 */
void heap_watch(struct heap *h, void (*spread)(void *arg, uint64_t low, uint64_t high),
		void *arg);

/**
 * Pages that heap_take() leaves for heap_take_index(): the index must be able to rebuild a
 * subtable when values have taken all other memory.
 */
#define HEAP_RESERVE 2u

/**
 * Take the lowest `n` adjacent pages that are free. A run at a multiple of the largest power
 * of two in `n` (at most 16) is preferred if it is not far above, so that temporary use leaves
 * no gaps of odd length. Returns the first page, or 0 if there is no such run (page 0 is the
 * superblock's).
 */
uint64_t heap_take(struct heap *h, uint64_t n);

/** Prefer runs at multiples of their own length, from the first page on: then they are emptied and
 * taken whole (evacuate.h). */
void heap_align(struct heap *h);

/**
 * Take one page for the index, the highest free one, also from the reserve. Index pages stay
 * while values come and go; among values they would leave gaps too short for large values.
 * 0 if there is none.
 */
uint64_t heap_take_index(struct heap *h);

/** Give back pages of heap_take() that no client has seen. */
void heap_give(struct heap *h, uint64_t page, uint64_t n);

/**
 * Give back pages that clients may still reference: retired, they become free when a barrier
 * has passed that began after the call (I5). They count as used until then. Cannot fail.
 */
void heap_retire(struct heap *h, uint64_t page, uint64_t n);

/**
 * Hold the pages page..page+n: those that are free, or become free, are not handed out nor counted
 * by heap_left() until heap_release(), which lets go of all that are held.
 */
void heap_hold(struct heap *h, uint64_t page, uint64_t n);
void heap_release(struct heap *h);

/** A barrier begins, for the pages retired so far. False if there are none. */
bool heap_barrier_begin(struct heap *h);
/** It has passed: those pages are free. */
void heap_barrier_passed(struct heap *h);

uint64_t heap_total(const struct heap *h); /**< pages of the data area */
uint64_t heap_used(const struct heap *h);  /**< pages taken, retired ones too */
uint64_t heap_retired(const struct heap *h); /**< pages that await a barrier */
/** Pages that heap_take() could hand out if they were adjacent. */
uint64_t heap_left(const struct heap *h);

#endif
