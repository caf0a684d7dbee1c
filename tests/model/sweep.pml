/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sweep.pml - "A sweep" of doc/control-channel.md, for spin.
 *
 * Two slots, five blocks. Session 0 lives; session 1 comes at any time, and may
 * leave; session 2 dies at any step. Each of them swaps its block for that of a
 * slot: the CAS, and taking over the old block, are steps of their own. It
 * gets blocks by GRANT and returns them by RETURN. Messages take any time, and
 * those of one session in one direction keep their order. A sweep is requested once, and
 * once after each death.
 *
 * The assertions: a block that a sweep frees is in no slot, held by no session, in
 * no message, and not the server's; when no step is left, no block has leaked.
 *
 * Each block is one bit. Incarnations, T and barriers are left to the other models.
 *
 * -DMUTANT_... breaks one rule, -DCOVER_... names a place to be reached.
 */
#ifndef OPS0
#define OPS0 1
#endif
#ifndef OPS1
#define OPS1 2
#endif
#ifndef OPS2
#define OPS2 1
#endif
#ifndef RETURNS
#define RETURNS 1
#endif
#ifndef GRANTS
#define GRANTS 1
#endif
#ifndef REQUESTS
#define REQUESTS 1
#endif
#define OPS(id) ((id) == 0 -> OPS0 : ((id) == 1 -> OPS1 : OPS2))
#define SESSIONS 3
#define MAY_LEAVE(id) ((id) == 1)
#define MAY_DIE(id) ((id) == 2)

mtype = { ABSENT, LIVE, LEFT, DEAD };
mtype = { IDLE, BEGUN, WALK, WALK_ON, WALKED, ASK };
mtype = { M_BEGIN, M_QUERY, M_END, M_GRANT };
mtype = { M_ACK, M_CLAIM, M_BYE_CLAIM, M_RETURN, M_BYE };

byte slot[2];

/* Sessions. */
mtype state[SESSIONS];
byte held[SESSIONS];   /* its allocator's */
byte mine[SESSIONS];   /* of the current operation, not yet in the slot */
byte pend[SESSIONS];   /* unlinked by it, not yet the allocator's */

/* The server. */
mtype phase = IDLE;
byte out;              /* blocks that are not the server's */
byte marked;
byte welcomed, part, owed, waits; /* sessions, one bit each */
byte candidates;
byte deaths, number;
bit again;

/* kind, number of the sweep, blocks */
#define WAY 4 /* messages on their way */
#define FITS(c, n) (len(c) + (n) <= WAY)
chan down[SESSIONS] = [WAY] of { mtype, byte, byte };
chan up[SESSIONS] = [WAY] of { mtype, byte, byte };

byte flight; /* sessions that a GRANT is on its way to, one bit each */

/* For the assertions: blocks in messages. */
byte travels;

#define ME (1 << id)
#define LOWEST(m) ((m) & (256 - (m)))
#define WITHOUT(m, x) ((m) & (255 - (x)))
#define IS_ON (phase != IDLE)
#define ALL_OUT 31

/* All blocks that the handle holds while it stands still. */
inline record()
{
	alert = 0;
	on = 1;
	journal = journal | held[id];
	up[id]!M_ACK(sweep, 0)
}

inline claim()
{
#ifdef MUTANT_NO_BEGIN
	up[id]!M_CLAIM(sweep, question & held[id]);
#else
	up[id]!M_CLAIM(sweep, question & journal);
#endif
	question = 0;
	asked = 0
}

#ifdef MUTANT_ACK_AT_ONCE
#define CAN_RECORD true
#else
#define CAN_RECORD (busy == 0)
#endif

proctype session(byte id)
{
	byte i, ops, returns, busy, n, b;
	byte sweep, journal, question, asked;
	bit sweeping; /* BEGIN has come */
	bit alert;    /* ... and nothing is recorded yet */
	bit on;       /* the allocator writes down what it gets */

end_idle:
	do
	/* The handle's thread. */
	:: atomic {
		state[id] == LIVE && busy == 0 && ops < OPS(id) &&
		(held[id] || mine[id]) && FITS(up[id], 1) ->
		if
		:: alert -> record()
		:: else
		fi;
		ops++;
		busy = 1;
		if
		:: !mine[id] -> mine[id] = LOWEST(held[id]);
			held[id] = held[id] - mine[id]
		:: else
		fi;
		if
		:: i = 0
		:: i = 1
		fi
	   }
	:: atomic {
		state[id] == LIVE && busy == 1 ->
		pend[id] = slot[i];
		slot[i] = mine[id];
		mine[id] = 0;
		busy = 2;
		i = 0
	   }
#ifdef MUTANT_WAITS_WITH_BLOCK
	:: atomic { state[id] == LIVE && busy == 1 -> busy = 0; ops--; i = 0 }
#endif
	:: atomic {
		state[id] == LIVE && busy == 2 && FITS(up[id], 1) ->
		held[id] = held[id] | pend[id];
		if
		:: on -> journal = journal | pend[id]
		:: else
		fi;
		pend[id] = 0;
		busy = 0;
		if
		:: asked -> claim()
		:: else
		fi
	   }
	:: atomic {
		state[id] == LIVE && busy == 0 && returns < RETURNS &&
		held[id] && FITS(up[id], 1) ->
		returns++;
		b = LOWEST(held[id]);
		held[id] = held[id] - b;
		travels = travels | b;
		up[id]!M_RETURN(0, b);
		b = 0
	   }
	:: atomic { /* leaves: has recorded, returns all, names all */
		MAY_LEAVE(id) && state[id] == LIVE && busy == 0 && !mine[id] &&
		!(flight & ME) && FITS(up[id], 3) ->
		up[id]!M_RETURN(0, held[id]);
		travels = travels | held[id];
		held[id] = 0;
#ifndef MUTANT_LEAVES_SILENTLY
		if
		:: journal -> up[id]!M_BYE_CLAIM(sweep, journal)
		:: else
		fi;
#endif
		up[id]!M_BYE(0, 0);
		state[id] = LEFT;
		journal = 0;
		sweeping = 0;
		on = 0;
		alert = 0;
		asked = 0;
		question = 0
	   }
	:: atomic { MAY_DIE(id) && state[id] == LIVE -> state[id] = DEAD }

	/* The control thread. */
	:: atomic {
		state[id] == LIVE && alert && CAN_RECORD && FITS(up[id], 1) ->
		record()
	   }
	:: atomic {
		state[id] == LIVE && FITS(up[id], 1) && len(down[id]) ->
		if
		:: down[id]?M_BEGIN(n, b) ->
			sweep = n;
			sweeping = 1;
			alert = 1;
			journal = 0;
			on = 0;
			asked = 0;
			question = 0
		:: down[id]?M_GRANT(n, b) ->
			travels = WITHOUT(travels, b);
			flight = WITHOUT(flight, ME);
			held[id] = held[id] | b;
#ifndef MUTANT_GRANT_UNKNOWN
			if
			:: sweeping -> journal = journal | b
			:: else
			fi
#endif
		:: down[id]?M_QUERY(n, b) ->
#ifdef MUTANT_NO_BEGIN
			sweep = n;
			sweeping = 1;
#endif
			if
			:: sweeping && n == sweep ->
				question = b;
				if
#ifndef MUTANT_ANSWERS_AT_ONCE
				:: busy -> asked = 1
				:: !busy -> claim()
#else
				:: claim()
#endif
				fi
			:: else
			fi
		:: down[id]?M_END(n, b) ->
			if
			:: n == sweep ->
				sweeping = 0;
				alert = 0;
				on = 0;
				journal = 0;
				asked = 0;
				question = 0
			:: else
			fi
		fi;
		n = 0;
		b = 0
	   }
	:: atomic { state[id] == LEFT && len(down[id]) ->
		down[id]?_, n, b;
		n = 0;
		b = 0
	   }
	:: atomic {
		state[id] == ABSENT ->
		state[id] = LIVE;
		welcomed = welcomed | ME;
#ifdef MUTANT_GRANT_BEFORE_BEGIN
		if
		:: !(out & 16) ->
			out = out | 16;
			held[id] = 16;
			marked = marked | (IS_ON -> 16 : 0)
		:: else
		fi;
#endif
#ifndef MUTANT_NEWCOMER_APART
		/* Its first block comes after this. */
		if
		:: IS_ON && phase != ASK ->
#ifdef COVER_NEWCOMER
			assert(phase == BEGUN);
#endif
			part = part | ME;
			owed = owed | ME;
			down[id]!M_BEGIN(number, 0)
		:: else
		fi
#endif
	   }
	od
}

inline tell(kind, whom, blocks)
{
	for (n : 0 .. SESSIONS - 1) {
		if
		:: whom >> n & 1 -> down[n]!kind(number, blocks)
		:: else
		fi
	}
	n = 0
}

inline over()
{
	tell(M_END, part, 0);
	phase = IDLE;
	marked = 0;
	part = 0;
	owed = 0;
	waits = 0;
	candidates = 0;
	again = 0
}

#define HAS(n) (held[n] | mine[n] | pend[n])
#define ROOM (FITS(down[0], 1) && FITS(down[1], 1) && FITS(down[2], 1))
#define REFERENCED (slot[0] | slot[1])
#define OF_LIVING                                                            \
	((state[0] == LIVE -> HAS(0) : 0) | (state[1] == LIVE -> HAS(1) : 0) |   \
	 (state[2] == LIVE -> HAS(2) : 0))

proctype server()
{
	byte n, b, id, number_in, grants, requests, noticed, leaked;
	mtype kind;

end_idle:
	do
	/* ---- the sweep ---- */
	:: atomic {
		phase == IDLE && ROOM && (deaths || requests < REQUESTS) ->
		if
		:: !deaths -> requests++
		:: else
		fi;
		number++;
		phase = BEGUN;
		part = welcomed;
#ifndef MUTANT_ACKS_NOT_AWAITED
		owed = welcomed;
#endif
#ifdef MUTANT_NO_BEGIN
		owed = 0
#else
		tell(M_BEGIN, part, 0)
#endif
	   }
	:: atomic { phase == BEGUN && !owed && !again -> phase = WALK }
	:: atomic {
		phase == WALK && !again ->
		marked = marked | slot[0];
		phase = WALK_ON
	   }
#ifdef MUTANT_WORDS_MOVE_BACK
	:: atomic {
		phase == WALK_ON ->
		b = slot[0];
		slot[0] = slot[1];
		slot[1] = b;
		b = 0
	   }
#endif
	:: atomic {
		phase == WALK_ON && !again ->
		marked = marked | slot[1];
		phase = WALKED
	   }
	:: atomic {
		phase == WALKED && !owed && !again && ROOM ->
		phase = ASK;
		candidates = WITHOUT(out, marked);
		waits = part;
		if
		:: candidates -> tell(M_QUERY, part, candidates)
		:: else -> waits = 0
		fi
	   }
	:: atomic {
		phase == ASK && !waits && !again && ROOM ->
		leaked = WITHOUT(candidates, marked) & out;
		assert(!(leaked & REFERENCED));
		assert(!(leaked & OF_LIVING));
		assert(!(leaked & travels));
#ifdef COVER_SWEPT
		assert(!leaked);
#endif
#ifdef COVER_CLAIMED_IN_SLOT
		assert(!(candidates & marked & REFERENCED));
#endif
		out = WITHOUT(out, leaked);
		leaked = 0;
		deaths = 0;
		over()
	   }
	:: atomic {
		again && ROOM ->
#ifdef COVER_AGAIN
		assert(phase != ASK);
#endif
		over()
	   }

	/* ---- blocks ---- */
	:: atomic {
		grants < GRANTS && out != ALL_OUT ->
		if
		:: (welcomed & 1) && FITS(down[0], 1) -> n = 0
		:: (welcomed & 2) && FITS(down[1], 1) -> n = 1
		:: (welcomed & 4) && FITS(down[2], 1) -> n = 2
		:: else -> goto none
		fi;
		/* A session that leaves has no open request. */
		if
		:: (flight >> n & 1) || state[n] == LEFT -> goto none
		:: else
		fi;
		grants++;
		b = LOWEST(ALL_OUT - out);
		out = out | b;
#ifndef MUTANT_GRANT_UNKNOWN
		if
		:: IS_ON -> marked = marked | b
		:: else
		fi;
#endif
		travels = travels | b;
		flight = flight | 1 << n;
		down[n]!M_GRANT(0, b);
none:
		n = 0;
		b = 0
	   }

	/* ---- messages ---- */
	:: atomic {
		len(up[0]) || len(up[1]) || len(up[2]) ->
		if
		:: nempty(up[0]) -> id = 0
		:: nempty(up[1]) -> id = 1
		:: nempty(up[2]) -> id = 2
		fi;
		up[id]?kind(number_in, b);
		if
		:: kind == M_RETURN ->
			out = WITHOUT(out, b);
			travels = WITHOUT(travels, b)
		:: kind == M_ACK && number_in == number && IS_ON ->
			owed = WITHOUT(owed, ME)
		:: (kind == M_CLAIM || kind == M_BYE_CLAIM) &&
		   number_in == number && IS_ON ->
			marked = marked | b;
			if
			:: kind == M_CLAIM -> waits = WITHOUT(waits, ME)
			:: else
			fi
		:: kind == M_BYE ->
			welcomed = WITHOUT(welcomed, ME);
			part = WITHOUT(part, ME);
			owed = WITHOUT(owed, ME);
			waits = WITHOUT(waits, ME)
		:: else
		fi;
		kind = 0;
		number_in = 0;
		b = 0;
		id = 0
	   }
	/* It cannot act any more; its unread messages are lost. */
	:: atomic {
		state[2] == DEAD && !noticed ->
		noticed = 1;
		id = 2;
		do
		:: nempty(up[2]) ->
			up[2]?kind(number_in, b);
			travels = WITHOUT(travels, b)
		:: empty(up[2]) -> break
		od;
		do
		:: nempty(down[2]) ->
			down[2]?kind(number_in, b);
			travels = WITHOUT(travels, b)
		:: empty(down[2]) -> break
		od;
		kind = 0;
		number_in = 0;
		b = 0;
		deaths++;
#ifndef MUTANT_DEATH_IN_THE_MIDDLE
		again = IS_ON;
#endif
		welcomed = WITHOUT(welcomed, ME);
		part = WITHOUT(part, ME);
		owed = WITHOUT(owed, ME);
		waits = WITHOUT(waits, ME);
		flight = WITHOUT(flight, ME);
		id = 0
	   }
	od
}

/* When no step is left. */
proctype judge()
{
	timeout ->
	assert(phase == IDLE && !deaths && !travels);
	assert(!WITHOUT(out, REFERENCED | OF_LIVING))
}

init
{
	atomic {
		slot[0] = 1;
		slot[1] = 2;
		held[0] = 4;
		held[2] = 8;
		out = 15;
		state[0] = LIVE;
		state[1] = ABSENT;
		state[2] = LIVE;
		welcomed = 5;
		run session(0);
		run session(1);
		run session(2);
		run server();
		run judge()
	}
}
