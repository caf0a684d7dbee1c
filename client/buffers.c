/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "buffers.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <farkv.h>

#include "common/err.h"
#include "common/util.h"

#define PAGE ((size_t)4096)
#define HUGE_PAGE ((size_t)2 << 20)
/* Each chunk is twice the last, up to this; a larger buffer has one of its own. */
#define CHUNK_LARGEST ((size_t)64 << 20)
/* A page that another page of its buffer stands for. */
#define WITHIN UINT32_MAX

struct buffers_chunk {
	struct buffers_chunk *next;
	uint8_t *base;
	uint32_t pages;
	/*
	 * What each page is: 0 free; WITHIN a buffer; else the first of that many
	 * pages of a buffer. Not in the pages themselves, which the program writes.
	 */
	uint32_t page[];
};

/* ---- chunks --------------------------------------------------------------------- */

/* Aligned, so that the kernel can back it by huge pages; not for children. */
static uint8_t *memory_map(size_t bytes)
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
	/* Both are advice: without it things go on, slower. */
	(void)madvise(base, bytes, MADV_HUGEPAGE);
	(void)madvise(base, bytes, MADV_DONTFORK);
	return base;
}

static int no_memory(size_t bytes)
{
	return err_set(FARKV_ENOMEM, "no memory for buffers of %zu bytes",
		       bytes);
}

/* A lane that carries nothing in parts needs to know nothing. */
static int chunk_show(struct buffers *b, struct buffers_chunk *c)
{
	if (!b->lane || !(b->lane->caps & XPORT_PARTS))
		return 0;
	return xport_mem_add(b->lane, c->base, c->pages * PAGE);
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
	c = calloc(1, sizeof(*c) + want / PAGE * sizeof(c->page[0]));
	if (!c)
		return no_memory(want);
	c->pages = (uint32_t)(want / PAGE);
	c->base = memory_map(want);
	if (!c->base) {
		free(c);
		return no_memory(want);
	}
	err = chunk_show(b, c);
	if (err) {
		munmap(c->base, want);
		free(c);
		return err;
	}
	b->largest = UTIL_MAX(b->largest, want);
	c->next = b->chunks;
	b->chunks = c;
	return 0;
}

void buffers_attach(struct buffers *b, struct xport_lane *lane)
{
	b->lane = lane;
	for (struct buffers_chunk *c = b->chunks; c; c = c->next)
		(void)chunk_show(b, c);
}

void buffers_detach(struct buffers *b)
{
	b->lane = NULL;
}

/* ---- buffers ---------------------------------------------------------------------- */

/* The first `n` free pages in a row, or c->pages. */
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

int buffers_alloc(struct buffers *b, size_t bytes, void **out)
{
	size_t pages = bytes / PAGE + (bytes % PAGE != 0);
	void *p = NULL;
	int err;

	if (pages >= WITHIN)
		return no_memory(bytes);
	for (struct buffers_chunk *c = b->chunks; c && !p; c = c->next)
		p = chunk_take(c, (uint32_t)pages);
	if (!p) {
		err = chunk_new(b, bytes);
		if (err)
			return err;
		p = chunk_take(b->chunks, (uint32_t)pages);
	}
	*out = p;
	return 0;
}

void buffers_free(struct buffers *b, void *p)
{
	struct buffers_chunk *c = b->chunks;
	size_t at = 0;

	for (; c; c = c->next) {
		at = (uintptr_t)p - (uintptr_t)c->base;
		if (at / PAGE < c->pages)
			break;
	}
	if (!c || at % PAGE || c->page[at / PAGE] == WITHIN)
		return;
	at /= PAGE;
	for (uint32_t i = 0, n = c->page[at]; i < n; i++)
		c->page[at + i] = 0;
}

/* ---- the end ----------------------------------------------------------------------- */

static void release(struct buffers *b, bool mapped)
{
	for (struct buffers_chunk *c = b->chunks, *next; c; c = next) {
		next = c->next;
		if (mapped)
			munmap(c->base, c->pages * PAGE);
		free(c);
	}
	*b = (struct buffers){0};
}

void buffers_fini(struct buffers *b)
{
	release(b, true);
}

void buffers_abandon(struct buffers *b)
{
	release(b, false);
}
