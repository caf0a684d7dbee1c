/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "card_lane.h"

#include <check.h>
#include <string.h>

#include "tests/rig/handle_rig.h"

struct card card;
unsigned cards;
bool card_refuses;
uint32_t card_lacks;

bool card_has(const void *p, size_t len, bool added)
{
	for (unsigned i = 0; i < KNOWN_MAX; i++) {
		size_t at = (size_t)((const uint8_t *)p - card.known[i].at);

		if (card.known[i].len && (!added || card.known[i].added) &&
		    (const uint8_t *)p >= card.known[i].at &&
		    at + len <= card.known[i].len)
			return true;
	}
	return false;
}

static void card_learn(const void *p, size_t len, bool added)
{
	unsigned i = 0;

	while (i < KNOWN_MAX && card.known[i].len)
		i++;
	ck_assert_uint_lt(i, KNOWN_MAX);
	card.known[i].at = p;
	card.known[i].len = len;
	card.known[i].added = added;
	card.lane.counters.registrations++;
}

static void card_look(const struct xport_wr *wr)
{
	if (wr->opcode == XPORT_CAS)
		return;
	ck_assert(card_has(wr->laddr, wr->len - wr->seg_len, false));
	if (!wr->seg_len)
		return;
	ck_assert(card_has(wr->seg, wr->seg_len, true));
	if (wr->opcode == XPORT_READ)
		card.parts_read++;
	else
		card.parts_written++;
}

static int card_post(struct xport_lane *lane, struct xport_chain *first)
{
	struct xport_counters mine = lane->counters;
	int err = xport_check(lane, first);

	ck_assert_int_eq(err, 0);
	for (struct xport_chain *c = first; c; c = c->next)
		for (unsigned i = 0; i < c->n; i++)
			card_look(&c->wr[i]);
	if (card.mute) {
		card.stuck = first;
		first->done = false;
		return 0;
	}
	if (xport_broken(lane))
		xport_break(card.inner, xport_broken(lane));
	err = xport_post(card.inner, first);
	lane->counters = card.inner->counters;
	lane->counters.round_trips = mine.round_trips;
	lane->counters.registrations = mine.registrations;
	return err;
}

/* A broken lane ends its chains when it is polled. */
static void card_poll(struct xport_lane *lane)
{
	if (!card.stuck || !xport_broken(lane))
		return;
	card.stuck->n_done = 0;
	card.stuck->status = FARKV_EDISCONNECTED;
	card.stuck->done = true;
	card.stuck = NULL;
}

static void *card_alloc(struct xport_lane *lane, size_t bytes)
{
	void *p = xport_mem_alloc(card.inner, bytes);

	(void)lane;
	card_learn(p, bytes, false);
	return p;
}

static void card_free(struct xport_lane *lane, void *mem, size_t bytes)
{
	(void)lane;
	for (unsigned i = 0; i < KNOWN_MAX; i++)
		if (card.known[i].at == mem)
			card.known[i].len = 0;
	xport_mem_free(card.inner, mem, bytes);
}

static int card_add(struct xport_lane *lane, void *mem, size_t bytes)
{
	(void)lane;
	if (card_refuses)
		return FARKV_ENOMEM;
	card_learn(mem, bytes, true);
	return 0;
}

static void card_remove(struct xport_lane *lane, void *mem)
{
	(void)lane;
	for (unsigned i = 0; i < KNOWN_MAX; i++)
		if (card.known[i].at == mem && card.known[i].added)
			card.known[i].len = 0;
}

static bool card_known(const struct xport_lane *lane, const void *mem,
		       size_t bytes, enum xport_opcode use)
{
	(void)lane;
	(void)use;
	return card_has(mem, bytes, true);
}

static void card_close(struct xport_lane *lane)
{
	(void)lane;
	xport_close(card.inner);
}

static struct xport_lane *card_open(struct xport_lane *inner)
{
	static const struct xport_ops ops = {.name = "card",
					     .post = card_post,
					     .poll = card_poll,
					     .mem_alloc = card_alloc,
					     .mem_free = card_free,
					     .mem_add = card_add,
					     .mem_remove = card_remove,
					     .mem_known = card_known,
					     .close = card_close};

	memset(&card, 0, sizeof(card));
	cards++;
	card.inner = inner;
	card.lane.ops = &ops;
	card.lane.region_bytes = inner->region_bytes;
	card.lane.caps = (XPORT_READ8_ATOMIC | XPORT_SEGMENTS) & ~card_lacks;
	return &card.lane;
}

void setup_card(void)
{
	card_refuses = false;
	card_lacks = 0;
	conn_wrap_lane = card_open;
	setup_long_grace();
}
