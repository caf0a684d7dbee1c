/* SPDX-License-Identifier: BSD-3-Clause */
/** memory.h - buffers that are registered with the device. */
#ifndef COMMON_RDMA_MEMORY_H
#define COMMON_RDMA_MEMORY_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct verbs_chunk {
	struct verbs_chunk *next;
	struct ibv_mr *mr;
	uint8_t *base;
	size_t bytes, used;
	bool readonly; /* added memory that the device may only read */
};

#define VERBS_MEM_CLASSES 48

/**
 * Registered memory, in powers of two. Single-threaded. A chunk is registered once and kept until
 * the end, so repeated operations register nothing. Exception: at most 128 MiB of free buffers
 * above 1 MiB are kept.
 */
struct verbs_mem {
	struct ibv_pd *pd;
	struct verbs_chunk *chunks;
	struct verbs_chunk *added; /* the caller's memory; only registered here */
	void *free[VERBS_MEM_CLASSES]; /* free lists by log2 of the size */
	size_t large_free; /* bytes in free buffers that are a chunk each */
	uint64_t registrations;
};

void verbs_mem_init(struct verbs_mem *m, struct ibv_pd *pd);
/** 64-byte aligned; NULL with a detail if memory or its registration fails. */
void *verbs_mem_alloc(struct verbs_mem *m, size_t bytes);
void verbs_mem_free(struct verbs_mem *m, void *p, size_t bytes);
/**
 * Register the caller's memory, for reading only if it may not be written. 0, FARKV_ENOMEM or
 * FARKV_ESYS, with a detail.
 */
int verbs_mem_add(struct verbs_mem *m, void *p, size_t bytes);
/** End the registration; no request in flight may use the memory. Unknown memory is ignored. */
void verbs_mem_remove(struct verbs_mem *m, const void *p);
/**
 * True if all these bytes lie in one piece of added memory; `written`: in memory that may be
 * written.
 */
bool verbs_mem_added(const struct verbs_mem *m, const void *p, size_t bytes, bool written);
/** The chunk of the list that contains `p`; NULL if none. */
static inline const struct verbs_chunk *verbs_chunk_of(const struct verbs_chunk *first,
						       const void *p)
{
	for (const struct verbs_chunk *c = first; c; c = c->next)
		if ((size_t)((const uint8_t *)p - c->base) < c->bytes)
			return c;
	return NULL;
}
/** The lkey of memory of verbs_mem_alloc() or verbs_mem_add(). */
static inline uint32_t verbs_mem_lkey(const struct verbs_mem *m, const void *p)
{
	const struct verbs_chunk *c = verbs_chunk_of(m->chunks, p);

	if (!c)
		c = verbs_chunk_of(m->added, p);
	return c ? c->mr->lkey : 0;
}
/** Deregister all and unmap the own chunks. All QPs that could use them are destroyed. */
void verbs_mem_fini(struct verbs_mem *m);

/** Report that ibv_reg_mr() failed with `errnum`, with the limit of locked memory. */
int verbs_reg_error(int errnum, uint64_t bytes, const char *what);

#endif
