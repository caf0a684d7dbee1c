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

#include "cas_group.h"

/* Chains of CAS in flight at once, one doorbell for all. */
#define GROUP_CHAINS 16u
#define GROUP_SLOTS (GROUP_CHAINS * XPORT_CHAIN_MAX)
/* Lines whose headers are fetched together, and how often between two readings of the clock. */
#define STEP_LINES 8u
#define STEPS 8u
static_assert(STEP_LINES * LINE_SLOTS <= GROUP_SLOTS, "a step's CAS fit a group");
static_assert(SUBTABLE_LINES % STEP_LINES == 0, "steps of whole lines");

/*
 * A slot's note: bits 8..15 a hash of its word, not 0; bits 0..7 when to read the value's header
 * again, in units of NOTE_MS modulo 256; 0: nothing is known. A line's note: bits 8..31 a hash of
 * its words, bits 0..7 when the first of its slots is due. A slot or line with another hash is
 * checked at once. A new word with the old hash is checked at most NOTE_MAX_MS late.
 */
#define NOTE_MS 512u
#define NOTE_MAX_MS 60000u
static_assert(NOTE_MAX_MS / NOTE_MS < 127, "dues are compared as signed numbers of 8 bits");

/* Of a subtable. */
struct notes {
	uint32_t line[SUBTABLE_LINES];
	uint16_t slot[SUBTABLE_SLOTS];
};

struct reaper {
	const struct region *r;
	struct notes **notes; /* by page of the data area; NULL: not a subtable so far */
	uint64_t pages, first_page;
	struct notes *note;   /* of this subtable; NULL: no memory */
	struct xport_lane *lane;
	uint64_t first; /* offset of the subtable */
	const uint64_t *slots;
	unsigned at;    /* the next line */
	uint32_t expired, by_size[FARKV_SIZES];
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
	struct notes **note = &p->notes[entry_page(entry) - p->first_page];

	if (!*note)
		*note = calloc(1, sizeof(**note));
	p->note = *note;
	p->first = entry_page(entry) * PAGE_BYTES;
	p->slots = region_slots(p->r, entry);
	p->at = 0;
	p->n = 0;
	p->posted = false;
	p->expired = 0;
	memset(p->by_size, 0, sizeof(p->by_size));
}

uint32_t reaper_expired(const struct reaper *p)
{
	return p->expired;
}

/* ---- notes ------------------------------------------------------------------------ */

static uint8_t due_at(uint64_t ms)
{
	return (uint8_t)(ms / NOTE_MS);
}

static bool is_reached(uint8_t due, uint64_t clock_ms)
{
	return (int8_t)(due_at(clock_ms) - due) >= 0;
}

static uint8_t hash_of(uint64_t w)
{
	uint8_t hash = (uint8_t)(word_binding(w) >> 56);

	return hash ? hash : 255;
}

/* False if by its note the header of the slot's value need not be read yet. */
static bool is_due(const struct reaper *p, unsigned s, uint64_t w, uint64_t clock_ms)
{
	uint16_t note = p->note ? p->note->slot[s] : 0;

	return note >> 8 != hash_of(w) || is_reached((uint8_t)note, clock_ms);
}

/* Different factors: two words that change places change the sum. */
static uint32_t hash_line(const uint64_t *line)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < LINE_SLOTS; i++)
		sum += atom_load_relaxed(&line[i]) * (UINT64_C(0x9E3779B97F4A7C15) + 2 * i);
	return (uint32_t)(sum >> 40);
}

static bool line_rests(const struct reaper *p, unsigned line, uint64_t clock_ms)
{
	uint32_t note = p->note ? p->note->line[line] : 0;

	return note && note >> 8 == hash_line(&p->slots[line * LINE_SLOTS]) &&
	       !is_reached((uint8_t)note, clock_ms);
}

/* ---- values -------------------------------------------------------------------------- */

/* Clients write these words: check a word before following it. */
static bool is_value(const struct reaper *p, uint64_t w)
{
	return !slot_is_null(w) && !(w & (SLOT_DEAD | SLOT_FROZEN)) &&
	       region_block_ok(&p->r->sb, slot_off(w), slot_class(w));
}

static void fetch_headers(const struct reaper *p, unsigned line, uint64_t clock_ms)
{
	for (unsigned s = line * LINE_SLOTS; s < (line + 1) * LINE_SLOTS; s++) {
		uint64_t w = atom_load_relaxed(&p->slots[s]);

		if (is_value(p, w) && is_due(p, s, w, clock_ms))
			fetch_line(region_at(p->r, slot_off(w)));
	}
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
		p->note->slot[s] = (uint16_t)(hash_of(w) << 8 |
					      due_at(clock_ms + UTIL_MIN(left, NOTE_MAX_MS)));
	return left == 0;
}

/* When the first of the line's slots is due; now, if a value has no note. */
static uint8_t first_due(const struct reaper *p, unsigned line, uint64_t clock_ms)
{
	uint8_t now = due_at(clock_ms), first = due_at(clock_ms + NOTE_MAX_MS);

	for (unsigned s = line * LINE_SLOTS; s < (line + 1) * LINE_SLOTS; s++) {
		uint64_t w = atom_load_relaxed(&p->slots[s]);
		uint16_t note = p->note->slot[s];

		if (!is_value(p, w))
			continue;
		if (note >> 8 != hash_of(w))
			return now;
		if ((int8_t)((uint8_t)note - first) < 0)
			first = (uint8_t)note;
	}
	return first;
}

static void look_at_line(struct reaper *p, unsigned line, uint64_t clock_ms)
{
	uint32_t hash = hash_line(&p->slots[line * LINE_SLOTS]);

	for (unsigned s = line * LINE_SLOTS; s < (line + 1) * LINE_SLOTS; s++) {
		uint64_t w = atom_load_follow(&p->slots[s]);

		if (is_value(p, w) && is_due(p, s, w, clock_ms) && has_expired(p, s, w, clock_ms))
			cas_group_add(p->chain, p->n++, p->first + s * SLOT_BYTES, w,
				      (w & ~SLOT_BLIND) | SLOT_DEAD);
	}
	if (p->note)
		p->note->line[line] = hash << 8 | first_due(p, line, clock_ms);
}

static bool has_room(const struct reaper *p)
{
	return p->n + STEP_LINES * LINE_SLOTS <= GROUP_SLOTS;
}

/* Look at some lines; there is room for their CAS. */
static void scan_lines(struct reaper *p, uint64_t clock_ms)
{
	unsigned busy[STEP_LINES], n = 0, end = p->at + STEP_LINES;

	for (; p->at < end; p->at++) {
		if (line_rests(p, p->at, clock_ms))
			continue;
		busy[n++] = p->at;
		fetch_headers(p, p->at, clock_ms);
	}
	for (unsigned i = 0; i < n; i++)
		look_at_line(p, busy[i], clock_ms);
}

static void scan(struct reaper *p, uint64_t clock_ms)
{
	for (unsigned i = 0; i < STEPS && p->at < SUBTABLE_LINES && has_room(p); i++)
		scan_lines(p, clock_ms);
}

struct reap_counts reaper_counts(const struct reaper *p)
{
	struct reap_counts n = {.expired = p->expired};

	memcpy(n.by_size, p->by_size, sizeof(n.by_size));
	for (unsigned s = 0; s < SUBTABLE_SLOTS; s++) {
		uint64_t w = atom_load_relaxed(&p->slots[s]);

		if (slot_is_null(w))
			continue;
		n.live += !(w & SLOT_DEAD);
		n.dead += (w & SLOT_DEAD) != 0;
		if ((w & SLOT_DEAD) && region_block_ok(&p->r->sb, slot_off(w), slot_class(w)))
			n.dead_bytes += class_bytes(slot_class(w));
	}
	return n;
}

/* REAP_MORE: the group is over. */
static enum reap_state group_done(struct reaper *p)
{
	unsigned chains = cas_group_chains(p->n);
	enum reap_state state = REAP_MORE;

	for (unsigned k = 0; k < chains; k++) {
		const struct xport_chain *c = &p->chain[k];

		if (c->status)
			state = REAP_LOST;
		/* A CAS loses to a client's write: nothing is left to do. */
		for (unsigned i = 0; i < c->n && !c->status; i++) {
			if (c->wr[i].found != c->wr[i].expect)
				continue;
			p->expired++;
			p->by_size[class_octave(slot_class(c->wr[i].swap))]++;
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
		if (p->at == SUBTABLE_LINES && !p->n)
			return REAP_DONE;
		scan(p, clock_ms);
		if (!has_room(p) || (p->n && p->at == SUBTABLE_LINES)) {
			if (xport_post(p->lane, p->chain))
				return REAP_LOST;
			p->posted = true;
		}
	} while (clock_now_ns() < until_ns);
	return REAP_MORE;
}
