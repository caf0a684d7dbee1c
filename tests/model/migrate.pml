/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * migrate.pml - "FROZEN" of doc/protocol.md and server/index/migrate.c, for spin.
 *
 * Two keys in one subtable of two slots. The server compacts or splits it, doubles
 * the directory where it must, and does it again with the result; a page that
 * was replaced becomes a later subtable, or holds values, after a barrier. Clients
 * begin with a copy of the first directory, and may be stopped between
 * any two accesses for any time. Each word of a window, D, each entry, a block and a
 * CAS are accesses of their own. A rival stands for all other clients: it fills a
 * block in one step, and in another does anything that the assertions allow a client.
 *
 * The assertions:
 *   - a value or a miss that a get returns was true at some moment of it, and so is
 *     that of an operation that changes nothing;
 *   - a CAS that succeeds changes the subtable that the directory leads to, and
 *     replaces the key's current value;
 *   - the published value of a key is its current one: nothing is lost, nothing
 *     comes back; no key has two slots.
 *
 * Time: a block is used again T after it was unlinked (a dropped tombstone: after
 * the publication), so a span that began before that one is longer than T/2 then.
 * One that began later need not be, although the old words can still be read.
 *
 * -DMUTANT_... breaks one rule, -DCOVER_... names a place to be reached.
 */

/* Operations; six writes at most. */
#ifndef OPS0
#define OPS0 1
#endif
#ifndef OPS1
#define OPS1 0
#endif
#ifndef RIVAL_OPS
#define RIVAL_OPS 2
#endif
#ifndef MIGRATIONS
#define MIGRATIONS 1
#endif
#define OPS(id) ((id) == 0 -> OPS0 : OPS1)
#define CLIENTS 2
#define BLOCKS 5 /* 1, 2: published; 3: the rival's; 4, 5: the clients' */
#define INCS 4
#define PAGES 3

/* A word: block 3 | inc 2 | blind 1 | dead 1 | frozen 1. EMPTY: block 0 | gen 3. */
#define W_BLOCK(w) ((w) & 7)
#define W_INC(w) ((w) >> 3 & 3)
#define BLIND 32
#define DEAD 64
#define FROZEN 128
#define WORD(b, inc) ((b) | (inc) << 3)
#define EMPTY(gen) ((gen) << 3)
#define THAWED(w) ((w) & 127)

/* A block's content: value 3 | key 1 | inc 2. */
#define C_VALUE(c) ((c) & 7)
#define C_KEY(c) ((c) >> 3 & 1)
#define C_INC(c) ((c) >> 4 & 3)
#define CONTENT(v, k, inc) ((v) | (k) << 3 | (inc) << 4)

/* A directory entry: page 2 | gen 3. */
#define E_PAGE(e) ((e) & 3)
#define E_GEN(e) ((e) >> 2)
#define ENTRY(page, gen) ((page) | (gen) << 2)

#define SLOT(e, i) mem[E_PAGE(e) * 2 + (i)]

mtype = { GET, PUT, ADD, DEL };
mtype = { IN_USE, FREE, WORN, AGING, VALUES };

byte mem[PAGES * 2];
byte block[BLOCKS + 1];
bit D;        /* depth; the array of depth 0 has one entry, that of 1 has two */
byte dir0;
byte dir1[2];

/* The server's. */
mtype page[PAGES];
bit page_depth[PAGES];
byte deferred;       /* unlinked blocks, and those of dropped tombstones */
byte busy;        /* sessions inside an operation, one bit each */
byte alert;       /* sessions that shall forget the directory */
byte awaited;     /* sessions that the current barrier waits for */
bit passing;      /* a barrier is in progress */
byte dead;

/* Current spans, one bit each; which of them began before a block was unlinked;
 * which of them know that they are late. */
byte inside;
byte before[BLOCKS + 1];
byte late;

/* What is true, for the assertions only. */
byte current[2];       /* value of each key, 0: none */
byte asked[CLIENTS];   /* key of a current operation, + 1 */
byte seen[CLIENTS];    /* values that were current during it, one bit each */
bit blind_since[CLIENTS]; /* a blind write of its key took place during it */

#define AT(k) (D -> dir1[k] : dir0)
#define ME (1 << id)
#define NOT_ME (255 - ME)
#define KNOWN(v) (seen[id] >> (v) & 1)
#define SAW_NONE KNOWN(0)
#define SAW_SOME (seen[id] & 254)

inline now_current(k, v, blind)
{
	current[k] = v;
	for (n : 0 .. CLIENTS - 1) {
		if
		:: asked[n] == k + 1 ->
			seen[n] = seen[n] | 1 << v;
			blind_since[n] = blind_since[n] | (blind)
		:: else
		fi
	}
	n = 0
}

inline span_end()
{
	inside = inside & NOT_ME;
	late = late & NOT_ME;
	for (n : 1 .. BLOCKS) {
		before[n] = before[n] & NOT_ME
	}
	n = 0
}

inline span_begin()
{
	span_end();
	inside = inside | ME
}

inline use_again(b)
{
#ifndef MUTANT_REUSE_BEFORE_T
	late = late | before[b];
#endif
	before[b] = 0
}

/* A block of one's own: free, or one that has waited for T. */
inline take_block()
{
	if
	:: mine
	:: !mine && deferred ->
		for (n : 1 .. BLOCKS) {
			if
			:: !mine && (deferred >> n & 1) -> mine = n
			:: else
			fi
		}
		n = 0;
		deferred = deferred - (1 << mine);
#ifndef MUTANT_REUSE_BEFORE_T
		late = late | before[mine];
#endif
		before[mine] = 0;
		mine_inc = C_INC(block[mine]) + 1
	:: else
	fi
}

inline fill_block()
{
	block[mine] = CONTENT(value, k, mine_inc);
	word = WORD(mine, mine_inc);
	mine_inc = 0
}

inline retire(b)
{
	if
	:: C_INC(block[b]) + 1 < INCS ->
		before[b] = inside;
		deferred = deferred | 1 << b
	:: else /* exhausted */
	fi
}

proctype client(byte id)
{
	mtype kind;
	byte k, p, i, w, c, value, found, word, n, ops, entry;
	byte mine, mine_inc;
	bit settled; /* frozen words are current */
	byte img[2];
	/* The cached directory. */
	bit depth;
	byte cached[2];

#ifdef DEATHS
{
#endif
	d_step {
		depth = D;
		cached[0] = dir0;
		if
		:: D -> cached[0] = dir1[0]; cached[1] = dir1[1]
		:: else
		fi;
		mine = 4 + id
	}
next:
	atomic {
		if
		:: ops < OPS(id) -> ops++
		:: else -> goto done
		fi;
		if
		:: k = 0
		:: k = 1
		fi;
		if
		:: kind = GET
		:: kind = PUT
		:: kind = ADD
		:: kind = DEL
		fi;
		if
		:: kind == PUT || kind == ADD -> take_block()
		:: else
		fi;
		if
		:: (kind == PUT || kind == ADD) && !mine -> goto finish
		:: (kind == PUT || kind == ADD) && mine ->
			value = RIVAL_OPS + (id -> OPS0 : 0) + ops;
			fill_block();
			word = word | (kind == PUT -> BLIND : 0)
		:: else
		fi;
		asked[id] = k + 1;
		seen[id] = 1 << current[k]
	}
enter:
	atomic {
		busy = busy | ME;
		if
		:: alert & ME -> alert = alert & NOT_ME; goto refill
		:: else -> goto start
		fi
	}
refill:
	depth = D;
	atomic { cached[1] = 0; cached[0] = (depth -> dir1[0] : dir0) };
	if
	:: depth -> cached[1] = dir1[1]
	:: else
	fi;
	if
	:: atomic { D != depth -> goto refill }
	:: D == depth
	fi;

start:
	atomic {
		settled = 0;
		i = 0;
		p = cached[depth & k];
		if
		:: kind == GET -> goto look_up
		:: true
		fi
	}
in_order:
#ifdef ENTRY_BEFORE_WORDS
	atomic {
		entry = (depth -> dir1[k] : dir0);
		if
		:: D != depth -> goto refill
		:: else
		fi
	}
#endif
	atomic {
		span_begin();
		img[0] = SLOT(p, 0)
	}
	atomic {
		img[1] = SLOT(p, 1);
scan:
		if
		:: i == 2 -> goto absent
		:: else
		fi;
		w = img[i];
		if
		:: (w & FROZEN) && !settled -> goto moved
		:: else -> w = THAWED(w)
		fi;
		if
		:: w == EMPTY(E_GEN(p)) -> goto absent
		:: w != EMPTY(E_GEN(p)) && W_BLOCK(w) == 0 -> goto moved
		:: W_BLOCK(w) && kind == GET && (w & DEAD) -> i++; goto scan
		:: else
		fi
	}
	atomic {
		c = block[W_BLOCK(w)];
#ifndef MUTANT_LATE_GOES_ON
		if
		:: (late & ME) && SLOT(p, i) != w ->
#ifdef MUTANT_FROZEN_STANDS
			if
			:: THAWED(SLOT(p, i)) == w
			:: else -> goto start
			fi
#else
#ifdef COVER_LATE_AND_FROZEN
			assert(!settled);
#endif
			goto start
#endif
		:: else
		fi;
#endif
#ifndef NO_CHECK_OF_CONTENT
		if
		:: C_INC(c) != W_INC(w) ->
#ifdef COVER_BAD_BLOCK
			assert(!settled);
#endif
			goto start
		:: else
		fi;
#endif
		if
		:: C_KEY(c) != k -> i++; goto scan
		:: else
		fi
	}

	goto decide;

	/* By loads: a slot of the key's fingerprint, whatever is in front of it. */
look_up:
	atomic {
		span_begin();
		if
		:: i = 0
		:: i = 1
		fi;
		w = SLOT(p, i);
		if
#ifdef MUTANT_FROZEN_FAST_PATH
		:: W_BLOCK(w) && !(w & DEAD) -> w = THAWED(w)
#else
		:: W_BLOCK(w) && !(w & (DEAD | FROZEN))
#endif
		:: else -> goto not_so
		fi
	}
	atomic {
		c = block[W_BLOCK(w)];
#ifndef NO_CHECK_OF_CONTENT
		if
		:: C_INC(c) != W_INC(w) -> goto not_so
		:: else
		fi;
#endif
		if
		:: C_KEY(c) != k -> goto not_so
		:: else
		fi
	}
	atomic {
#ifndef MUTANT_FROZEN_FAST_PATH
		if
		:: SLOT(p, i) != w -> goto not_so
		:: else
		fi;
#endif
#ifdef COVER_BEHIND_FROZEN
		assert(i == 0 || !(SLOT(p, 0) & FROZEN));
#endif
		goto decide
	}
not_so:
	atomic {
		i = 0;
		w = 0;
		c = 0;
		goto in_order
	}

decide:
	/* The slot is this key's and held w. */
	atomic {
		if
		:: kind == GET ->
#ifdef COVER_FROZEN_TAKEN
			assert(!settled);
#endif
			assert(C_VALUE(c) != 0 && KNOWN(C_VALUE(c)));
			goto finish
		:: kind == ADD && !(w & DEAD) -> assert(SAW_SOME); goto finish
		:: kind == DEL && (w & DEAD) -> assert(SAW_NONE); goto finish
		:: else -> span_end()
		fi
	}
	goto swap;

absent:
	atomic {
		if
		:: kind == PUT || kind == ADD ->
			assert(i < 2); /* two keys fit */
			w = EMPTY(E_GEN(p));
			span_end()
		:: else ->
#ifdef COVER_FROZEN_MISS
			assert(!settled);
#endif
			assert(SAW_NONE);
			goto finish
		fi
	}

swap:
	atomic {
		found = SLOT(p, i);
		if
		:: found != w -> goto lost
		:: else
		fi;
		assert(p == AT(k));
#ifdef COVER_WRITE_WHILE_HALF_PUBLISHED
		assert(!D || dir1[0] == dir1[1] || page_depth[E_PAGE(p)]);
#endif
#ifdef COVER_WRITE_TO_USED_PAGE
		assert(E_PAGE(p) != 0 || E_GEN(p) == 1);
#endif
		if
		:: W_BLOCK(w) ->
			assert(C_KEY(block[W_BLOCK(w)]) == k);
			assert(current[k] == ((w & DEAD) -> 0 :
					      C_VALUE(block[W_BLOCK(w)])))
		:: else ->
			assert(current[k] == 0);
			for (n : 0 .. 1) {
				assert(W_BLOCK(SLOT(p, n)) == 0 ||
				       C_KEY(block[W_BLOCK(SLOT(p, n))]) != k)
			}
			n = 0
		fi;
		if
		:: kind == DEL ->
			SLOT(p, i) = w | DEAD | BLIND;
			now_current(k, 0, 1)
		:: else ->
			SLOT(p, i) = word;
			now_current(k, value, kind == PUT);
			mine = 0;
			if
			:: W_BLOCK(w) -> retire(W_BLOCK(w))
			:: else
			fi
		fi;
		goto finish
	}
lost:
	atomic {
#ifdef MUTANT_ABSORBED_BY_FROZEN
		if
		:: kind == PUT && (found & FROZEN) && (found & BLIND) ->
			assert(blind_since[id]);
			goto finish
		:: else
		fi;
#endif
		if
		:: found & FROZEN ->
#ifdef COVER_CAS_MEETS_FROZEN
			assert(false);
#endif
			goto moved
		:: !(found & FROZEN) && W_BLOCK(found) == 0 -> goto start
		:: !(found & FROZEN) && W_BLOCK(found) && W_BLOCK(w) == 0 ->
			img[i] = found;
			span_begin();
			goto scan
		:: else
		fi;
		if
		:: kind == PUT && (found & BLIND) ->
			assert(blind_since[id]);
			goto finish
		:: else -> w = found; goto decide
		fi
	}

moved:
#ifdef MUTANT_ENTRY_FROM_CACHE
	entry = cached[depth & k];
#else
#ifndef ENTRY_BEFORE_WORDS
#ifndef MUTANT_D_NOT_COMPARED
	if
	:: atomic { D != depth -> goto refill }
	:: D == depth
	fi;
#endif
	entry = (depth -> dir1[k] : dir0);
#if !defined(MUTANT_D_NOT_COMPARED) && !defined(D_COMPARED_ONCE)
	if
	:: atomic {
		D != depth ->
#ifdef COVER_DOUBLED_MEANWHILE
		assert(false);
#endif
		goto refill
	   }
	:: D == depth
	fi;
#endif
#endif
#endif
	atomic {
		if
		:: entry != p -> cached[depth & k] = entry; goto start
		:: else
		fi;
		if
		:: kind == GET && (img[i] & FROZEN) -> settled = 1; goto scan
		:: kind == GET && !(img[i] & FROZEN) -> goto start /* odd */
		:: else
		fi
	}
	/* A writer waits: it holds nothing, and is over for a barrier. */
	atomic {
		span_end();
		busy = busy & NOT_ME;
		awaited = awaited & NOT_ME;
		img[0] = 0;
		img[1] = 0;
		entry = 0;
		found = 0;
		w = 0;
		c = 0;
		p = 0
	}
	goto enter;

finish:
	atomic {
		span_end();
		busy = busy & NOT_ME;
		awaited = awaited & NOT_ME;
		asked[id] = 0;
		seen[id] = 0;
		settled = 0;
		entry = 0;
		p = 0;
		w = 0;
		c = 0;
		found = 0;
		word = 0;
		value = 0;
		blind_since[id] = 0;
		i = 0;
		img[0] = 0;
		img[1] = 0
	}
	goto next;
done:
	skip
#ifdef DEATHS
} unless { dead & ME }
#endif
}

/* The slot of key k, or the first EMPTY one. */
#define W0(k) SLOT(AT(k), 0)
#define PLACE(k) (W_BLOCK(W0(k)) && C_KEY(block[W_BLOCK(W0(k))]) != (k))
#define RIVAL_FROZEN(k) (SLOT(AT(k), PLACE(k)) & FROZEN)
#define CAN_DELETE(k) (current[k] && !RIVAL_FROZEN(k))

inline rival_at()
{
	at = PLACE(k);
	w = SLOT(AT(k), at)
}

proctype rival()
{
	byte k, w, at, value, word, n, ops;
	byte mine = 3, mine_inc;

end_idle:
	do
	:: atomic {
		ops < RIVAL_OPS && !word && (mine || deferred) ->
		if
		:: k = 0
		:: k = 1
		fi;
		take_block();
		value = ops + 1;
		fill_block()
	   }
	:: atomic {
		word && !RIVAL_FROZEN(k) ->
		rival_at();
		ops++;
		if
		:: word = word | BLIND /* put */
		:: skip /* add or cas */
		fi;
		SLOT(AT(k), at) = word;
		now_current(k, value, (word & BLIND) != 0);
		word = 0;
		mine = 0;
		value = 0;
		if
		:: W_BLOCK(w) -> retire(W_BLOCK(w))
		:: else
		fi;
		at = 0;
		w = 0;
		k = 0
	   }
	:: atomic { /* delete */
		ops < RIVAL_OPS && !word && (CAN_DELETE(0) || CAN_DELETE(1)) ->
		if
		:: CAN_DELETE(0) -> k = 0
		:: CAN_DELETE(1) -> k = 1
		fi;
		rival_at();
		ops++;
		SLOT(AT(k), at) = w | DEAD | BLIND;
		now_current(k, 0, 1);
		at = 0;
		w = 0;
		k = 0
	   }
	od
}

#ifdef DEATHS
/* A client dies; when its process is gone, no barrier waits for it any more. */
proctype death()
{
	byte id;

	atomic {
		busy = busy & NOT_ME;
		awaited = awaited & NOT_ME;
#ifndef MUTANT_FENCED_BUT_ALIVE
		inside = inside & NOT_ME;
		late = late & NOT_ME;
		dead = ME
#endif
	}
}
#endif

#define N_FREE ((page[0] == FREE) + (page[1] == FREE) + (page[2] == FREE))

inline freeze(s)
{
	atomic {
		if
#ifdef MUTANT_EMPTY_NOT_FROZEN
		:: W_BLOCK(mem[old * 2 + s]) == 0
		:: W_BLOCK(mem[old * 2 + s]) ->
			mem[old * 2 + s] = mem[old * 2 + s] | FROZEN
#else
		:: mem[old * 2 + s] = mem[old * 2 + s] | FROZEN
#endif
#ifdef MUTANT_ONE_PASS
		:: true /* a client's CAS came between load and CAS */
#endif
		fi
	}
}

inline take_page(half)
{
	for (n : 0 .. PAGES - 1) {
		if
		:: page[n] == FREE && fresh[half] == 0 ->
			page[n] = IN_USE;
			page_depth[n] = page_depth[old] | split;
			fresh[half] = ENTRY(n, gen);
			gen++;
			mem[n * 2] = EMPTY(E_GEN(fresh[half]));
			mem[n * 2 + 1] = EMPTY(E_GEN(fresh[half]))
		:: else
		fi
	}
	n = 0
}

/* That key's value by the page. */
inline look_up(e, key)
{
	found = 0;
	for (n : 0 .. 1) {
		w = THAWED(SLOT(e, n));
		if
		:: W_BLOCK(w) && C_KEY(block[W_BLOCK(w)]) == key ->
			assert(found == 0); /* no key twice */
			found = (w & DEAD -> 0 : C_VALUE(block[W_BLOCK(w)]))
		:: else
		fi
	}
	n = 0;
	w = 0
}

inline publish(key, e)
{
	atomic {
		look_up(e, key);
		assert(found == current[key]);
		found = 0;
		dir1[key] = e
	}
}

proctype server()
{
	byte n, w, key, old, half, found, left, gen, drops;
	byte fresh[2];
	bit split;

	left = MIGRATIONS;
	gen = 2;
end_idle:
	do
	:: atomic {
		/* Nothing is frozen before there is fresh memory. */
		left && N_FREE ->
		if
		:: old = E_PAGE(AT(0))
		:: D && AT(0) != AT(1) -> old = E_PAGE(AT(1))
		fi;
		if
		:: split = 0
		:: page_depth[old] == 0 && N_FREE > 1 -> split = 1
		fi;
		left--;
		take_page(0);
		if
		:: split -> take_page(1)
		:: else -> fresh[1] = fresh[0]
		fi
	   }
#ifdef BACKWARDS
	   freeze(1);
	   freeze(0);
#else
	   freeze(0);
	   freeze(1);
#endif
	   atomic {
		for (key : 0 .. 1) {
			w = THAWED(mem[old * 2 + key]);
			half = C_KEY(block[W_BLOCK(w)]);
			if
			:: W_BLOCK(w) == 0
			:: W_BLOCK(w) && (w & DEAD) ->
				drops = drops | 1 << W_BLOCK(w)
			:: W_BLOCK(w) && !(w & DEAD) ->
				n = (W_BLOCK(SLOT(fresh[half], 0)) != 0);
				SLOT(fresh[half], n) = w
			fi
		}
		n = 0;
		w = 0;
		key = 0;
		half = 0;
		if
		:: split && !D -> dir1[0] = dir0; dir1[1] = dir0
		:: else
		fi
	   }
	   if
	   :: split && !D -> D = 1
	   :: else
	   fi;
	   if
	   :: D ->
		if
		:: E_PAGE(dir1[0]) == old -> publish(0, fresh[0])
		:: else
		fi;
		if
		:: E_PAGE(dir1[1]) == old -> publish(1, fresh[1])
		:: else
		fi
	   :: else ->
		atomic {
			for (key : 0 .. 1) {
				look_up(fresh[0], key);
				assert(found == current[key])
			}
			key = 0;
			found = 0;
			dir0 = fresh[0]
		}
	   fi;
	   atomic { /* retire */
		for (n : 1 .. BLOCKS) {
			if
			:: drops >> n & 1 ->
				retire(n);
#ifdef MUTANT_DROPPED_AT_ONCE
				before[n] = 0
#endif
			:: else
			fi
		}
		n = 0;
		drops = 0;
#ifdef MUTANT_PAGE_BEFORE_BARRIER
		page[old] = FREE;
#else
		page[old] = WORN;
#endif
		old = 0;
		split = 0;
		fresh[0] = 0;
		fresh[1] = 0
	   }
	od
}

/* Pages wait for a barrier, and come back. */
proctype barriers()
{
	byte n, s;

end_idle:
	do
	:: atomic {
		!passing &&
		(page[0] == WORN || page[1] == WORN || page[2] == WORN) ->
		passing = 1;
		for (n : 0 .. PAGES - 1) {
			if
			:: page[n] == WORN -> page[n] = AGING
			:: else
			fi
		}
		n = 0;
		alert = 3;
		awaited = busy
	   }
	:: atomic {
		passing && !awaited ->
		passing = 0;
		for (n : 0 .. PAGES - 1) {
			if
			:: page[n] == AGING -> page[n] = FREE
			:: else
			fi
		}
		n = 0
	   }
#ifdef PAGES_HOLD_VALUES
	/* Values may have any bytes, for example the page's words without
	 * their frozen marks. */
	:: atomic {
		page[0] == FREE ->
		page[0] = VALUES;
		for (s : 0 .. 1) {
			mem[s] = THAWED(mem[s])
		}
		s = 0
	   }
#endif
	od
}

init
{
	atomic {
		page[0] = IN_USE;
		page[1] = FREE;
		page[2] = FREE;
		dir0 = ENTRY(0, 1);
		mem[0] = EMPTY(1);
		mem[1] = EMPTY(1);
		/* Key 0 has value 7, or is deleted and key 1 has it. */
		block[1] = CONTENT(7, 0, 0);
		mem[0] = WORD(1, 0) | BLIND;
#ifdef DEAD_START
		mem[0] = mem[0] | DEAD;
		block[2] = CONTENT(7, 1, 0);
		mem[1] = WORD(2, 0) | BLIND;
		current[1] = 7;
#else
		current[0] = 7;
#endif
#ifdef DOUBLED_START
		/* Two entries lead to one subtable. */
		D = 1;
		dir1[0] = dir0;
		dir1[1] = dir0;
#endif
		run client(0);
#if OPS1
		run client(1);
#endif
		run rival();
		run server();
		run barriers();
#ifdef DEATHS
		run death()
#endif
	}
}
