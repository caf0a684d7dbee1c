/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "buffers.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <farkv.h>

#include "common/base/atomic.h"
#include "common/base/err.h"
#include "common/base/util.h"

#include "extents.h"

#define PAGE ((size_t)4096)
#define HUGE_PAGE ((size_t)2 << 20)
/* Each chunk is twice the size of the last, up to this; larger buffers get their own chunk. */
#define CHUNK_LARGEST ((size_t)64 << 20)
/* Marks a later page of a buffer. */
#define WITHIN UINT32_MAX

struct buffers_chunk {
	struct buffers_chunk *next;
	uint8_t *base;
	/*
	 * With an extent allocator: a bitmap per page, a bit per EXTENTS_ALIGN bytes, lowest
	 * first; set where a buffer in use starts. NULL without.
	 */
	uint64_t *starts;
	uint32_t pages;
	/*
	 * Per page: 0 free; WITHIN a buffer or an extent; otherwise the number of pages of the
	 * buffer or extent that starts there. Kept outside the pages, which the program writes.
	 */
	uint32_t page[];
};
_Static_assert(PAGE / EXTENTS_ALIGN == 64, "one word of starts per page");

struct buffers_range {
	struct buffers_range *next;
	uint8_t *base;
	size_t bytes;
};

/* ---- chunks --------------------------------------------------------------------- */

/*
 * Aligned for huge pages. In a child of fork() nothing is mapped at these addresses; with an
 * extent allocator there are pages of zeros, because jemalloc could otherwise map other memory
 * there and merge it with the arena's extents.
 */
static uint8_t *memory_map(size_t bytes, bool for_extents)
{
	size_t room = bytes + HUGE_PAGE;
	uint8_t *p, *base;

	if (room < bytes)
		return NULL;
	p = mmap(NULL, room, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return NULL;
	base = (uint8_t *)(uintptr_t)util_align_up((uintptr_t)p, HUGE_PAGE);
	if (base > p)
		munmap(p, (size_t)(base - p));
	if (base + bytes < p + room)
		munmap(base + bytes, (size_t)(p + room - (base + bytes)));
	/* Advice only: without huge pages it is slower. */
	(void)madvise(base, bytes, MADV_HUGEPAGE);
	(void)madvise(base, bytes, for_extents ? MADV_WIPEONFORK : MADV_DONTFORK);
	return base;
}

static int no_memory(size_t bytes)
{
	return err_set(FARKV_ENOMEM, "no memory for buffers of %zu bytes",
		       bytes);
}

/* Register memory with the lane, unless the lane does not carry segments. */
static int register_memory(const struct buffers *b, void *p, size_t bytes)
{
	if (!b->lane || !(b->lane->caps & XPORT_SEGMENTS))
		return 0;
	return xport_mem_add(b->lane, p, bytes);
}

static int chunk_show(struct buffers *b, struct buffers_chunk *c)
{
	int err = register_memory(b, c->base, c->pages * PAGE);

	/*
	 * ibv_reg_mr(3) may exclude the chunk from children (RDMAV_FORK_SAFE), but the chunks of an
	 * extent allocator must stay mapped there (as zeros).
	 */
	if (!err && b->extents)
		(void)madvise(c->base, c->pages * PAGE, MADV_DOFORK);
	return err;
}

static void chunk_free(struct buffers_chunk *c, bool mapped)
{
	if (mapped)
		munmap(c->base, c->pages * PAGE);
	free(c->starts);
	free(c);
}

static struct buffers_chunk *chunk_map(uint32_t pages, bool for_extents)
{
	struct buffers_chunk *c;

	c = calloc(1, sizeof(*c) + pages * sizeof(c->page[0]));
	if (!c)
		return NULL;
	c->pages = pages;
	if (for_extents) {
		c->starts = calloc(pages, sizeof(*c->starts));
		if (!c->starts)
			goto err_chunk;
	}
	c->base = memory_map(pages * PAGE, for_extents);
	if (c->base)
		return c;
	free(c->starts);
err_chunk:
	free(c);
	return NULL;
}

static int chunk_new(struct buffers *b, size_t bytes)
{
	size_t want = UTIL_MIN(b->largest ? b->largest * 2 : HUGE_PAGE,
			       CHUNK_LARGEST);
	struct buffers_chunk *c;
	int err;

	want = UTIL_MAX(want, util_align_up(bytes, HUGE_PAGE));
	if (want < bytes || want / PAGE >= WITHIN)
		return no_memory(bytes);
	c = chunk_map((uint32_t)(want / PAGE), b->extents != NULL);
	if (!c)
		return no_memory(want);
	err = chunk_show(b, c);
	if (err) {
		chunk_free(c, true);
		return err;
	}
	b->largest = UTIL_MAX(b->largest, want);
	c->next = b->chunks;
	atom_store_publish(&b->chunks, c);
	return 0;
}

static struct buffers_chunk *chunk_of(const struct buffers *b, const void *p)
{
	struct buffers_chunk *c = atom_load_follow(&b->chunks);

	while (c && ((uintptr_t)p - (uintptr_t)c->base) / PAGE >= c->pages)
		c = c->next;
	return c;
}

void buffers_attach(struct buffers *b, struct xport_lane *lane)
{
	b->lane = lane;
	for (struct buffers_chunk *c = b->chunks; c; c = c->next)
		(void)chunk_show(b, c);
	for (const struct buffers_range *r = b->ranges; r; r = r->next)
		(void)register_memory(b, r->base, r->bytes);
}

void buffers_detach(struct buffers *b)
{
	b->lane = NULL;
}

/* ---- pages --------------------------------------------------------------------------- */

/* The first `n` adjacent free pages, or c->pages. */
static uint32_t run_find(const struct buffers_chunk *c, uint32_t n)
{
	uint32_t free_from = 0, i = 0;

	while (i < c->pages) {
		i += c->page[i] ? c->page[i] : 1;
		if (c->page[i - 1])
			free_from = i;
		else if (i - free_from == n)
			return free_from;
	}
	return c->pages;
}

static void *chunk_take(struct buffers_chunk *c, uint32_t n)
{
	uint32_t at = n <= c->pages ? run_find(c, n) : c->pages;

	if (at == c->pages)
		return NULL;
	c->page[at] = n;
	for (uint32_t i = 1; i < n; i++)
		c->page[at + i] = WITHIN;
	return c->base + at * PAGE;
}

static void *pages_take(struct buffers *b, size_t pages)
{
	void *p = NULL;

	if (pages >= WITHIN)
		return NULL;
	for (struct buffers_chunk *c = b->chunks; c && !p; c = c->next)
		p = chunk_take(c, (uint32_t)pages);
	return p;
}

static int pages_alloc(struct buffers *b, size_t bytes, void **out)
{
	size_t pages = bytes / PAGE + (bytes % PAGE != 0);
	void *p = pages_take(b, pages);
	int err;

	if (!p) {
		err = chunk_new(b, bytes);
		if (err)
			return err;
		p = chunk_take(b->chunks, (uint32_t)pages);
	}
	*out = p;
	return 0;
}

static void pages_free(struct buffers_chunk *c, size_t at)
{
	if (at % PAGE || c->page[at / PAGE] == WITHIN)
		return;
	at /= PAGE;
	for (uint32_t i = 0, n = c->page[at]; i < n; i++)
		c->page[at + i] = 0;
}

/* ---- buffers of the extent allocator -------------------------------------------------- */

static void *extent_take(void *owner, size_t bytes)
{
	return pages_take(owner, bytes / PAGE);
}

/* Chunks often are adjacent. */
static bool in_one_chunk(void *owner, const void *p, const void *q)
{
	const struct buffers_chunk *c = chunk_of(owner, p);

	return c && c == chunk_of(owner, q);
}

/* Needs Linux 4.14. */
static bool can_wipe(void)
{
	void *p = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	bool can;

	if (p == MAP_FAILED)
		return false;
	can = madvise(p, PAGE, MADV_WIPEONFORK) == 0;
	munmap(p, PAGE);
	return can;
}

/* Called before the first chunk, because the two kinds of buffers need different chunks. */
static void extents_begin(struct buffers *b)
{
	struct extents_source from = {b, extent_take, in_one_chunk};

	if (!b->chunks && !b->extents && can_wipe())
		b->extents = extents_new(&from);
}

static int extents_buffer(struct buffers *b, size_t bytes, void **out)
{
	struct buffers_chunk *c;
	size_t at, lacks = 0;
	void *p = extents_alloc(b->extents, bytes, &lacks);
	int err;

	if (!p && lacks) {
		err = chunk_new(b, lacks);
		if (err)
			return err;
		p = extents_alloc(b->extents, bytes, &lacks);
	}
	c = p ? chunk_of(b, p) : NULL;
	if (!c) {
		if (p)
			extents_free(b->extents, p);
		return no_memory(bytes);
	}
	at = (size_t)((uint8_t *)p - c->base);
	c->starts[at / PAGE] |= UINT64_C(1) << at % PAGE / EXTENTS_ALIGN;
	*out = p;
	return 0;
}

static void extents_buffer_free(struct buffers *b, struct buffers_chunk *c,
			     size_t at)
{
	uint64_t bit = UINT64_C(1) << at % PAGE / EXTENTS_ALIGN;

	if (at % EXTENTS_ALIGN || !(c->starts[at / PAGE] & bit))
		return;
	c->starts[at / PAGE] &= ~bit;
	extents_free(b->extents, c->base + at);
}

/* ---- both kinds of buffers -------------------------------------------------------- */

int buffers_alloc(struct buffers *b, size_t bytes, void **out)
{
	extents_begin(b);
	return b->extents ? extents_buffer(b, bytes, out) : pages_alloc(b, bytes, out);
}

void buffers_free(struct buffers *b, void *p)
{
	struct buffers_chunk *c = chunk_of(b, p);
	size_t at;

	if (!c)
		return;
	at = (uintptr_t)p - (uintptr_t)c->base;
	if (b->extents)
		extents_buffer_free(b, c, at);
	else
		pages_free(c, at);
}

/* ---- the program's own memory ------------------------------------------------------ */

static bool overlap(const uint8_t *p, size_t n, const uint8_t *q, size_t m)
{
	return p < q + m && q < p + n;
}

static int check_apart(const struct buffers *b, const uint8_t *p, size_t bytes)
{
	for (const struct buffers_range *r = b->ranges; r; r = r->next)
		if (overlap(p, bytes, r->base, r->bytes))
			return err_set(FARKV_EINVAL,
				       "the memory at %p overlaps %zu bytes at %p that are "
				       "registered already",
				       (const void *)p, r->bytes, (void *)r->base);
	for (const struct buffers_chunk *c = b->chunks; c; c = c->next)
		if (overlap(p, bytes, c->base, c->pages * PAGE))
			return err_set(FARKV_EINVAL,
				       "the memory at %p is of farkv_buf_alloc(), which has "
				       "registered it until the handle is closed",
				       (const void *)p);
	return 0;
}

/* msync(2) with MS_ASYNC writes nothing, but reports pages that are not mapped. */
static int check_mapped(uint8_t *p, size_t bytes)
{
	size_t before = (uintptr_t)p % PAGE;
	size_t room = bytes + before;

	if ((uintptr_t)p + bytes < bytes || room < bytes ||
	    (msync(p - before, room, MS_ASYNC) < 0 && errno == ENOMEM))
		return err_set(FARKV_EINVAL, "not all of the %zu bytes at %p are mapped",
			       bytes, (void *)p);
	return 0;
}

int buffers_register(struct buffers *b, void *p, size_t bytes)
{
	struct buffers_range *r;
	int err = check_mapped(p, bytes);

	if (!err)
		err = check_apart(b, p, bytes);
	if (err)
		return err;
	r = malloc(sizeof(*r));
	if (!r)
		return err_set(FARKV_ENOMEM, "no memory to record registered memory");
	err = register_memory(b, p, bytes);
	if (err) {
		free(r);
		return err;
	}
	*r = (struct buffers_range){.next = b->ranges, .base = p, .bytes = bytes};
	b->ranges = r;
	return 0;
}

int buffers_register_all(struct buffers *b, const struct buffers *from)
{
	int err = 0;

	for (const struct buffers_range *r = from->ranges; r && !err; r = r->next)
		err = buffers_register(b, r->base, r->bytes);
	return err;
}

bool buffers_registered(const struct buffers *b, const void *p)
{
	const struct buffers_range *r = b->ranges;

	while (r && r->base != p)
		r = r->next;
	return r != NULL;
}

void buffers_unregister(struct buffers *b, void *p)
{
	struct buffers_range **at = &b->ranges, *r;

	while (*at && (*at)->base != p)
		at = &(*at)->next;
	r = *at;
	if (!r)
		return;
	*at = r->next;
	if (b->lane)
		xport_mem_remove(b->lane, p);
	free(r);
}

/* ---- release ---------------------------------------------------------------------- */

static void ranges_free(struct buffers *b)
{
	for (struct buffers_range *r = b->ranges, *next; r; r = next) {
		next = r->next;
		free(r);
	}
	b->ranges = NULL;
}

static void release(struct buffers *b, bool mapped)
{
	for (struct buffers_chunk *c = b->chunks, *next; c; c = next) {
		next = c->next;
		chunk_free(c, mapped);
	}
	*b = (struct buffers){0};
}

/*
 * If a thread uses the arena for its malloc(3), the pages stay mapped and their records stay
 * allocated, because a hook may be reading them.
 */
void buffers_fini(struct buffers *b)
{
	ranges_free(b);
	if (extents_end(b->extents, b->chunks))
		release(b, true);
	else
		*b = (struct buffers){0};
}

void buffers_abandon(struct buffers *b)
{
	ranges_free(b);
	release(b, b->extents && extents_end(b->extents, NULL));
}
