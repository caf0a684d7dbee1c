/* SPDX-License-Identifier: BSD-3-Clause */
/* The region's pages: which are slots, and since when one may be used for anything else. */
#include "config.h"

#include <string.h>

#include "common/base/util.h"
#include "server/memory/heap.h"
#include "sim.h"

/* By page. */
static struct {
	uint32_t gen;     /* of the last subtable there */
	uint64_t retired; /* it is none any more since then; 0: it is one, or never was */
	bool aging, free; /* ... and a barrier has begun, or passed, since */
} pages[64];
static uint64_t barrier_began;

/* Clients that looked for slots there have to be asked before it is anything else. */
static void check_page_free(uint64_t p)
{
	if (pages[p].gen && !pages[p].free)
		sim_fail("page %u is used again without a barrier", (unsigned)p);
}

void sim_check_page(uint64_t off)
{
	check_page_free((off - META_ALIGN) / PAGE_BYTES);
}

/* Pages that are subtables, again, or no more. */
void sim_pages_look(void)
{
	struct region_walk w = {0};
	bool now[ARRAY_SIZE(pages)] = {false};
	uint64_t entry, hash;

	while (region_walk_next(&sim.region, &w, &entry, &hash)) {
		uint64_t p = entry_page(entry) - META_ALIGN / PAGE_BYTES;

		if (pages[p].gen && pages[p].gen != entry_gen(entry)) {
			check_page_free(p);
			sim_events[SIM_PAGES_AGAIN]++;
		}
		pages[p].gen = entry_gen(entry);
		pages[p].retired = 0;
		pages[p].aging = pages[p].free = false;
		now[p] = true;
	}
	for (unsigned p = 0; p < ARRAY_SIZE(pages); p++)
		if (pages[p].gen && !now[p] && !pages[p].retired)
			pages[p].retired = sim.now;
}

/* A migration begins: its subtable may have been made since the last look. */
uint64_t __real_heap_take_index(struct heap *h);
uint64_t __wrap_heap_take_index(struct heap *h);
uint64_t __wrap_heap_take_index(struct heap *h)
{
	if (sim.region.subtables)
		sim_pages_look();
	return __real_heap_take_index(h);
}

/* A barrier frees the pages that were retired when it began. */
bool __real_heap_barrier_begin(struct heap *h);
bool __wrap_heap_barrier_begin(struct heap *h);
bool __wrap_heap_barrier_begin(struct heap *h)
{
	sim_pages_look();
	barrier_began = sim.now;
	for (unsigned p = 0; p < ARRAY_SIZE(pages); p++)
		pages[p].aging = pages[p].retired != 0;
	return __real_heap_barrier_begin(h);
}

void __real_heap_barrier_passed(struct heap *h);
void __wrap_heap_barrier_passed(struct heap *h);
void __wrap_heap_barrier_passed(struct heap *h)
{
	for (unsigned p = 0; p < ARRAY_SIZE(pages); p++)
		pages[p].free = pages[p].free || pages[p].aging;
	sim_check_barrier(barrier_began);
	__real_heap_barrier_passed(h);
}

void sim_check_slots(uint64_t off)
{
	uint64_t page = (off - META_ALIGN) / PAGE_BYTES;

	if (page < ARRAY_SIZE(pages) && pages[page].free)
		sim_pages_look(); /* it may be one again since this moment */
	if (page >= ARRAY_SIZE(pages) || pages[page].free)
		sim_fail("slots are read at %llx after a barrier",
			 (unsigned long long)off);
}

void sim_pages_begin(void)
{
	memset(pages, 0, sizeof(pages));
	sim_pages_look();
}
