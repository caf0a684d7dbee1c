/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * resets.h - pages whose blocks' incarnations began again, the latest of them. A server that
 * follows this one asks for them (PASS): until then an unchanged word names an unchanged content.
 *
 * Entries are numbered from 0 on. Event loop only.
 */
#ifndef SERVER_MEMORY_RESETS_H
#define SERVER_MEMORY_RESETS_H

#include <stdbool.h>
#include <stdint.h>

/** Entries that are kept, 512 KiB. A power of two. */
#define RESETS_KEPT (UINT64_C(64) << 10)

struct resets {
	struct reset {
		uint32_t page, pages;
	} *ring; /* NULL: nothing is recorded */
	uint64_t next; /* number of the next entry */
};

/** Record from now on. False: out of memory. */
bool resets_begin(struct resets *r);
void resets_end(struct resets *r);

/** The incarnations in these pages began again. */
void resets_add(struct resets *r, uint64_t page, uint64_t pages);

/** True if the entries from this number on are all there. */
static inline bool resets_reach(const struct resets *r, uint64_t number)
{
	return r->ring && number <= r->next && r->next - number <= RESETS_KEPT;
}

/** The entry of a number that resets_reach() and that is less than `next`. */
static inline struct reset resets_at(const struct resets *r, uint64_t number)
{
	return r->ring[number % RESETS_KEPT];
}

#endif
