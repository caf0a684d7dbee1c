/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * borrow.pml - borrowed values (doc/protocol.md, "Borrowing"), for spin.
 *
 * One key. A writer overwrites it again and again, a server migrates its subtable and passes
 * barriers, and a borrower looks at the slot, leaves its critical section, reads the two halves of
 * the block, and then checks. Between two steps anything may happen for any time.
 *
 * The assertion: if the check succeeds, both halves are those of the value that the look found.
 *
 * Compiled with -DMUTANT_... one rule is broken, and the model must fail; with -DCOVER_... it must
 * fail because the named place is reached.
 */

#ifndef WRITES
#define WRITES 4
#endif
#ifndef BARRIERS
#define BARRIERS 1
#endif
#ifndef BORROWS
#define BORROWS 2
#endif
#define BLOCKS 3 /* block 1 is published, the others are the writer's */
#define INCS 2

/* A word: block 2 | inc 1 | frozen 1. */
#define W_BLOCK(w) ((w) & 3)
#define W_INC(w) ((w) >> 2 & 1)
#define FROZEN 8
#define WORD(b, inc) ((b) | (inc) << 2)

mtype = { FREE, PUBLISHED, DEFERRED, EXHAUSTED };

byte slot[2];            /* of the old subtable and of the new one */
bit moved;               /* the directory leads to the new one */
bit retired;             /* the old page waits for a barrier */
byte first_half[BLOCKS + 1];
byte second_half[BLOCKS + 1];
byte inc[BLOCKS + 1];
mtype state[BLOCKS + 1];
bit waits[BLOCKS + 1];   /* the running barrier frees it */
bit in_span[BLOCKS + 1]; /* unlinked after the borrower's look */
byte version;

/* The borrower's session. */
bit inside;  /* its critical section */
bit pending; /* a barrier asks: drop what is cached */
bit span;    /* between look and check */
bit late;    /* T has passed since an unlinking that followed the look */

/* The last use of an incarnation: only a barrier lets the block start again. */
inline reuse(b)
{
	inc[b] = inc[b] + 1;
	state[b] = FREE
}

proctype writer()
{
	byte b, old, n;

again:
	b = 0;
	old = 0;
	/* Without a block, if no barrier follows, it waits for ever. */
end_without_block:
	do
	:: n == WRITES -> break
	:: n < WRITES && state[1] == FREE -> b = 1; goto write
	:: n < WRITES && state[2] == FREE -> b = 2; goto write
	:: n < WRITES && state[3] == FREE -> b = 3; goto write
	:: atomic { state[1] == DEFERRED -> b = 1; goto grace }
	:: atomic { state[2] == DEFERRED -> b = 2; goto grace }
	:: atomic { state[3] == DEFERRED -> b = 3; goto grace }
	od;
	goto done;
grace:
	/* T has passed. */
	atomic {
		if
		:: state[b] == DEFERRED && !waits[b] ->
#ifndef MUTANT_REUSE_BEFORE_T
			if
			:: span && in_span[b] -> late = 1
			:: else
			fi;
#endif
			reuse(b)
		:: else
		fi
	}
	goto again;
write:
	atomic { version++; n++; first_half[b] = version }
	second_half[b] = first_half[b];
	atomic {
		/* A writer waits for the end of a migration. */
		!(slot[moved] & FROZEN);
		old = W_BLOCK(slot[moved]);
		slot[moved] = WORD(b, inc[b]);
		state[b] = PUBLISHED;
		in_span[old] = span;
		state[old] = (inc[old] + 1 == INCS -> EXHAUSTED : DEFERRED)
	}
	goto again;
done:
	skip
}

proctype migration()
{
	atomic { slot[0] = slot[0] | FROZEN }
	atomic {
		slot[1] = slot[0] & ~FROZEN;
		moved = 1;
		retired = 1
	}
}

inline snapshot(b)
{
	waits[b] = (state[b] == DEFERRED || state[b] == EXHAUSTED)
}
inline release(b)
{
	if
	:: waits[b] && state[b] == EXHAUSTED -> inc[b] = 0; state[b] = FREE
	:: waits[b] && state[b] == DEFERRED -> reuse(b)
	:: else
	fi;
	waits[b] = 0
}

proctype server()
{
	byte n;
	bit page;

	do
	:: n == BARRIERS -> break
	:: n < BARRIERS ->
		atomic {
			n++;
			snapshot(1);
			snapshot(2);
			snapshot(3);
			page = retired;
			pending = 1
		}
		/* The session answers once its running operation is over. */
		atomic {
			!inside;
			release(1);
			release(2);
			release(3);
			if
			:: page -> retired = 0
			:: else
			fi
		}
		/* The old page is another subtable, with any words. */
		if
		:: page ->
			if
			:: slot[0] = WORD(1, 0)
			:: slot[0] = WORD(2, 0)
			:: slot[0] = WORD(3, 0)
			:: slot[0] = WORD(1, 1)
			:: slot[0] = WORD(2, 1)
			fi
		:: else
		fi
	od
}

proctype borrower()
{
	byte w, want, c1, c2, n, epoch, seen;
	bit dir, same, valid, known;

	do
	:: n == BORROWS -> break
	:: n < BORROWS ->
		n++;
		/* Enter; a pending barrier drops what is cached. */
		atomic {
			inside = 1;
			if
			:: pending -> pending = 0; epoch++; known = 0
			:: else
			fi;
			if
			:: !known -> dir = moved; known = 1
			:: known
			fi;
			seen = epoch
		}
look:
		atomic {
			w = slot[dir];
			span = 1;
			late = 0;
			in_span[1] = 0;
			in_span[2] = 0;
			in_span[3] = 0
		}
		if
		:: (w & FROZEN) && !moved -> goto leave /* not now */
		:: (w & FROZEN) && moved -> dir = 1; goto look
		:: else
		fi;
		want = first_half[W_BLOCK(w)];
		if
		:: slot[dir] != w -> goto look
		:: else
		fi;
		inside = 0;

		/* Outside. */
		c1 = first_half[W_BLOCK(w)];
		c2 = second_half[W_BLOCK(w)];

		/* The check. */
		atomic {
#ifndef MUTANT_CHECK_OUTSIDE
			inside = 1;
#endif
			if
			:: pending -> pending = 0; epoch++; known = 0
			:: else
			fi;
		}
		same = (slot[dir] == w);
#ifdef MUTANT_FROZEN_STANDS
		same = same || slot[dir] == (w | FROZEN);
#endif
#ifdef MUTANT_WORD_NOT_LOOKED_AT
		same = 1;
#endif
		atomic {
			valid = (same || !late);
#ifndef MUTANT_NO_BARRIER
#ifdef MUTANT_NO_BARRIER_WITHIN_T
			valid = (!late || (same && epoch == seen));
#else
#ifdef MUTANT_NO_BARRIER_BY_WORD
			valid = (same || (!late && epoch == seen));
#else
			valid = valid && epoch == seen;
#endif
#endif
#endif
#ifdef COVER_LATE_AND_UNCHANGED
			assert(!(valid && late));
#endif
#ifdef COVER_CHANGED_WITHIN_T
			assert(!(valid && !same));
#endif
#ifdef COVER_BARRIER
			assert(!(same && epoch != seen));
#endif
#ifdef COVER_TORN
			assert(c1 == c2);
#endif
			assert(!valid || (c1 == want && c2 == want))
		}
leave:
		atomic {
			inside = 0;
			span = 0;
			late = 0;
			in_span[1] = 0;
			in_span[2] = 0;
			in_span[3] = 0;
			w = 0;
			want = 0;
			c1 = 0;
			c2 = 0;
			same = 0;
			valid = 0
		}
	od
}

init
{
	atomic {
		slot[0] = WORD(1, 0);
		state[1] = PUBLISHED;
		state[2] = FREE;
		state[3] = FREE;
		run writer();
		run migration();
		run server();
		run borrower()
	}
}
