/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "scribbler.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/index/alloc.h"
#include "common/base/atomic.h"
#include "common/region/block.h"
#include "common/base/clock.h"
#include "common/region/hash.h"
#include "common/region/layout.h"
#include "common/proto/msg.h"
#include "tests/rig/raw_session.h"
#include "tests/scale/scale.h"

/* Duration of rounds that race with others. */
#define RACE_NS (2 * NS_PER_MS)
#define GRANTED 64u

struct scribbler {
	struct superblock sb;
	const uint8_t *meta;
	uint8_t *data; /* lies at sb.meta_bytes */
	int fd;
	uint64_t rnd;
	bool answers;
	struct block_ref own[GRANTED]; /* granted, never returned */
	uint32_t n_own;
};

static uint64_t random_below(struct scribbler *s, uint64_t n)
{
	return scale_random(&s->rnd) % n;
}

void scribbler_victim(uint64_t i, uint8_t key_out[8])
{
	uint64_t k = scale_key(i);

	memcpy(key_out, &k, 8);
}

/* ---- the session ------------------------------------------------------------- */

static void map(struct scribbler *s, const struct msg *w, const int fds[2])
{
	uint64_t data = w->welcome.region_bytes - w->welcome.meta_bytes;
	void *p = mmap(NULL, w->welcome.meta_bytes, PROT_READ, MAP_SHARED,
		       fds[0], 0);

	MUST(p != MAP_FAILED, "no meta area");
	s->meta = p;
	p = mmap(NULL, data, PROT_READ | PROT_WRITE, MAP_SHARED, fds[1], 0);
	MUST(p != MAP_FAILED, "no data area");
	s->data = p;
	memcpy(&s->sb, s->meta, sizeof(s->sb));
	close(fds[0]);
	close(fds[1]);
}

static void say(struct scribbler *s, const struct msg *m)
{
	uint8_t buf[MSG_MAX_BYTES];
	size_t len;

	if (msg_encode(m, NULL, buf, sizeof(buf), &len) == 0)
		(void)!send(s->fd, buf, len, MSG_NOSIGNAL | MSG_DONTWAIT);
}

struct scribbler *scribbler_open(const char *path, uint64_t seed)
{
	static const struct msg hello = {.type = MSG_HELLO, .req = 1};
	struct scribbler *s = calloc(1, sizeof(*s));
	struct msg m;
	int fds[2];

	MUST(s != NULL, "no memory");
	s->rnd = seed;
	s->answers = random_below(s, 2);
	s->fd = raw_dial(path);
	say(s, &hello);
	m = raw_hear_fds(s->fd, fds);
	MUST(m.type == MSG_WELCOME, "no welcome but %u", m.type);
	map(s, &m, fds);
	for (int i = 0; i < 8; i++) {
		m = (struct msg){.type = MSG_GRANT_REQ, .req = 2};
		m.grant_req.cls = (uint8_t)random_below(s, 20);
		m.grant_req.count = GRANTED / 8;
		say(s, &m);
	}
	return s;
}

void scribbler_close(struct scribbler *s)
{
	close(s->fd);
	munmap(s->data, s->sb.region_bytes - s->sb.meta_bytes);
	munmap((void *)(uintptr_t)s->meta, s->sb.meta_bytes);
	free(s);
}

void scribbler_answer(struct scribbler *s)
{
	while (raw_pending(s->fd, 0) > 0) {
		struct msg m = raw_hear(s->fd), a = {.req = m.req};

		MUST(m.type != 0, "the server closed the session");
		a.epoch = m.epoch;
		if (m.type == MSG_BARRIER)
			a.type = MSG_BARRIER_ACK;
		else if (m.type == MSG_SWEEP_BEGIN)
			a.type = MSG_SWEEP_ACK;
		else if (m.type == MSG_SWEEP_QUERY)
			a = (struct msg){.type = MSG_SWEEP_CLAIM, .req = m.req,
					 .blocks.number = m.blocks.number};
		for (uint32_t i = 0; m.type == MSG_GRANT && i < m.blocks.n; i++)
			if (s->n_own < GRANTED)
				s->own[s->n_own++] = msg_ref(&m, i);
		if (a.type && s->answers)
			say(s, &a);
	}
}

/* ---- where things are -------------------------------------------------------- */

static uint64_t *at(struct scribbler *s, uint64_t off)
{
	return (uint64_t *)(void *)(s->data + (off - s->sb.meta_bytes));
}

static uint64_t entry_of(struct scribbler *s, uint64_t hash)
{
	uint64_t d, e;

	memcpy(&d, s->meta + REGION_D_OFF, sizeof(d));
	memcpy(&e, s->meta + dirword_off(d) +
			   8 * hash_dir_index(hash, dirword_depth(d)),
	       sizeof(e));
	return e;
}

static uint64_t *slots_of(struct scribbler *s, uint64_t hash)
{
	return at(s, entry_page(entry_of(s, hash)) * PAGE_BYTES);
}

static uint64_t victim_hash(struct scribbler *s)
{
	uint8_t key[8];

	scribbler_victim(random_below(s, SCRIBBLER_VICTIMS) + 1, key);
	return hash_key(s->sb.hash_seed, key, sizeof(key));
}

/* The slots of some subtable, for one round. */
static uint64_t *some_slots(struct scribbler *s)
{
	return slots_of(s, scale_random(&s->rnd));
}

static struct block_ref some_block(struct scribbler *s)
{
	uint64_t units = (s->sb.region_bytes - s->sb.meta_bytes) / PTR_UNIT;

	return (struct block_ref){
		.off = s->sb.meta_bytes + random_below(s, units) * PTR_UNIT,
		.cls = (uint8_t)random_below(s, CLASS_COUNT),
		.inc = (uint16_t)random_below(s, INC_COUNT)};
}

/* A word with one field changed. */
static uint64_t changed(struct scribbler *s, uint64_t w)
{
	static const uint64_t flags[] = {SLOT_DEAD, SLOT_FROZEN, SLOT_BLIND,
					 SLOT_DEAD | SLOT_FROZEN};
	uint64_t meta = s->sb.meta_bytes / PTR_UNIT;
	uint64_t all = s->sb.region_bytes / PTR_UNIT;
	uint64_t ptr[] = {0, 1, meta - 1, meta, all - 1, all, all + 1,
			  SLOT_PTR_MASK, random_below(s, all),
			  (w & SLOT_PTR_MASK) + 1, (w & SLOT_PTR_MASK) - 1,
			  entry_page(entry_of(s, scale_random(&s->rnd))) *
				  (PAGE_BYTES / PTR_UNIT)};
	uint64_t r = scale_random(&s->rnd);

	switch (random_below(s, 5)) {
	case 0:
		r = ptr[random_below(s, sizeof(ptr) / sizeof(ptr[0]))];
		return (w & ~SLOT_PTR_MASK) | (r & SLOT_PTR_MASK);
	case 1:
		w &= ~((uint64_t)SLOT_CLASS_MASK << SLOT_CLASS_SHIFT);
		return w | (r & SLOT_CLASS_MASK) << SLOT_CLASS_SHIFT;
	case 2:
		w &= ~((uint64_t)SLOT_INC_MASK << SLOT_INC_SHIFT);
		return w | (r & SLOT_INC_MASK) << SLOT_INC_SHIFT;
	case 3:
		return w ^ flags[r % 4];
	default:
		return w ^ (r % 256) << SLOT_FP_SHIFT;
	}
}

/* ---- rounds -------------------------------------------------------------------- */

static void noise(struct scribbler *s)
{
	uint64_t bytes = s->sb.region_bytes - s->sb.meta_bytes;
	uint64_t n = random_below(s, 4096), from = random_below(s, bytes - 32768);

	if (n % 2) /* a range */
		for (uint64_t i = 0; i < n; i++)
			memcpy(s->data + from + 8 * i,
			       &(uint64_t){scale_random(&s->rnd)}, 8);
	else
		for (uint64_t i = 0; i < n; i++)
			s->data[random_below(s, bytes)] =
				(uint8_t)scale_random(&s->rnd);
}

static void words(struct scribbler *s, bool near)
{
	uint64_t *slots = some_slots(s);
	uint64_t n = random_below(s, near ? 2000 : 300);

	while (n--) {
		uint64_t *p = &slots[random_below(s, SUBTABLE_SLOTS)];
		uint64_t w = atom_load_relaxed(p);

		atom_store_relaxed(p, near ? changed(s, w) :
					     scale_random(&s->rnd));
	}
}

static void flags(struct scribbler *s)
{
	uint64_t bits = scale_random(&s->rnd) &
			(SLOT_DEAD | SLOT_FROZEN | SLOT_BLIND);
	uint64_t *slots = some_slots(s);
	bool set = random_below(s, 2);

	for (unsigned i = 0; i < SUBTABLE_SLOTS; i++) {
		if (set)
			atom_set_bits(&slots[i], bits);
		else
			atom_clear_bits(&slots[i], bits);
	}
}

static void copies(struct scribbler *s)
{
	uint64_t *slots = some_slots(s);
	uint64_t w = atom_load_relaxed(&slots[random_below(s, SUBTABLE_SLOTS)]);
	uint64_t keep = random_below(s, 2) ? UINT64_C(0xFF) << SLOT_FP_SHIFT : 0;

	for (unsigned i = 0; i < SUBTABLE_SLOTS; i++)
		atom_store_relaxed(&slots[i], (w & ~keep) |
						  (slots[i] & keep));
}

/* The lengths of blocks, alternately right and wrong: are they read once? */
static void heads(struct scribbler *s)
{
	uint64_t *slots = slots_of(s, victim_hash(s));
	uint64_t until = clock_now_ns() + RACE_NS;

	while (clock_now_ns() < until) {
		uint64_t w = slots[random_below(s, SUBTABLE_SLOTS)];
		struct block_header *h;
		uint16_t key_len, inc;
		uint32_t value_len;

		if (slot_is_null(w) ||
		    !region_block_ok(&s->sb, slot_off(w), slot_class(w)))
			continue;
		h = (struct block_header *)(void *)at(s, slot_off(w));
		key_len = h->key_len;
		value_len = h->value_len;
		inc = h->inc_flags;
		for (int i = 0; i < 50; i++) {
			atom_store_relaxed(&h->key_len, UINT16_MAX);
			atom_store_relaxed(&h->value_len, UINT32_MAX - 70000);
			atom_store_relaxed(&h->inc_flags, UINT16_MAX);
			atom_spin_hint();
			atom_store_relaxed(&h->key_len, key_len);
			atom_store_relaxed(&h->value_len, value_len);
			atom_store_relaxed(&h->inc_flags, inc);
		}
		if (random_below(s, 2))
			h->value_len ^= UINT32_C(1) << random_below(s, 32);
	}
}

/* A block of a victim's key, right in all but its place, and a word that names it. */
static void forged(struct scribbler *s)
{
	static uint8_t value[1u << 16];

	for (int i = 0; i < 30; i++) {
		struct block_ref ref = some_block(s);
		uint8_t key[8];
		uint64_t hash, *slot, room, len;

		if (s->n_own && i % 3 == 0)
			ref = s->own[random_below(s, s->n_own)];
		if (i % 3 == 1) /* index pages, for example */
			ref.off = entry_page(entry_of(s, scale_random(&s->rnd))) *
				  PAGE_BYTES;
		if (!region_block_ok(&s->sb, ref.off, ref.cls))
			continue;
		room = class_bytes(ref.cls) - block_room(8, 0);
		len = random_below(s, 2) ? random_below(s, 64) : sizeof(value);
		len = len < room ? len : room;
		scribbler_victim(random_below(s, SCRIBBLER_VICTIMS) + 1, key);
		hash = hash_key(s->sb.hash_seed, key, sizeof(key));
		block_encode(at(s, ref.off), ref, scale_random(&s->rnd),
			     &(struct block_pair){.key = key, .key_hash = hash,
						  .key_len = sizeof(key),
						  .value = value, .value_len = (uint32_t)len,
						  .flags = i % 7 ? 0 : BLOCK_TOMBSTONE});
		slot = slots_of(s, hash) + hash_home_line(hash) * LINE_SLOTS +
		       random_below(s, 4);
		atom_store_relaxed(slot, slot_pack(ref, hash_fp(hash),
						   i % 5 ? 0 : SLOT_DEAD));
	}
}

static void spin(uint64_t n)
{
	while (n--)
		atom_spin_hint();
}

/*
 * Bad words for moments, so that a client that has looked and then swaps meets one. The
 * good one comes back, or no client would get as far as the swap.
 */
static void rival(struct scribbler *s)
{
	uint64_t until = clock_now_ns() + RACE_NS;

	while (clock_now_ns() < until) {
		uint64_t hash = victim_hash(s), fp = hash_fp(hash);
		uint64_t *slot = slots_of(s, hash) +
				 hash_home_line(hash) * LINE_SLOTS;
		uint64_t good, bad;
		unsigned i = 0;

		while (i < 8 && slot_fp(atom_load_relaxed(&slot[i])) != fp)
			i++;
		if (i == 8)
			continue;
		for (int k = 0; k < 20; k++) {
			good = atom_load_relaxed(&slot[i]);
			bad = changed(s, good) & ~SLOT_BLIND & ~SLOT_FROZEN;
			bad &= ~(UINT64_C(0xFF) << SLOT_FP_SHIFT);
			bad |= fp << SLOT_FP_SHIFT;
			if (atom_cas_u64(&slot[i], good, bad) != good)
				continue;
			spin(random_below(s, 64));
			(void)atom_cas_u64(&slot[i], bad, good);
			spin(random_below(s, 32));
		}
	}
}

static void thaw(struct scribbler *s)
{
	uint64_t until = clock_now_ns() + 5 * RACE_NS;

	while (clock_now_ns() < until) {
		uint64_t *slots = some_slots(s);

		for (unsigned i = 0; i < SUBTABLE_SLOTS; i++) {
			uint64_t w = atom_load_relaxed(&slots[i]);

			atom_store_relaxed(&slots[i], (w & ~SLOT_FROZEN) ^
							  SLOT_BLIND);
		}
	}
}

static void hint(struct scribbler *s, uint64_t entry)
{
	struct msg m = {.type = MSG_HINT, .req = 3};

	m.hint.page = entry_page(entry);
	m.hint.gen = entry_gen(entry);
	m.hint.full = 1;
	say(s, &m);
}

static void full(struct scribbler *s, uint64_t hash)
{
	uint64_t entry = entry_of(s, hash);
	uint64_t *slots = at(s, entry_page(entry) * PAGE_BYTES);
	uint64_t from = random_below(s, SUBTABLE_SLOTS - 256);

	for (unsigned i = 0; i < 256; i++) {
		uint64_t w = atom_load_relaxed(&slots[from + i]);

		if (slot_is_null(w))
			atom_store_relaxed(&slots[from + i],
					   scale_random(&s->rnd) & ~SLOT_FROZEN);
	}
	hint(s, entry);
}

static void wipe(struct scribbler *s)
{
	uint64_t entry = entry_of(s, scale_random(&s->rnd));
	uint64_t *slots = at(s, entry_page(entry) * PAGE_BYTES);

	for (unsigned i = 0; i < SUBTABLE_SLOTS; i++)
		atom_store_relaxed(&slots[i], slot_empty(entry_gen(entry)));
}

void scribbler_round(struct scribbler *s, enum scribble kind)
{
	switch (kind) {
	case SCRIBBLE_NOISE:
		noise(s);
		break;
	case SCRIBBLE_WORDS:
	case SCRIBBLE_NEAR:
		words(s, kind == SCRIBBLE_NEAR);
		break;
	case SCRIBBLE_FLAGS:
		flags(s);
		break;
	case SCRIBBLE_COPIES:
		copies(s);
		break;
	case SCRIBBLE_HEADS:
		heads(s);
		break;
	case SCRIBBLE_FORGED:
		forged(s);
		break;
	case SCRIBBLE_RIVAL:
		rival(s);
		break;
	case SCRIBBLE_THAW:
		thaw(s);
		break;
	case SCRIBBLE_FULL:
		full(s, scale_random(&s->rnd));
		break;
	default:
		wipe(s);
	}
}

void scribbler_siege(struct scribbler *s, uint64_t ns)
{
	uint64_t hash = scale_random(&s->rnd), until = clock_now_ns() + ns;
	uint64_t *slots = slots_of(s, hash);
	/* All of them in turn, or the same one as fast as possible. */
	unsigned one = random_below(s, 2) ? SUBTABLE_SLOTS - 1 : 0;

	full(s, hash);
	while (clock_now_ns() < until)
		for (unsigned k = 0; k < SUBTABLE_SLOTS; k++) {
			unsigned i = k & ~one;
			uint64_t w = atom_load_relaxed(&slots[i]);

			atom_store_relaxed(&slots[i], (w & ~SLOT_FROZEN) +
							  (UINT64_C(1)
							   << SLOT_INC_SHIFT));
		}
}
