/* SPDX-License-Identifier: BSD-3-Clause */
/** scan_priv.h - the part of scan.c that changes.c uses: keys of one subtable. */
#ifndef COMMON_INDEX_SCAN_PRIV_H
#define COMMON_INDEX_SCAN_PRIV_H

#include "scan.h"

#include <stdlib.h>

#include "dir.h"
#include "index_state.h"

#define SCAN_BATCH 128u
#define SCAN_CHAINS ((SCAN_BATCH + XPORT_CHAIN_MAX - 1) / XPORT_CHAIN_MAX)
#define SCAN_LOST 16u
#define SCAN_HEAD_MIN 64u /* bytes READ of a block at first, ... */
#define SCAN_HEAD_MAX 256u /* ... and at most, raised by longer keys */

struct found {
	uint64_t hash, version;
	uint64_t left_ms; /* until it expires; or BLOCK_NEVER */
	uint64_t word; /* the slot word by which it was found */
	uint32_t key_at; /* in `keys` */
	uint32_t value_len;
	uint16_t key_len;
};

/* A slot whose key is not known yet. */
struct slot {
	uint64_t bad_word; /* the last word whose block could not be read */
	uint32_t need;     /* bytes of the block to READ, at least */
	uint16_t at;
	uint16_t tries;    /* how often `bad_word` has failed */
};

/* A READ of a block's head. */
struct head {
	struct slot slot;
	uint64_t word;
	uint64_t hash; /* of its key, when that is known */
	uint32_t at, len; /* in the lane's memory */
};

struct index_scan {
	struct dir_place place;
	uint64_t cursor;
	uint64_t until; /* the last position that this call covers */
	uint64_t room;  /* ... lowered if the keys need too much room */
	uint64_t begun_ns; /* I4: time before the last look began */
	uint64_t clock_ms[2]; /* CLOCK, READ before and after the words of the last look */
	const uint64_t *image[2]; /* of the subtable; equal pointers where words do not tear */
	uint32_t usual; /* bytes READ of a block at first */
	uint32_t damaged;
	uint16_t lost[SCAN_LOST]; /* the first of the damaged slots */
	bool stale; /* another look is needed */
	/*
	 * For changes.c: sets `pending` after the first look, and `dead_too`, to list keys without
	 * a value, too. NULL: all slots that may have a value.
	 */
	void (*pick)(void *arg, struct index_scan *s);
	void *arg;
	bool dead_too;

	struct slot pending[SUBTABLE_SLOTS];
	size_t n_pending, n_kept; /* n_kept at the front stay pending */
	struct head head[SCAN_BATCH];
	unsigned n_heads;
	struct xport_chain chain[SCAN_CHAINS];

	struct found found[SUBTABLE_SLOTS];
	size_t n_found;
	uint16_t order[SUBTABLE_SLOTS]; /* of `found`, by hash */
	uint8_t *keys;
	size_t keys_len, keys_cap;
	struct farkv_scan_item item[SUBTABLE_SLOTS];
	size_t n_items;
};

/** Initialize the fields that are not 0. */
static inline void index_scan_init(struct index_scan *s)
{
	s->usual = SCAN_HEAD_MIN;
}

static inline void index_scan_fini(struct index_scan *s)
{
	free(s->keys);
}

/** The last position of the range that `depth` bits of `hash` name. */
static inline uint64_t scan_range_end(uint64_t hash, uint32_t depth)
{
	return depth ? hash | UINT64_MAX >> depth : UINT64_MAX;
}

/** Two READs of the word agree. */
static inline bool scan_is_settled(const struct index_scan *s, unsigned at)
{
	return s->image[0][at] == s->image[1][at];
}

/** False if the slot certainly has no value. */
static inline bool scan_may_live(const struct index_scan *s, unsigned at)
{
	uint64_t w = s->image[0][at];

	return !(slot_is_null(w) || (w & SLOT_DEAD)) || !scan_is_settled(s, at);
}

/**
 * Set `found` to the keys of the subtable of `cursor`, with hashes up to `until`, which it sets.
 * Errors as index_scan(), except that `damaged` counts what would be FARKV_ECORRUPT.
 */
int scan_read(struct index *ix, struct index_scan *s, uint64_t cursor, uint64_t deadline_ns);

/** Order `found` by hash. */
void scan_sort(struct index_scan *s);

/** The key at position `i` in that order. */
static inline const struct found *scan_nth(const struct index_scan *s, size_t i)
{
	return &s->found[s->order[i]];
}

#endif
