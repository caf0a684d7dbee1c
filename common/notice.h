/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * notice.h - who puts one key again and again counts its puts in the region, for those who
 * watch.
 *
 * A PUT may stand before another one's of the same key whose swap came within it
 * (doc/protocol.md), so who watches has to see one. To look at the key's slot for it takes
 * that line from the writer, which needs it for its next compare-and-swap and waits. A
 * counter beside it is stored to, and not waited for: the line is asked for back while the
 * next block is written. So each session may own a notice on the region's board: which
 * slot, and how many puts. Only the owner stores these two.
 *
 * What a count says: it is stored behind its put's swap and before the next one's (that swap
 * releases what was stored before it). So who reads n, and later n + 2 and behind it the slot,
 * knows that between the two the owner has put that slot's key (protocol.md, *Notices*). Who
 * reads n + 1 does not: that put's swap may be older than what it first read.
 *
 * Hints lead from a slot to the notice that may be of it; they promise nothing. Where
 * there is no board, or no notice is left, nobody says anything, and who watches looks at
 * the slot.
 *
 * Not thread-safe: it is its session's. No system call, no lock.
 */
#ifndef COMMON_NOTICE_H
#define COMMON_NOTICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "atomic.h"
#include "fetch.h"
#include "layout.h"

/** By so much a count has to have grown. */
#define NOTICE_STEP 2

/** A hint is set anew with each so many that are counted. */
#define NOTICE_HINT 64u

struct notice {
	uint64_t *hints; /* the board in the region; NULL: there is none */
	struct notice_line *lines; /* ... and its notices */
	struct notice_line *own;
	uint64_t name;  /* of the own one, in hints; 0: none */
	uint64_t slot, count; /* what it says */
	uint64_t silent; /* a count that has been listened to in vain */
	uint64_t refused; /* none was left when this slot was to be said */
	uint32_t owner; /* the session's number; 0: not known yet */
};

/** The board of a region that is mapped at `base` for writing, if it has one. */
void notice_open(struct notice *n, uint8_t *base, const struct superblock *sb);

/** Own a notice, to say this of what is put from now on. False if all are others'; for another
 * slot it tries again. */
bool notice_claim(struct notice *n, uint64_t slot_off);

/** It is about to say something. */
static inline void notice_fetch(const struct notice *n)
{
	if (n->own)
		fetch_line_to_own(n->own);
}

/**
 * This session has put this slot's key; the swap was just now. `begins`: it has said nothing of
 * it for a while. Who reads a count is to find the slot that was named before. Who owns no
 * notice yet claims one, and counts its next put.
 */
static inline void notice_say(struct notice *n, uint64_t slot_off, bool begins)
{
	/* The swap can be older than what the notice's last owner counted last. */
	if (!n->own) {
		(void)notice_claim(n, slot_off);
		return;
	}
	if (n->slot != slot_off) {
		n->slot = slot_off;
		atom_store_publish(&n->own->slot, slot_off);
	}
	/* Two that share a hint do not take it from each other at each put. */
	if (begins || n->count % NOTICE_HINT == 0)
		atom_store_relaxed(&n->hints[board_hint(slot_off)], n->name);
	atom_store_publish(&n->own->count, ++n->count);
}

/**
 * Another session's notice that may be about this slot, or NULL. Its count and slot are read
 * by atom_load_follow(), in this order.
 */
static inline const struct notice_line *notice_about(const struct notice *n, uint64_t slot_off)
{
	uint64_t name = n->hints ? atom_load_relaxed(&n->hints[board_hint(slot_off)]) : 0;

	return name - 1 < BOARD_NOTICES && name != n->name ? &n->lines[name - 1] : NULL;
}

#endif
