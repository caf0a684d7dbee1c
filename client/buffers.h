/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * buffers.h - memory of a handle that its lanes know: buffers for the program's values
 * which the transport carries from and to where they lie.
 *
 * Carved from chunks of 2 MiB and more, which ask for huge pages. A chunk is made known
 * to the lane once (RDMA: registered); a lane that takes the place of another learns of
 * all chunks before it is used. Chunks stay until the end, mapped and in place, so
 * buffers that come and go register nothing after a while.
 *
 * In a program that has jemalloc the chunks are extents of an arena of it (carver.h),
 * which carves buffers from 64 bytes on: those of less than four pages may share one.
 * Without, and where no arena can be had, whole pages are given out, first fit. Which it
 * is is settled by the first buffer. Chunks are made in the same way, and no buffer lies
 * in two.
 *
 * One thread, as the handle; but jemalloc may ask in any thread whether two extents lie
 * in the same chunk: chunks are published when they are complete, and taken away when
 * the arena is gone. A child of fork() has none of the contents: there only
 * buffers_abandon() may be called.
 */
#ifndef CLIENT_BUFFERS_H
#define CLIENT_BUFFERS_H

#include <stddef.h>

#include "common/xport.h"

struct buffers_chunk;
struct carver;

/** Zeroed is empty, and has no lane. Stays where it is while it has buffers. */
struct buffers {
	struct buffers_chunk *chunks;
	struct carver *carver;   /* NULL: whole pages, or no buffer yet */
	struct xport_lane *lane; /* NULL: there is none now */
	size_t largest;          /* chunk so far, bytes */
};

/**
 * From now on this is the lane. A chunk that it cannot take is memory as any other
 * meanwhile: its values are copied.
 */
void buffers_attach(struct buffers *b, struct xport_lane *lane);
/** The lane is about to be closed, which forgets all that it was told. */
void buffers_detach(struct buffers *b);

/**
 * `bytes` (not 0) or more, contents undefined. Page-aligned if `bytes` are whole pages,
 * else aligned to 64 bytes at least; no other buffer has a byte in the same 64.
 * FARKV_ENOMEM, FARKV_ESYS with a detail: no memory, or the lane cannot take more.
 */
int buffers_alloc(struct buffers *b, size_t bytes, void **out);
/** Anything but the start of a buffer in use is left alone. */
void buffers_free(struct buffers *b, void *p);

/** Unmap all buffers, in use or not. The lane must have been detached. */
void buffers_fini(struct buffers *b);
/** The same in a child of fork(): without a carver other things may lie there. */
void buffers_abandon(struct buffers *b);

#endif
