/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "extents.h"

#ifdef HAVE_JEMALLOC
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>

#include <jemalloc/jemalloc.h>

#include "common/base/atomic.h"
#include "common/base/util.h"

#pragma weak mallctl
#pragma weak mallocx
#pragma weak dallocx

#define PAGE ((size_t)4096)

struct extents {
	extent_hooks_t hooks; /* first: jemalloc passes its address to the hooks */
	/* NULL after extents_end(). Written by the handle's thread, read in any. */
	const struct extents_source *from;
	struct extents_source source;
	size_t refused; /* bytes of the last refused request */
	bool ending;    /* the arena's own memory is to be freed */
	unsigned arena;
	struct extents *next_left;
	void *kept;
};

/* Allocators that could not be freed; listed so that leak checkers find their memory. */
static struct extents *left;

/* ---- hooks ---------------------------------------------------------------------- */

static bool together(const struct extents *h, const void *a, const void *b)
{
	const struct extents_source *from = atom_load_follow(&h->from);

	return from && from->together(from->owner, a, b);
}

/* Zeroed pages for jemalloc's own use, which also exist in a child of fork(). */
static void *metadata_map(size_t bytes, size_t alignment)
{
	uint8_t *p, *base;

	p = mmap(NULL, bytes + alignment, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return NULL;
	base = (uint8_t *)(uintptr_t)util_align_up((uintptr_t)p, alignment);
	if (base > p)
		munmap(p, (size_t)(base - p));
	if (base < p + alignment)
		munmap(base + bytes, (size_t)(p + alignment - base));
	return base;
}

static void *on_alloc(extent_hooks_t *hooks, void *at, size_t bytes,
		      size_t alignment, bool *zero, bool *commit,
		      unsigned arena)
{
	struct extents *h = (struct extents *)hooks;
	const struct extents_source *from = atom_load_follow(&h->from);
	void *p = NULL;

	(void)arena;
	if (at)
		return NULL;
	if (alignment > PAGE)
		p = metadata_map(bytes, alignment);
	else if (from) {
		p = from->take(from->owner, bytes);
		if (!p)
			h->refused = bytes;
		else if (*zero)
			memset(p, 0, bytes);
	}
	*commit = p || *commit;
	return p;
}

/* Memory that is not the source's is the arena's own, which is needed until the end. */
static bool on_dalloc(extent_hooks_t *hooks, void *p, size_t bytes,
		      bool committed, unsigned arena)
{
	const struct extents *h = (const struct extents *)hooks;

	(void)committed;
	(void)arena;
	return !h->ending || together(h, p, p) || munmap(p, bytes);
}

static bool on_split(extent_hooks_t *hooks, void *p, size_t bytes, size_t first,
		     size_t second, bool committed, unsigned arena)
{
	(void)hooks;
	(void)p;
	(void)bytes;
	(void)first;
	(void)second;
	(void)committed;
	(void)arena;
	return false;
}

static bool on_merge(extent_hooks_t *hooks, void *a, size_t a_bytes, void *b,
		     size_t b_bytes, bool committed, unsigned arena)
{
	(void)a_bytes;
	(void)b_bytes;
	(void)committed;
	(void)arena;
	return !together((const struct extents *)hooks, a, b);
}

/* ---- the arena --------------------------------------------------------------------- */

/* mallctl(3) for arena.<i>.`what`: 0 or an error. */
static int arena_ctl(const struct extents *h, const char *what, void *value,
		     size_t bytes)
{
	char name[64];

	snprintf(name, sizeof(name), "arena.%u.%s", h->arena, what);
	return mallctl(name, NULL, NULL, value, bytes);
}

/* True if jemalloc aborts when there is no memory, which is a normal case here. */
static bool aborts(void)
{
	bool on = false;
	size_t size = sizeof(on);

	return mallctl("opt.xmalloc", &on, &size, NULL, 0) == 0 && on;
}

/* Extents consist of jemalloc's pages, chunks of ours. */
static bool pages_differ(void)
{
	size_t page = 0, size = sizeof(page);

	return mallctl("arenas.page", &page, &size, NULL, 0) || page != PAGE;
}

struct extents *extents_new(const struct extents_source *from)
{
	extent_hooks_t *hooks;
	struct extents *h;
	size_t size = sizeof(h->arena);
	ssize_t at_once = 0;

	if (!mallctl || !mallocx || !dallocx || aborts() || pages_differ())
		return NULL;
	h = calloc(1, sizeof(*h));
	if (!h)
		return NULL;
	/* Hooks that are NULL refuse: commit, decommit, purge. */
	h->hooks = (extent_hooks_t){.alloc = on_alloc,
				    .dalloc = on_dalloc,
				    .split = on_split,
				    .merge = on_merge};
	h->source = *from;
	h->from = &h->source;
	hooks = &h->hooks;
	if (mallctl("arenas.create", &h->arena, &size, &hooks, sizeof(hooks))) {
		free(h);
		return NULL;
	}
	(void)arena_ctl(h, "dirty_decay_ms", &at_once, sizeof(at_once));
	(void)arena_ctl(h, "muzzy_decay_ms", &at_once, sizeof(at_once));
	return h;
}

void *extents_alloc(struct extents *h, size_t bytes, size_t *lacks_out)
{
	size_t align = bytes % PAGE ? EXTENTS_ALIGN : PAGE;
	void *p;

	h->refused = 0;
	p = mallocx(bytes, MALLOCX_ARENA(h->arena) | MALLOCX_TCACHE_NONE |
				   MALLOCX_ALIGN(align));
	if (!p)
		*lacks_out = h->refused;
	return p;
}

void extents_free(struct extents *h, void *p)
{
	dallocx(p, MALLOCX_ARENA(h->arena) | MALLOCX_TCACHE_NONE);
}

bool extents_end(struct extents *h, void *kept)
{
	if (!h)
		return true;
	h->ending = true;
	if (arena_ctl(h, "destroy", NULL, 0) == 0) {
		free(h);
		return true;
	}
	h->ending = false;
	atom_store_publish(&h->from, NULL);
	h->kept = kept;
	h->next_left = atom_exchange(&left, h);
	return false;
}

#else /* without jemalloc's header */

struct extents *extents_new(const struct extents_source *from)
{
	(void)from;
	return NULL;
}

/* extents_new() returns NULL, so these are never called. */
void *extents_alloc(struct extents *h, size_t bytes, size_t *lacks_out)
{
	(void)h;
	(void)bytes;
	*lacks_out = 0;
	return NULL;
}

void extents_free(struct extents *h, void *p)
{
	(void)h;
	(void)p;
}

bool extents_end(struct extents *h, void *kept)
{
	(void)kept;
	return !h;
}
#endif
