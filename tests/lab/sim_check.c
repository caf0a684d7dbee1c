/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The truth: the states that each key went through, from the compare-and-swaps
 * that changed them, and since when a block may not be written.
 *
 * An operation's place in the order is known, it is that of its CAS; so a history is
 * linearizable if each result was true at some moment between begin and end, and each
 * CAS was right when it happened. That is checked at once, and is stronger than a search
 * for an order afterwards, because the order is known.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/index/index.h"
#include "common/region/block.h"
#include "common/region/layout.h"
#include "sim.h"

#define STATES 65536u
#define OPS 65536u
#define PAGES_MAX 32u

/* From one write of a key to its next. */
struct state {
	uint64_t id; /* of its value; 0: absent */
	uint32_t len;
	uint32_t before; /* the state before, 0: none */
	uint64_t ends;   /* CLOCK at which its value expires; 0: never */
	uint64_t set, replaced; /* CLOCK when it came, and when the next one did */
	bool blind;
};

static struct state states[STATES]; /* from 1 */
static uint32_t n_states, newest[SIM_KEYS];
static struct sim_op ops[OPS];
static uint32_t n_ops;
/* By unit of the region. */
static uint64_t unlinked[PAGES_MAX * PAGE_BYTES / PTR_UNIT];
static uint32_t written[PAGES_MAX * PAGE_BYTES / PTR_UNIT];
static uint64_t published[PAGES_MAX * PAGE_BYTES / PTR_UNIT]; /* last word */
static uint64_t published_at[PAGES_MAX * PAGE_BYTES / PTR_UNIT];
static uint64_t barrier_began;

uint64_t sim_clock_ms(void)
{
	return *(const uint64_t *)(const void *)(sim.base + REGION_CLOCK_OFF);
}

static void becomes(unsigned key, uint64_t id, uint32_t len, bool blind, uint64_t ends)
{
	states[newest[key]].replaced = sim_clock_ms();
	if (++n_states == STATES)
		sim_fail("too many writes");
	states[n_states] = (struct state){
		.id = id, .len = len, .blind = blind, .before = newest[key],
		.ends = ends, .set = sim_clock_ms()};
	newest[key] = n_states;
}

void sim_check_begin(void)
{
	n_states = n_ops = 0;
	barrier_began = 0;
	memset(newest, 0, sizeof(newest));
	memset(unlinked, 0, sizeof(unlinked));
	memset(written, 0, sizeof(written));
	memset(published, 0, sizeof(published));
	for (unsigned k = 0; k < SIM_KEYS; k++)
		becomes(k, 0, 0, false, 0);
}

uint64_t sim_current(unsigned key)
{
	return states[newest[key]].id;
}

/* ---- expiry ------------------------------------------------------------------------ */

/*
 * A client whose clock stands still knows too little of CLOCK: what it READs may have expired
 * meanwhile (protocol.md, "A machine that stands still").
 */
static bool clock_stands(void)
{
	return sim.remote && sim.running && sim.running->guest;
}

/* Was the state's value there at a moment of an operation that began at this CLOCK? */
static bool lived(uint64_t clock, const struct state *s)
{
	uint64_t from = clock > s->set ? clock : s->set;

	return s->id && (!s->ends || from < s->ends || clock_stands());
}

/* Was the key absent at a moment of the state? Its end is within the operation. */
static bool was_absent(unsigned key, const struct state *s)
{
	uint64_t end = s == &states[newest[key]] ? sim_clock_ms() : s->replaced;

	return !s->id || (s->ends && end >= s->ends);
}

/* CLOCK at which the value of a word's block expires; 0: never. */
static uint64_t ends_of(uint64_t word)
{
	struct block_header h;
	uint64_t now = sim_clock_ms(), at;

	memcpy(&h, sim.base + slot_off(word), sizeof(h));
	if (!h.expiry)
		return 0;
	at = now + (uint64_t)(int64_t)(int32_t)(h.expiry - (uint32_t)now);
	return at;
}

void sim_check_reaped(uint64_t word)
{
	unsigned k = sim_region_key(word);
	const struct state *s = &states[newest[k]];

	if (!s->id || !s->ends || sim_clock_ms() < s->ends)
		sim_fail("the reaper removed a living value of key %u", k);
	sim_events[SIM_REAPED]++;
	becomes(k, 0, 0, false, 0);
}

/* ---- eviction ----------------------------------------------------------------------- */

/* The id of the value in a word's block. */
static uint64_t id_in(unsigned key, uint64_t word)
{
	struct block_ref ref = slot_block(word);
	struct block_view v;
	uint64_t id;

	if (block_verify(sim.base + ref.off, ref, sim_key_name[key],
			 (uint16_t)strlen(sim_key_name[key]), &v) != BLOCK_MINE)
		sim_fail("the server moved key %u to a damaged block", key);
	memcpy(&id, v.value, sizeof(id));
	return id;
}

void sim_check_dropped(unsigned key, uint64_t word, uint64_t now)
{
	if (!sim_current(key))
		sim_fail("a migration gives up a value of key %u, which has none", key);
	if (!now) {
		sim_events[SIM_EVICTED]++;
		becomes(key, 0, 0, false, 0);
		return;
	}
	sim_events[SIM_MOVED]++;
	if (slot_off(now) == slot_off(word) || now & (SLOT_DEAD | SLOT_FROZEN))
		sim_fail("key %u moves from %llx to %llx", key, (unsigned long long)word,
			 (unsigned long long)now);
	if (id_in(key, now) != sim_current(key))
		sim_fail("key %u moves, and has another value", key);
	sim_check_published(now);
}

/* ---- operations ------------------------------------------------------------------ */

struct sim_op *sim_op_begin(unsigned kind, unsigned key, uint64_t value,
			    uint32_t len, uint64_t expected)
{
	struct sim_op *op = &ops[n_ops++];

	if (n_ops == OPS)
		sim_fail("too many operations");
	*op = (struct sim_op){.kind = (uint8_t)kind,
			      .key = (uint16_t)key,
			      .from = newest[key],
			      .value = value,
			      .len = len,
			      .expected = expected,
			      .clock = sim_clock_ms()};
	sim_note((int)sim.running->id, "begins, for key", key, value);
	return op;
}

void sim_op_swapped(struct sim_op *op, uint64_t before, uint64_t after)
{
	bool dead = (after & SLOT_DEAD) != 0;
	const struct state *s = &states[newest[op->key]];
	uint64_t id = lived(op->clock, s) ? s->id : 0;

	(void)before;
	if (op->swaps++)
		sim_fail("one operation changes key %u twice", op->key);
	if (op->over && !op->unsure)
		sim_fail("key %u changes by an operation that has ended",
			 op->key);
	switch (op->kind) {
	case INDEX_ADD:
		if (s->id && (!s->ends || sim_clock_ms() < s->ends))
			sim_fail("an add replaced a value of key %u", op->key);
		break;
	case INDEX_CAS:
	case INDEX_DELETE_CAS:
		if (id != op->expected)
			sim_fail("a %s of another value of key %u",
				 dead ? "delete_cas" : "cas", op->key);
		if (after & SLOT_BLIND)
			sim_fail("a conditional word of key %u is blind", op->key);
		break;
	case INDEX_REPLACE:
	case INDEX_DELETE:
		if (!id)
			sim_fail("a %s of key %u, which is absent",
				 dead ? "delete" : "replace", op->key);
		break;
	case INDEX_GET:
	case INDEX_EXISTS:
		sim_fail("a read writes");
	}
	if (dead != kind_deletes(op->kind))
		sim_fail("a word of the wrong kind for key %u", op->key);
	becomes(op->key, dead ? 0 : op->value, op->len,
		(after & SLOT_BLIND) != 0, dead ? 0 : ends_of(after));
	sim_note(-2, "key has value", op->key, sim_current(op->key));
}

/* Was the key ever so since the operation began? ANY: any value but `but`. */
#define ANY UINT64_MAX
static bool was(const struct sim_op *op, uint64_t want, uint64_t but)
{
	for (uint32_t s = newest[op->key]; s; s = states[s].before) {
		uint64_t id = states[s].id;

		if (want == 0 && was_absent(op->key, &states[s]))
			return true;
		/* One that came during the operation was there right after that. */
		if (want == ANY && id && id != but &&
		    (s != op->from || lived(op->clock, &states[s])))
			return true;
		if (want && id == want && lived(op->clock, &states[s]))
			return true;
		if (s == op->from)
			return false;
	}
	return false;
}

/* Did a blind write take place since it began? */
static bool absorbed(const struct sim_op *op)
{
	for (uint32_t s = newest[op->key]; s != op->from; s = states[s].before)
		if (states[s].blind)
			return true;
	return false;
}

/* The id that a value's bytes consist of, if it is one that the key has had. */
static uint64_t value_id(const struct sim_op *op, const void *value, size_t len)
{
	uint64_t first, word;

	if (len < 8 || len % 8)
		sim_fail("key %u has a value of %zu bytes", op->key, len);
	memcpy(&first, value, 8);
	for (size_t i = 8; i < len; i += 8) {
		memcpy(&word, (const uint8_t *)value + i, 8);
		if (word != first)
			sim_fail("key %u has a value of two parts, %llx and "
				 "%llx",
				 op->key, (unsigned long long)first,
				 (unsigned long long)word);
	}
	for (uint32_t s = newest[op->key]; s; s = states[s].before)
		if (states[s].id == first && states[s].len == len)
			return first;
	sim_fail("key %u has the value %llx, which nobody gave it", op->key,
		 (unsigned long long)first);
}

static bool result_ok(struct sim_op *op, int result, const void *value,
		      size_t len, uint64_t *id_out)
{
	switch (result) {
	case 0:
		if (op->kind == INDEX_GET) {
			*id_out = value_id(op, value, len);
			return was(op, *id_out, 0);
		}
		if (op->kind == INDEX_EXISTS)
			return was(op, ANY, 0);
		if (op->swaps == 1)
			return true;
		sim_events[SIM_ABSORBED]++;
		return op->kind == INDEX_PUT && absorbed(op);
	case FARKV_EMAYBE:
		sim_events[SIM_MAYBE]++;
		op->unsure = true;
		return !kind_reads(op->kind);
	case FARKV_ENOTFOUND:
		return !op->swaps && op->kind != INDEX_PUT &&
		       op->kind != INDEX_ADD && was(op, 0, 0);
	case FARKV_EEXISTS:
		return !op->swaps && op->kind == INDEX_ADD && was(op, ANY, 0);
	case FARKV_EVERSION:
		return !op->swaps && kind_compares(op->kind) &&
		       was(op, ANY, op->expected);
	case FARKV_ETIMEDOUT:
		sim_events[SIM_TIMEOUTS]++;
		return !op->swaps;
	case FARKV_ENOSPC:
	case FARKV_EINDEXFULL:
		return !op->swaps && !kind_reads(op->kind) &&
		       !kind_deletes(op->kind);
	case FARKV_EDISCONNECTED:
	case FARKV_EREFUSED:
		return !op->swaps;
	default:
		return false;
	}
}

void sim_op_end(struct sim_op *op, int result, const void *value, size_t len,
		uint64_t *id_out)
{
	uint64_t id = 0;

	op->over = true;
	sim_events[SIM_OPS]++;
	if (!result_ok(op, result, value, len, &id))
		sim_fail("operation of kind %u on key %u gave %d after %u "
			 "changes, value %llx: never so; %s",
			 op->kind, op->key, result, op->swaps,
			 (unsigned long long)id, err_detail());
	if (id_out)
		*id_out = id;
}

/* ---- scans ------------------------------------------------------------------------- */

void sim_scan_begin(struct sim_scan *scan)
{
	memcpy(scan->from, newest, sizeof(scan->from));
	memset(scan->listed, 0, sizeof(scan->listed));
}

void sim_scan_call(struct sim_scan *scan)
{
	memcpy(scan->call, newest, sizeof(scan->call));
	scan->clock = sim_clock_ms();
}

void sim_scan_listed(struct sim_scan *scan, unsigned key, size_t len)
{
	uint32_t s = newest[key];

	if (scan->listed[key])
		sim_fail("a scan lists key %u twice", key);
	scan->listed[key] = true;
	while (!(states[s].len == len && lived(scan->clock, &states[s]))) {
		if (s == scan->call[key])
			sim_fail("a scan lists key %u with %zu bytes: never so during the call",
				 key, len);
		s = states[s].before;
	}
}

void sim_scan_end(const struct sim_scan *scan)
{
	sim_events[SIM_SCANS]++;
	for (unsigned k = 0; k < SIM_KEYS; k++) {
		uint32_t s = newest[k];

		while (!was_absent(k, &states[s]) && s != scan->from[k])
			s = states[s].before;
		if (!was_absent(k, &states[s]) && !scan->listed[k])
			sim_fail("a scan does not list key %u, which was there throughout", k);
	}
}

/* ---- blocks -------------------------------------------------------------------------- */

static uint64_t unit_of(uint64_t off)
{
	uint64_t unit = (off - sim.region.sb.meta_bytes) / PTR_UNIT;

	if (off < sim.region.sb.meta_bytes ||
	    unit >= sizeof(unlinked) / sizeof(unlinked[0]))
		sim_fail("a block at %llx", (unsigned long long)off);
	return unit;
}

/* Is there a slot that leads to it? All keys have one home line. */
static bool is_published(uint64_t off)
{
	const struct region *r = &sim.region;
	struct region_walk w = {0};
	uint64_t entry, hash;

	while (region_walk_next(r, &w, &entry, &hash)) {
		const uint64_t *slots = region_slots(r, entry) +
			hash_home_line(sim_key_hash[0]) * LINE_SLOTS;

		for (unsigned i = 0; i < WINDOW_SLOTS; i++)
			if (slot_off(slots[i]) == off)
				return true;
	}
	return false;
}

void sim_check_write(uint64_t off)
{
	uint64_t unit = unit_of(off), then = unlinked[unit];

	sim_check_page(off);
	if (is_published(off))
		sim_fail("block %llx is written while it is published",
			 (unsigned long long)off);
	/* T by the fastest clock. */
	if (then && then >= barrier_began &&
	    sim.now - then < SIM_T / SIM_FASTEST * 100)
		sim_fail("block %llx is written %llu ns after it was unlinked",
			 (unsigned long long)off,
			 (unsigned long long)(sim.now - then));
	if (written[unit]++ == 1)
		sim_events[SIM_BLOCKS_AGAIN]++;
}

/* A word stands for one content of one block until a barrier has passed. */
void sim_check_published(uint64_t word)
{
	uint64_t unit = unit_of(slot_off(word));
	uint64_t marks = SLOT_BLIND | SLOT_DEAD;

	if (((published[unit] ^ word) & ~marks) == 0 &&
	    published_at[unit] >= barrier_began)
		sim_fail("the word %llx comes back", (unsigned long long)word);
	published[unit] = word;
	published_at[unit] = sim.now;
}

void sim_check_unlinked(uint64_t off)
{
	unlinked[unit_of(off)] = sim.now;
}

void sim_check_barrier(uint64_t began)
{
	sim_events[SIM_BARRIERS]++;
	barrier_began = began;
}
