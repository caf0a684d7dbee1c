/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "reap.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/atomic.h"
#include "common/base/clock.h"
#include "common/base/util.h"
#include "common/region/block.h"
#include "common/region/fetch.h"

/* Chains of CAS in flight at once, one doorbell for all. */
#define GROUP_CHAINS 16u
#define GROUP_SLOTS (GROUP_CHAINS * XPORT_CHAIN_MAX)
/* Slots between two readings of the clock. */
#define STEP_SLOTS 256u
/* Distance of prefetch, in slots. */
#define PREFETCH_AHEAD 16u

/*
 * A note: bits 8..15 a hash of the word, not 0; bits 0..7 when to look again, in units of NOTE_MS
 * modulo 256. 0: none. A word whose hash is that of the slot's last one is looked at late, by
 * NOTE_MAX_MS at most.
 */
#define NOTE_MS 512u
#define NOTE_MAX_MS 60000u
static_assert(NOTE_MAX_MS / NOTE_MS < 127, "dues are compared as signed numbers of 8 bits");

struct reaper {
	const struct region *r;
	uint16_t **notes; /* by page of the data area; NULL: not a subtable so far */
	uint64_t pages, first_page;
	uint16_t *note;   /* of this subtable; NULL: no memory */
	struct xport_lane *lane;
	uint64_t first; /* offset of the subtable */
	const uint64_t *slots;
	unsigned at;    /* the next slot */
	struct reap_counts counts;
	struct xport_chain chain[GROUP_CHAINS];
	unsigned n;     /* CAS in these chains */
	bool posted;
};

struct reaper *reaper_new(const struct region *r, struct xport_lane *lane)
{
	struct reaper *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->r = r;
	p->lane = lane;
	p->first_page = r->sb.meta_bytes / PAGE_BYTES;
	p->pages = r->sb.region_bytes / PAGE_BYTES - p->first_page;
	p->notes = calloc(p->pages, sizeof(*p->notes));
	if (!p->notes) {
		free(p);
		return NULL;
	}
	return p;
}

void reaper_free(struct reaper *p)
{
	if (!p)
		return;
	for (uint64_t i = 0; i < p->pages; i++)
		free(p->notes[i]);
	free(p->notes);
	free(p);
}

void reaper_begin(struct reaper *p, uint64_t entry)
{
	uint16_t **note = &p->notes[entry_page(entry) - p->first_page];

	if (!*note)
		*note = calloc(SUBTABLE_SLOTS, sizeof(**note));
	p->note = *note;
	p->first = entry_page(entry) * PAGE_BYTES;
	p->slots = region_slots(p->r, entry);
	p->at = 0;
	p->n = 0;
	p->posted = false;
	p->counts = (struct reap_counts){0};
}

struct reap_counts reaper_counts(const struct reaper *p)
{
	return p->counts;
}

/* Clients write these words: check a word before following it. */
static bool is_value(const struct reaper *p, uint64_t w)
{
	return !slot_is_null(w) && !(w & (SLOT_DEAD | SLOT_FROZEN)) &&
	       region_block_ok(&p->r->sb, slot_off(w), slot_class(w));
}

static uint16_t note_of(uint64_t w, uint64_t due_ms)
{
	uint16_t hash = (uint16_t)(word_binding(w) >> 56);

	return (uint16_t)((hash ? hash : 255) << 8 | (due_ms / NOTE_MS & 255));
}

/* False if a note says that it is too early to look at the slot's value. */
static bool is_due(const struct reaper *p, unsigned s, uint64_t w, uint64_t clock_ms)
{
	uint16_t now = note_of(w, clock_ms), note = p->note ? p->note[s] : 0;

	return note >> 8 != now >> 8 || (int8_t)(uint8_t)(now - note) >= 0;
}

static void prefetch(const struct reaper *p, unsigned s, uint64_t clock_ms)
{
	uint64_t w = s < SUBTABLE_SLOTS ? atom_load_relaxed(&p->slots[s]) : 0;

	if (is_value(p, w) && is_due(p, s, w, clock_ms))
		fetch_line(region_at(p->r, slot_off(w)));
}

/* By the header alone: the CAS proves that it is the word's. */
static bool has_expired(const struct reaper *p, unsigned s, uint64_t w, uint64_t clock_ms)
{
	struct block_header h;
	uint64_t left;

	memcpy(&h, region_at(p->r, slot_off(w)), sizeof(h));
	atom_fence_copy_done();
	if ((h.inc_flags & BLOCK_INC_MASK) != slot_inc(w))
		return false;
	left = block_ttl_left(h.expiry, h.inc_flags, clock_ms);
	if (left && p->note)
		p->note[s] = note_of(w, clock_ms + UTIL_MIN(left, NOTE_MAX_MS));
	return left == 0;
}

static void cas_add(struct reaper *p, unsigned s, uint64_t w)
{
	struct xport_chain *c = &p->chain[p->n / XPORT_CHAIN_MAX];

	if (p->n % XPORT_CHAIN_MAX == 0) {
		c->n = 0;
		c->status = 0;
		c->next = NULL;
		if (p->n)
			c[-1].next = c;
	}
	c->wr[c->n++] = (struct xport_wr){
		.opcode = XPORT_CAS,
		.off = p->first + s * SLOT_BYTES,
		.len = SLOT_BYTES,
		.expect = w,
		.swap = (w & ~SLOT_BLIND) | SLOT_DEAD,
	};
	p->n++;
}

static void count_dead(struct reaper *p, uint64_t w)
{
	p->counts.dead++;
	if (region_block_ok(&p->r->sb, slot_off(w), slot_class(w)))
		p->counts.dead_bytes += class_bytes(slot_class(w));
}

/* Look at some slots, until the group is full. */
static void scan(struct reaper *p, uint64_t clock_ms)
{
	unsigned end = UTIL_MIN(p->at + STEP_SLOTS, SUBTABLE_SLOTS);

	for (; p->at < end && p->n < GROUP_SLOTS; p->at++) {
		uint64_t w = atom_load_follow(&p->slots[p->at]);

		prefetch(p, p->at + PREFETCH_AHEAD, clock_ms);
		if (slot_is_null(w))
			continue;
		p->counts.live += !(w & SLOT_DEAD);
		if (w & SLOT_DEAD)
			count_dead(p, w);
		if (is_value(p, w) && is_due(p, p->at, w, clock_ms) &&
		    has_expired(p, p->at, w, clock_ms))
			cas_add(p, p->at, w);
	}
}

/* REAP_MORE: the group is over. */
static enum reap_state group_done(struct reaper *p)
{
	unsigned chains = (p->n + XPORT_CHAIN_MAX - 1) / XPORT_CHAIN_MAX;
	enum reap_state state = REAP_MORE;

	for (unsigned k = 0; k < chains; k++) {
		const struct xport_chain *c = &p->chain[k];

		if (c->status)
			state = REAP_LOST;
		/* A CAS that lost met a client's write: it is no concern of ours. */
		for (unsigned i = 0; i < c->n && !c->status; i++) {
			if (c->wr[i].found != c->wr[i].expect)
				continue;
			p->counts.expired++;
			p->counts.live--;
			count_dead(p, c->wr[i].swap);
		}
	}
	p->n = 0;
	p->posted = false;
	return state;
}

/* False while the group is in flight. Chains complete in their order. */
static bool group_over(struct reaper *p)
{
	xport_poll(p->lane);
	return p->chain[(p->n - 1) / XPORT_CHAIN_MAX].done;
}

enum reap_state reaper_step(struct reaper *p, uint64_t clock_ms, uint64_t until_ns)
{
	do {
		enum reap_state state;

		if (p->posted) {
			if (!group_over(p))
				continue;
			state = group_done(p);
			if (state == REAP_LOST)
				return state;
		}
		if (p->at == SUBTABLE_SLOTS && !p->n)
			return REAP_DONE;
		if (p->at < SUBTABLE_SLOTS)
			scan(p, clock_ms);
		if (p->n == GROUP_SLOTS || (p->n && p->at == SUBTABLE_SLOTS)) {
			if (xport_post(p->lane, p->chain))
				return REAP_LOST;
			p->posted = true;
		}
	} while (clock_now_ns() < until_ns);
	return REAP_MORE;
}
