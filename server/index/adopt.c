/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "adopt.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include <farkv.h>

#include "common/base/atomic.h"
#include "common/base/err.h"
#include "server/memory/slab_marks.h"
#include "server/memory/step.h"

#include "fsck_index.h"

static int damaged(const char *what, uint64_t where, uint64_t word)
{
	return err_set(FARKV_EFORMAT,
		       "region: it is damaged: %s (at %" PRIu64 ": 0x%016" PRIx64
		       "); remove the memory file, and restore a snapshot", what, where, word);
}

/* ---- the directory ------------------------------------------------------------------ */

/* Check the entries of one subtable, from `at` on; *n_out is their number. */
static int entry_check(const struct region *r, uint64_t at, bool *named, uint64_t *n_out)
{
	uint64_t first = r->sb.meta_bytes / PAGE_BYTES, *dir = region_dir(r);
	uint64_t entry = dir[at], page = entry_page(entry), n;

	if (!fsck_entry_ok(r, entry) ||
	    heap_map_at(r->heap, page) != page_pack(PAGE_IS_SUBTABLE, 0, 0) ||
	    named[page - first])
		return damaged("a directory entry leads to no subtable", at, entry);
	n = UINT64_C(1) << (r->depth - entry_depth(entry));
	for (uint64_t i = 0; i < n; i++)
		if (at % n || dir[at + i] != entry)
			return damaged("directory entries contradict each other", at, entry);
	named[page - first] = true;
	*n_out = n;
	return 0;
}

/* Retire pages of subtables that no entry names: they were replaced, or never published. */
static void retire_others(struct region *r, const bool *named)
{
	uint64_t first = r->sb.meta_bytes / PAGE_BYTES;

	for (uint64_t i = 0; i < heap_total(r->heap); i++)
		if (!named[i] &&
		    page_kind(heap_map_at(r->heap, first + i)) == PAGE_IS_SUBTABLE)
			heap_retire(r->heap, first + i, 1);
}

static int directory_adopt(struct region *r)
{
	bool *named = calloc(heap_total(r->heap), sizeof(*named));
	uint64_t end = UINT64_C(1) << r->depth, n = 0;
	int err = 0;

	if (!named)
		return err_set(FARKV_ENOMEM, "no memory for the books of the region");
	for (uint64_t at = 0; !err && at < end; at += n) {
		err = entry_check(r, at, named, &n);
		r->subtables += !err;
	}
	if (!err)
		retire_others(r, named);
	free(named);
	return err;
}

/* ---- slots --------------------------------------------------------------------------- */

/* Slots whose blocks are prefetched together: one by one, each would miss the cache twice. */
#define GROUP_SLOTS 64u
static_assert(SUBTABLE_SLOTS % GROUP_SLOTS == 0, "whole groups");

static void group_fetch(const struct slab *slab, const uint64_t *slots)
{
	for (unsigned i = 0; i < GROUP_SLOTS; i++)
		slab_fetch_record(slab, slot_off(atom_load_relaxed(&slots[i])));
	for (unsigned i = 0; i < GROUP_SLOTS; i++)
		slab_fetch_state(slab, slot_off(atom_load_relaxed(&slots[i])));
}

static int slots_check(const struct region *r, const struct slab *slab, uint64_t entry)
{
	const uint64_t *slots = region_slots(r, entry);
	uint64_t empty = slot_empty(entry_gen(entry));

	for (unsigned i = 0; i < SUBTABLE_SLOTS; i++) {
		uint64_t w = atom_load_relaxed(&slots[i]);
		uint64_t off = entry_page(entry) * PAGE_BYTES + i * SLOT_BYTES;

		if (i % GROUP_SLOTS == 0)
			group_fetch(slab, &slots[i]);
		if (slot_is_null(w) ? (w & ~SLOT_FROZEN) != empty :
				      !slab_is_out(slab, slot_block(w)))
			return damaged(slot_is_null(w) ? "an EMPTY slot of another subtable" :
							 "a slot names no block", off, w);
	}
	return 0;
}

/* Check the subtable as fsck does, which reads the blocks. */
static int blocks_verify(const struct region *r, const struct slab *slab, uint64_t entry,
			 uint64_t hash)
{
	struct fsck_subtable *t = malloc(sizeof(*t));
	const struct fsck_found *f = &t->found;
	uint64_t bad, off;

	if (!t)
		return err_set(FARKV_ENOMEM, "no memory to verify the region");
	fsck_subtable_begin(t, entry, hash);
	(void)fsck_subtable_step(t, r, slab, UINT64_MAX);
	bad = f->bad_empty + f->bad_words + f->damaged + f->shared + f->misplaced +
	      f->behind_empty + f->duplicates;
	off = f->page * PAGE_BYTES + f->slot * SLOT_BYTES;
	free(t);
	return bad ? damaged("a slot's block does not verify", off,
			     *(const uint64_t *)region_at(r, off)) : 0;
}

static int slots_adopt(const struct region *r, const struct slab *slab, bool verify)
{
	struct region_walk w = {0};
	uint64_t entry, hash;
	int err = 0;

	while (!err && region_walk_next(r, &w, &entry, &hash)) {
		err = slots_check(r, slab, entry);
		if (!err && verify)
			err = blocks_verify(r, slab, entry, hash);
	}
	return err;
}

bool adopt_is_frozen(const struct region *r, uint64_t entry)
{
	const uint64_t *slots = region_slots(r, entry);

	for (unsigned i = 0; i < SUBTABLE_SLOTS; i++)
		if (atom_load_relaxed(&slots[i]) & SLOT_FROZEN)
			return true;
	return false;
}

int adopt_region(struct region *r, struct slab *slab, bool verify)
{
	int err;

	step_reached(STEP_ADOPT);
	err = region_redo(r);
	step_reached(STEP_ADOPT_REDO);
	if (!err)
		err = heap_restore(r->heap);
	if (!err)
		err = slab_restore(slab);
	if (!err)
		err = directory_adopt(r);
	if (!err)
		err = slots_adopt(r, slab, verify);
	step_reached(STEP_ADOPT_BOOKS);
	return err;
}
