/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "stats.h"

#include "common/atomic.h"
#include "common/clock.h"

#define SCAN_EVERY_NS NS_PER_SEC

/* Words come from memory that clients write: check before following. */
static void scan_slot(struct stats *st, const struct region *r, uint64_t w)
{
	if (slot_is_null(w) ||
	    !region_block_ok(&r->sb, slot_off(w), slot_class(w)))
		return;
	if (w & SLOT_DEAD) {
		st->dead++;
		return;
	}
	st->items++;
	st->item_bytes += class_bytes(slot_class(w));
}

static void scan(struct stats *st, const struct region *r)
{
	struct region_walk w = {0};
	uint64_t entry, hash;

	st->items = st->dead = st->item_bytes = 0;
	while (region_walk_next(r, &w, &entry, &hash)) {
		const uint64_t *slots = region_slots(r, entry);

		for (unsigned s = 0; s < SUBTABLE_SLOTS; s++)
			scan_slot(st, r, atom_load_relaxed(&slots[s]));
	}
}

static void add(struct msg *m, uint16_t id, uint64_t value)
{
	m->stats.stat[m->stats.n].id = id;
	m->stats.stat[m->stats.n].value = value;
	m->stats.n++;
}

void stats_fill(struct stats *st, const struct region *r,
		const struct slab *slab, struct msg *m_out)
{
	struct slab_counts c = slab_count(slab);
	uint64_t now = clock_now_ns();
	struct msg m = {.type = MSG_STATS, .req = m_out->req};

	if (!st->scanned_ns || now - st->scanned_ns >= SCAN_EVERY_NS) {
		scan(st, r);
		st->scanned_ns = now;
	}
	add(&m, MSG_STAT_UPTIME_MS, (now - st->started_ns) / NS_PER_MS);
	add(&m, MSG_STAT_REGION_BYTES, r->sb.region_bytes);
	add(&m, MSG_STAT_HEAP_BYTES, heap_total(r->heap) * PAGE_BYTES);
	add(&m, MSG_STAT_USED_BYTES, heap_used(r->heap) * PAGE_BYTES);
	add(&m, MSG_STAT_INDEX_BYTES, r->subtables * PAGE_BYTES);
	add(&m, MSG_STAT_INDEX_SLOTS, r->subtables * SUBTABLE_SLOTS);
	add(&m, MSG_STAT_SUBTABLES, r->subtables);
	add(&m, MSG_STAT_ITEMS, st->items);
	add(&m, MSG_STAT_DEAD_SLOTS, st->dead);
	add(&m, MSG_STAT_ITEM_BYTES, st->item_bytes);
	add(&m, MSG_STAT_BLOCKS_GRANTED, c.out);
	add(&m, MSG_STAT_BLOCKS_FREE, c.free);
	add(&m, MSG_STAT_BLOCKS_LIMBO, c.limbo);
	add(&m, MSG_STAT_BLOCKS_WORN, c.worn);
	add(&m, MSG_STAT_SESSIONS, st->sessions);
	add(&m, MSG_STAT_SESSIONS_TOTAL, st->sessions_total);
	add(&m, MSG_STAT_GRANTS, st->grants);
	add(&m, MSG_STAT_HINTS, st->hints);
	add(&m, MSG_STAT_PROTOCOL_ERRORS, st->protocol_errors);
	add(&m, MSG_STAT_MAX_VALUE, r->sb.max_value);
	add(&m, MSG_STAT_MAX_KEY, r->sb.max_key);
	add(&m, MSG_STAT_GRACE_NS, r->sb.grace_ns);
	*m_out = m;
}
