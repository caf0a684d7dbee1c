/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * heap.h - which pages of the data area are in use: the server's private map.
 *
 * Nothing of it lies in the region, where clients could scribble on it. The
 * control thread owns it.
 */
#ifndef SERVER_HEAP_H
#define SERVER_HEAP_H

#include <stdbool.h>
#include <stdint.h>

struct heap;

/** `first` and `count`: the data area in pages from the region start. */
struct heap *heap_new(uint64_t first, uint64_t count);
void heap_free(struct heap *h);

/** Take pages at..at+n of the data area, and up to `more` after them, from the kernel; how
 * many. */
typedef uint64_t heap_back(void *arg, uint64_t at, uint64_t n, uint64_t more);

/**
 * From now on pages are dealt out only after `back` has taken them, once: in runs from the
 * first one up and from the last one down, some before they are needed. Where it returns 0
 * there are no such pages for now. Before anything is dealt out.
 */
void heap_set_back(struct heap *h, heap_back *back, void *arg);

/**
 * From now on tell spread() when pages are taken beyond all that were before: so many from
 * the first one up, or from the last one down, are in use, or were. It is told at once what
 * has been taken up to now.
 */
void heap_watch(struct heap *h, void (*spread)(void *arg, uint64_t low, uint64_t high),
		void *arg);

/**
 * Pages that heap_take() leaves for heap_take_index(): the index must be able
 * to rebuild a subtable when values have taken all memory.
 */
#define HEAP_RESERVE 2u

/**
 * Take `n` neighbouring pages, the lowest that fit: from a multiple of the largest power of
 * two in `n` (16 at most) if there are such not far above, so that pages which are others'
 * for a while leave no gaps of odd length behind. Returns the first page, or 0 if there is no such run
 * (page 0 is the superblock's).
 */
uint64_t heap_take(struct heap *h, uint64_t n);

/**
 * Take one page for the index, from the reserve too: the highest that is free, for the
 * index's pages stay where they are while values come and go, and among them would leave
 * gaps that no large value fits in. 0 if there is none.
 */
uint64_t heap_take_index(struct heap *h);

/** Give pages back that heap_take() handed out and nobody has ever seen. */
void heap_give(struct heap *h, uint64_t page, uint64_t n);

/**
 * Give pages back that clients may still remember: retired, they are free when a
 * barrier has passed that began after the call (I5). They count as used until
 * then. Cannot fail.
 */
void heap_retire(struct heap *h, uint64_t page, uint64_t n);

/** A barrier begins, for the pages retired until now. False if there are none. */
bool heap_barrier_begin(struct heap *h);
/** It has passed: those pages are free. */
void heap_barrier_passed(struct heap *h);

uint64_t heap_total(const struct heap *h); /**< pages of the data area */
uint64_t heap_used(const struct heap *h);  /**< pages taken, retired ones too */
uint64_t heap_retired(const struct heap *h); /**< pages that await a barrier */
/** Pages that heap_take() could hand out, if they were neighbours. */
uint64_t heap_left(const struct heap *h);

#endif
