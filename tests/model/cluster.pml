/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cluster.pml - changes of a cluster's map (doc/cluster.md, "Changes of the map"), for spin.
 *
 * One key of one partition, and two servers. Epoch 1 of the map gives the partition to server 0, epoch
 * 2 to server 1, epoch 3 to server 0 again. Clients get and put by one-sided requests: a server does
 * not see them, and cannot refuse one. Without -DTAKEOVER the partition is moved by plan; with it each
 * owner loses its registration, and the partition goes to the other server, empty.
 *
 * The assertions: a get returns the value of the newest put that was acknowledged before it began, or
 * a newer one; after a takeover nothing that was written before it. No client reads memory that was
 * given another use.
 *
 * Compiled with -DMUTANT_... one rule is broken, and the model must fail; with -DCOVER_... it must
 * fail because the named place is reached.
 */

#ifndef OPS
#define OPS 2 /* of each client */
#endif
#define CLIENTS 2

/* A word: the version of the value, 0 without one. */
#define FENCED 64
#define REUSED 128
#define VERSION(w) ((w) & 63)

#define OWNER(epoch) (1 - (epoch) % 2)

byte word[2];      /* of the key, in the memory of each server */
bit connected[2];  /* clients' requests reach it */
byte map = 1;      /* the epoch of the map that may be learnt */
byte epoch[CLIENTS];
bit inside[CLIENTS]; /* an operation runs, and does not wait */

/* What only the assertions know. */
byte versions;     /* the newest version */
byte acknowledged; /* ... of a put that has returned */
byte lost;         /* all up to this one went with its server */

/* An operation goes on only where its own map leads. */
inline enter()
{
	atomic {
		inside[me] = 1;
#ifdef MUTANT_WAITER_KEEPS_ITS_SERVER
		if
		:: fresh -> s = OWNER(epoch[me]); fresh = 0
		:: else
		fi
#else
		s = OWNER(epoch[me])
#endif
	}
}

/* Wait for a newer map, by a message to a server; counts as over for a barrier. */
inline wait_for_map()
{
	inside[me] = 0;
	atomic {
		map > epoch[me] || OWNER(epoch[me]) != s;
#ifdef COVER_WAITED
		assert(0);
#endif
		epoch[me] = map
	}
}

proctype client(byte me; bit writes)
{
	byte w, s, floor, old, n, mine;
	bit fresh;

	do
	:: n == OPS -> break
	:: n < OPS ->
		n++;
		fresh = 1;
		atomic { floor = acknowledged; old = lost }
again:
		enter();
		if
		:: atomic { connected[s] -> w = word[s] }
		:: !connected[s] -> wait_for_map(); goto again
		fi;
		assert(!(w & REUSED));
		if
		:: w & FENCED ->
#ifdef MUTANT_READS_WHAT_IS_FENCED
			if
			:: !writes -> goto found
			:: else
			fi;
#endif
			wait_for_map();
			goto again
		:: else
		fi;
		if
		:: writes ->
			/* The CAS. */
			atomic {
				if
				:: connected[s] && word[s] == w ->
					versions++;
					mine = versions;
					word[s] = mine
				:: connected[s] && word[s] != w -> goto again
				:: !connected[s] -> mine = 0
				fi
			}
			if
			:: mine == 0 -> wait_for_map(); goto again
			:: else
			fi;
			/* It returns. */
			atomic {
				if
				:: mine > acknowledged && mine > lost -> acknowledged = mine
				:: else
				fi;
				inside[me] = 0
			}
		:: else ->
#ifdef MUTANT_READS_WHAT_IS_FENCED
found:
#endif
			atomic {
				assert(VERSION(w) >= floor || floor <= lost);
				/* It began after a takeover: nothing from before. */
				assert(VERSION(w) == 0 || VERSION(w) > old);
				inside[me] = 0
			}
		fi;
		atomic { w = 0; mine = 0; floor = 0; old = 0 }
	od
}

/* All operations that were begun before are over; the answer means that the map is installed. */
inline barrier()
{
	atomic {
		!inside[0];
#ifndef MUTANT_BARRIER_WITHOUT_MAP
		epoch[0] = map
#endif
	}
	atomic {
		!inside[1];
#ifndef MUTANT_BARRIER_WITHOUT_MAP
		epoch[1] = map
#endif
	}
}

#ifndef TAKEOVER
proctype move()
{
#ifdef MUTANT_COPY_BEFORE_FENCE
	word[1] = VERSION(word[0]);
	word[0] = word[0] | FENCED;
#else
#ifndef MUTANT_NO_FENCE
	word[0] = word[0] | FENCED;
#endif
#ifdef MUTANT_SERVES_BEFORE_COPY
	map = 2;
#endif
	word[1] = VERSION(word[0]);
#endif
#ifdef COVER_MOVED_VALUE
	assert(word[1] == 0);
#endif
	map = 2;
#ifndef MUTANT_NO_BARRIER
	barrier();
#endif
	/* Another partition's memory. */
	word[0] = REUSED
}
#else
/* The owner of `map` is cut off. Its own clock ends its lease before others may know. */
inline takeover(from, to)
{
#ifndef MUTANT_SERVES_AFTER_LEASE
	connected[from] = 0;
#endif
	atomic {
#ifndef MUTANT_RETURNS_WITH_DATA
		word[to] = 0;
#endif
		connected[to] = 1;
		lost = versions;
		map++
	}
#ifdef MUTANT_SERVES_AFTER_LEASE
	connected[from] = 0
#endif
}

proctype coordinator()
{
	takeover(0, 1);
	takeover(1, 0)
}
#endif

init
{
	atomic {
		connected[0] = 1;
#ifndef TAKEOVER
		connected[1] = 1;
#endif
		epoch[0] = 1;
		epoch[1] = 1;
		run client(0, 1);
		run client(1, 0);
#ifdef TAKEOVER
		run coordinator()
#else
		run move()
#endif
	}
}
