/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * order.pml - the order of memory (doc/threads.md), for spin.
 *
 * A thread's accesses are done in any order that its fences, acquires and releases
 * allow: each is a bit of `done`, and names those that must be done before it. Stores
 * of one word keep their order. That is weaker than x86-64, where only a load
 * overtakes a store before it.
 *
 * By default the gate (client/qsbr.h): two operations of a handle, and a barrier. An
 * operation that saw no pending flag uses its cache. The assertion: not after the
 * barrier is acknowledged. membarrier(2) finds the handle's accesses done up to some
 * point of its program, and none after it.
 *
 * -DCOPY: a reader by loads, and a writer that replaces the value and reuses the block
 * at once. The assertion: if the slot still holds the word that was followed, the copy
 * is that word's value.
 *
 * -DMUTANT_... breaks one rule, -DCOVER_... names a place to be reached.
 */
byte done;
#define AFTER(set) ((done & (set)) == (set))
#define ACCESS(bit, before) (!(done & (bit)) && AFTER(before))
#define DID(bit) done = done | (bit)

#ifndef COPY
#define ENTER 1
#define LOOK 2
#define USE 4
#define LEAVE 8
#define OP 16 /* times that: the second operation's */

#ifdef FENCE
#define LOOK_AFTER ENTER /* begin is an exchange */
#define NO_MEMBARRIER
#else
#define LOOK_AFTER 0 /* only the compiler is held back */
#endif
#ifdef MUTANT_PLAIN_LEAVE
#define LEAVE_AFTER (ENTER | LOOK)
#else
#define LEAVE_AFTER (ENTER | LOOK | USE) /* a release */
#endif
#ifdef MUTANT_NO_MEMBARRIER
#define NO_MEMBARRIER
#endif

byte seq;
bit alert, saw[2], acked;

active proctype handle()
{
	do
	:: atomic { ACCESS(ENTER, 0) -> seq++; DID(ENTER) }
	:: atomic { ACCESS(LOOK, LOOK_AFTER) -> saw[0] = alert; DID(LOOK) }
	:: atomic { ACCESS(USE, LOOK) -> assert(saw[0] || !acked); DID(USE) }
	:: atomic { ACCESS(LEAVE, LEAVE_AFTER) -> seq++; DID(LEAVE) }
	:: atomic { ACCESS(ENTER * OP, LEAVE) -> seq++; DID(ENTER * OP) }
	:: atomic { ACCESS(LOOK * OP, LOOK | LOOK_AFTER * OP) ->
		saw[1] = alert; DID(LOOK * OP) }
	:: atomic { ACCESS(USE * OP, LOOK * OP) ->
		assert(saw[1] || !acked);
#ifdef COVER_SAW_NOTHING
		assert(saw[1] || !alert);
#endif
		DID(USE * OP) }
	:: atomic { ACCESS(LEAVE * OP, LEAVE | LEAVE_AFTER * OP) ->
		seq++; DID(LEAVE * OP) }
	:: done == 255 -> break
	od
}

active proctype control()
{
	byte mark;

#ifndef MUTANT_ALERT_LAST
	alert = 1;
#endif
#ifndef NO_MEMBARRIER
	(done & (done + 1)) == 0;
#endif
	mark = seq;
#ifdef MUTANT_ALERT_LAST
	alert = 1;
#endif
#ifndef MUTANT_ODD_IS_EVEN
	mark % 2 == 0 || seq != mark;
#endif
#ifdef COVER_WAITED
	assert(mark % 2 == 0);
#endif
	acked = 1
}

#else /* COPY */
#define FOLLOW 1
#define TAKE 2
#define AGAIN 4
#define FILL 8
#define PUBLISH 16
#define REUSE 32

#ifdef MUTANT_NO_FENCE_BEHIND_THE_COPY
#define AGAIN_AFTER FOLLOW
#else
#define AGAIN_AFTER (FOLLOW | TAKE)
#endif
#ifdef MUTANT_PLAIN_PUBLISH
#define PUBLISH_AFTER 0
#else
#define PUBLISH_AFTER FILL
#endif
#ifdef MUTANT_PLAIN_UNLINK
#define REUSE_AFTER 0
#else
#define REUSE_AFTER PUBLISH
#endif

/* Block i holds value i while the slot names it. */
byte block[3] = { 0, 1, 0 };
byte slot = 1, word, copy, still;

active proctype reader()
{
	do
	:: atomic { ACCESS(FOLLOW, 0) -> word = slot; DID(FOLLOW) }
	:: atomic { ACCESS(TAKE, FOLLOW) -> copy = block[word]; DID(TAKE) }
	:: atomic { ACCESS(AGAIN, AGAIN_AFTER) -> still = slot; DID(AGAIN) }
	:: AFTER(FOLLOW | TAKE | AGAIN) -> break
	od;
#ifdef COVER_CHANGED
	assert(still == word);
#endif
	assert(still != word || copy == word)
}

active proctype writer()
{
	do
	:: atomic { ACCESS(FILL, 0) -> block[2] = 2; DID(FILL) }
	:: atomic { ACCESS(PUBLISH, PUBLISH_AFTER) -> slot = 2; DID(PUBLISH) }
	:: atomic { ACCESS(REUSE, REUSE_AFTER) -> block[1] = 9; DID(REUSE) }
	:: AFTER(FILL | PUBLISH | REUSE) -> break
	od
}
#endif
