/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A slot's `word` counts the runs: even, none is under way; odd, one is. It changes by
 * compare-and-swap from even to odd, and by its leader's store back. A slot belongs to the
 * key that its last leader had; `bound` says since which run.
 */
#include "config.h"

#include "combine.h"

#include <sched.h>
#include <string.h>

#include "common/atomic.h"
#include "common/clock.h"
#include "common/util.h"

#define SLOTS 64u
#define KEY_WORDS (COMBINE_KEY_MAX / 8)
/* A run that begins takes this long, until it is known better. */
#define RUN_NS_AT_FIRST UINT64_C(50000)
/* Looks at a slot between two at the clock, where the CPU is given away, too. */
#define LOOKS 64u

/* Region, length and bytes of a key, zeros behind. */
#define NAME_WORDS (2 + 1 + KEY_WORDS)

/* Of a slot whose name is being changed, or that never had one. */
#define UNBOUND 0u

/*
 * All but `wanted` is written by the leader of the moment alone. `bound` becomes UNBOUND
 * before `name` changes, each word of which is a releasing store, and the run's number
 * behind it. So who finds the same `bound` before and after it has read a name has read
 * the name of that binding.
 */
struct combine_slot {
	uint64_t word;    /* runs begun and ended: each counts 2, or 1 meanwhile */
	uint64_t last_ok; /* number of the last run that succeeded; from 1 */
	uint64_t bound;   /* ... and of the first one for this key */
	uint64_t took_ns; /* a run, of late */
	uint32_t wanted;  /* somebody waits, or has waited for the last run */
	uint64_t name[NAME_WORDS];
} __attribute__((aligned(64)));

static struct combine_slot slots[SLOTS];
static uint64_t patience_ns; /* if not 0; changes while nobody waits */

/* ---- which keys --------------------------------------------------------------------- */

void combine_met(struct combine_heat *h, uint64_t hash, bool rivals)
{
	unsigned at = 0;

	for (unsigned i = 0; i < COMBINE_HOT_KEYS; i++) {
		if (h->key[i].heat && h->key[i].hash == hash) {
			at = i;
			break;
		}
		if (h->key[i].heat < h->key[at].heat)
			at = i;
	}
	if (h->key[at].heat == 0 || h->key[at].hash != hash) {
		if (!rivals)
			return;
		h->n += h->key[at].heat == 0;
		h->key[at].hash = hash;
		h->key[at].heat = 0;
	}
	if (rivals)
		h->key[at].heat = COMBINE_HEAT;
	else if (--h->key[at].heat == 0)
		h->n--;
}

/* ---- slots -------------------------------------------------------------------------- */

static void name_fill(uint64_t *name, const uint64_t region_id[2],
		      const struct index_key *key)
{
	memset(name, 0, NAME_WORDS * 8);
	name[0] = region_id[0];
	name[1] = region_id[1];
	name[2] = key->len;
	memcpy(&name[3], key->data, key->len);
}

static unsigned name_words(const uint64_t *name)
{
	return 3 + (unsigned)(name[2] + 7) / 8;
}

static bool name_is(const struct combine_slot *s, const uint64_t *name)
{
	for (unsigned i = 0; i < name_words(name); i++)
		if (atom_load_follow(&s->name[i]) != name[i])
			return false;
	return true;
}

/* The run under way, or, of an even word, the next one. */
static uint64_t run_of(uint64_t word)
{
	return word / 2 + 1;
}

/* Begin the run that follows on `word`, even. */
static bool lead(struct combine_slot *s, uint64_t word, const uint64_t *name,
		 struct combine_run *run)
{
	if (atom_cas_u64(&s->word, word, word + 1) != word)
		return false;
	*run = (struct combine_run){.slot = s,
				    .number = run_of(word),
				    .began_ns = clock_now_ns()};
	atom_store_relaxed(&s->wanted, 0);
	if (!name_is(s, name)) {
		atom_store_relaxed(&s->bound, UNBOUND);
		atom_store_relaxed(&s->took_ns, RUN_NS_AT_FIRST);
		for (unsigned i = 0; i < NAME_WORDS; i++)
			atom_store_publish(&s->name[i], name[i]);
		atom_store_publish(&s->bound, run->number);
	}
	return true;
}

bool combine_end(struct combine_run *run, bool ok)
{
	struct combine_slot *s = run->slot;
	uint64_t took = clock_now_ns() - run->began_ns;
	uint64_t before = atom_load_relaxed(&s->took_ns);

	atom_store_relaxed(&s->took_ns, before - before / 4 + took / 4);
	if (ok)
		atom_store_publish(&s->last_ok, run->number);
	atom_store_publish(&s->word, run->number * 2);
	return atom_load_relaxed(&s->wanted) != 0;
}

/*
 * A run for this key, of this number or a later one, has succeeded. The slot was the
 * key's at run `bound`; if it is so since the same run it was so all the time.
 */
static bool run_done(const struct combine_slot *s, uint64_t number, uint64_t bound)
{
	return atom_load_follow(&s->last_ok) >= number &&
	       atom_load_relaxed(&s->bound) == bound;
}

static uint64_t patience_until(const struct combine_slot *s, uint64_t deadline_ns)
{
	uint64_t wait = UTIL_MIN(4 * atom_load_relaxed(&s->took_ns),
				 COMBINE_WAIT_MAX_NS);

	if (patience_ns)
		wait = patience_ns;
	return UTIL_MIN(clock_now_ns() + wait, deadline_ns);
}

/* Wait for run `number` or a later one; between two runs, lead. */
static enum combine await(struct combine_slot *s, uint64_t number, uint64_t bound,
			  const uint64_t *name, uint64_t until_ns,
			  struct combine_run *run)
{
	for (unsigned looks = 1;; looks++) {
		uint64_t word = atom_load_follow(&s->word);

		if (run_done(s, number, bound))
			return COMBINE_DONE;
		if (atom_load_relaxed(&s->bound) != bound)
			return COMBINE_ALONE;
		if (word % 2 == 0 && lead(s, word, name, run))
			return COMBINE_LEAD;
		if (!atom_load_relaxed(&s->wanted))
			atom_store_relaxed(&s->wanted, 1);
		atom_spin_hint();
		if (looks % LOOKS)
			continue;
		if (clock_now_ns() >= until_ns)
			return COMBINE_ALONE;
		sched_yield();
	}
}

enum combine combine_begin(const uint64_t region_id[2],
			   const struct index_key *key, uint64_t deadline_ns,
			   struct combine_run *run)
{
	struct combine_slot *s = &slots[key->hash % SLOTS];
	uint64_t name[NAME_WORDS], bound, word;

	if (key->len > COMBINE_KEY_MAX)
		return COMBINE_ALONE;
	name_fill(name, region_id, key);
	/* In this order: whose the slot is, its runs, whose it still is. */
	bound = atom_load_follow(&s->bound);
	word = atom_load_follow(&s->word);
	if (word % 2 == 0 && lead(s, word, name, run))
		return COMBINE_LEAD;
	if (bound == UNBOUND || !name_is(s, name) ||
	    atom_load_relaxed(&s->bound) != bound)
		return COMBINE_ALONE;
	/* A run that was under way may have written already: the next one. */
	return await(s, run_of(word) + word % 2, bound, name,
		     patience_until(s, deadline_ns), run);
}

void combine_set_patience(uint64_t ns)
{
	patience_ns = ns;
}

void combine_fork_child(void)
{
	memset(slots, 0, sizeof(slots));
}
