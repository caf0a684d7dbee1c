/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * extents.h - extent allocator: cuts pieces of any size from page-aligned memory of a source,
 * by an arena of the program's jemalloc.
 *
 * libfarkv is not linked with jemalloc, which would then be the malloc(3) of the whole
 * process. It names jemalloc's own calls weakly: they exist in a program that is linked with
 * jemalloc 5 or runs with it preloaded, and are NULL in any other. There, and if libfarkv was
 * built without jemalloc's header, extents_new() returns NULL.
 *
 * Extents. The arena's hooks take them from the source and never give one back: the memory is
 * registered with a device, so it has to stay mapped and in place. Deallocation, decommit and
 * both kinds of purging are refused, and jemalloc keeps the extent for reuse. A decay time of
 * 0 ms makes it ask at once: jemalloc splits kept extents for small requests, but not those
 * that wait to be purged. So threads that purge all arenas have nothing to do here. Extents
 * are split freely, and merged only within one piece of the source's memory, because a
 * request cannot span two registrations. They are committed, and zeroed on demand.
 *
 * Metadata. jemalloc gets the arena's own memory from the hooks, too, in blocks aligned to
 * 2 MiB (extents are aligned to a page). These blocks are not the source's, and must keep their
 * content in a child of fork(), where jemalloc sets the arena's locks. (experimental.
 * arenas_create_ext of 5.3 would leak 2 MiB of addresses per destroyed arena.)
 *
 * A child of fork(). For jemalloc the arena's extents exist there as in the parent, so no other
 * memory may be mapped at their addresses, or jemalloc might merge the two. So the source keeps
 * its memory mapped there, with any content, until extents_end().
 *
 * Threads. extents_*() belong to the handle's thread. jemalloc's locks guard the arena, but the
 * hooks run inside of them, and those for split, merge and dalloc in any thread that purges. So
 * no hook allocates, registers, or reports: if memory is short it refuses and notes the size,
 * and the owner maps more and repeats the request. extents_end() destroys the arena, and must
 * not run while another thread purges or decays all arenas of the program, because jemalloc
 * walks them without a lock (mallctl(3), "arena.<i>.destroy").
 */
#ifndef CLIENT_EXTENTS_H
#define CLIENT_EXTENTS_H

#include <stdbool.h>
#include <stddef.h>

/** Least alignment of a piece: a cache line, which no two pieces share. */
#define EXTENTS_ALIGN ((size_t)64)

struct extents;

struct extents_source {
	void *owner;
	/* Take whole pages for good; NULL if there are none. Only within extents_alloc(). */
	void *(*take)(void *owner, size_t bytes);
	/* True if `a` and `b` lie in one piece of the owner's memory. Any thread. */
	bool (*together)(void *owner, const void *a, const void *b);
};

/**
 * NULL if there is no jemalloc, no free arena (4094 at most), or no memory; the caller then works
 * without an extent allocator. Costs some 100 KiB of memory.
 */
struct extents *extents_new(const struct extents_source *from);

/**
 * Allocate `bytes`, aligned to EXTENTS_ALIGN, or to a page if they are whole pages; contents
 * undefined. NULL: the source lacks *lacks_out adjacent bytes; if that is 0, out of memory.
 */
void *extents_alloc(struct extents *h, size_t bytes, size_t *lacks_out);
/** Free `p`, of extents_alloc(). */
void extents_free(struct extents *h, void *p);

/**
 * Forget all pieces, in use or not. False: a thread of the program uses the arena for its
 * malloc(3), so the source's memory must stay in place; the source is not called any more, and
 * the process keeps the allocator and `kept`, the source's records, which a hook may be reading,
 * until its end. Also in a child of fork().
 */
bool extents_end(struct extents *h, void *kept);
#endif
