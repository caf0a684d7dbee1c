/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * follow.pml - followers, farkv_wait_followers() and promotion (doc/cluster.md, "Followers and moves:
 * the rules"), for spin.
 *
 * One key of server A, which B copies. The map says in epoch 1 that A has the key, and whether B
 * follows A ("line"). A's registration may end at any time: in epoch 2 B has the key, with what it
 * has copied if the line is there, else empty. With -DRESTARTS=1, once, the process that copies is
 * replaced, B begins again empty, or others count B as lost. Leases are the subject of lease.pml: a
 * put at A counts here as long as A is registered.
 *
 * A word of A's index is 1 or 2, each of a page of its own. A word that has left the index comes back
 * only after the incarnations of its page have begun again.
 *
 * The assertions: what a wait covers is not lost with A, nor is what the key had when the line was set.
 * What B has acknowledged is not overwritten. B serves nothing of a copy that it was not promoted with.
 *
 * Compiled with -DMUTANT_... one rule is broken, and the model must fail; with -DCOVER_... it must
 * fail because the named place is reached.
 */

#ifndef PUTS
#define PUTS 3 /* at A */
#endif
#ifndef WAITS
#define WAITS 2
#endif
#ifndef RESTARTS
#define RESTARTS 0
#endif

mtype = { IDLE, NEW, RUNNING, LATE, CAUGHT_UP, WAITED, FAILED };

/* The map, in the coordinator. */
byte map = 1;
bit line;

/* A: the key's word and its value's version, a client's WAIT_REQ, and the line of the map that A has. */
byte word = 1;
byte version = 1;
bit used[3];  /* a word is in the index, or waits for a barrier */
bit named[3]; /* incarnations of its page began again since the last PASS */
mtype wait = IDLE;
bit has_line;

/* B: its version of the key, and the process that copies. */
byte copy;
bit serves;     /* B has installed epoch 2 */
bit alive = 1;  /* the process */
bit whole;      /* it has reported a complete pass */
bit has_passed; /* it has begun one */
byte seen;      /* the word in the pass before */
bit told[3];    /* the pages that PASSED named */
bit excluded;   /* others have set a map by which B is lost */
byte restarts;

/* What only the assertions know. */
byte versions = 1;
byte mine;     /* the newest version that is put, unless clients were told that it may be lost */
byte covers;   /* ... when a wait began */
byte waited;   /* the newest version that a wait covers */
byte floor;    /* the newest that B has acknowledged */
byte lost;     /* all up to this one went with A */

/* Only a copy that the map names counts: others do not survive A. */
inline answer()
{
#ifdef MUTANT_WAITED_WITHOUT_LINE
	wait = WAITED;
#else
	wait = (has_line -> WAITED : FAILED);
#endif
	waited = (wait == WAITED && covers > waited -> covers : waited)
}

/* The line may have left the map since A read it: a round that begins now answers. */
inline caught_up()
{
#ifdef MUTANT_WAITED_BY_AN_OLD_VIEW
	answer()
#else
	wait = CAUGHT_UP
#endif
}

/* What a new process's predecessor has applied of its last pass is not known. */
#ifdef MUTANT_NEW_PROCESS_ENDS_THE_PASS
#define FIRST 0
#else
#define FIRST (!has_passed)
#endif
/*
 * A word may have come back during the pass that ended, with another value, and look unchanged. This
 * PASSED names its page, and the pass that begins gets the key.
 */
#ifdef MUTANT_WAITED_IN_DOUBT
#define IN_DOUBT 0
#else
#define IN_DOUBT (named[1] || named[2])
#endif

/* At A: PASS, which says that the previous pass is applied. */
inline pass()
{
	told[1] = named[1];
	told[2] = named[2];
	if
	:: FIRST && (wait == RUNNING || wait == LATE) -> wait = FAILED
	:: !FIRST && wait == LATE ->
#ifdef COVER_LATE
		assert(0);
#endif
		caught_up()
	:: !FIRST && wait == RUNNING && IN_DOUBT -> wait = LATE
	:: !FIRST && wait == RUNNING && !IN_DOUBT -> caught_up()
	:: wait == NEW -> wait = RUNNING
	:: else
	fi;
#ifdef MUTANT_RECURRING_WORD_NOT_NAMED
	told[1] = 0;
	told[2] = 0;
#endif
	named[1] = 0;
	named[2] = 0;
	has_passed = 1
}

/* The process, or the one after it. It may be killed between any two steps. */
active proctype copying()
{
	byte w, got;

	do
	:: map == 2 && !alive -> break
	:: atomic { alive && map == 1 -> pass() }
		if
		:: atomic { alive -> w = word }
		:: !alive -> goto next
		fi;
		if
		:: w != seen || told[w] ->
#ifdef COVER_RECURRED
			assert(w != seen);
#endif
			got = version;
			atomic {
				if
				:: alive -> copy = got; seen = w
				:: else -> goto next
				fi
			}
		:: else
		fi;
		atomic {
			if
			:: alive -> whole = 1
			:: else
			fi
		}
next:
		atomic { w = 0; got = 0 }
	:: atomic {
		map == 1 && !alive ->
		alive = 1;
		has_passed = 0;
		seen = 0;
		told[1] = 0;
		told[2] = 0
	   }
	od
}

/* B's server. */
active proctype b()
{
	do
	:: atomic {
#ifdef MUTANT_LINE_BEFORE_COPY_IS_WHOLE
		map == 1 && !line && alive && !excluded -> line = 1
#else
		map == 1 && !line && alive && !excluded && whole -> line = 1
#endif
	   }
	/* The process ends; or B does, and begins again empty: without its line. */
	:: atomic { map == 1 && alive && restarts < RESTARTS -> restarts++; alive = 0 }
	/* Or others count B as lost, without B's knowledge at first. */
	:: atomic {
		map == 1 && alive && line && restarts < RESTARTS ->
		restarts++;
		line = 0;
		excluded = 1;
		waited = 0
	   }
	:: atomic {
		map == 1 && alive && (excluded || restarts < RESTARTS) ->
		restarts = RESTARTS;
		excluded = 0;
		alive = 0;
		whole = 0;
#ifndef MUTANT_LINE_STAYS
		line = 0;
#endif
		copy = 0;
		waited = 0 /* if A is lost, too, two servers are */
	   }
	:: map == 2 -> break
	od;
#ifndef MUTANT_PROMOTED_BEFORE_COPYING_ENDS
	alive = 0;
#endif
	atomic {
		if
		:: line ->
#ifdef COVER_PROMOTED
			assert(waited < 2);
#endif
			assert(copy >= 1 && copy >= waited);
			floor = (copy > floor -> copy : floor)
		/* Empty: what B has of the key leaves. */
		:: else ->
			assert(!waited);
			lost = versions;
#ifdef MUTANT_PART_OF_A_COPY_SERVED
			skip
#else
			copy = 0
#endif
		fi;
		serves = 1
	}
	alive = 0
}

/* A's rounds with the coordinator, its barriers, the end of its registration. */
active proctype a()
{
	do
	:: atomic {
		map == 1 && (has_line != line || wait == CAUGHT_UP) ->
		has_line = line;
		if
		:: wait == CAUGHT_UP -> answer()
		:: else
		fi
	   }
	:: atomic { map == 1 && used[1] && word != 1 -> used[1] = 0; named[1] = 1 }
	:: atomic { map == 1 && used[2] && word != 2 -> used[2] = 0; named[2] = 1 }
#ifdef MUTANT_BEGINS_AGAIN_UNDER_ITS_MAP
	/* Empty, and registered again before anyone has missed it; else that is as if it were gone. */
	:: atomic {
		map == 1 && restarts < RESTARTS ->
		restarts++;
		version = 0;
		alive = 0;
		wait = (wait == IDLE -> IDLE : FAILED)
	   }
#endif
	:: map == 1 -> map = 2; break
	od
}

/* Puts at A with a word that is free; puts and gets at B. */
active proctype writer()
{
	used[1] = 1;
	do
	:: atomic {
		map == 1 && versions < PUTS + 1 && word != 1 && !used[1] ->
		used[1] = 1; word = 1; versions++; version = versions; mine = versions
	   }
	:: atomic {
		map == 1 && versions < PUTS + 1 && word != 2 && !used[2] ->
		used[2] = 1; word = 2; versions++; version = versions; mine = versions
	   }
#ifdef MUTANT_PUT_BY_A_MAP_FROM_OTHERS
	:: atomic {
		map == 2 && versions < PUTS + 2 ->
#else
	:: atomic {
		serves && versions < PUTS + 2 ->
#endif
		versions++; copy = versions; floor = versions; mine = versions
	   }
	:: atomic { serves -> assert(copy >= floor && (copy == 0 || copy > lost)) }
	:: serves && versions == PUTS + 2 -> break
	od
}

/* farkv_wait_followers(), at A, and later at B, whose followers have all that B has. */
active proctype waiter()
{
	byte n;
	bit knows; /* that a server has lost the key */

	do
	:: atomic {
		n < WAITS && map == 1 ->
		n++;
		covers = mine;
#ifdef MUTANT_WAIT_TAKES_THE_RUNNING_PASS
		wait = RUNNING
#else
		wait = NEW
#endif
	   }
		/* An answer, or the connection to A ends: the call fails. */
		wait == WAITED || wait == FAILED || map == 2;
		atomic { wait = IDLE; covers = 0 }
	:: atomic {
		n < WAITS && serves ->
		n++;
#ifndef MUTANT_WAIT_FORGETS_THE_LOST_SERVER
		if
		:: !knows ->
#ifdef COVER_WAIT_FAILS
			assert(copy >= mine);
#endif
			knows = 1;
			mine = copy
		:: else
		fi;
#endif
		assert(copy >= mine)
	   }
	:: n == WAITS && serves -> break
	od
}
