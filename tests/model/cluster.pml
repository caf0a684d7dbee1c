/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cluster.pml - a partition that moves while clients work (doc/cluster.md, "Followers and moves: the
 * rules"), for spin.
 *
 * One key of one partition, and two servers. By epoch 1 of the map server 0 has it, in epoch 2 it is
 * fenced, by epoch 3 server 1 has it; with -DBACK it then moves back, by epochs 4 and 5. Before epoch 3
 * server 1 may be lost: then server 0 has it by epoch 3; with -DLOSES_OWNER server 0 may be lost.
 * Clients get and put by one-sided requests: a server does not see them, and cannot refuse one. They
 * learn maps from both servers, and from a third one that always has the newest. A call counts if a
 * lease of its session covers a moment after it. Any process may stand still for any time. Servers'
 * own leases are the subject of lease.pml.
 *
 * The assertions: a get that counts returns the value of the newest put that counted, or of the newest
 * get that did, before it began, or a newer one; after a takeover nothing from before it.
 *
 * Compiled with -DMUTANT_... one rule is broken, and the model must fail; with -DCOVER_... it must
 * fail because the named place is reached.
 */

#ifndef OPS
#define OPS 1 /* of each client */
#endif
#define CLIENTS 2

byte map = 1;     /* the newest epoch */
bit by_three = 1; /* the server that has the key by epochs 3 and 4 */
#define OWNER(e) ((e) == 3 || (e) == 4 -> by_three : 0)
#define FENCED(e) ((e) == 2 || (e) == 4)

/* Servers. */
byte word[2] = 0;      /* the version of the key's value, 0 without one */
byte installed[2] = 1; /* epochs */
bit gone;              /* server 0 is lost */

/*
 * Clients, and their sessions: of client i at server s. A session has a lease of the map that it has
 * answered; while it owes MAP_ACK that may end, and it gets no other.
 */
#define AT(s, i) ((s) * CLIENTS + (i))
byte epoch[CLIENTS] = 1;
bit inside[CLIENTS];         /* an operation runs */
byte acked[2 * CLIENTS] = 1; /* the epoch of the last MAP_ACK */
bit ended[CLIENTS];          /* ... the session at server 0, that owes MAP_ACK: its lease has ended */

/* The process that copies, and what it has told its server. */
bit runs;
bit killed;
bit whole; /* a pass is complete */
bit last;  /* ... that began after the fence was complete */

/* What only the assertions know. */
byte versions;     /* the newest version */
byte acknowledged; /* ... of a call that counts */
byte lost;         /* all up to this one went with its server */

/* No call that began by an older map than the fence's can count any more. */
#define OWES(s, i) (acked[AT(s, i)] < installed[s])
#ifdef MUTANT_BARRIER_WITHOUT_MAP
bit barrier[CLIENTS]; /* of server 0 */
#define OVER(s, i) (!OWES(s, i) || (s == 0 && (ended[i] || barrier[i])))
#else
#define OVER(s, i) (!OWES(s, i) || (s == 0 && ended[i]))
#endif
#ifdef MUTANT_FENCE_WITHOUT_ACKS
#define FENCE_COMPLETE(s) (FENCED(installed[s]))
#else
#define FENCE_COMPLETE(s) (FENCED(installed[s]) && OVER(s, 0) && OVER(s, 1))
#endif

#define HAS(s, e) (OWNER(e) == (s) && !FENCED(e))
#define OF(s) acked[AT(s, me)] /* the session's map */

/* A call begins where the session's own map leads, too: what the client has heard elsewhere is not enough. */
#ifdef MUTANT_BEGINS_BEFORE_ITS_SERVER
#define MAY_BEGIN (!FENCED(epoch[me]))
#else
#define MAY_BEGIN (!FENCED(epoch[me]) && HAS(OWNER(epoch[me]), OF(OWNER(epoch[me]))))
#endif

/* A lease covers no call that began by an older map: before its MAP_ACK the session may have had none. */
#define LEASED(s) (s == 1 || (!ended[me] && !gone))
#ifdef MUTANT_LEASE_AFTER_ACK
#define COVERED(s) LEASED(s)
#else
#ifdef MUTANT_LEASE_OF_THE_OWNER
#define COVERED(s) (LEASED(s) && HAS(s, OF(s)))
#else
#define COVERED(s) (LEASED(s) && OF(s) <= e)
#endif
#endif

proctype client(byte me; bit writes)
{
	byte e, found, floor, old, n;

	do
	:: n == OPS -> break
	:: n < OPS ->
		atomic {
			n++;
			if
			:: !writes -> floor = acknowledged; old = lost
			:: else
			fi
		}
again:
#ifdef COVER_WAITED
		assert(!FENCED(epoch[me]));
#endif
		atomic {
			MAY_BEGIN ->
			e = epoch[me];
			inside[me] = 1
		}
		atomic {
#ifdef COVER_LATE
			assert(!(e == 1 && FENCE_COMPLETE(0)));
#endif
			if
			:: writes -> versions++; found = versions; word[OWNER(e)] = found
			:: else -> found = word[OWNER(e)]
			fi;
			inside[me] = 0
		}
		/* Until a lease covers it, or there is a newer map. */
		if
		:: atomic { COVERED(OWNER(e)) -> goto counts }
		:: atomic {
			epoch[me] > e ->
#ifdef MUTANT_WAITER_KEEPS_ITS_EPOCH
			goto counts;
#endif
			found = 0;
			if
			:: writes -> goto over /* others may have seen the put, or not */
			:: else -> goto again
			fi
		   }
		fi;
counts:
		atomic {
#ifdef COVER_MOVED
			assert(!(!writes && OWNER(e) == 1 && found > 0 && !gone));
#endif
#ifdef COVER_ABANDONED
			assert(!(e == 3 && by_three == 0));
#endif
#ifdef COVER_LOST
			assert(!(e == 3 && gone && old > 0));
#endif
			assert(writes || found >= floor || floor <= lost);
			assert(found == 0 || found > old);
			if
			:: found > acknowledged && found > lost -> acknowledged = found
			:: else
			fi
		}
over:
		atomic { e = 0; found = 0; floor = 0; old = 0 }
	od
}

inline take_map(s, i)
{
	acked[AT(s, i)] = installed[s];
	ended[i] = (s == 0 -> 0 : ended[i]);
	epoch[i] = (epoch[i] < installed[s] -> installed[s] : epoch[i])
}

/* A client hears of a server's map: MAP, and its MAP_ACK once no operation runs. */
inline hear(s, i)
{
	atomic {
		OWES(s, i) && !inside[i] ->
#ifdef MUTANT_BARRIER_WITHOUT_MAP
		if
		:: s == 0 -> barrier[i] = 1
		:: else -> take_map(s, i)
		fi
#else
		take_map(s, i)
#endif
	}
}

/* ... of the third server's. */
inline learn(i)
{
	atomic { epoch[i] < map && !FENCED(map) && !inside[i] -> epoch[i] = map }
}

inline end_lease(i)
{
	atomic { FENCED(installed[0]) && OWES(0, i) && !ended[i] -> ended[i] = 1 }
}

/* A server reads the map. The one that gets the partition by it has more to do, see move(). */
#define GETS(s) (HAS(s, map) && OWNER(installed[s]) != s)
inline install(s)
{
	atomic {
		installed[s] < map && !GETS(s) && (s == 0 || (map > 2 && by_three)) ->
		installed[s] = map
	}
}

#ifdef BACK
#define DELETES (!runs || killed)
#else
#define DELETES 1
#endif

active proctype world()
{
end:
	do
	:: hear(0, 0)
	:: hear(0, 1)
	:: hear(1, 0)
	:: hear(1, 1)
	:: learn(0)
	:: learn(1)
	:: end_lease(0)
	:: end_lease(1)
#ifdef MUTANT_SERVES_AFTER_FENCE
	:: atomic { ended[0] -> ended[0] = 0 }
	:: atomic { ended[1] -> ended[1] = 0 }
#endif
	:: install(0)
	:: install(1)
	/* The old owner deletes what has moved; not while it comes back. */
	:: atomic {
#ifdef MUTANT_DELETES_AT_FENCE
		word[0] && FENCE_COMPLETE(0) && map == 2 && last ->
#else
		word[0] && map == 3 && !HAS(0, 3) && installed[0] == 3 && !OWES(0, 0) && !OWES(0, 1) && DELETES ->
#endif
		word[0] = 0
	   }
	od
}

/* The process: pass after pass, until it is killed. */
proctype copying(byte from)
{
	byte w;
	bit fence;

	do
	:: atomic { killed -> break }
	/* PASS, PASSED, and a look at the word. */
	:: atomic { !killed -> fence = FENCE_COMPLETE(from); w = word[from] }
		atomic {
#ifdef MUTANT_PASS_BEGAN_BEFORE_FENCE
			fence = FENCE_COMPLETE(from);
#endif
			word[1 - from] = w;
			whole = 1;
			last = last || fence;
			w = 0;
			fence = 0
		}
	od;
	runs = 0
}

#ifdef MUTANT_COPY_BEFORE_FENCE
#define READY whole
#else
#define READY last
#endif

/* The server that gets the partition. */
inline move(from, first)
{
	atomic {
		runs = 1;
		killed = 0;
		whole = 0;
		last = 0;
		run copying(from)
	}
	do
	:: atomic { map == first && whole -> map++ }
	:: atomic { map == first + 1 && READY -> killed = 1 }
	/*
	 * The process has ended before the map says that the partition is here: by that map the old owner
	 * deletes its keys.
	 */
#ifdef MUTANT_COPYING_ENDS_LATE
	:: atomic { map == first + 1 && READY -> map++ }
#else
	:: atomic { map == first + 1 && READY && !runs -> map++ }
#endif
	/* Others count this server as lost; or it sees that the owner is. */
#ifdef LOSES_OWNER
	:: atomic { map < 3 -> map = 3; gone = 1; lost = versions }
#else
#ifndef BACK
	:: atomic { map < 3 -> map = 3; by_three = 0 }
#endif
#endif
	:: map == first + 2 -> break
	od;
	killed = 1;
	!runs;
	atomic {
		if
		:: OWNER(map) == 1 - from ->
#ifndef MUTANT_PART_OF_A_COPY_SERVED
			if
			:: gone -> word[1 - from] = 0
			:: else
			fi;
#endif
			installed[1 - from] = map
		:: else
		fi
	}
}

init
{
	atomic {
		run client(0, 1);
		run client(1, 0)
	}
	move(0, 1);
#ifdef BACK
	installed[0] == 3;
	move(1, 3)
#endif
}
