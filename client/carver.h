/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * carver.h - pieces of any size of memory that somebody else maps in pages: an arena of
 * the jemalloc that the program brings.
 *
 * libfarkv is not linked with jemalloc, which would be the whole process's malloc(3)
 * then. It names jemalloc's own calls weakly, so that they are there in a program that
 * is linked with jemalloc 5 or runs with it preloaded, and NULL in any other; there, and
 * where libfarkv was built without its header, carver_new() returns NULL.
 *
 * Extents. The arena's hooks take them from the source and never give one back: the
 * memory is registered with a device, which goes on to use the pages that were there
 * then, so it has to stay mapped and in place. Deallocation, decommit and both kinds of
 * purging are refused, and jemalloc keeps the extent for its next use. It is to ask at
 * once (decay after 0 ms): what waits to be purged is not split for a request of a 64th
 * of it, so that small pieces after others took new chunks; what is kept is. Nothing is
 * left to do for who purges all arenas, or in background. Extents are split as
 * jemalloc likes, and merged if they lie in one piece of the source's memory: what was
 * registered in two parts is no memory for one request. An extent is committed; it is
 * zeroed if that is asked for.
 *
 * Metadata. jemalloc has the arena itself from the hooks too, in blocks aligned to 2 MiB,
 * where extents are to a page; it is given pages that have nothing to do with the source.
 * They have to be there, as they were, in a child of fork(): jemalloc sets the arena's
 * locks right there. (Left to jemalloc, by experimental.arenas_create_ext of 5.3, each
 * arena that was destroyed would leave 2 MiB of addresses behind.)
 *
 * A child of fork(). To jemalloc the arena's extents are there as in the parent, so no
 * other memory may come to their addresses: an extent that the child got beside one of
 * them might be merged with it. So the source keeps its memory mapped there, whatever it
 * holds, until carver_end().
 *
 * Threads. carver_*() are one thread's, as the handle. jemalloc's locks guard the arena,
 * but the hooks run inside of them, and those that split, merge and give back in any
 * thread that purges. So no hook allocates, registers, or reports: one that has not
 * enough memory refuses and notes how much it was, for the owner to map and ask again.
 * carver_end() destroys the arena, and so is not for a moment in which another thread
 * purges or decays all arenas of the program: jemalloc walks them without a lock then
 * (mallctl(3), "arena.<i>.destroy").
 */
#ifndef CLIENT_CARVER_H
#define CLIENT_CARVER_H

#include <stdbool.h>
#include <stddef.h>

/** What a piece is aligned to at least: a cache line, which no two pieces share. */
#define CARVER_ALIGN ((size_t)64)

struct carver;

struct carver_source {
	void *owner;
	/* Whole pages for good, or NULL. Only within carver_alloc(). */
	void *(*take)(void *owner, size_t bytes);
	/* Do `a` and `b` lie in one piece of the owner's memory? Any thread. */
	bool (*together)(void *owner, const void *a, const void *b);
};

/**
 * NULL: there is no jemalloc, it has no arena left (4094 are the most), no memory. That
 * is no error: one does without. Costs some 100 KiB of the program's memory.
 */
struct carver *carver_new(const struct carver_source *from);

/**
 * `bytes` aligned to CARVER_ALIGN, or to a page if they are whole pages; contents
 * undefined. NULL: the source lacks *lacks_out bytes in a row, or if that is 0 there is
 * no memory, or not so much.
 */
void *carver_alloc(struct carver *h, size_t bytes, size_t *lacks_out);
/** `p` of carver_alloc(), once. */
void carver_free(struct carver *h, void *p);

/**
 * Forget all pieces, in use or not. False: the program has made a thread use the arena
 * for its malloc(3), so the source's memory has to stay where it is; nothing is asked of
 * the source any more. Carver and `kept`, the source's records of that memory, which a
 * hook may be reading, are the process's then, and found from here to its end. Also in a
 * child of fork().
 */
bool carver_end(struct carver *h, void *kept);
#endif
