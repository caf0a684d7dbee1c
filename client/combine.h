/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * combine.h - threads of one process that put the same key share one write.
 *
 * A blind put that another one replaces at once leaves no trace. So of those that want
 * to put one key at the same moment one writes, the leader, and the others wait for it:
 * each of theirs stands just before the leader's. Two rules make that right
 * (doc/protocol.md, "One write for many"):
 *
 *   - a put is done by a run that begins after it has come here, never by one that
 *     had begun; who comes during a run waits for the next;
 *   - only a run whose put succeeded counts. After any other each is on its own.
 *
 * It is for where a write takes long and costs the same whoever it is for: over RDMA.
 * Fewer requests are carried out; on two CPUs, the only ones that it was measured on, the
 * rate was no higher. It is asked only for keys over which compare-and-swaps were lost of
 * late (struct combine_heat, of one handle), so that other puts touch nothing that is
 * shared.
 *
 * One table for all handles of the process, told apart by region. Any thread; nothing here
 * is blocked by a thread that has stopped: who waits has a bound. No lock is taken and no
 * memory; who waits yields the CPU now and then. fork(): combine_fork_child().
 */
#ifndef CLIENT_COMBINE_H
#define CLIENT_COMBINE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/index.h"

/* Longer keys are not combined. */
#define COMBINE_KEY_MAX 128u
/* Nobody waits longer than this, nor than four runs have taken of late. */
#define COMBINE_WAIT_MAX_NS UINT64_C(2000000)

/* ---- which keys --------------------------------------------------------------------- */

#define COMBINE_HOT_KEYS 8u
/* So many puts without a rival, and a key is an ordinary one again. */
#define COMBINE_HEAT 16u

/** Keys of one handle that are fought over; its thread's. Zeroed at first. */
struct combine_heat {
	uint32_t n; /* of those below that are hot */
	struct {
		uint64_t hash;
		uint32_t heat; /* 0: free */
	} key[COMBINE_HOT_KEYS];
};

/** Is it worth a look at the table? By the hash alone: a hint. */
static inline bool combine_is_hot(const struct combine_heat *h, uint64_t hash)
{
	if (__builtin_expect(h->n == 0, 1))
		return false;
	for (unsigned i = 0; i < COMBINE_HOT_KEYS; i++)
		if (h->key[i].heat && h->key[i].hash == hash)
			return true;
	return false;
}

/** A put of this key met rivals, or none. */
void combine_met(struct combine_heat *h, uint64_t hash, bool rivals);

/* ---- one put ------------------------------------------------------------------------ */

enum combine {
	COMBINE_LEAD,  /* write, then combine_end() */
	COMBINE_DONE,  /* a run that began later than this call has written */
	COMBINE_ALONE, /* write; nobody waits for it, and there is nothing to end */
};

struct combine_slot;

/* A leader's, until combine_end(). */
struct combine_run {
	struct combine_slot *slot;
	uint64_t number;
	uint64_t began_ns;
};

/**
 * Before a blind put of `key` in the region with this id: lead, or wait for others, until
 * `deadline_ns` (clock_now_ns()) at most. `run` is filled in for COMBINE_LEAD.
 *
 * Pairs with combine_end(): what the leader's put did is visible to who gets DONE.
 */
enum combine combine_begin(const uint64_t region_id[2],
			   const struct index_key *key, uint64_t deadline_ns,
			   struct combine_run *run);

/**
 * The leader's put is over: `ok` if it succeeded for certain. True if anybody has
 * waited, or waits, for this key.
 */
bool combine_end(struct combine_run *run, bool ok);

/** Tests: everybody waits so long at most; 0: as above. */
void combine_set_patience(uint64_t ns);

/** In a child of fork(2): leaders of the parent's threads are gone. */
void combine_fork_child(void);

#endif
