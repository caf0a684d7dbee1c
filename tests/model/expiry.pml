/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * expiry.pml - values that expire (doc/protocol.md, "Expiry"), for spin.
 *
 * One key in one slot, a writer, a rival that puts, a reader and the reaper. slot.pml has blocks, their reuse
 * and windows; here a word names its content, which never changes. `now` is real time; CLOCK,
 * the region's word, follows it, and stands still while the server is stopped: at each tick of
 * real time the server may or may not move it. What a key is depends on the slot and on CLOCK:
 * the value is there while CLOCK has not reached its expiry.
 *
 * The assertions:
 *   - a value or a miss that a read returns was true at some moment of the read;
 *   - add succeeds only where nothing is; replace succeeds only on a value that was there at a
 *     moment of the operation and that nobody has replaced;
 *   - a put is absorbed only by a client's blind write that took place within it;
 *   - the reaper removes only what has expired.
 *
 * The reader is one by loads, or with -DREMOTE one that knows a sample of CLOCK and the time
 * that passed since.
 */

#ifndef TICKS
#define TICKS 2
#endif
#ifndef OPS0
#define OPS0 1
#endif
#ifndef OPS1
#define OPS1 1
#endif
#ifndef READS
#define READS 1
#endif
#ifndef FIRST
#define FIRST 1 /* when the value that is there at first expires */
#endif
#define OPS(id) ((id) == 0 -> OPS0 : ((id) == 1 -> OPS1 : READS))
#define WRITERS 2
#define CLIENTS 3
#define NEVER 15

/* A word: value 4 | blind 1 | dead 1. Values are versions: none is written twice. */
#define V(w) ((w) & 15)
#define BLIND 16
#define DEAD 32

mtype = { GET, PUT, ADD, REPLACE };

byte slot;
byte expiry[16];         /* of each value */
byte now, clock;

/* What is true, for the assertions only. */
byte blind_writes;
bit asked[CLIENTS];
short seen[CLIENTS];     /* values that were there during the operation, one bit each; 0: none */

#define CURRENT (((slot & DEAD) || expiry[V(slot)] <= clock) -> 0 : V(slot))
#define SAW(v) (seen[id] >> (v) & 1)

inline changed()
{
	for (n : 0 .. CLIENTS - 1) {
		if
		:: asked[n] -> seen[n] = seen[n] | 1 << CURRENT
		:: else
		fi
	}
	n = 0
}

active proctype time()
{
	byte n;

	do
	:: now < TICKS ->
		atomic {
			now++;
			if
#ifdef MUTANT_CLOCK_JUMPS
			:: clock = now
#else
			:: clock++
#endif
			:: true /* the server is stopped */
			fi;
			changed()
		}
	:: else -> break
	od
}

active proctype reaper()
{
	byte w, n;

	w = slot;
	if
	:: !(w & DEAD) && expiry[V(w)] <= clock ->
		atomic {
			if
			:: slot == w ->
				assert(CURRENT == 0);
#ifdef MUTANT_REAPER_BLIND
				slot = w | DEAD | BLIND;
#else
				slot = (w & ~BLIND) | DEAD;
#endif
				changed()
			:: else
			fi
		}
	:: else
	fi
}

proctype client(byte id)
{
	mtype kind;
	byte w, word, value, c, found, blind_before, ops, n;
#ifdef REMOTE
	byte sample, sample_at;
#endif
#ifdef MUTANT_DATED_LOCATION_BELIEVED
	byte remembered;
#endif

next:
	atomic {
		if
		:: ops < OPS(id) -> ops++
		:: else -> goto done
		fi;
		if
		:: id >= WRITERS -> kind = GET
		:: id < WRITERS -> kind = PUT
		:: id == 0 -> kind = ADD
		:: id == 0 -> kind = REPLACE
		fi;
		asked[id] = 1;
		seen[id] = 1 << CURRENT;
		blind_before = blind_writes;
		if
		:: kind != GET ->
			value = 1 + id * 4 + ops;
			if
			:: expiry[value] = NEVER
			:: expiry[value] = clock + 1
			fi;
			word = value | (kind == ADD -> 0 : BLIND)
		:: else
		fi
	}
#ifdef MUTANT_DATED_LOCATION_BELIEVED
	if
	:: kind == REPLACE && remembered -> w = remembered; goto swap
	:: else
	fi;
#endif

again:
	w = slot;
#ifdef MUTANT_CLOCK_AFTER_LAST_LOOK
	if
	:: kind == GET && slot != w -> goto again
	:: else
	fi;
#endif
#ifdef REMOTE
	if
	:: kind == GET && !(w & DEAD) -> goto remote
	:: else
	fi;
#endif
	c = clock;
	if
	:: kind == GET ->
#ifndef MUTANT_CLOCK_AFTER_LAST_LOOK
		if
		:: slot != w -> goto again
		:: else
		fi;
#endif
		if
		:: (w & DEAD) || expiry[V(w)] <= c -> goto miss
		:: else -> goto hit
		fi
	:: kind == PUT -> goto swap
	:: kind == ADD ->
		if
		:: (w & DEAD) || expiry[V(w)] <= c -> goto swap
		:: else -> assert(seen[id] & ~1); goto finish
		fi
	:: kind == REPLACE ->
		if
		:: (w & DEAD) || expiry[V(w)] <= c ->
			if
			:: slot == w -> goto miss
			:: else -> goto again
			fi
		:: else -> goto swap
		fi
	fi;

#ifdef REMOTE
remote:
	/* CLOCK was at least `sample` all the time, and can by now have reached `c`. */
	c = sample + now - sample_at;
	if
#ifdef MUTANT_MISS_EXTRAPOLATED
	:: expiry[V(w)] <= c -> goto miss
#else
	:: expiry[V(w)] <= sample -> goto miss
#endif
	:: expiry[V(w)] > c -> goto hit
	:: else
	fi;
#ifdef COVER_UNSURE
	assert(false);
#endif
	/* One chain. */
	c = now;
	sample = clock;
	sample_at = c;
	c = 0;
	if
	:: slot != w -> goto again
	:: slot == w && expiry[V(w)] <= sample -> goto miss
	:: else -> goto hit
	fi;
#endif

hit:
	assert(SAW(V(w)));
	goto finish;
miss:
#ifdef COVER_EXPIRED_MISS
	assert(w & DEAD);
#endif
	assert(SAW(0));
	goto finish;

swap:
	atomic {
		found = slot;
		if
		:: found == w ->
			assert(kind != ADD || CURRENT == 0);
			assert(kind != REPLACE || SAW(V(w)));
#ifdef COVER_ADD_REPLACES_EXPIRED
			assert(kind != ADD || (w & DEAD));
#endif
			slot = word;
			blind_writes = blind_writes + (kind != ADD);
			changed();
#ifdef MUTANT_DATED_LOCATION_BELIEVED
			remembered = word;
#endif
			goto finish
		:: else
		fi
	}
	if
	:: kind == PUT && (found & BLIND) ->
		assert(blind_writes > blind_before);
		goto finish
	:: kind == ADD && !(found & DEAD) && expiry[V(found)] == NEVER ->
		assert(seen[id] & ~1);
		goto finish
	:: else -> goto again /* the word found may name what has expired */
	fi;

finish:
	atomic {
		asked[id] = 0;
		seen[id] = 0;
		w = 0;
		word = 0;
		value = 0;
		found = 0;
		c = 0
	}
	goto next;
done:
	skip
}

init
{
	atomic {
		expiry[13] = FIRST;
		slot = 13 | BLIND;
		run client(0);
		run client(1);
		run client(2)
	}
}
