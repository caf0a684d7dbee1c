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
	struct index_op op; /* first: the op queue returns its address */
	struct request *next;
	uint64_t tag;
	uint64_t deadline_ns;
	size_t key_len, value_len; /* as given by the caller */
	void *buf;
	size_t cap;
	void *saved;        /* copy of its value after the connection has gone */
	char *line;         /* on the heap: why it failed; NULL: the error's general text */
	bool begun;         /* `op` is set up: only index_submit() is needed */
	bool parked;        /* in `fresh`: it waits for version numbers */
	uint64_t region[2]; /* the region in which it was begun */
};

struct list {
	struct request *first, **end;
};

struct queue {
	uint32_t depth;
	uint32_t in_flight;
	bool inside; /* inside the critical section */
	bool dialling; /* a connection is being made, and all but `done` wait for it; ... */
	bool mending;  /* ... those in `interrupted` will be resumed on it */
	bool mail;   /* what the waiting need may have come */
	bool unasked; /* some of the waiting have not asked yet for what they need */
	struct request *slots; /* 2 * depth: in flight, or with values still in use */
	struct list idle, fresh, interrupted, waiting, done, lent;
	struct op_queue opq;
	struct index_op **ops; /* `depth` of them, scratch space */
	struct wait_state wait;
	uint64_t begun_ns;      /* when `wait` began */
	uint64_t wait_until_ns; /* when to try the waiting again */
	uint64_t park_until_ns; /* first deadline of requests without versions */
	bool parked;            /* some of `fresh` wait for versions */
	unsigned vain;          /* consecutive polls that could only wait */
	uint64_t now_ns;        /* when the present call began */
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

/* Append all of `from` to `to`. */
static inline void list_move(struct list *to, struct list *from)
{
	if (!from->first)
		return;
	*to->end = from->first;
	to->end = from->end;
	list_init(from);
}

/* Last in, first out: its buffers are in the cache. */
static inline void list_push(struct list *l, struct request *r)
{
	r->next = l->first;
	l->first = r;
	if (!r->next)
		l->end = &r->next;
}

/** The thread's error line is why `r` failed. */
void queue_keep_line(struct request *r);

/** A call begins: read the clock. */
void queue_turn_begin(struct farkv *kv);

/** Advance everything as far as possible without waiting. */
void queue_turn(struct farkv *kv);

/** Post new submissions, unless that needs more than a doorbell. */
void queue_kick(struct farkv *kv);

/** Check a request that was not begun against the present store: 0, or an error with the
 * synchronous call's line. */
int queue_check(struct farkv *kv, const struct request *r,
		struct index_key *key_out);

/** While a connection is being made: the first deadline of the requests that wait for it. */
uint64_t queue_conn_deadline(const struct queue *q);

/** True if queue_turn() may begin a request now. */
bool queue_can_begin(const struct queue *q);

/** True if the session has flags pending and the critical section is left. */
bool queue_is_called(const struct farkv *kv);

/** True if some of the waiting need something new, or the server has answered. */
bool queue_must_ask(const struct farkv *kv);

/** Leave the critical section; the op queue is empty. */
void queue_leave(struct farkv *kv);

#endif
