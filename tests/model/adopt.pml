/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * adopt.pml - servers that end at any moment, and the next one that adopts the region
 * (doc/restart.md), for spin.
 *
 * Two keys in one subtable, which the server splits: each gets a subtable of its own, by two
 * stores to the directory. Then the old page holds other words. Clients overwrite the keys, with a
 * cached directory of any age, and may be stopped between any two accesses. What the server knows
 * by itself is lost when it ends: the next one has slots, directory, redo record and page map. A
 * client of a server that ended goes on, and joins the next one at some time between two
 * operations; then it drops its cache and its block, as libfarkv does.
 *
 * The assertions:
 *   - a CAS that succeeds changes the slot that the directory leads to;
 *   - the published block of a key is the one that was published last: nothing is lost;
 *   - a block that is granted is held by nobody and named by no slot.
 *
 * The sweep is one step here (sweep.pml has it), and so is a block's grace period.
 *
 * -DMUTANT_... breaks one rule, -DCOVER_... names a place to be reached.
 */

#ifndef KILLS
#define KILLS 1
#endif
#ifndef OPS
#define OPS 1
#endif
#define CLIENTS 2
#define BLOCKS 4 /* 1, 2: published; 3, 4: the clients' */
#define PAGES (1 + 2 * (KILLS + 1))
#define FROZEN 8

#define SLOT(p, k) mem[(p) * 2 + (k)]
#define NAMED(b) ((SLOT(dir[0], 0) & 7) == (b) || (SLOT(dir[1], 1) & 7) == (b))
#define HELD(b) (mine[0] == (b) || mine[1] == (b))
#define WHOLE() assert((SLOT(dir[0], 0) & 7) == current[0] && (SLOT(dir[1], 1) & 7) == current[1])

/* The region. */
byte mem[PAGES * 2];
byte dir[2];
bit redo;
byte redo_fresh[2];
byte tries; /* pages that a server took: the page map has them */

/* The server's own, lost when it ends. */
bit serving;
byte books_free; /* blocks that it may grant, one bit each */
bit kill;   /* the server ends now */
byte kills; /* servers that were ended */

/* The sessions'. */
byte mine[CLIENTS];  /* the block that it holds, or 0 */
bit joined[CLIENTS]; /* its server is the present one */
bit gone[CLIENTS];   /* it has unmapped its tether: nothing of it can follow */
bit inside[CLIENTS];
bit pending[CLIENTS];

byte current[2]; /* what is true, for the assertions only */

#ifdef MUTANT_OTHER_META
byte own_dir[2]; /* the new server's; clients of the old one look at the old one */
bit adopted;
#define SEEN(k) (adopted && joined[id] -> own_dir[k] : dir[k])
#define STORE(k, p) if :: adopted -> own_dir[k] = p :: else -> dir[k] = p fi
#define LEADS(k) (adopted -> own_dir[k] : dir[k])
#else
#define SEEN(k) dir[k]
#define STORE(k, p) dir[k] = p
#define LEADS(k) dir[k]
#endif

inline refresh()
{
	cached[0] = SEEN(0);
	cached[1] = SEEN(1)
}

proctype client(byte id)
{
	byte k, w, n, b;
	byte cached[2];

	d_step { refresh(); mine[id] = 3 + id; joined[id] = 1 }
next:
	do
	:: break
	:: n < OPS + (id == 0) ->
		atomic {
			/* The next server, between two operations. */
			if
			:: !joined[id] && serving ->
				mine[id] = 0;
				joined[id] = 1;
				pending[id] = 0;
				refresh()
			:: 1
			fi;
			/* A block of the server's. */
			if
			:: mine[id]
			:: !mine[id] && joined[id] && serving && books_free ->
				b = 1;
				do
				:: books_free >> b & 1 -> break
				:: else -> b++
				od;
				books_free = books_free - (1 << b);
				assert(!HELD(b) && !NAMED(b));
#ifdef COVER_GRANTED_AFTER_ADOPTION
				assert(!kills);
#endif
				mine[id] = b;
				b = 0
			:: !mine[id] -> goto next /* none has come yet */
			fi;
			if
			:: k = 0
			:: k = 1
			fi;
			inside[id] = 1;
			if
			:: pending[id] -> pending[id] = 0; refresh()
			:: else
			fi
		};
look:
		atomic {
			w = SLOT(cached[k], k);
			if
			:: (w & FROZEN) && SEEN(k) != cached[k] -> cached[k] = SEEN(k); goto look
			:: (w & FROZEN) && SEEN(k) == cached[k] -> goto leave /* it waits */
			:: else
			fi
		};
		atomic {
			if
			:: SLOT(cached[k], k) == w ->
				assert(LEADS(k) == cached[k]);
#ifdef COVER_OLD_CLIENT_WRITES
				assert(joined[id] || !serving);
#endif
				SLOT(cached[k], k) = mine[id];
				current[k] = mine[id];
				mine[id] = w;
				WHOLE();
				n++
			:: else -> goto look
			fi;
leave:
			inside[id] = 0;
			w = 0;
			k = 0
		}
	od;
	atomic { inside[id] = 0; mine[id] = 0; gone[id] = 1 }
}

/* All clients have joined this server, or can do nothing any more. */
#define ALL_HERE ((joined[0] || gone[0]) && (joined[1] || gone[1]))
#ifdef MUTANT_SWEEP_AWAITS_NOBODY
#define SWEEP_MAY 1
#define IN_HAND(b) ((joined[0] && mine[0] == (b)) || (joined[1] && mine[1] == (b)))
#else
#define SWEEP_MAY ALL_HERE
#define IN_HAND(b) HELD(b)
#endif
#ifdef MUTANT_BARRIER_AWAITS_NOBODY
#define BARRIER_MAY 1
#else
#define BARRIER_MAY ALL_HERE
#endif

inline freeze(k)
{
	atomic { SLOT(old, k) = SLOT(old, k) | FROZEN }
}

inline split()
{
#ifdef MUTANT_ONE_FROZEN_IS_ALL
	if
	:: (SLOT(old, 0) | SLOT(old, 1)) & FROZEN
	:: else -> freeze(0); freeze(1)
	fi;
#else
	freeze(0);
	freeze(1);
#endif
	atomic {
		p = 1 + 2 * tries;
		tries++;
		SLOT(p, 0) = SLOT(old, 0) & 7;
		SLOT(p + 1, 1) = SLOT(old, 1) & 7
	}
#ifndef MUTANT_NO_REDO
#ifndef MUTANT_REDO_LATE
	atomic { redo_fresh[0] = p; redo_fresh[1] = p + 1; redo = 1 };
#endif
#endif
	atomic { STORE(0, p); WHOLE() };
#ifdef MUTANT_REDO_LATE
	atomic { redo_fresh[0] = p; redo_fresh[1] = p + 1; redo = 1 };
#endif
	atomic { STORE(1, p + 1); WHOLE() };
	redo = 0
}

inline sweep()
{
	atomic {
		SWEEP_MAY;
		b = 1;
		do
		:: b > BLOCKS -> break
		:: b <= BLOCKS ->
			if
			:: !NAMED(b) && !IN_HAND(b) -> books_free = books_free | 1 << b
			:: else
			fi;
			b++
		od;
		b = 0
	}
}

/* From then on the old page holds any words. */
inline barrier()
{
	atomic { BARRIER_MAY; pending[0] = 1; pending[1] = 1 };
	(!inside[0] || !joined[0]);
	(!inside[1] || !joined[1]);
	atomic {
		if
		:: SLOT(old, 0) = 1; SLOT(old, 1) = 2
		:: SLOT(old, 0) = 2; SLOT(old, 1) = 1
		:: SLOT(old, 0) = 3; SLOT(old, 1) = 4
		:: SLOT(old, 0) = 4; SLOT(old, 1) = 3
		fi
	}
}

proctype server()
{
	byte b, p, old;
	bit reused, swept;

again:
	{
		/* Adoption: the publication that was interrupted. */
		if
		:: redo ->
			atomic { dir[0] = redo_fresh[0]; WHOLE() };
			atomic { dir[1] = redo_fresh[1]; WHOLE() };
			redo = 0
		:: else
		fi;
#ifdef COVER_REDONE
		assert(!tries || LEADS(0) == 0);
#endif
		serving = 1;
		/* The subtable is split, also if it is frozen already. */
		if
		:: LEADS(0) == 0 || LEADS(1) == 0 -> split()
		:: else
		fi;
		/* Both wait for the old sessions. */
		if
		:: sweep(); barrier()
		:: barrier(); sweep()
		fi
	} unless {
		atomic {
			kill ->
			kill = 0;
			serving = 0;
			books_free = 0;
			joined[0] = 0;
			joined[1] = 0;
			b = 0;
			p = 0;
#ifdef MUTANT_OTHER_META
			if
			:: !adopted -> own_dir[0] = dir[0]; own_dir[1] = dir[1]
			:: else
			fi;
			adopted = 1;
#endif
			goto again
		}
	}
}

proctype killer()
{
	do
	:: atomic { kills < KILLS && !kill -> kills++; kill = 1 }
	:: break
	od
}

init
{
	atomic {
		SLOT(0, 0) = 1;
		SLOT(0, 1) = 2;
		current[0] = 1;
		current[1] = 2;
		run server();
		run client(0);
		run client(1);
		run killer()
	}
}
