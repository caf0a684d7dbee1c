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
 * by the mere sight of others' writes, which may be minutes old. How often who watches
 * looks depends on how far the writer is, by what a look takes; from far the writer does
 * some hundreds of writes, and up to a few thousand, between two looks. So each that has
 * watched for long gets itself a turn, in which it writes, and lets a writer that PUTs lose
 * and watch.
 *
 * Who has lost and has nobody to be absorbed by spins for a random while before it tries
 * again. The while doubles with each loss (exponential backoff: Anderson, "The
 * performance of spin lock alternatives for shared-memory multiprocessors", 1990) up to a
 * bound, and falls slowly with each write that is not lost: so it finds the length that
 * the rivals' own pace asks for, and is not forgotten at the first success.
 *
 * Where the writer counts its puts beside the slot (notice.h) who watches listens to that.
 * Otherwise it needs the slot only, not the block there, whose lines are the writer's, and
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
#include "cpu.h"
#include "util.h"

/** Spins (atom_spin_hint(); PAUSE takes some 3 to 50 ns, as the CPU is made) of one that
 * watches: at least half of these, at most all. It looks behind the last of them, too. */
#define CONTEND_WATCH 512u
/** The same of who is near and listens to a count (notice.h), which grows with each write. */
#define CONTEND_LISTEN 128u
/** A look takes the slot's line from the writer, and costs it about as much as it costs the
 * watcher: next to nothing between the two threads of a core, and from chip to chip more than
 * a write (doc/performance.md). Who is near looks at each spin; who is far behind so many,
 * then behind twice as many, and so on; and who should let the writer be first, and may not
 * wait, behind CONTEND_LOOK_SOON. */
#define CONTEND_LOOK_FAR 64u
#define CONTEND_LOOK_SOON 256u
/** A look that takes so many cpu_ticks() is from far. */
#define CONTEND_FAR 128u
/** Who is far, and has found so many of others' writes in a row by its first look, lets the
 * writer be for a while before it watches again: so many times as long as a look takes,
 * CONTEND_COST_MAX at most (0.13 to 0.5 ms). A watch is two looks, so that each that watches
 * takes about one part in 256 of the writer's time. It takes few watches to see that the writer
 * is there all the time; and each change of the writer begins with them. */
#define CONTEND_STEADY 16u
#define CONTEND_LET_BE 512u
/** One watch in so many is timed, in its first looks: the clock is no friend of the core's
 * other thread. From far each is. */
#define CONTEND_TIMED 512u
#define CONTEND_TIMED_LOOKS 2u
/** A look is believed to have taken no more than twice what is known and CONTEND_COST_LEAP, nor
 * than CONTEND_COST_MAX: one that took longer was interrupted, or is the first from farther
 * away. */
#define CONTEND_COST_LEAP CONTEND_FAR
#define CONTEND_COST_MAX 1024u
/** What is known of the cost goes by this part towards what a timed look takes. */
#define CONTEND_COST_EASE 8u
/** Who has stood before so many of others' writes since its last turn has one. One of who lets
 * the writer be counts for one more for each so many cpu_ticks() of that: */
#define CONTEND_STAND 8192u
#define CONTEND_STAND_TICKS 256u
/** ... so many writes in which it does not watch, whatever it meets. Whoever PUTs meanwhile
 * sees them, or loses to one of them, and watches. */
#define CONTEND_PUSH 32u
/** Of one that has lost: fewer than these at first, and when it has lost often. */
#define CONTEND_PAUSE_MIN 16u
#define CONTEND_PAUSE_MAX 512u
/** With each write of the key that is not lost this part of them is let off. */
#define CONTEND_EASE 16u

/** Who has met rivals, and has since put the key in so many writes in a row behind the first,
 * says so from then on (notice.h). */
#ifndef CONTEND_SAY
#define CONTEND_SAY 8u
#endif

/** Who has watched in vain n times overlooks 2^n of others' writes, n at most this. */
#define CONTEND_VAIN_MAX 10u

/** Bytes of the longest key whose slot is remembered. */
#define CONTEND_KEY_MAX 47u

/** What a PUT of the key that was written last is to do, beside what all do. */
enum contend_mood {
	CONTEND_CALM,
	CONTEND_HOT,  /* others write it: watch */
	CONTEND_SAYS, /* others watch: say so */
};

struct contend {
	uint64_t hash;  /* of the key that was written last */
	uint64_t state; /* of a xorshift generator; 0 at the beginning */
	uint64_t watched; /* by cpu_ticks(), when it was far and had watched */
	uint32_t pause; /* bound of the next one, if that is not too little */
	uint32_t overlook; /* so many of others' writes */
	uint32_t cost;  /* of a look, in cpu_ticks(), times CONTEND_COST_EASE */
	uint16_t stood; /* before others' writes of that key since the last turn */
	uint16_t watches; /* however they ended, modulo CONTEND_TIMED */
	uint8_t steady; /* watches in a row, of that key and from far, whose first look was enough */
	uint8_t push;   /* so many writes of that key are left of a turn */
	uint8_t run;    /* writes of it that were not lost in a row, CONTEND_SAY + 2 at most */
	uint8_t mood;   /* enum contend_mood */
	bool met;       /* rivals, since another key was written */
	uint8_t vain;   /* watches in vain since one was not */
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
	bool hot = c->mood == CONTEND_HOT;

	if (c->hash != hash) {
		c->hash = hash;
		c->stood = 0;
		c->steady = c->push = c->run = 0;
		c->mood = lost ? CONTEND_HOT : CONTEND_CALM;
		c->met = lost;
		c->pause = lost ? c->pause : 0;
		return;
	}
	if (!lost)
		c->pause -= c->pause / CONTEND_EASE;
	if (c->push) {
		c->push--;
		hot = false;
	} else if (lost) {
		hot = true;
	} else if (foreign && !hot && c->overlook) {
		c->overlook--;
	} else {
		hot |= foreign;
	}
	c->met |= foreign | lost;
	c->run = lost ? 0 : (uint8_t)UTIL_MIN(c->run + 1u, CONTEND_SAY + 2u);
	c->mood = hot			   ? CONTEND_HOT :
		  c->met && c->run >= CONTEND_SAY ? CONTEND_SAYS :
					     CONTEND_CALM;
}

/** What should a PUT of this key do? */
static inline enum contend_mood contend_mood(const struct contend *c, uint64_t hash)
{
	return c->mood && c->hash == hash ? (enum contend_mood)c->mood : CONTEND_CALM;
}

static inline bool contend_hot(const struct contend *c, uint64_t hash)
{
	return contend_mood(c, hash) == CONTEND_HOT;
}

/** Does a look take long? */
static inline bool contend_far(const struct contend *c)
{
	return c->cost >= CONTEND_FAR * CONTEND_COST_EASE;
}

/* From one watch to the next, in cpu_ticks(). */
static inline uint32_t contend_let_be(const struct contend *c)
{
	return contend_far(c) && c->steady >= CONTEND_STEADY ?
		       c->cost / CONTEND_COST_EASE * CONTEND_LET_BE : 0;
}

/* Has the last watch ended less than that ago? A clock that was set back says no. */
static inline bool contend_too_soon(const struct contend *c)
{
	uint32_t ticks = contend_let_be(c);

	return ticks > 0 && cpu_ticks() - c->watched < ticks;
}

/**
 * Before the first look of a PUT that is to watch: let the writer be, if it has had no rest
 * since the last watch. Only for who has nothing else to see to. A spin takes a tick at least,
 * whatever the clock says.
 */
static inline void contend_wait(const struct contend *c)
{
	for (uint32_t n = contend_let_be(c); n > 0 && contend_too_soon(c); n--)
		atom_spin_hint();
}

/** It has watched, and stands before another one's write. */
static inline void contend_stand(struct contend *c)
{
	c->vain = 0;
	c->overlook = 0;
	c->stood += (uint16_t)(1 + contend_let_be(c) / CONTEND_STAND_TICKS);
	if (c->stood < CONTEND_STAND)
		return;
	c->stood = 0;
	c->push = CONTEND_PUSH;
}

/** It has watched, and there was nothing that it can stand before: it writes, and goes on to. */
static inline void contend_vain(struct contend *c)
{
	c->mood = CONTEND_CALM;
	if (c->vain < CONTEND_VAIN_MAX)
		c->vain++;
	c->overlook = 1u << c->vain;
}

/* What a look costs beyond one at what this CPU's own cache has, in cpu_ticks(). */
static inline uint64_t contend_look(const uint64_t *slot, uint64_t *word_out)
{
	uint64_t t0 = cpu_ticks(), t1, own;

	*word_out = atom_load_follow(slot);
	t1 = cpu_ticks();
	(void)atom_load_follow(slot);
	own = cpu_ticks() - t1; /* the clock's own part is in it */
	return UTIL_MAX(t1 - t0, own) - own;
}

/* A timed look; what is known of the cost is by those that found another word than `word`. */
static inline uint64_t contend_look_timed(struct contend *c, const uint64_t *slot,
					  uint64_t word)
{
	uint64_t now, cost = contend_look(slot, &now);
	uint32_t known = c->cost / CONTEND_COST_EASE;

	cost = UTIL_MIN(cost, 2 * known + CONTEND_COST_LEAP);
	cost = UTIL_MIN(cost, CONTEND_COST_MAX);
	if (now != word)
		c->cost += (uint32_t)cost - known;
	return now;
}

/**
 * Watch a slot, which held `word` when this PUT looked (behind contend_wait()), until it holds
 * another: `step` 1; or a count until it has grown by `step`, 2 or more. What it holds then, or
 * did at the last look. Then call contend_stand() or contend_vain().
 */
static inline uint64_t contend_watch(struct contend *c, const uint64_t *slot,
				     uint64_t word, uint64_t step, uint64_t seed)
{
	bool far = contend_far(c);
	uint32_t half = (!far && step > 1 ? CONTEND_LISTEN : CONTEND_WATCH) / 2;
	uint32_t n = half + contend_random(c, half, seed);
	uint32_t look = !far ? 1 : contend_too_soon(c) ? CONTEND_LOOK_SOON : CONTEND_LOOK_FAR;
	uint32_t looks = 0, timed;
	uint64_t now = word;

	c->watches = (uint16_t)((c->watches + 1) % CONTEND_TIMED);
	timed = far || c->watches == 1 ? CONTEND_TIMED_LOOKS : 0;
	for (uint32_t i = 1; i <= n && now - word < step; i++) {
		atom_spin_hint();
		if (i < look && i < n)
			continue;
		look += far ? look : 1;
		looks++;
		if (timed) {
			now = contend_look_timed(c, slot, word);
			timed--;
		} else {
			now = atom_load_follow(slot);
		}
	}
	if (far)
		c->watched = cpu_ticks();
	if (!far || now - word < step || looks > 1)
		c->steady = 0;
	else if (c->steady < CONTEND_STEADY)
		c->steady++;
	return now;
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
