/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * queue_turn.h - struct queue, and how its requests are driven: the gate, the strand, broken
 * lanes. queue.c is the way in and out: submissions, completions, waiting, the descriptor that
 * tells when to drive them.
 */
#ifndef CLIENT_QUEUE_TURN_H
#define CLIENT_QUEUE_TURN_H

#include "handle.h"
#include "queue.h"
#include "wait.h"

struct request {
	struct index_op op; /* first: the strand returns its address */
	struct request *next;
	uint64_t tag;
	uint64_t deadline_ns;
	size_t key_len, value_len; /* as the caller gave them */
	void *buf;
	size_t cap;
	void *saved;        /* its value, where the memory that it came to has gone */
	char *line;         /* on the heap: why it failed; NULL: the error's text */
	bool begun;         /* `op` is set up: only index_submit() is needed */
	bool parked;        /* it has not gone further, but waits for version numbers */
	uint64_t region[2]; /* ... for this one, and no other */
};

struct list {
	struct request *first, **end;
};

struct queue {
	uint32_t depth;
	uint32_t in_flight;
	bool inside; /* the gate is entered */
	bool dialling; /* a link is being made, which all but `done` wait for; */
	bool mending;  /* ... those in `torn` to go on with what they had begun */
	bool mail;   /* what the waiting wait for may have come */
	bool unasked; /* some of the waiting have not asked for what they need */
	struct request *slots; /* twice `depth`: so many can be in flight, and lent */
	struct list idle, fresh, torn, waiting, done, lent;
	struct index_strand strand;
	struct index_op **ops; /* `depth`, for calls that take many */
	struct wait_state wait;
	uint64_t begun_ns;      /* when `wait` began */
	uint64_t wait_until_ns; /* when to try the waiting again */
	uint64_t park_until_ns; /* first deadline of those that lack a version */
	bool parked;            /* some of `fresh` do */
	unsigned vain;          /* polls in a row that could do nothing but wait */
	uint64_t now_ns;        /* when this call began */
};

/* ---- lists ------------------------------------------------------------------------- */

static inline void list_init(struct list *l)
{
	l->first = NULL;
	l->end = &l->first;
}

static inline void list_add(struct list *l, struct request *r)
{
	r->next = NULL;
	*l->end = r;
	l->end = &r->next;
}

static inline struct request *list_take(struct list *l)
{
	struct request *r = l->first;

	if (!r)
		return NULL;
	l->first = r->next;
	if (!l->first)
		l->end = &l->first;
	return r;
}

/* All of `from`, behind those of `to`. */
static inline void list_move(struct list *to, struct list *from)
{
	if (!from->first)
		return;
	*to->end = from->first;
	to->end = from->end;
	list_init(from);
}

/* The one used last is used first: its buffers are in the cache. */
static inline void list_push(struct list *l, struct request *r)
{
	r->next = l->first;
	l->first = r;
	if (!r->next)
		l->end = &r->next;
}

/** The thread's error line is why `r` failed. */
void queue_keep_line(struct request *r);

/** A call begins: look at the clock. */
void queue_turn_begin(struct farkv *kv);

/** Take everything as far as it goes without waiting for anybody. */
void queue_turn(struct farkv *kv);

/** Post what was submitted, if that takes no more than a doorbell. */
void queue_kick(struct farkv *kv);

/** What the store that the handle has now says to a request that was not begun: 0, or
 * why it is refused, with the call's own line. */
int queue_check(struct farkv *kv, const struct request *r,
		struct index_key *key_out);

/** While a link is being made: the first deadline of those that wait for it. */
uint64_t queue_link_deadline(const struct queue *q);

/** May queue_turn() begin a request now? */
bool queue_can_begin(const struct queue *q);

/** Has the session something to say? Only while the gate is left is it heard. */
bool queue_is_called(const struct farkv *kv);

/** Some of the waiting need something new, or the server has answered. */
bool queue_must_ask(const struct farkv *kv);

/** Leave the gate; the strand rests. */
void queue_leave(struct farkv *kv);

#endif
