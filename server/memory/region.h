/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * region.h - the region in memory: two descriptors, their mappings, the index.
 *
 * meta: superblock, D, CLOCK, directory arrays, session table, page map. Sealed: after the start
 * only the server's own mapping can write it.
 * data: pages of the index and of values, written by clients too.
 * heat: in a cache; written by clients, read-only ones too.
 */
#ifndef SERVER_MEMORY_REGION_H
#define SERVER_MEMORY_REGION_H

#include <stdbool.h>
#include <stdint.h>

#include "common/region/layout.h"

#include "heap.h"
#include "pages.h"

struct region_file;

struct region_config {
	uint64_t memory;      /* bytes of the data area, rounded down to pages */
	uint64_t index_slots; /* at the start, at least; 0: one subtable */
	uint64_t max_value;
	uint32_t max_key;
	uint64_t grace_ns;
	uint32_t sessions; /* entries of the session table */
	enum pages_want pages;
	bool cache;  /* with a heat area */
	bool pinned; /* a device pins it: take all pages at once, or fail */
	/* The region's files, whose lock region_create() takes over; NULL: it dies with the
	 * server. The sizes of a region that was found there count, not those above. */
	struct region_file *file;
	bool unfinished; /* the caller calls region_file_finish() for a new region */
};

struct region {
	struct superblock sb; /* the server's own copy: clients cannot change it */
	uint8_t *meta;        /* mapped read-write, meta_bytes */
	uint8_t *data;        /* mapped read-write, the rest */
	int meta_fd, data_fd; /* the server's own */
	int meta_ro_fd;       /* handed to every client */
	int data_ro_fd;       /* handed to read-only clients */
	bool found;           /* it was an earlier server's: see server/index/adopt.h */
	bool outlives;        /* a later server may find it */
	int sessions_fd;      /* folder of the tethers; -1: they are memfds */
	uint8_t *heat;        /* mapped read-write, sb.heat_bytes; NULL: none */
	int heat_fd;          /* handed to every client; -1: none */
	struct heap *heap;
	struct reserve *reserve; /* of the data area's pages */
	struct prefault *prefault; /* NULL: none */
	uint32_t depth;       /* of the directory */
	uint32_t max_depth;   /* that the metadata has room for */
	uint32_t last_gen;    /* the newest subtable's generation */
	uint64_t subtables;
	char pages_note[160]; /* what kind of pages was obtained, for the log */
};

/** 0, or FARKV_EINVAL with a detail if no region of these sizes is possible. */
int region_check(const struct region_config *cfg);

/**
 * Create a region with an empty index, or map the one that was found in cfg->file, unchanged. 0, or
 * FARKV_EFORMAT (that one is damaged), FARKV_EINVAL (a size is impossible), FARKV_ENOMEM
 * (`pinned`: not enough memory), FARKV_ESYS, FARKV_ENOTSUP (huge pages demanded and not
 * available), each with a detail.
 */
int region_create(const struct region_config *cfg, struct region *r_out);
void region_destroy(struct region *r);

/** Offset of the directory array of 2^depth entries; each depth has its own place. */
static inline uint64_t region_dir_off(uint32_t depth)
{
	return REGION_DIR_OFF + 8 * ((UINT64_C(1) << depth) - 1);
}

/** The page map: an entry for each page of the data area. */
static inline uint32_t *region_page_map(const struct region *r)
{
	return (uint32_t *)(void *)(r->meta + r->sb.page_map_off);
}

/** The session table, sb.session_count entries. */
static inline struct session_entry *region_sessions(const struct region *r)
{
	return (struct session_entry *)(void *)(r->meta + r->sb.session_table_off);
}

/** The server's state, for a later one. */
static inline struct region_state *region_state(const struct region *r)
{
	return (struct region_state *)(void *)(r->meta + REGION_STATE_OFF);
}

/** The current directory array. */
static inline uint64_t *region_dir(const struct region *r)
{
	return (uint64_t *)(void *)(r->meta + region_dir_off(r->depth));
}

/** CLOCK, which the server alone writes. */
static inline uint64_t region_clock(const struct region *r)
{
	return *(const uint64_t *)(const void *)(r->meta + REGION_CLOCK_OFF);
}

/** The directory entry of a key's hash. */
static inline uint64_t region_entry(const struct region *r, uint64_t hash)
{
	return region_dir(r)[hash_dir_index(hash, r->depth)];
}

/** Give the index another seed, while it is empty and nobody has seen the superblock. */
void region_reseed(struct region *r, uint64_t seed);

/** Get memory for the directory array of 2^depth entries; false if there is none. */
bool region_dir_reserve(const struct region *r, uint32_t depth);

/** Double the directory, whose larger array was reserved. */
void region_dir_double(struct region *r);

/** Before the first entry of a publication is stored, and after the last one; see region_redo. */
void region_redo_set(struct region *r, const struct region_redo *redo);
void region_redo_clear(struct region *r);
/**
 * Finish the publication that an earlier server began, if there is one: from here on all entries
 * of a subtable are equal. 0, or FARKV_EFORMAT, FARKV_ENOMEM with a detail.
 */
int region_redo(struct region *r);

/** The next generation for a subtable; never 0. */
uint32_t region_next_gen(struct region *r);

/**
 * A walk over all subtables in hash order; zeroed at the start. Subtables may be split and
 * compacted between two steps: each key's slot is still visited once, because a migration
 * keeps the range of hashes.
 */
struct region_walk {
	uint64_t hash; /* start of the next range */
	bool over;
};

/** One step: the next subtable's entry and the first hash of its range. */
bool region_walk_next(const struct region *r, struct region_walk *w,
		      uint64_t *entry_out, uint64_t *hash_out);

/** The slots of the subtable that an entry names. */
static inline uint64_t *region_slots(const struct region *r, uint64_t entry);

/** A pointer into the data area; `off` counts from the region start. */
static inline void *region_at(const struct region *r, uint64_t off)
{
	return r->data + (off - r->sb.meta_bytes);
}

static inline uint64_t *region_slots(const struct region *r, uint64_t entry)
{
	return (uint64_t *)region_at(r, entry_page(entry) * PAGE_BYTES);
}

#endif
