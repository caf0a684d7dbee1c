/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * slot.pml - the slot protocol of doc/protocol.md, for spin.
 *
 * A window of two slots, two keys, two writers and a reader. Every access to the
 * region is one step, in any order with those of the others: each slot of a
 * window, the two halves of a block, each CAS. Between two steps anything may
 * happen for any time: a process may be stopped there.
 *
 * The assertions say that the store is linearizable per key:
 *   - a key never has two slots;
 *   - a value or a miss that a read returns was true at some moment of the read;
 *   - cas, add, delete and delete_cas succeed only on the state that they claim;
 *   - a put is absorbed only if a write that replaced it blindly took place
 *     within it; a delete succeeds once for each value.
 *
 * With -DDELETE_CAS there are conditional deletes, too.
 *
 * With -DFAST_PATH a put may take the fast path: it looks at a block's incarnation in one
 * half, at the key in the other, and at nothing else before its swap.
 *
 * Compiled with -DMUTANT_... one rule is broken, and the model must fail; with
 * -DCOVER_... it must fail because the named place is reached.
 */

/* Operations of the two writers and the reader; six writes at most. */
#ifndef OPS0
#define OPS0 2
#endif
#ifndef OPS1
#define OPS1 1
#endif
#ifndef READS
#define READS 1
#endif
#define OPS(id) ((id) == 0 -> OPS0 : ((id) == 1 -> OPS1 : READS))
#define SLOTS 2
#define WRITERS 2
#define CLIENTS 3 /* the last one reads */
#define BLOCKS 3  /* 1 and 2 are the writers', 3 is published */
#define INCS 4

/* A word: block 3 | inc 2 | fingerprint 1 | blind 1 | dead 1. 0 is EMPTY. */
#define W_BLOCK(w) ((w) & 7)
#define W_INC(w) ((w) >> 3 & 3)
#define W_FP(w) ((w) >> 5 & 1)
#define BLIND 64
#define DEAD 128
#define WORD(b, inc, fp) ((b) | (inc) << 3 | (fp) << 5)

/* A block's content: value 3 | key 1 | inc 2. */
#define C_VALUE(c) ((c) & 7)
#define C_KEY(c) ((c) >> 3 & 1)
#define C_INC(c) ((c) >> 4 & 3)
#define CONTENT(v, k, inc) ((v) | (k) << 3 | (inc) << 4)

#ifdef SAME_FP
#define FP(k) 0
#else
#define FP(k) (k)
#endif

#ifdef MUTANT_NO_INC_IN_WORD
#define NEXT_INC(i) (i)
#else
#define NEXT_INC(i) ((i) + 1)
#endif

mtype = { GET, PUT, ADD, CAS, DEL, DELCAS };

byte slot[SLOTS];
byte block[BLOCKS + 1];

/* What is true, for the assertions only. */
byte current[2];         /* value of each key, 0: none */
byte blind_writes[2];    /* successful blind writes of each key */
byte created[2];         /* values that each key ever had */
byte deleted[2];         /* deletes that succeeded */
byte asked[CLIENTS];     /* key of a current operation, + 1 */
byte seen[CLIENTS];      /* values that were current during it, one bit each */

/* Time: a block is used again T after it was unlinked, so an operation that was inside of
 * its span then knows that it took longer than T/2. */
bit inside[CLIENTS];
bit late[CLIENTS];

inline now_current(k, v)
{
	current[k] = v;
	for (n : 0 .. CLIENTS - 1) {
		if
		:: asked[n] == k + 1 -> seen[n] = seen[n] | 1 << v
		:: else
		fi
	}
	n = 0
}

/* A block of one's own: free, or one that has waited for T. */
inline take_block()
{
	if
	:: mine
	:: !mine && deferred ->
		mine = deferred;
		mine_inc = deferred_inc;
		deferred = 0;
#ifndef MUTANT_REUSE_BEFORE_T
		for (n : 0 .. CLIENTS - 1) {
			if
			:: inside[n] -> late[n] = 1
			:: else
			fi
		}
#endif
		n = 0
	:: else
	fi
}

inline retire(w)
{
	deferred = W_BLOCK(w);
	deferred_inc = NEXT_INC(W_INC(w));
	if
	:: deferred_inc >= INCS -> deferred = 0; deferred_inc = 0 /* exhausted: to the server */
	:: else
	fi
}

/* No other slot may be bound to key k. */
inline assert_unique(k, at)
{
	for (n : 0 .. SLOTS - 1) {
		assert(n == at || slot[n] == 0 ||
		       C_KEY(block[W_BLOCK(slot[n])]) != k)
	}
	n = 0
}

#define KNOWN(v) (seen[id] >> (v) & 1)
#define SAW_NONE KNOWN(0)
#define SAW_SOME (seen[id] & 254)

proctype client(byte id)
{
	mtype kind;
	byte k, i, w, c1, c2, value, found, word, n, ops, blind_before;
	byte mine, mine_inc, deferred, deferred_inc;
	bit inserting;
	byte img[SLOTS];
#ifdef FAST_PATH
	bit fast;
#endif
#ifdef MUTANT_ABSORB_WITH_OLD_WORD
	byte old_w, old_i, old_k;
#endif

	d_step {
		if
		:: id < WRITERS -> mine = 1 + id
		:: else
		fi
	}
next:
	atomic {
		if
		:: ops < OPS(id) -> ops++
		:: else -> goto done
		fi;
		if
		:: k = 0
		:: id < WRITERS -> k = 1 /* the reader asks for key 0 */
		fi;
		if
		:: id >= WRITERS -> kind = GET
		:: id < WRITERS -> kind = PUT
		:: id < WRITERS -> kind = ADD
		:: id < WRITERS -> kind = CAS
		:: id < WRITERS -> kind = DEL
#ifdef DELETE_CAS
		:: id < WRITERS -> kind = DELCAS
#endif
		fi;
		take_block();
		asked[id] = k + 1;
		seen[id] = 1 << current[k];
		blind_before = blind_writes[k];
		word = 0;
		if
		:: (kind == PUT || kind == ADD || kind == CAS) && mine ->
			value = id * OPS0 + ops;
			block[mine] = CONTENT(value, k, mine_inc);
			word = WORD(mine, mine_inc, FP(k)) |
			       (kind == PUT -> BLIND : 0)
		:: else
		fi;
		if
		:: (kind == PUT || kind == ADD || kind == CAS) && !word -> goto finish
		:: else /* there is a block, or none is needed */
		fi
	}
#ifdef MUTANT_ABSORB_WITH_OLD_WORD
	if
	:: kind == PUT && old_w && old_k == k ->
		i = old_i;
		w = old_w;
		goto swap
	:: else
	fi;
#endif

again:
	atomic {
		inside[id] = 1;
		late[id] = 0;
		img[0] = slot[0]
	}
	img[1] = slot[1];
	i = 0;
#ifdef MUTANT_CLAIM_ANY_EMPTY
	if
	:: img[1] == 0 && id == 1 && kind != GET -> i = 1
	:: else
	fi;
#endif

scan:
	if
	:: i == SLOTS -> goto absent
	:: else
	fi;
	w = img[i];
	if
	:: w == 0 -> goto absent
	:: w != 0 && (W_FP(w) != FP(k) || (kind == GET && (w & DEAD))) ->
		i++;
		goto scan
	:: else
	fi;
	c1 = block[W_BLOCK(w)];
	atomic {
		c2 = block[W_BLOCK(w)];
#ifdef FAST_PATH
		/* Or it searches in order, as all others do. */
		if
		:: kind == PUT && C_INC(c1) == W_INC(w) && C_KEY(c2) == k ->
			fast = 1;
			inside[id] = 0;
			goto decide
		:: true
		fi;
#endif
#ifndef MUTANT_LATE_READER_GOES_ON
		if
		:: late[id] && slot[i] != w ->
#ifdef COVER_LATE_AND_CHANGED
			assert(false);
#endif
			goto again
		:: late[id] && slot[i] == w ->
#ifdef COVER_LATE_AND_UNCHANGED
			assert(false);
#endif
			skip
		:: else
		fi;
#endif
#ifndef MUTANT_NO_CHECK_OF_CONTENT
		if
		:: c1 != c2 || C_INC(c1) != W_INC(w) ->
#ifdef COVER_BAD_BLOCK
			assert(false);
#endif
			goto again
		:: else
		fi;
#endif
		if
		:: C_KEY(c1) != k -> i++; goto scan
		:: else
		fi;
		inside[id] = 0
	}

decide:
	/* The slot is this key's and holds w; c1 is the content read, or stale
	 * after a lost CAS. */
	inserting = 0;
	if
	:: kind == GET ->
		assert(C_VALUE(c1) != 0 && KNOWN(C_VALUE(c1)));
		goto finish
	:: kind == ADD && !(w & DEAD) -> assert(SAW_SOME); goto finish
	:: (kind == CAS || kind == DEL || kind == DELCAS) && (w & DEAD) ->
		assert(SAW_NONE);
		goto finish
	:: else
	fi;
	goto swap;

absent:
	inside[id] = 0;
	if
	:: kind == PUT || kind == ADD ->
		assert(i < SLOTS); /* two keys fit */
		inserting = 1;
		w = 0
	:: else ->
		assert(SAW_NONE);
		goto finish
	fi;

swap:
	inside[id] = 0;
	atomic {
		found = slot[i];
		if
		:: found == w && kind == DEL ->
			assert(current[k] != 0);
#ifdef MUTANT_DELETE_EMPTIES
			slot[i] = 0;
#else
			slot[i] = w | DEAD | BLIND;
#endif
			blind_writes[k]++;
			deleted[k]++;
			assert(deleted[k] <= created[k]);
			now_current(k, 0);
			goto finish
		:: found == w && kind == DELCAS ->
			assert(current[k] == C_VALUE(c1));
#ifdef MUTANT_BLIND_DELETE_CAS
			slot[i] = w | DEAD | BLIND;
#else
			slot[i] = (w | DEAD) & (255 - BLIND);
#endif
			deleted[k]++;
			now_current(k, 0);
			goto finish
		:: found == w && kind != DEL && kind != DELCAS ->
			slot[i] = word;
			assert(kind != ADD || current[k] == 0);
			assert(kind != CAS || current[k] == C_VALUE(c1));
			blind_writes[k] = blind_writes[k] + (kind == PUT);
			created[k]++;
			now_current(k, value);
			mine = 0;
			if
			:: inserting -> assert_unique(k, i)
			:: else -> retire(w)
			fi;
#ifdef MUTANT_ABSORB_WITH_OLD_WORD
			old_w = word;
			old_i = i;
			old_k = k;
#endif
			goto finish
		:: else
		fi
	}
	/* Lost. */
#ifdef FAST_PATH
	atomic {
		if
		:: fast ->
			fast = 0;
#ifndef MUTANT_LOST_FAST_BELIEVES
			if
			:: C_INC(block[W_BLOCK(w)]) != W_INC(w) ||
			   C_KEY(block[W_BLOCK(w)]) != k ->
#ifdef COVER_LOST_FAST
				assert(false);
#endif
				goto again
			:: else
			fi
#endif
		:: else
		fi
	}
#endif
#ifdef MUTANT_ABSORBED_INSERT
	if
	:: kind == PUT && (found & BLIND) -> goto absorbed
	:: else
	fi;
#endif
	if
	:: inserting ->
#ifdef COVER_LOST_INSERT
		assert(false);
#endif
		img[i] = found;
		inserting = 0;
#ifdef MUTANT_LOST_INSERT_TAKES_NEXT
		i++;
#endif
		d_step {
			inside[id] = 1;
			late[id] = 0
		}
		goto scan
	:: else
	fi;
#ifdef MUTANT_ABSORB_BEFORE_CONDITIONAL
	if
	:: kind == PUT -> goto absorbed
	:: else
	fi;
#endif
#ifdef MUTANT_ABSORBED_DELETE
	if
	:: kind == DEL && (found & BLIND) ->
		deleted[k]++;
		assert(deleted[k] <= created[k]);
		goto finish
	:: else
	fi;
#endif
	if
	:: kind == PUT && (found & BLIND) -> goto absorbed
	:: (kind == CAS || kind == DELCAS) && !(found & DEAD) ->
#ifdef COVER_VERSION_DIFFERS
		assert(false);
#endif
		goto finish
	:: else -> w = found; goto decide
	fi;

absorbed:
#ifdef COVER_ABSORBED
	assert(false);
#endif
	assert(blind_writes[k] > blind_before);

finish:
	atomic {
		asked[id] = 0;
		inside[id] = 0;
		late[id] = 0;
		seen[id] = 0;
		w = 0;
		c1 = 0;
		c2 = 0;
		found = 0;
		word = 0;
		value = 0;
		i = 0;
		img[0] = 0;
		img[1] = 0;
		inserting = 0;
#ifdef FAST_PATH
		fast = 0
#endif
	}
	goto next;
done:
	skip
}

init
{
	atomic {
#ifndef EMPTY_START
		/* Key 0 is there from the start, with value 7, in block 3. */
		block[3] = CONTENT(7, 0, 0);
		slot[0] = WORD(3, 0, FP(0)) | BLIND;
		current[0] = 7;
		created[0] = 1;
#endif
		run client(0);
		run client(1);
		run client(2)
	}
}
