/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The lanes. Before and after each request others go on; READs are torn, WRITEs seen
 * when half done. If a lane breaks under a chain, requests that the network still has
 * happen later, if the server has not cut the connection by then.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "common/region/hash.h"
#include "common/index/index.h"
#include "common/base/util.h"
#include "sim.h"

struct sim_late {
	struct sim_late *next;
	struct sim_op *op; /* CAS */
	uint8_t opcode;
	uint32_t len;
	uint64_t off, expect, swap;
	uint8_t bytes[];
};

/*
 * The client's operation on the key that writes the value, NULL for a delete's. Of one
 * key there are several in a pipeline only, with values of their own and one delete.
 */
static struct sim_op *op_named(const struct sim_client *c, uint64_t key_hash,
			       const uint64_t *value)
{
	struct sim_op *op, *found = NULL;

	for (unsigned i = 0; i < c->n_ops; i++) {
		op = c->op[i];
		if (sim_key_hash[op->key] != key_hash)
			continue;
		if (value ? op->value == *value : kind_deletes(op->kind))
			return op;
		found = op;
	}
	if (!found)
		sim_fail("client %u swaps a slot of no operation of its", c->id);
	return found;
}

static const uint64_t *value_of(const struct index_op *op)
{
	return kind_deletes(op->kind) ? NULL : op->value;
}

static const struct index_op *whose(const struct xport_chain *chain)
{
	return (const void *)((const char *)chain - offsetof(struct index_op, chain));
}

/* The operation that a chain belongs to. */
static struct sim_op *op_of(const struct sim_client *c,
			    const struct xport_chain *chain)
{
	const struct index_op *op = whose(chain);

	return op_named(c, op->key.hash, value_of(op));
}

static void swapped(struct sim_op *op, uint64_t before, uint64_t after)
{
	sim_op_swapped(op, before, after);
	sim_note(-2, "word", before, after);
	if (!slot_is_null(before) && slot_off(before) == slot_off(after))
		return;
	sim_check_published(after);
	if (!slot_is_null(before))
		sim_check_unlinked(slot_off(before));
}

/* ---- what is late ------------------------------------------------------------------ */

static void late_add(struct sim_conn *k, const struct xport_chain *chain,
		     unsigned i)
{
	struct sim_late **at = &sim_conn_lane(k)->late, *late;
	const struct xport_wr *wr = &chain->wr[i];
	size_t copied = wr->opcode == XPORT_WRITE ? wr->len : 0;

	while (*at)
		at = &(*at)->next;
	late = *at = malloc(sizeof(*late) + copied);
	if (!late)
		sim_fail("no memory");
	*late = (struct sim_late){.opcode = wr->opcode,
				  .len = wr->len,
				  .off = wr->off,
				  .expect = wr->expect,
				  .swap = wr->swap};
	if (wr->opcode == XPORT_CAS)
		late->op = op_of(sim_conn_client(k), chain);
	if (copied)
		xport_gather(wr, late->bytes);
}

static void late_take(struct sim_conn *k, const struct xport_chain *chain,
		      unsigned from)
{
	sim_conn_lane(k)->dead = true;
	/* Others act before it knows the outcome. */
	if (sim_once_in(sim.mix.stop_broken))
		sim_stop(sim_conn_client(k), sim_below(4) == 0);
	if (!sim.remote || sim_conn_fenced(k) || sim_below(3) == 0)
		return;
	for (unsigned i = from; i < chain->n; i++)
		if (chain->wr[i].opcode != XPORT_READ)
			late_add(k, chain, i);
}

void sim_lane_abandon(struct sim_conn *k)
{
	struct sim_lane_state *l = sim_conn_lane(k);

	if (l->chain && !l->dead)
		late_take(k, l->chain, l->at);
}

void sim_lane_late(struct sim_conn *k)
{
	struct sim_lane_state *l = sim_conn_lane(k);
	struct sim_late *late = l->late;
	uint64_t *slot;

	if (!late)
		return;
	l->late = late->next;
	sim_events[SIM_LATE]++;
	sim_note(-3, "late request", late->opcode, late->off);
	if (late->opcode == XPORT_WRITE) {
		sim_check_write(late->off);
		memcpy(sim.base + late->off, late->bytes, late->len);
	} else {
		sim_check_slots(late->off);
		slot = (uint64_t *)(void *)(sim.base + late->off);
		if (*slot == late->expect && late->swap != late->expect) {
			*slot = late->swap;
			swapped(late->op, late->expect, late->swap);
		}
	}
	free(late);
}

void sim_lane_forget(struct sim_conn *k)
{
	struct sim_lane_state *l = sim_conn_lane(k);

	for (struct sim_late *late = l->late, *next; late; late = next) {
		next = late->next;
		free(late);
	}
	l->late = NULL;
}

/* ---- requests ------------------------------------------------------------------------- */

static bool gone(const struct sim_client *c, struct sim_conn *k)
{
	return c->dying || sim_conn_lane(k)->dead || sim_conn_fenced(k);
}

bool sim_lane_gone(const struct sim_client *c)
{
	return gone(c, c->conn);
}

static bool breaks(const struct sim_client *c, struct sim_conn *k)
{
	struct sim_lane_state *l = sim_conn_lane(k);

	if (gone(c, k))
		return true;
	if (!l->break_now)
		return false;
	l->break_now = false;
	sim_events[SIM_BREAKS]++;
	return true;
}

/* A window, and not a block that is as long. */
static bool is_window(const struct xport_wr *wr)
{
	return wr->opcode == XPORT_READ && wr->len == WINDOW_BYTES &&
	       wr->off % PAGE_BYTES ==
		       (uint64_t)hash_home_line(sim_key_hash[0]) * LINE_BYTES;
}

/*
 * A look at one slot that a client has cached; nothing else in the data area is so
 * short. Where words tear it is a CAS that changes nothing.
 */
static bool is_slot(const struct xport_wr *wr)
{
	if (wr->opcode == XPORT_CAS)
		return wr->expect == wr->swap;
	return wr->opcode == XPORT_READ && wr->len == SLOT_BYTES &&
	       wr->off >= sim.region.sb.meta_bytes;
}

/* A scan's look at a subtable. */
static bool is_subtable(const struct xport_wr *wr)
{
	return wr->opcode == XPORT_READ && wr->len == PAGE_BYTES && wr->off % PAGE_BYTES == 0;
}

/* The first bytes of a WRITE have arrived. */
static void write_partly(const struct xport_wr *wr)
{
	uint8_t *all = malloc(wr->len);

	if (!all)
		sim_fail("no memory");
	xport_gather(wr, all);
	memcpy(sim.base + wr->off, all, sim_below(wr->len));
	free(all);
	sim_events[SIM_PARTIAL]++;
}

static void before(struct sim_conn *k, const struct xport_chain *chain,
		   const struct xport_wr *wr)
{
	const struct xport_wr *last = &chain->wr[chain->n - 1];
	struct sim_lane_state *l = sim_conn_lane(k);

	if (wr->opcode == XPORT_READ && wr->off == REGION_D_OFF &&
	    chain->n >= 3 && last->off == REGION_D_OFF && wr != last) {
		sim_events[SIM_FROZEN]++;
		if (sim_below(15) == 0)
			sim_stop(sim_conn_client(k), false);
	}
	l->reading = wr;
	sim_events[SIM_PARTS] += wr->seg_len > 0;
	if (wr->opcode == XPORT_CAS || is_window(wr) || is_slot(wr) || is_subtable(wr))
		sim_check_slots(wr->off);
	if (is_slot(wr))
		sim_events[SIM_LOOKS]++;
	if (is_window(wr) || is_slot(wr))
		l->window_at = sim_clock_of(sim_conn_client(k));
	if (wr->opcode != XPORT_WRITE)
		return;
	sim_check_write(wr->off);
	if (wr->laddr != sim.base + wr->off && sim_below(3) == 0)
		write_partly(wr);
}

/* Does the block that the word names lie there, or reach so far? */
static bool names(uint64_t word, uint64_t off)
{
	struct block_ref r = slot_block(word);

	return !slot_is_null(word) && off >= r.off &&
	       off - r.off < class_bytes(r.cls);
}

/* Is the word frozen whose block lies there? Another key's may be, next to it. */
static bool is_frozen(const void *window, uint64_t off)
{
	const uint64_t *word = window;

	for (unsigned i = 0; i < WINDOW_SLOTS; i++)
		if (names(word[i], off))
			return word[i] & SLOT_FROZEN;
	return false;
}

/* Does a get look at a slot whose block it has a copy of? */
static bool from_cache(const struct index_op *op)
{
	return (op->phase == OP_LOOK || op->phase == OP_LOOK_AGAIN) && op->look.from_cache;
}

/* A READ of the slot alone, after the block: it returns the word that is still there. */
static bool stands(uint64_t word, uint64_t off)
{
	return names(word, off) && !(word & SLOT_FROZEN);
}

static void after(struct sim_conn *k, const struct xport_chain *chain,
		  const struct xport_wr *wr)
{
	struct sim_client *c = sim_conn_client(k);
	struct sim_lane_state *l = sim_conn_lane(k);

	if (wr->opcode == XPORT_CAS && wr->found == wr->expect &&
	    wr->swap != wr->expect)
		swapped(op_of(c, chain), wr->expect, wr->swap);
	if (wr->opcode == XPORT_CAS && wr->found == wr->expect &&
	    wr->swap == wr->expect &&
	    (from_cache(whose(chain)) || stands(wr->found, l->block)))
		l->slow = false;
	if (wr->opcode != XPORT_READ || wr->off < sim.region.sb.meta_bytes || is_subtable(wr))
		return;
	if (is_window(wr)) {
		/* A frozen word says nothing of its block. */
		l->slow = l->slow && is_frozen(wr->laddr, l->block);
		return;
	}
	if (is_slot(wr)) {
		/* What was READ before is nothing to who goes by a copy that was kept. */
		l->slow = l->slow && !from_cache(whose(chain)) &&
			  !stands(*(const uint64_t *)wr->laddr, l->block);
		return;
	}
	l->block = wr->off;
	l->slow = sim_clock_of(c) - l->window_at > SIM_T / 2;
	sim_events[SIM_SLOW] += l->slow;
}

/* Before a request: others go on, perhaps for long. */
static void linger(struct sim_client *c, bool swap)
{
	const struct sim_mix *m = &sim.mix;

	if (swap && sim_once_in(m->stop_swap))
		sim_stop(c, false);
	if (sim_once_in(swap ? m->hold_swap : m->hold))
		c->held = 1u << sim_below(7);
}

static int hook(void *arg, const struct xport_chain *chain, unsigned i,
		bool is_after)
{
	struct sim_conn *k = arg;
	struct sim_client *c = sim_conn_client(k);
	struct sim_lane_state *l = sim_conn_lane(k);
	const struct xport_wr *wr = &chain->wr[i];

	if (is_after)
		after(k, chain, wr);
	else if (breaks(c, k))
		return 1;
	else
		before(k, chain, wr);
	sim_note((int)c->id, is_after ? "after" : "before", wr->opcode, wr->off);
	if (c->quiet)
		return 0;
	if (wr->opcode == XPORT_CAS && sim.remote && !sim.finishing &&
	    sim_once_in(sim.mix.break_swap))
		l->break_now = true;
	if (is_after && !l->break_now && sim_below(3))
		return 0;
	if (!is_after)
		linger(c, wr->opcode == XPORT_CAS);
	l->chain = (struct xport_chain *)chain;
	l->at = i + is_after;
	sim_give_way();
	l->chain = NULL;
	if (!breaks(c, k))
		return 0;
	if (!c->dying && !l->dead)
		late_take(k, chain, i + is_after);
	return 1;
}

bool sim_lane_swap(struct sim_client *c, uint64_t key_hash, const void *value,
		   uint64_t off, uint64_t expect, uint64_t swap,
		   uint64_t *found_out)
{
	uint64_t *slot = (uint64_t *)(void *)(sim.base + off);

	if (!c->quiet) {
		linger(c, true);
		sim_give_way();
	}
	if (gone(c, c->conn))
		return false;
	sim_note((int)c->id, "swaps", off, swap);
	sim_check_slots(off);
	*found_out = *slot;
	if (*slot != expect)
		return true;
	*slot = swap;
	swapped(op_named(c, key_hash, value), expect, swap);
	if (!c->quiet && sim_below(3) == 0)
		sim_give_way();
	return true;
}

static void tear_gap(void *arg)
{
	struct sim_client *c = sim_conn_client(arg);
	struct sim_lane_state *l = sim_conn_lane(arg);

	if (c->quiet)
		return;
	sim_events[sim.tears ? SIM_TORN_BYTES : SIM_TORN_WORDS]++;
	linger(c, false);
	/* A block that a halted machine was about to read may be written again. */
	if (c->guest && !is_window(l->reading) && sim_below(3) == 0)
		sim_stop(c, true);
	else if (sim_below(60) == 0)
		sim_stop(c, false);
	sim_give_way();
}

struct xport_lane *sim_lane_wrap(struct xport_lane *lane)
{
	struct sim_client *c = sim.running;
	struct xport_fault_config cfg = {
		.seed = sim_below(UINT64_MAX),
		.tear_ppm = sim.tears ? 400000 : 200000,
		.delay_ppm = 100000,
		.delay_polls = 3,
		.hide_direct = sim.remote || !c->direct,
		.at_once = c->at_once,
		.byte_tear = sim.tears,
		.tear_gap = tear_gap,
		.hook = hook,
		.arg = c->conn,
	};

	if (c->n_ops)
		sim_events[SIM_RESUMED]++;
	return xport_fault_open(lane, &cfg);
}

/* ---- the server's ------------------------------------------------------------------- */

/* Its requests are many: others go on where something can happen. */
static int server_hook(void *arg, const struct xport_chain *chain, unsigned i,
		       bool is_after)
{
	uint64_t line = chain->wr[i].off % PAGE_BYTES / LINE_BYTES;
	uint64_t home = hash_home_line(sim_key_hash[0]);

	const struct xport_wr *wr = &chain->wr[i];

	(void)arg;
	if (is_after && wr->found == wr->expect && (wr->swap & ~wr->expect & SLOT_DEAD))
		sim_check_reaped(wr->expect);
	if (sim.in_server &&
	    sim_below(line >= home && line < home + WINDOW_LINES ? 6 : 600) == 0) {
		if (sim_once_in(sim.mix.hold_server))
			sim.server_held = 1u << sim_below(9);
		sim_give_way();
	}
	return 0;
}

struct xport_lane *sim_lane_server(void)
{
	struct xport_fault_config cfg = {.hook = server_hook};
	struct xport_lane *lane =
		xport_shm_open(sim.base, sim.region.sb.region_bytes, false);

	return lane ? xport_fault_open(lane, &cfg) : NULL;
}
