/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * contend.h - what a writer does about a key that others write at the same time, where
 * the region is mapped.
 *
 * Each write of such a key costs the way of several lines from another CPU's cache, and
 * costs the other as much. So of those who PUT it one writes, and the others watch: a
 * PUT that sees the slot's word change stands just before that write (doc/protocol.md),
 * and has cost one line. Nobody is told to do which: who lost a compare-and-swap, or
 * finds that another session has written the key since its own last write, watches
 * from then on; who has watched in vain writes, and is not led to watch again so soon
 * by the mere sight of others' writes, which may be minutes old.
 *
 * Who has lost and has nobody to be absorbed by spins for a random while before it tries
 * again. The while doubles with each loss (exponential backoff: Anderson, "The
 * performance of spin lock alternatives for shared-memory multiprocessors", 1990) up to a
 * bound, and falls slowly with each write that is not lost: so it finds the length that
 * the rivals' own pace asks for, and is not forgotten at the first success.
 *
 * Who watches needs the slot only, not the block there, whose lines are the writer's, and
 * would cost both as much once more: so the slot of the key that was watched last is
 * remembered until the next barrier. Till then it is that key's, or its word is FROZEN
 * (doc/protocol.md, I1 and I5).
 *
 * By RDMA nobody spins: a round trip is wait enough. Not thread-safe: it is its
 * session's.
 */
#ifndef COMMON_CONTEND_H
#define COMMON_CONTEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "atomic.h"
#include "util.h"

/** Spins (atom_spin_hint(); PAUSE takes some 3 to 50 ns, as the CPU is made) of one that
 * watches: at least half of these, at most all. */
#define CONTEND_WATCH 512u
/** ... between two looks. Each takes the slot's line from the writer, which costs that one
 * more than it spares the watcher if they come often (doc/performance.md). */
#define CONTEND_LOOK 64u
/** Of one that has lost: fewer than these at first, and when it has lost often. */
#define CONTEND_PAUSE_MIN 16u
#define CONTEND_PAUSE_MAX 512u
/** With each write of the key that is not lost this part of them is let off. */
#define CONTEND_EASE 16u

/** Who has watched in vain n times overlooks 2^n of others' writes, n at most this. */
#define CONTEND_VAIN_MAX 10u

/** Bytes of the longest key whose slot is remembered. */
#define CONTEND_KEY_MAX 47u

struct contend {
	uint64_t hash;  /* of the key that was written last */
	uint64_t state; /* of a xorshift generator; 0 at the beginning */
	uint32_t pause; /* bound of the next one, if that is not too little */
	uint32_t overlook; /* so many of others' writes */
	uint8_t vain;   /* watches in vain since one was not */
	bool hot;       /* others write that key, and this session watches */
	/* What is known of one key, which need not be the one that was written last: */
	uint8_t key_len;
	uint8_t key[CONTEND_KEY_MAX];
	uint64_t slot_off; /* its slot is there in the region; 0: nothing is known */
};

/** The slot of this key is there. Of a longer one nothing is remembered. */
static inline void contend_learn(struct contend *c, const void *key, size_t len,
				 uint64_t slot_off)
{
	if (len > CONTEND_KEY_MAX)
		return;
	c->key_len = (uint8_t)len;
	memcpy(c->key, key, len);
	c->slot_off = slot_off;
}

/** Where this key's slot is, or 0. */
static inline uint64_t contend_slot(const struct contend *c, const void *key, size_t len)
{
	return len == c->key_len && memcmp(c->key, key, len) == 0 ? c->slot_off : 0;
}

/** A barrier. */
static inline void contend_forget(struct contend *c)
{
	c->slot_off = 0;
}

/** A random number below `bound`. `seed` makes sessions differ. */
static inline uint32_t contend_random(struct contend *c, uint32_t bound,
				      uint64_t seed)
{
	if (!c->state)
		c->state = (seed + 1) * UINT64_C(0x9E3779B97F4A7C15);
	c->state ^= c->state << 13;
	c->state ^= c->state >> 7;
	c->state ^= c->state << 17;
	return (uint32_t)(c->state >> 32) % bound;
}

/**
 * A write of the key is over, or its first tries are. `lost`: to a rival, by a
 * compare-and-swap, by watching, or by a version that is not the key's any more;
 * `foreign`: another session had written the key.
 */
static inline void contend_note(struct contend *c, uint64_t hash, bool foreign,
				bool lost)
{
	bool again = c->hash == hash;

	c->hash = hash;
	if (!lost)
		c->pause = again ? c->pause - c->pause / CONTEND_EASE : 0;
	if (lost)
		c->hot = true;
	else if (!again)
		c->hot = false;
	else if (foreign && !c->hot && c->overlook)
		c->overlook--;
	else
		c->hot = c->hot || foreign;
}

/** Should a PUT of this key watch? */
static inline bool contend_hot(const struct contend *c, uint64_t hash)
{
	return c->hot && c->hash == hash;
}

/**
 * Watch `slot`, which held `word`: its word when it is another one, or else `word`, and
 * then this session writes from now on.
 */
static inline uint64_t contend_watch(struct contend *c, const uint64_t *slot,
				     uint64_t word, uint64_t seed)
{
	uint32_t n = CONTEND_WATCH / 2 +
		     contend_random(c, CONTEND_WATCH / 2, seed);

	for (uint32_t i = 0; i < n; i++) {
		uint64_t now;

		atom_spin_hint();
		if (i % CONTEND_LOOK)
			continue;
		now = atom_load_follow(slot);
		if (now != word) {
			c->vain = 0;
			c->overlook = 0;
			return now;
		}
	}
	c->hot = false;
	if (c->vain < CONTEND_VAIN_MAX)
		c->vain++;
	c->overlook = 1u << c->vain;
	return word;
}

/** Who has lost, and tries again, lets the rival go on for a while. */
static inline void contend_pause(struct contend *c, uint64_t seed)
{
	uint32_t bound = UTIL_MAX(c->pause, CONTEND_PAUSE_MIN);

	for (uint32_t n = contend_random(c, bound, seed); n > 0; n--)
		atom_spin_hint();
	c->pause = UTIL_MIN(bound * 2, CONTEND_PAUSE_MAX);
}

#endif
