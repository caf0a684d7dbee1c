/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * fsck_rig.h - checks of the region inside the server: alice and bob, who request them
 * and answer sweeps meanwhile, and an index of two subtables.
 */
#ifndef TESTS_RIG_FSCK_RIG_H
#define TESTS_RIG_FSCK_RIG_H

#include "control_rig.h"
#include "server/index/fsck_index.h"

/* ---- clients ----------------------------------------------------------------- */

struct mind {
	uint64_t begun;  /* SWEEP_BEGIN to be acknowledged, or 0 */
	uint64_t number; /* of the sweep */
	uint32_t asked;  /* SWEEP_QUERY to be answered, or 0 */
	unsigned told;   /* FSCKs received */
	struct msg fsck; /* ... the last one */
};

struct mind *mind_of(const struct peer *p);

/** For peer.heard. */
void heard(struct peer *p, const struct msg *m);

/** Set to 0 by the next FSCK; or NULL. */
extern uint64_t *spoilt;

/** Request a check. False: this has ended the session. */
bool request(struct peer *p);

/** Answer its last SWEEP_BEGIN and SWEEP_QUERY. */
void answer_sweep(struct peer *p);

/** Answer for both sessions. True if `p` has received `n` FSCKs. */
bool told(const struct peer *p, unsigned n);

/** The content of its last FSCK. */
uint64_t said(const struct peer *p, enum msg_fsck id);

/** A check of alice's. */
void check(void);

/** The check found `n` problems of kind `id`, and none of the others. */
void check_problems(enum msg_fsck id, uint64_t n);
#define CLEAN check_problems(MSG_FSCK_BAD_SUMS, 0)

/* ---- the index --------------------------------------------------------------- */

/** Undone by rig_end(). */
void setup(void);

uint64_t *slots_in(unsigned subtable);

/** A key of some subtable, its block, and the word for it. */
struct item {
	char key[16];
	uint64_t hash, word;
	unsigned home; /* slot; there are slots before its window, and after it */
	uint32_t value_len; /* of zeros, ITEM_VALUE_MAX at most */
};

#define ITEM_VALUE_MAX 16000u
struct item item_new(unsigned subtable);

/** Write its next block: the word changes. */
void item_write(struct item *item, struct block_ref ref);

struct block_ref grant(uint8_t cls);

#endif
