/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "migrate.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/atomic.h"
#include "common/base/clock.h"
#include "common/base/util.h"
#include "common/region/block.h"
#include "common/region/fetch.h"
#include "common/region/hash.h"
#include "server/memory/evacuate.h"
#include "server/memory/step.h"

#include "cas_group.h"
#include "evict.h"

/* Chains of CAS in flight at once, one doorbell each. */
#define GROUP_CHAINS 32u
#define GROUP_SLOTS (GROUP_CHAINS * XPORT_CHAIN_MAX)
/* Slots surveyed between two readings of the clock. */
#define SURVEY_SLOTS 256u
/*
 * Time and passes for slots that change before each CAS. No client that keeps the rules wins
 * that often; another one must not hold the server forever. (Time alone would also pass while
 * the server is stopped.)
 */
#define FREEZE_MAX_NS (200 * NS_PER_MS)
#define FREEZE_PASSES_MIN 1000u
/* Share of a subtable's bytes that an evicting migration leaves out. */
#define EVICT_SHARE 8u
/* Distance of prefetch, in blocks. */
#define PREFETCH_AHEAD 12u

enum phase { SURVEY, FREEZE, FREEZE_WAIT, BUILD, PUBLISH, RETIRE, OVER };

struct migration {
	struct region *r;
	struct slab *slab;
	struct xport_lane *lane;
	struct evict *evict; /* NULL: nothing is ever evicted */

	enum phase phase;
	uint64_t old_entry;
	uint64_t *old;       /* its slots */
	uint64_t *fresh[2];  /* NULL: already published by an earlier migration */
	uint64_t entry[2];   /* of the fresh subtables */
	unsigned at;         /* the next slot or directory entry */
	bool again;          /* a CAS of this pass lost: another pass follows */
	unsigned passes;
	unsigned n_frozen;   /* slots frozen, ... */
	bool frozen[SUBTABLE_SLOTS]; /* ... each of which is not looked at again */
	uint64_t began_ns, freeze_ns;
	struct migrate_result result;

	uint64_t hash[SUBTABLE_SLOTS]; /* of the slots' keys, ... */
	bool known[SUBTABLE_SLOTS];    /* ... where known */
	bool drop[SUBTABLE_SLOTS];     /* keys that are evicted */
	uint64_t dropped[SUBTABLE_SLOTS]; /* words of tombstones and evicted keys, or 0 */
	struct xport_chain chain[GROUP_CHAINS];
	unsigned n_chains; /* in flight */
	uint8_t key[BLOCK_HEADER_BYTES + EVACUATE_MOVE_BYTES]; /* a block, or its header and key */
};

struct migration *migration_new(struct region *r, struct slab *slab,
				struct xport_lane *lane, struct evict *evict)
{
	struct migration *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->r = r;
	m->slab = slab;
	m->lane = lane;
	m->evict = evict;
	m->phase = OVER;
	return m;
}

void migration_free(struct migration *m)
{
	free(m);
}

void migration_count(const struct region *r, uint64_t hash, uint32_t *live_out,
		     uint32_t *dead_out)
{
	const uint64_t *slots = region_slots(r, region_entry(r, hash));
	uint32_t live = 0, dead = 0;

	for (unsigned s = 0; s < SUBTABLE_SLOTS; s++) {
		uint64_t w = atom_load_relaxed(&slots[s]);

		live += !slot_is_null(w) && !(w & SLOT_DEAD);
		dead += !slot_is_null(w) && (w & SLOT_DEAD);
	}
	*live_out = live;
	*dead_out = dead;
}

void migration_note_dead(const struct region *r, uint64_t hash,
			 uint64_t dead[CLASS_COUNT])
{
	const uint64_t *slots = region_slots(r, region_entry(r, hash));

	for (unsigned s = 0; s < SUBTABLE_SLOTS; s++) {
		uint64_t w = atom_load_relaxed(&slots[s]);

		if (!slot_is_null(w) && (w & SLOT_DEAD) &&
		    slot_class(w) < CLASS_COUNT)
			dead[slot_class(w)]++;
	}
}

/* ---- begin -------------------------------------------------------------------- */

static uint32_t old_depth(const struct migration *m)
{
	return entry_depth(m->old_entry);
}

/* The first directory entry of fresh subtable `half`, and the number of its entries. */
static uint64_t half_at(const struct migration *m, unsigned half,
			uint64_t *n_out)
{
	uint64_t all = UINT64_C(1) << (m->r->depth - old_depth(m));

	*n_out = m->result.kind == MIGRATE_SPLIT ? all / 2 : all;
	return hash_dir_index(m->result.hash, m->r->depth) + half * *n_out;
}

/* True if some entries of a half already lead elsewhere: it was published before. */
static bool half_found(struct migration *m, unsigned half)
{
	uint64_t n, at = half_at(m, half, &n);

	for (uint64_t i = 0; i < n; i++) {
		uint64_t e = region_dir(m->r)[at + i];

		if (e == m->old_entry)
			continue;
		m->entry[half] = e;
		m->fresh[half] = NULL;
		m->result.page[half] = entry_page(e);
		return true;
	}
	return false;
}

static bool half_take(struct migration *m, unsigned half)
{
	uint64_t page;
	uint32_t gen;

	if (half_found(m, half))
		return true;
	page = heap_take_index(m->r->heap);
	if (!page)
		return false;
	gen = region_next_gen(m->r);
	m->entry[half] = entry_pack(page, gen,
				    old_depth(m) +
					    (m->result.kind == MIGRATE_SPLIT));
	m->fresh[half] = region_slots(m->r, m->entry[half]);
	m->result.page[half] = page;
	return true;
}

/* The kind chosen by an earlier migration that stopped in the middle of publication. */
static enum migrate_kind kind_found(const struct migration *m,
				    enum migrate_kind wanted)
{
	uint64_t n, at = half_at(m, 0, &n);

	for (uint64_t i = 0; i < n; i++) {
		uint64_t e = region_dir(m->r)[at + i];

		if (e != m->old_entry)
			return entry_depth(e) == old_depth(m) ? MIGRATE_COMPACT
							      : MIGRATE_SPLIT;
	}
	return wanted;
}

/* First hash of the subtable's range. */
static uint64_t range_begin(uint64_t hash, uint32_t depth)
{
	return depth ? hash >> (64 - depth) << (64 - depth) : 0;
}

enum migrate_begin migration_begin(struct migration *m, uint64_t hash,
				   enum migrate_kind kind)
{
	struct region *r = m->r;

	m->old_entry = region_entry(r, hash);
	m->old = region_slots(r, m->old_entry);
	m->result = (struct migrate_result){.kind = MIGRATE_COMPACT};
	m->result.hash = range_begin(hash, old_depth(m));
	m->result.kind = kind = kind_found(m, kind);
	m->result.page_hash[0] = m->result.hash;
	if (kind == MIGRATE_SPLIT) {
		if (old_depth(m) == r->max_depth)
			return MIGRATE_DIR_FULL;
		m->result.page_hash[1] = m->result.hash |
					 UINT64_C(1) << (63 - old_depth(m));
	}
	/* The directory will have to double. */
	if (kind == MIGRATE_SPLIT && old_depth(m) == r->depth &&
	    !region_dir_reserve(r, r->depth + 1))
		return MIGRATE_NO_PAGE;
	if (!half_take(m, 0))
		return MIGRATE_NO_PAGE;
	if (kind == MIGRATE_SPLIT && !half_take(m, 1)) {
		if (m->fresh[0])
			heap_give(r->heap, m->result.page[0], 1);
		return MIGRATE_NO_PAGE;
	}
	memset(m->known, 0, sizeof(m->known));
	m->phase = SURVEY;
	m->at = 0;
	m->began_ns = clock_now_ns();
	return MIGRATE_BEGUN;
}

enum migrate_begin migration_begin_visit(struct migration *m, uint64_t hash, bool evicting)
{
	enum migrate_begin b = migration_begin(m, hash, MIGRATE_COMPACT);

	m->result.evicting = evicting;
	return b;
}

uint64_t migration_pages(const struct migration *m)
{
	uint64_t n = 0;

	for (unsigned half = 0; m->phase != OVER && half < 2; half++)
		n += m->fresh[half] && m->result.page[half];
	return n;
}

/* ---- survey ----------------------------------------------------------------------- */

/* Clients write these words: check a word before following it. */
static bool word_leads_to_block(const struct migration *m, uint64_t w)
{
	return !slot_is_null(w) &&
	       region_block_ok(&m->r->sb, slot_off(w), slot_class(w));
}

static void prefetch(const struct migration *m, unsigned s)
{
	uint64_t w;

	if (s >= SUBTABLE_SLOTS)
		return;
	w = atom_load_relaxed(&m->old[s]);
	if (word_leads_to_block(m, w))
		fetch_line(region_at(m->r, slot_off(w)));
}

/*
 * Hash the key in the word's block, from a private copy, for the block may be reused
 * meanwhile. False if the block is not, or no longer, what the word names.
 */
static bool key_hash(struct migration *m, uint64_t w, uint64_t *hash_out)
{
	struct block_ref ref = slot_block(w);
	const uint8_t *src = region_at(m->r, ref.off);
	struct block_header h;
	size_t have;

	memcpy(&h, src, sizeof(h));
	atom_compiler_barrier();
	have = UTIL_MIN(sizeof(h) + (size_t)h.key_len,
			(size_t)class_bytes(ref.cls));
	memcpy(m->key, src, have);
	atom_fence_copy_done();
	return block_key_hash(m->key, have, ref, m->r->sb.hash_seed, hash_out);
}

static void survey_slot(struct migration *m, unsigned s)
{
	uint64_t w = atom_load_follow(&m->old[s]);

	if (!(w & SLOT_DEAD) && word_leads_to_block(m, w))
		m->known[s] = key_hash(m, w, &m->hash[s]);
}

static void survey(struct migration *m)
{
	unsigned end = m->at + SURVEY_SLOTS;

	for (unsigned s = 0; s < PREFETCH_AHEAD; s++)
		prefetch(m, m->at + s);
	for (; m->at < end; m->at++) {
		prefetch(m, m->at + PREFETCH_AHEAD);
		survey_slot(m, m->at);
	}
	if (m->at < SUBTABLE_SLOTS)
		return;
	m->phase = FREEZE;
	m->at = 0;
	m->again = false;
	m->n_frozen = m->passes = 0;
	memset(m->frozen, 0, sizeof(m->frozen));
	m->freeze_ns = clock_now_ns();
}

/* ---- freeze --------------------------------------------------------------------- */

static void frozen_note(struct migration *m, unsigned s)
{
	m->n_frozen += !m->frozen[s];
	m->frozen[s] = true;
}

static bool never_rests(const struct migration *m)
{
	return m->passes >= FREEZE_PASSES_MIN &&
	       clock_now_ns() - m->freeze_ns >= FREEZE_MAX_NS;
}

/*
 * Post the next group of CAS; a pass in which no CAS lost ends the phase. A frozen slot counts
 * as frozen: only a client that breaks the rules thaws it, and would do so again.
 */
static bool freeze(struct migration *m)
{
	uint64_t first = entry_page(m->old_entry) * PAGE_BYTES;
	unsigned k = 0;

	for (; m->at < SUBTABLE_SLOTS && k < GROUP_SLOTS; m->at++) {
		uint64_t w = atom_load_relaxed(&m->old[m->at]);

		if (m->frozen[m->at])
			continue;
		if (w & SLOT_FROZEN)
			frozen_note(m, m->at);
		else
			cas_group_add(m->chain, k++, first + m->at * SLOT_BYTES, w,
				      w | SLOT_FROZEN);
	}
	m->n_chains = cas_group_chains(k);
	if (k) {
		if (xport_post(m->lane, m->chain))
			return false;
		m->phase = FREEZE_WAIT;
	} else if (m->again && !never_rests(m)) {
		m->again = false;
		m->at = 0;
		m->passes++;
	} else {
		m->phase = BUILD;
	}
	return true;
}

static void cas_done(struct migration *m, const struct xport_wr *wr)
{
	uint64_t first = entry_page(m->old_entry) * PAGE_BYTES;

	if (wr->found == wr->expect)
		frozen_note(m, (unsigned)((wr->off - first) / SLOT_BYTES));
	else
		m->again = true;
}

/* False while the group is in flight. */
static bool freeze_done(struct migration *m, bool *lost_out)
{
	*lost_out = false;
	xport_poll(m->lane);
	for (unsigned k = 0; k < m->n_chains; k++)
		if (!m->chain[k].done)
			return false;
	for (unsigned k = 0; k < m->n_chains; k++) {
		const struct xport_chain *c = &m->chain[k];

		if (c->status)
			*lost_out = true;
		/* The slots show what happened if the lane broke. */
		for (unsigned i = 0; i < c->n && !c->status; i++)
			cas_done(m, &c->wr[i]);
	}
	m->phase = FREEZE;
	if (*lost_out)
		m->at = 0;
	step_reached(STEP_FREEZE);
	return true;
}

/* ---- build ------------------------------------------------------------------------- */

/* Store the word in the first EMPTY slot of the key's window, and return the slot; or -1. */
static int place(uint64_t *slots, uint64_t empty, uint64_t hash, uint64_t w)
{
	unsigned s = hash_home_line(hash) * LINE_SLOTS, end = s + WINDOW_SLOTS;

	while (s < end && slots[s] != empty)
		s++;
	if (s == end)
		return -1;
	slots[s] = w;
	return (int)s;
}

/* True if the key of this hash can be bound to slot `s` of the old subtable. */
static bool belongs(const struct migration *m, unsigned s, uint64_t w,
		    uint64_t hash)
{
	unsigned home = hash_home_line(hash) * LINE_SLOTS;

	return range_begin(hash, old_depth(m)) == m->result.hash &&
	       hash_fp(hash) == slot_fp(w) && s >= home &&
	       s < home + WINDOW_SLOTS;
}

/*
 * The key's block is in a segment that is evacuated: copy it to another one. The new word is not
 * blind: the write that it stands for is old (doc/protocol.md, Absorption). False: there is no
 * other block, or this one is too long to be copied while writers wait.
 */
static bool move(struct migration *m, uint64_t *w, uint64_t hash)
{
	struct block_ref from = slot_block(*w), to;
	size_t room;

	if (class_bytes(from.cls) > EVACUATE_MOVE_BYTES ||
	    slab_grant(m->slab, from.cls, 1, clock_now_ns(), &to) == 0)
		return false;
	memcpy(m->key, region_at(m->r, from.off), class_bytes(from.cls));
	if (!block_rebind(m->key, from, to, hash, &room)) {
		(void)slab_return(m->slab, to, RETURN_FREE, 0);
		return false;
	}
	memcpy(region_at(m->r, to.off), m->key, room);
	*w = slot_pack(to, slot_fp(*w), 0);
	return true;
}

static void evicted(struct migration *m, unsigned s, uint64_t w)
{
	m->result.evicted++;
	evict_left(m->evict, s, w);
}

/* Copy a slot to a fresh subtable. False: the slot is damaged. */
static bool carry(struct migration *m, unsigned s, uint64_t w)
{
	uint64_t hash = m->hash[s];
	unsigned half = 0;
	int to;

	if (!m->known[s] && (!word_leads_to_block(m, w) ||
			     !key_hash(m, w, &hash)))
		return false;
	if (!belongs(m, s, w, hash))
		return false;
	if (m->result.kind == MIGRATE_SPLIT)
		half = hash >> (63 - old_depth(m)) & 1;
	if (!m->fresh[half])
		return true;
	if (m->evict && evacuate_leaves(m->slab, slot_off(w))) {
		uint64_t before = w;

		if (move(m, &w, hash)) {
			m->dropped[s] = before;
			m->result.moved++;
		} else if (evacuate_forced(m->slab)) {
			m->dropped[s] = before;
			evicted(m, s, before);
			return true;
		}
	}
	to = place(m->fresh[half], slot_empty(entry_gen(m->entry[half])), hash, w);
	if (to >= 0 && m->evict)
		evict_moved(m->evict, entry_page(m->old_entry), s, m->result.page[half],
			    (unsigned)to);
	m->result.live += to >= 0;
	return to >= 0;
}

/* Bytes of the blocks of up to `longest` bytes whose keys are known. */
static uint64_t known_bytes(const struct migration *m, uint64_t longest)
{
	uint64_t sum = 0;

	for (unsigned s = 0; s < SUBTABLE_SLOTS; s++) {
		uint64_t bytes = m->known[s] ? class_bytes(slot_class(m->dropped[s])) : 0;

		sum += bytes <= longest ? bytes : 0;
	}
	return sum;
}

/* Bytes to evict: a share of the subtable's. Longer blocks than that do not count, because all
 * shorter ones would be evicted in their place. */
static uint64_t share(const struct migration *m)
{
	return known_bytes(m, known_bytes(m, UINT64_MAX) / EVICT_SHARE) / EVICT_SHARE + 1;
}

/* Choose the keys that are left out, by the frozen words. */
static void choose(struct migration *m)
{
	struct evict_view v = {.page = entry_page(m->old_entry), .word = m->dropped,
			       .hash = m->hash, .known = m->known};

	for (unsigned s = 0; s < SUBTABLE_SLOTS; s++) {
		uint64_t w = atom_load_follow(&m->old[s]) & ~SLOT_FROZEN;

		m->dropped[s] = w;
		m->known[s] = m->known[s] && !(w & SLOT_DEAD) && word_leads_to_block(m, w);
	}
	evict_choose(m->evict, &v, m->result.evicting ? share(m) : 0, m->drop);
}

/* From here on a later server finishes the publication (region_redo()). */
static void announce(struct migration *m)
{
	region_redo_set(m->r, &(struct region_redo){
				      .old = m->old_entry,
				      .hash = m->result.hash,
				      .fresh = {m->entry[0],
						m->result.kind == MIGRATE_SPLIT ? m->entry[1] : 0}});
}

static void build(struct migration *m)
{
	struct migrate_result *res = &m->result;

	step_reached(STEP_FROZEN);
	/* Before the fresh subtables inherit the books. */
	if (m->evict)
		choose(m);
	for (unsigned half = 0; half < 2; half++) {
		uint64_t empty = slot_empty(entry_gen(m->entry[half]));

		if (!res->page[half] || !m->fresh[half])
			continue;
		for (unsigned s = 0; s < SUBTABLE_SLOTS; s++)
			m->fresh[half][s] = empty;
		if (m->evict)
			evict_page_taken(m->evict, res->page[half],
					 entry_page(m->old_entry));
	}
	for (unsigned s = 0; s < SUBTABLE_SLOTS; s++) {
		uint64_t w = atom_load_follow(&m->old[s]) & ~SLOT_FROZEN;

		m->dropped[s] = 0;
		if (slot_is_null(w))
			continue;
		if ((w & SLOT_DEAD) || m->drop[s]) {
			m->dropped[s] = w;
			res->dead += (w & SLOT_DEAD) != 0;
			if (!(w & SLOT_DEAD))
				evicted(m, s, w);
		} else {
			res->damaged += !carry(m, s, w);
		}
	}
	/* The remaining slots never stopped changing: their content is lost. */
	res->damaged += SUBTABLE_SLOTS - m->n_frozen;
	step_reached(STEP_BUILT);
	announce(m);
	step_reached(STEP_ANNOUNCED);
	m->phase = PUBLISH;
	m->at = 0;
}

/* ---- publish ----------------------------------------------------------------------- */

/* Publish one entry; false after the last. */
static bool publish(struct migration *m)
{
	unsigned halves = m->result.kind == MIGRATE_SPLIT ? 2 : 1;
	uint64_t n, first;
	unsigned half;

	if (halves == 2 && old_depth(m) == m->r->depth) {
		region_dir_double(m->r);
		m->result.doubled = true;
		return true;
	}
	first = half_at(m, 0, &n);
	if (m->at == n * halves)
		return false;
	half = m->at >= n;
	atom_store_publish(&region_dir(m->r)[first + m->at], m->entry[half]);
	m->at++;
	step_reached(STEP_PUBLISHED);
	return true;
}

static void retire(struct migration *m)
{
	uint64_t now = clock_now_ns();
	struct migrate_result *res = &m->result;

	step_reached(STEP_RETIRE);
	region_redo_clear(m->r);
	step_reached(STEP_RETIRED);
	res->frozen_ns = now - m->freeze_ns;
	/* Uses our copies: a misbehaving client may have changed the old slots since. */
	for (unsigned s = 0; res->dead + res->evicted + res->moved && s < SUBTABLE_SLOTS; s++)
		if (m->dropped[s])
			(void)slab_drop(m->slab, m->dropped[s], now);
	heap_retire(m->r->heap, entry_page(m->old_entry), 1);
	if (m->evict)
		evict_page_retired(m->evict, entry_page(m->old_entry));
	m->r->subtables += res->kind == MIGRATE_SPLIT;
	res->total_ns = clock_now_ns() - m->began_ns;
	m->phase = OVER;
}

/* ---- the driver -------------------------------------------------------------------- */

static bool spent(uint64_t until_ns)
{
	return until_ns == 0 || clock_now_ns() >= until_ns;
}

enum migrate_state migration_step(struct migration *m, uint64_t until_ns)
{
	bool lost = false;

	for (;;) {
		switch (m->phase) {
		case SURVEY:
			survey(m);
			if (m->phase == SURVEY && spent(until_ns))
				return MIGRATE_MORE;
			break;
		case FREEZE:
			if (!freeze(m))
				return MIGRATE_LOST;
			/* Before another pass: do not hold up the loop for a rival. */
			if (m->phase == FREEZE && m->at == 0 && spent(until_ns))
				return MIGRATE_MORE;
			break;
		case FREEZE_WAIT:
			if (!freeze_done(m, &lost) && spent(until_ns))
				return MIGRATE_MORE;
			if (lost)
				return MIGRATE_LOST;
			break;
		case BUILD:
			build(m);
			break;
		case PUBLISH:
			if (!publish(m))
				m->phase = RETIRE;
			break;
		case RETIRE:
			retire(m);
			return MIGRATE_DONE;
		default:
			return MIGRATE_DONE;
		}
		if (until_ns == 0)
			return MIGRATE_MORE;
	}
}

const struct migrate_result *migration_result(const struct migration *m)
{
	return &m->result;
}
