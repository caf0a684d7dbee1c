/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "fsck_index.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/atomic.h"
#include "common/base/clock.h"
#include "common/region/block.h"
#include "common/region/hash.h"
#include "server/memory/slab_marks.h"

/* A slot that changes this often during its check counts as correct, */
#define TRIES 100
/* ... and so does one for which this many bytes of blocks were read. */
#define TRIES_BYTES (UINT64_C(64) << 20)
/* Slots, or bytes of blocks, between two readings of the clock. */
#define SLOTS_STEP 32u
#define BYTES_STEP (128u << 10)

/* ---- one slot ------------------------------------------------------------------- */

static uint64_t load(const struct region *r, const struct fsck_subtable *t,
		     unsigned slot)
{
	return atom_load_relaxed(&region_slots(r, t->entry)[slot]) &
	       ~SLOT_FROZEN;
}

static void problem(struct fsck_subtable *t, uint64_t *count, unsigned slot)
{
	struct fsck_found *f = &t->found;

	(*count)++;
	if (f->page)
		return;
	f->page = entry_page(t->entry);
	f->slot = slot;
}

/* True if the block is intact except for its incarnation: the word is outdated. */
static bool has_other_content(const uint8_t *image, struct block_ref ref)
{
	struct block_header h;
	struct block_view v;

	memcpy(&h, image, sizeof(h));
	ref.inc = h.inc_flags & BLOCK_INC_MASK;
	return block_verify(image, ref, NULL, 0, &v) != BLOCK_BAD;
}

/*
 * Returns the hash of the key in the word's block; 0, with the problem counted, if the word
 * or its block is wrong. Nothing is copied: lengths are read once, the hash is the one that
 * the header vouches for, and a block is unlinked before it changes, so its slot changes too.
 */
static uint64_t look_at_block(struct fsck_subtable *t, const struct region *r,
			      const struct slab *slab, uint64_t *word)
{
	uint64_t bytes = 0, hash;

	for (unsigned i = 0; i < TRIES && bytes < TRIES_BYTES; i++) {
		uint64_t w = *word;
		struct block_ref ref = slot_block(w);
		const uint8_t *image = NULL;
		struct block_view v;
		uint64_t *count;

		if (region_block_ok(&r->sb, ref.off, ref.cls) &&
		    slab_is_out(slab, ref))
			image = region_at(r, ref.off);
		if (image &&
		    block_verify(image, ref, NULL, 0, &v) != BLOCK_BAD &&
		    block_key_hash(image, class_bytes(ref.cls), ref,
				   r->sb.hash_seed, &hash)) {
			t->found.expired += !(w & SLOT_DEAD) &&
					    block_expired(v.expiry, v.flags, region_clock(r));
			return hash ? hash : 1;
		}
		count = &t->found.bad_words;
		if (image)
			count = has_other_content(image, ref) ?
					&t->found.shared :
					&t->found.damaged;
		atom_fence_copy_done();
		*word = load(r, t, t->at);
		if (*word == w) {
			problem(t, count, t->at);
			return 0;
		}
		bytes += class_bytes(ref.cls);
	}
	return 0;
}

/* The key was found in slot t->at: check that a GET would find it there. */
static void check_place(struct fsck_subtable *t, const struct region *r,
			uint64_t word, uint64_t hash)
{
	uint32_t depth = entry_depth(t->entry), i = t->at;
	uint32_t home = hash_home_line(hash) * LINE_SLOTS;
	bool here = depth == 0 || (hash ^ t->hash) >> (64 - depth) == 0;

	if (!here || slot_fp(word) != hash_fp(hash) || i < home ||
	    i >= home + WINDOW_SLOTS) {
		problem(t, &t->found.misplaced, i);
		return;
	}
	/* A slot that was claimed never becomes EMPTY: one that is EMPTY now was EMPTY then. */
	if (t->last_empty >= (int)home)
		for (uint32_t k = home; k < i; k++)
			if (t->empty[k] && slot_is_null(load(r, t, k))) {
				problem(t, &t->found.behind_empty, i);
				break;
			}
	/* Equal 64-bit hashes in one window mean equal keys. */
	for (uint32_t k = home; k < i; k++)
		if (t->key[k] == hash)
			problem(t, &t->found.duplicates, i);
}

/* Returns the bytes that were read. */
static uint64_t check_slot(struct fsck_subtable *t, const struct region *r,
			   const struct slab *slab)
{
	uint64_t word = load(r, t, t->at), hash, bytes;

	if (slot_is_null(word)) {
		t->empty[t->at] = true;
		t->last_empty = (int)t->at;
		if (word != slot_empty(entry_gen(t->entry)))
			problem(t, &t->found.bad_empty, t->at);
		return 0;
	}
	hash = look_at_block(t, r, slab, &word);
	t->key[t->at] = hash;
	if (!hash)
		return 0;
	bytes = class_bytes(slot_class(word));
	if (word & SLOT_DEAD) {
		t->found.dead++;
		t->found.dead_bytes += bytes;
	} else {
		t->found.items++;
		t->found.live_bytes += bytes;
	}
	check_place(t, r, word, hash);
	return bytes;
}

/* ---- a subtable ------------------------------------------------------------------- */

void fsck_subtable_begin(struct fsck_subtable *t, uint64_t entry, uint64_t hash)
{
	memset(t, 0, sizeof(*t));
	t->entry = entry;
	t->hash = hash;
	t->last_empty = -1;
}

bool fsck_subtable_step(struct fsck_subtable *t, const struct region *r,
			const struct slab *slab, uint64_t until_ns)
{
	uint64_t bytes = 0;

	while (t->at < SUBTABLE_SLOTS) {
		bytes += check_slot(t, r, slab);
		t->at++;
		if (bytes < BYTES_STEP && t->at % SLOTS_STEP)
			continue;
		bytes = 0;
		if (clock_now_ns() >= until_ns)
			return t->at < SUBTABLE_SLOTS;
	}
	return false;
}

/* ---- the directory ------------------------------------------------------------------ */

bool fsck_entry_ok(const struct region *r, uint64_t entry)
{
	return entry_depth(entry) <= r->depth &&
	       region_page_ok(&r->sb, entry_page(entry)) &&
	       entry == entry_pack(entry_page(entry), entry_gen(entry),
				   entry_depth(entry));
}

/* Check the entries of one subtable from `at` on. Returns where the next one's begin. */
static uint64_t check_entry(const struct region *r, uint64_t at, uint8_t *pages,
			    struct fsck_found *f)
{
	const uint64_t *dir = region_dir(r);
	uint64_t entry = dir[at], page, n;

	if (!fsck_entry_ok(r, entry)) {
		f->bad_directory++;
		return at + 1;
	}
	n = UINT64_C(1) << (r->depth - entry_depth(entry));
	if (at % n) {
		f->bad_directory++;
		return at + 1;
	}
	for (uint64_t i = 1; i < n; i++)
		if (dir[at + i] != entry)
			f->bad_directory++;
	page = entry_page(entry);
	if (!heap_map_is(r->heap, page, page_pack(PAGE_IS_SUBTABLE, 0, 0)))
		f->bad_directory++;
	if (pages[page / 8] & 1u << page % 8)
		f->bad_directory++;
	pages[page / 8] |= (uint8_t)(1u << page % 8);
	return at + n;
}

void fsck_directory(const struct region *r, struct fsck_found *f)
{
	uint8_t *pages = calloc(r->sb.region_bytes / PAGE_BYTES / 8 + 1, 1);
	const uint64_t *d = (const uint64_t *)(const void *)(r->meta +
							     REGION_D_OFF);
	uint64_t n = UINT64_C(1) << r->depth, subtables = 0;

	f->bad_directory += memcmp(r->meta, &r->sb, sizeof(r->sb)) != 0;
	f->bad_directory +=
		*d != dirword_pack(region_dir_off(r->depth), r->depth);
	for (uint64_t at = 0; pages && at < n; subtables++)
		at = check_entry(r, at, pages, f);
	f->bad_directory += pages && subtables != r->subtables;
	free(pages);
}
