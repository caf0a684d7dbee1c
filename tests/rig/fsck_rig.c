/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "fsck_rig.h"

#include <stdio.h>
#include <string.h>

#include "common/region/block.h"
#include "common/region/hash.h"

static struct mind minds[2];
uint64_t *spoilt;

/* ---- clients that ask for checks, and answer sweeps ----------------------------- */

struct mind *mind_of(const struct peer *p)
{
	return &minds[p == &bob];
}

void heard(struct peer *p, const struct msg *m)
{
	struct mind *i = mind_of(p);

	if (m->type == MSG_SWEEP_BEGIN)
		i->begun = i->number = m->epoch.number;
	if (m->type == MSG_SWEEP_QUERY)
		i->asked = m->req;
	if (m->type != MSG_FSCK)
		return;
	i->told++;
	i->fsck = *m;
	ck_assert_uint_eq(m->req, p->req);
	if (spoilt)
		*spoilt = 0;
	spoilt = NULL;
}

void answer_sweep(struct peer *p)
{
	struct mind *i = mind_of(p);
	struct msg ack = {.type = MSG_SWEEP_ACK, .epoch = {i->begun}};
	struct msg claim = {.type = MSG_SWEEP_CLAIM, .req = i->asked,
			    .blocks = {.number = i->number}};

	if (p->session && i->begun)
		ck_assert(say(p, &ack, NULL));
	if (p->session && i->asked)
		ck_assert(say(p, &claim, NULL));
	i->begun = i->asked = 0;
}

bool request(struct peer *p)
{
	struct msg m = {.type = MSG_FSCK_REQ, .req = ++p->req};

	return say(p, &m, NULL);
}

bool told(const struct peer *p, unsigned n)
{
	answer_sweep(&alice);
	answer_sweep(&bob);
	return mind_of(p)->told >= n;
}

uint64_t said(const struct peer *p, enum msg_fsck id)
{
	const struct msg *m = &mind_of(p)->fsck;

	for (uint32_t i = 0; i < m->stats.n; i++)
		if (m->stats.stat[i].id == id)
			return m->stats.stat[i].value;
	ck_abort_msg("fsck says no %d", id);
}

void check(void)
{
	unsigned n = mind_of(&alice)->told + 1;

	ck_assert(request(&alice));
	WAIT_FOR(told(&alice, n));
}

void check_problems(enum msg_fsck id, uint64_t n)
{
	for (int i = MSG_FSCK_BAD_DIRECTORY; i <= MSG_FSCK_BAD_SUMS; i++)
		ck_assert_msg(said(&alice, i) == (i == (int)id ? n : 0),
			      "problem %d: %llu", i,
			      (unsigned long long)said(&alice, i));
}

/* ---- an index of two subtables -------------------------------------------------- */

void setup(void)
{
	rig_begin(2 * SUBTABLE_SLOTS);
	ck_assert_uint_eq(region.subtables, 2);
	memset(minds, 0, sizeof(minds));
	alice.heard = heard;
}

uint64_t *slots_in(unsigned subtable)
{
	return region_slots(&region, region_dir(&region)[subtable]);
}

struct block_ref grant(uint8_t cls)
{
	struct block_ref ref;

	ck_assert_uint_eq(slab_grant(c->slab, cls, 1, clock_now_ns(), &ref), 1);
	return ref;
}

void item_write(struct item *item, struct block_ref ref)
{
	static const char value[ITEM_VALUE_MAX];

	block_encode(region_at(&region, ref.off), ref, 1,
		     &(struct block_pair){.key = item->key, .key_hash = item->hash,
					  .key_len = (uint16_t)strlen(item->key),
					  .value = value, .value_len = item->value_len});
	item->word = slot_pack(ref, hash_fp(item->hash), 0);
}

struct item item_new(unsigned subtable)
{
	static unsigned n;
	struct item item;
	uint32_t line;

	do {
		snprintf(item.key, sizeof(item.key), "key%u", n++);
		item.hash = hash_key(region.sb.hash_seed, item.key,
				     strlen(item.key));
		line = hash_home_line(item.hash);
	} while (item.hash >> 63 != subtable || line == 0 ||
		 line == HOME_LINES - 1);
	item.home = line * LINE_SLOTS;
	item.value_len = 0;
	item_write(&item, grant(0));
	return item;
}
