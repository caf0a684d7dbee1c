/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * resolve.pml - "When the lane breaks" of doc/protocol.md, for spin.
 *
 * One slot of one key. A client's lane breaks under a CAS; the CAS happens at once,
 * later, or never. The client connects again, maybe twice, and looks up its
 * outcome, while a rival writes and the server ends the old session, sweeps its
 * blocks, passes barriers, grants blocks again and migrates the subtable.
 *
 * The assertions: "done" is true (the CAS happened, or it was a PUT and a blind
 * write came after its read), "again" is true (it did not happen and never will).
 *
 * The sweep is that of sweep.pml, assumed right: it frees the blocks of dead
 * sessions. The rival's operations are those of slot.pml, each as one step.
 *
 * -DMUTANT_... breaks one rule, -DCOVER_... names a place to be reached.
 */
#ifndef RIVAL_OPS
#define RIVAL_OPS 3
#endif
#ifndef BREAKS
#define BREAKS 2 /* connections that break, the first with the CAS outstanding */
#endif
#ifndef INCS
#define INCS 2
#endif
#define BLOCKS 3 /* 1 the client's, 2 published, 3 free at the server */

/* A word: block 2 | inc 2 | blind 1 | dead 1. 0 is EMPTY, in generation `gen`. */
#define W_BLOCK(w) ((w) & 3)
#define W_INC(w) ((w) >> 2 & 3)
#define BLIND 16
#define DEAD 32
#define WORD(b, inc) ((b) | (inc) << 2)

mtype = { PUT, ADD, CAS, DEL, BURY };
mtype = { IN_SLOT, OF_RIVAL, OF_DEAD, IN_WORN, IN_BARRIER, IN_FREE, OF_CLIENT };
mtype = { LIVE, BROKEN, ENDED };

byte slot, gen;
bit frozen;
mtype where[BLOCKS + 1];
byte inc[BLOCKS + 1];

/* The client's session, as server and control thread see it. */
mtype session = LIVE;
bit busy;     /* inside the gate */
bit alert;    /* a barrier came in this session */
bit awaited;  /* the current barrier waits for the client */
bit passing;  /* a barrier is in progress */
bit recycled; /* a barrier has passed since the session ended */
bit condemned; /* a sweep has found the blocks of a dead session */

/* The CAS whose outcome is unknown. */
mtype kind;
byte expect, new, expect_gen;
bit sent, resolved;

/* What is true, for the assertions only. */
bit happened, blind_since;

inline unlinked_by_rival(b)
{
	if
	:: inc[b] + 1 < INCS -> inc[b]++; where[b] = OF_RIVAL
	:: else -> where[b] = IN_WORN
	fi
}

/* The CAS reaches the slot. A frozen or retired one it does not change. */
inline land()
{
	if
	:: slot == expect && gen == expect_gen && !frozen ->
		happened = 1;
		if
		:: kind != DEL && W_BLOCK(expect) ->
			where[W_BLOCK(expect)] = OF_DEAD
		:: else
		fi;
		if
		:: kind != DEL -> where[1] = IN_SLOT
		:: else
		fi;
		slot = new
	:: else
	fi
}

proctype rival()
{
	byte b, ops;
	bit blind;

	do
	:: resolved -> break
	:: atomic {
		!resolved && !frozen && ops < RIVAL_OPS ->
		ops++;
		if
		:: slot && !(slot & DEAD) -> /* delete in place */
			slot = slot | DEAD | BLIND;
			blind_since = 1
		:: select (b : 1 .. BLOCKS);
			if
			:: where[b] == OF_RIVAL
			:: else -> goto none
			fi;
			/* put; or add to nothing and cas of something: not blind */
			if
			:: blind = 1
			:: blind = 0
			fi;
			if
			:: slot -> unlinked_by_rival(W_BLOCK(slot))
			:: else
			fi;
			where[b] = IN_SLOT;
			slot = WORD(b, inc[b]) | (blind -> BLIND : 0);
			blind_since = blind_since | blind
		fi;
none:
		b = 0;
		blind = 0
	   }
	od
}

proctype server()
{
	byte b, gens, sweeps;
	bit asked;

	do
	:: resolved -> break
	:: atomic { sent -> sent = 0; land() }
	:: atomic {
		session == BROKEN -> /* its process gone, its QPs destroyed */
#ifndef MUTANT_OLD_LANE_LIVES
		sent = 0;
#endif
		awaited = 0;
		if
		:: where[1] == OF_CLIENT -> where[1] = OF_DEAD
		:: else
		fi;
		recycled = 0;
		session = ENDED
	   }
	/* A live session answers when its operations are over. */
	:: atomic {
		!asked && sweeps < 1 && session != BROKEN && !busy -> asked = 1
	   }
	:: atomic {
		asked ->
		asked = 0;
		sweeps++;
		for (b : 1 .. BLOCKS) {
			if
			:: where[b] == OF_DEAD ->
				where[b] = IN_WORN;
				condemned = 1
			:: else
			fi
		}
		b = 0
	   }
	:: atomic {
		!passing && (where[1] == IN_WORN || where[2] == IN_WORN ||
			     where[3] == IN_WORN) ->
		passing = 1;
		for (b : 1 .. BLOCKS) {
			if
			:: where[b] == IN_WORN -> where[b] = IN_BARRIER
			:: else
			fi
		}
		b = 0;
		if
		:: session != ENDED -> alert = 1; awaited = busy
		:: else
		fi
	   }
	:: atomic {
		passing && !awaited ->
		passing = 0;
		recycled = 1;
		for (b : 1 .. BLOCKS) {
			if
			:: where[b] == IN_BARRIER ->
				where[b] = IN_FREE;
				inc[b] = 0
			:: else
			fi
		}
		b = 0
	   }
	:: atomic {
		select (b : 1 .. BLOCKS);
		if
		:: where[b] == IN_FREE -> where[b] = OF_RIVAL
		:: else
		fi;
		b = 0
	   }
	:: atomic { !frozen && gens < 1 -> frozen = 1 }
	:: atomic {
		frozen ->
		frozen = 0;
		gens++;
		gen++;
		if
		:: slot & DEAD -> /* dropped; free after T */
			b = W_BLOCK(slot);
			unlinked_by_rival(b);
			slot = 0;
			b = 0
		:: else
		fi
	   }
	od
}

proctype client()
{
	bit maybe;
	byte breaks;

	atomic {
		busy = 1;
		!frozen;
		expect = slot;
		expect_gen = gen;
		blind_since = 0;
		if
		:: kind = PUT
		:: !slot || (slot & DEAD) -> kind = ADD
		:: slot && !(slot & DEAD) -> kind = CAS
		:: slot && !(slot & DEAD) -> kind = DEL
		:: slot && !(slot & DEAD) -> kind = BURY
		fi;
		if
		:: kind == DEL -> new = slot | DEAD | BLIND
		:: kind == BURY -> new = WORD(1, inc[1]) | DEAD | BLIND
		:: kind == PUT -> new = WORD(1, inc[1]) | BLIND
		:: else -> new = WORD(1, inc[1])
		fi
	}
	atomic {
		sent = 1;
		session = BROKEN;
		breaks = 1;
		/* The call closes the old connection: not in its gate any more. */
		busy = 0;
		awaited = 0
	}
#ifdef MUTANT_BLIND_PUT_REPEATED
	atomic {
		session == ENDED ->
		if
		:: kind == PUT -> goto again
		:: else
		fi
	}
#endif
welcome:
	atomic {
		session == ENDED ->
		session = LIVE;
#ifndef MUTANT_OLD_ALERT_LOST
		maybe = maybe | alert;
#endif
		alert = 0;
#ifdef MUTANT_SWEEPS_COUNT_ONLY
		maybe = maybe | condemned;
#else
#ifndef MUTANT_BARRIERS_PASSED_LOST
		maybe = maybe | recycled;
#endif
#ifndef MUTANT_BARRIER_UNDER_WAY_LOST
		maybe = maybe | passing;
#endif
#endif
	}
	if
	:: breaks < BREAKS -> /* this connection breaks too */
		atomic {
			breaks++;
			session = BROKEN;
			goto welcome
		}
	:: skip
	fi;
	atomic {
		busy = 1;
		if
		:: maybe -> goto unknown
		:: else
		fi;
#ifndef MUTANT_BARRIER_BEFORE_LOOK_UP
		if
		:: alert ->
#ifdef COVER_BARRIER_BEFORE_LOOK_UP
			assert(false);
#endif
			goto unknown
		:: else
		fi;
#endif
		skip
	}
look:
#ifdef MUTANT_LOOK_UP_WAITS
	if
	:: atomic { frozen -> busy = 0; awaited = 0 };
		atomic { !frozen -> busy = 1 }
	:: !frozen
	fi;
#endif
	atomic {
#ifdef MUTANT_LOOK_UP_WAITS
		if
		:: frozen -> goto look
		:: else
		fi;
#endif
#ifdef COVER_FROZEN_TAKEN
		assert(!frozen);
#endif
		if
		:: slot == 0 ->
			if
			:: !expect && (gen == expect_gen) -> goto again
#ifdef MUTANT_EMPTY_OF_ANY_GENERATION
			:: !expect && (gen != expect_gen) -> goto again
#endif
			:: else -> goto unknown
			fi
		:: else
		fi;
#ifdef MUTANT_DELETE_IN_PLACE_PROVES
		if
		:: slot == new -> goto done
#else
		if
		:: slot == new && kind != DEL -> goto done
#endif
		:: else
		fi;
		if
		:: slot == expect -> goto again
		:: else
		fi;
		if
		:: kind == PUT && (slot & BLIND) ->
#ifdef COVER_ABSORBED
			assert(happened);
#endif
			goto done
#ifdef MUTANT_ABSORBED_BY_ANY
		:: kind == PUT && !(slot & BLIND) -> goto done
#endif
#ifdef MUTANT_ABSORBS_ALL
		:: kind != PUT && (slot & BLIND) -> goto done
#endif
		:: else -> goto unknown
		fi
	}
done:
	atomic {
#ifdef COVER_DONE
		assert(breaks < BREAKS);
#endif
		assert(happened || (kind == PUT && blind_since));
		goto end
	}
again:
	atomic {
#ifdef COVER_AGAIN
		assert(breaks < BREAKS);
#endif
		assert(!happened && !sent);
		goto end
	}
unknown:
end:
	atomic {
		busy = 0;
		awaited = 0;
		resolved = 1
	}
}

init
{
	atomic {
		where[1] = OF_CLIENT;
#ifdef EMPTY_START
		where[2] = IN_FREE;
#else
		where[2] = IN_SLOT;
		slot = WORD(2, 0) | BLIND;
#endif
		where[3] = OF_RIVAL;
		run client();
		run rival();
		run server()
	}
}
