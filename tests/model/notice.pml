/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * notice.pml - what a put may conclude from another session's count (common/notice.h,
 * doc/protocol.md, *Notices*), for spin.
 *
 * Sessions put two keys, and one notice is theirs by turns: who says something and owns
 * none takes it, if it is nobody's; who leaves says goodbye, and the server makes it nobody's.
 * What is stored there leaves the session's store buffer some time later, in the order of the
 * stores, before the next compare-and-swap at the latest. A put listens: it looks at the count,
 * and again later. Between any two steps anything may happen for any time.
 *
 * The assertion: a put that hears was overtaken by a blind put of its key within it.
 *
 * With -DMUTANT_... one rule is broken, and the model must fail; with -DCOVER_... it must
 * fail because the named place is reached.
 */

#ifndef PUTS
#define PUTS 3 /* of each session */
#endif
#define SESSIONS 2
#define NOBODY 0

#ifdef MUTANT_ONE_IS_ENOUGH
#define STEP 1
#else
#define STEP 2
#endif

/* The notice. Sessions are 1 and 2, keys (and their slots) 1 and 2. */
byte owner, slot, count;

/* A store buffer for each session: what is not there yet. 0: nothing. */
byte slot_late[SESSIONS + 1], count_late[SESSIONS + 1];

bit left[SESSIONS + 1]; /* it has said goodbye */

/* What is true, for the assertion only: puts of key 1 since the listener's put of it began. */
bit within, begun;

#define DRAINED(id) (!slot_late[id] && !count_late[id])

/* An atomic access waits for what was stored before it. */
#ifdef MUTANT_SWAP_OVERTAKES_THE_COUNT
#define BEFORE_SWAP(id) true
#else
#define BEFORE_SWAP(id) DRAINED(id)
#endif

proctype session(byte id)
{
	byte n, k, mine, named;
	bit owns;

	do
	:: n < PUTS ->
		atomic {
			/* The swap. */
			BEFORE_SWAP(id) ->
			n++;
			if
			:: k = 1
			:: k = 2
			fi;
#ifndef MUTANT_SAYS_BEFORE_ITS_SWAP
			within = within || (begun && k == 1)
#endif
		}
		if
		:: skip /* and says nothing */
		:: owns ->
			atomic {
#ifndef MUTANT_SLOT_STAYS
				if
				:: named != k ->
					named = k;
					slot_late[id] = k
				:: else
				fi;
#endif
				mine++;
				count_late[id] = mine
			}
		:: !owns && owner == NOBODY ->
			atomic {
				if
				:: owner == NOBODY && DRAINED(id) ->
					owner = id;
					owns = 1;
					named = 0;
#ifdef MUTANT_SLOT_STAYS
					slot = k;
#endif
					mine = count;
#ifdef MUTANT_CLAIM_COUNTS
					named = k;
					slot_late[id] = k;
					mine++;
					count_late[id] = mine
#endif
				:: else
				fi
			}
		fi;
#ifdef MUTANT_SAYS_BEFORE_ITS_SWAP
		within = within || (begun && k == 1)
#endif
	:: owns ->
		/* It leaves, and comes back as another one. */
		atomic {
#ifndef MUTANT_FREED_BEFORE_ITS_END
			DRAINED(id) ->
#endif
			left[id] = 1;
			owns = 0
		}
	:: n == PUTS -> break
	od
}

/* What was stored becomes visible, in the order of the stores. */
active proctype memory()
{
	byte id;

	do
	:: atomic {
		if
		:: id = 1
		:: id = 2
		fi;
		if
#ifdef MUTANT_SLOT_BEHIND_COUNT
		:: count_late[id] -> count = count_late[id]; count_late[id] = 0
		:: !count_late[id] && slot_late[id] -> slot = slot_late[id]; slot_late[id] = 0
#else
		:: slot_late[id] -> slot = slot_late[id]; slot_late[id] = 0
		:: !slot_late[id] && count_late[id] -> count = count_late[id]; count_late[id] = 0
#endif
		:: else
		fi;
		id = 0
	}
	od
}

active proctype server()
{
	byte id;

end:
	do
	:: atomic {
		owner != NOBODY && left[owner] ->
		left[owner] = 0;
#ifdef COVER_NEXT_OWNER
		assert(id == 0 || id == owner);
		id = owner;
#endif
		owner = NOBODY
	}
	od
}

/* One put is enough: it begins at any time. So is one key: the sessions put either. */
active proctype listener()
{
	byte first, now, named;

	begun = 1;
	first = count;
#ifndef NO_FIRST_LOOK
	slot == 1;
#endif
#ifdef MUTANT_SLOT_READ_FIRST
	named = slot;
#endif
	now = count;
#ifndef MUTANT_SLOT_READ_FIRST
	named = slot;
#endif
#ifdef MUTANT_WHATEVER_SLOT
	named = 1;
#endif
	atomic {
		if
		:: now >= first + STEP && named == 1 ->
#ifdef COVER_HEARD
			assert(false);
#endif
			assert(within)
		:: else
		fi
	}
}

init
{
	atomic {
		run session(1);
		run session(2)
	}
}
