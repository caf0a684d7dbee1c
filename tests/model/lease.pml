/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lease.pml - leases of a cluster's servers (doc/cluster.md, "Leases"), for spin.
 *
 * One key, two servers, and a coordinator that counts a registration as lost when it has heard nothing
 * for a tick. Odd epochs of the map give the key to server 0, even ones to server 1. A server renews
 * its lease by a round: it writes its registration, then reads the map; the lease lasts a tick from
 * the round's begin, under the epoch that was read. A client asks for what is left of the lease. It
 * reads and writes the server's memory by itself: a server that stands still cannot refuse it. What a
 * client found counts only if a lease covers a moment after it looked.
 *
 * Any process may stand still for any time: nothing but the clock ends a lease. The assertions: a get
 * that counts returns nothing from before a takeover that was over when it began, and nothing older
 * than a put that counted before it began and whose server was not lost.
 *
 * Compiled with -DMUTANT_... one rule is broken, and the model must fail; with -DCOVER_... it must
 * fail because the named place is reached.
 */

#ifndef TICKS
#define TICKS 3
#endif
#ifndef ROUNDS
#define ROUNDS 2 /* of each server */
#endif
#ifndef PUTS
#define PUTS 2
#endif
#define LEASE 1
#define EXPIRY 1
#define OWNER(epoch) (1 - (epoch) % 2)

byte now = 1;
byte map = 1;     /* the epoch, in the coordinator */
byte heard[2];    /* when it last heard of a server */
bit registered[2];

/* A server: its memory, the epoch by which it serves, the end of its lease. */
byte word[2];
byte installed[2];
byte lease[2];

/* What only the assertions know. */
byte versions;
byte acknowledged; /* the newest put that counts */
byte lost;         /* all up to this one went with its server */

active proctype clock()
{
	do
	:: now < TICKS -> now++
	/* The owner is gone, as far as anyone knows: the other server has the key, empty. */
	:: d_step {
		map < 3 && registered[OWNER(map)] && now >= heard[OWNER(map)] + EXPIRY ->
		registered[OWNER(map)] = 0;
		map++;
		lost = versions
	   }
	:: now == TICKS -> break
	od
}

proctype server(byte me)
{
	byte began, read, n;

	do
	:: n < ROUNDS ->
		n++;
#ifdef MUTANT_MAP_READ_FIRST
		read = map;
#endif
		/* Between the begin and the write time may pass; that makes the lease shorter only. */
		d_step {
			began = now;
			heard[me] = now;
			registered[me] = 1
		}
		d_step {
#ifndef MUTANT_MAP_READ_FIRST
			read = map;
#endif
#ifdef MUTANT_LEASE_FROM_ANSWER
			began = now;
#endif
			/* It has lost the key by an epoch up to this one, or gets it: both begin empty. */
			if
			:: read > installed[me] ->
#ifdef COVER_RETURNED
				assert(read < 3 || me == 1);
#endif
#ifdef MUTANT_RETURNS_WITH_DATA
				skip;
#else
				word[me] = 0;
#endif
				installed[me] = read
			:: else
			fi;
			if
			:: OWNER(read) == me && began + LEASE > lease[me] -> lease[me] = began + LEASE
			:: else
			fi;
			began = 0;
			read = 0
		}
	:: n == ROUNDS -> break
	od
}

/* Of the same memory: a server that begins again ends its sessions, and a lease is a session's. */
#define LEASED (installed[s] == memory && lease[s] > now)

/* A put that counts: at the owner by the present map, under its lease. */
proctype writer()
{
	byte n;

	do
	:: n < PUTS && installed[OWNER(map)] == map && lease[OWNER(map)] > now ->
		d_step {
			if
			:: installed[OWNER(map)] == map && lease[OWNER(map)] > now ->
				n++;
				versions++;
				word[OWNER(map)] = versions;
				acknowledged = versions
			:: else
			fi
		}
	:: break
	od
}

proctype reader()
{
	byte epoch = 1, s, memory, until, at, found, floor, old;

	d_step { floor = acknowledged; old = lost }
again:
	skip;
	/* The operation, and the look at the clock; what lies between can only be refused. */
	d_step {
		s = OWNER(epoch);
		memory = installed[s];
		found = word[s];
		at = now
	}
	/* Until a lease covers it, or the map is a newer one. */
	do
	:: until > at -> break
	:: until <= at && LEASED ->
		until = (LEASED -> lease[s] : until)
	:: until <= at && map > epoch ->
		epoch = map;
#ifndef MUTANT_KEEPS_ITS_EPOCH
		d_step { until = 0; at = 0 }
		goto again
#else
		break
#endif
	:: until <= at -> goto over /* no answer: it does not count */
	od;
	atomic {
#ifdef COVER_COUNTS
		assert(found == 0 || epoch < 2);
#endif
		assert(found == 0 || found > old);
		assert(found >= floor || floor <= lost)
	}
over:
	atomic { until = 0; at = 0; found = 0; floor = 0; old = 0; epoch = 0; memory = 0; s = 0 }
}

init
{
	atomic {
		heard[0] = 1;
		registered[0] = 1;
		installed[0] = 1;
		run server(0);
		run server(1);
		run writer();
		run reader()
	}
}
