/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * buffers.h - a handle's registered memory: buffers for the program's values, and ranges of the
 * program's own memory, which the transport reads and writes in place.
 *
 * Buffers are cut from chunks of 2 MiB and more, backed by huge pages if possible. A chunk is
 * registered with the lane once (RDMA); a new lane gets all chunks before it is used. Chunks
 * stay mapped and in place until the end, so that later buffers need no registration.
 *
 * In a program with jemalloc the chunks are extents of a jemalloc arena (extents.h), which cuts
 * buffers of 64 bytes and more; buffers of less than four pages may share one. Otherwise
 * buffers are whole pages, first fit. The first buffer decides between the two. No buffer lies
 * in two chunks.
 *
 * A range is registered as a chunk is, but its pages stay the program's.
 *
 * Handle's thread only, except that jemalloc may ask in any thread whether two extents lie in
 * the same chunk: so chunks are published when complete, and removed after the arena is
 * gone. A child of fork() has none of the contents and may only call buffers_abandon().
 */
#ifndef CLIENT_BUFFERS_H
#define CLIENT_BUFFERS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/xport/xport.h"

struct buffers_chunk;
struct buffers_range;
struct extents;

/** Zeroed is empty, without a lane. Must not move while it has buffers. */
struct buffers {
	struct buffers_chunk *chunks;
	struct buffers_range *ranges; /* the program's own memory */
	struct extents *extents;   /* NULL: whole pages, or no buffer yet */
	struct xport_lane *lane; /* NULL: none now */
	size_t largest;          /* largest chunk so far, bytes */
};

/**
 * Set the lane. A chunk or range that it cannot register is ordinary memory meanwhile: values in
 * it are copied.
 */
void buffers_attach(struct buffers *b, struct xport_lane *lane);
/** The lane is about to be closed, with all its registrations. */
void buffers_detach(struct buffers *b);

/**
 * Allocate at least `bytes` (not 0), contents undefined. Page-aligned if `bytes` are whole
 * pages, otherwise aligned to at least 64 bytes; no two buffers share 64 aligned bytes.
 * FARKV_ENOMEM, FARKV_ESYS with a detail: no memory, or the lane cannot register more.
 */
int buffers_alloc(struct buffers *b, size_t bytes, void **out);
/** No effect unless `p` is the start of a buffer in use. */
void buffers_free(struct buffers *b, void *p);

/**
 * Register the program's memory with the lane, now and with later ones; without a lane, or if it
 * carries no segments, only record it. FARKV_EINVAL (not mapped; overlaps a range or a chunk, whose
 * freed buffers stay registered),
 * FARKV_ENOMEM, FARKV_ESYS with a detail. `bytes` is not 0.
 */
int buffers_register(struct buffers *b, void *p, size_t bytes);
/** buffers_register() for all ranges that `from` has registered. */
int buffers_register_all(struct buffers *b, const struct buffers *from);
/** True if a range begins at `p`. */
bool buffers_registered(const struct buffers *b, const void *p);
/** Deregister that range. No request in flight may use it. */
void buffers_unregister(struct buffers *b, void *p);

/** Unmap all buffers, in use or not, and forget all ranges. The lane must have been detached. */
void buffers_fini(struct buffers *b);
/** buffers_fini() in a child of fork(), where other memory may lie at the same addresses. */
void buffers_abandon(struct buffers *b);

#endif
