/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * heap.h - which pages of the data area are in use: the server's private map.
 *
 * Nothing of it lies in the region, where clients could scribble on it. The
 * control thread owns it.
 */
#ifndef SERVER_HEAP_H
#define SERVER_HEAP_H

#include <stdint.h>

struct heap;

/** `first` and `count`: the data area in pages from the region start. */
struct heap *heap_new(uint64_t first, uint64_t count);
void heap_free(struct heap *h);

/**
 * Take `n` neighbouring pages, the lowest that fit. Returns the first page, or
 * 0 if there is no such run (page 0 is the superblock's).
 */
uint64_t heap_take(struct heap *h, uint64_t n);

/** Give pages back that heap_take() handed out. */
void heap_give(struct heap *h, uint64_t page, uint64_t n);

uint64_t heap_total(const struct heap *h); /**< pages of the data area */
uint64_t heap_used(const struct heap *h);  /**< pages taken */

#endif
