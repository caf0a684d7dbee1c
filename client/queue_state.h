/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * queue_state.h - struct queue: the requests of a handle, in lists by their state (queue.h), and
 * what happens to them when a connection is made or closed.
 */
#ifndef CLIENT_QUEUE_STATE_H
#define CLIENT_QUEUE_STATE_H

#include "handle.h"
#include "wait.h"

struct request {
	struct index_op op; /* first: the op queue returns its address */
	struct request *next;
	uint64_t tag;
	uint64_t deadline_ns;
	size_t key_len, value_len; /* as given by the caller */
	void *buf;
	size_t cap;
	uint64_t ttl_ms;    /* of a value that is written */
	uint32_t user;
	char *line;         /* on the heap: why it failed; NULL: the error's general text */
	bool begun;         /* `op` is set up: only index_submit() is needed */
	bool kept;          /* its value remains when the connection is closed */
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
	bool dialling; /* a connection is being made; all but `done` wait for it, ... */
	bool mending;  /* ... and `interrupted` will be resumed on it */
	bool arrived; /* what waiting requests need may have arrived */
	bool unasked; /* some waiting requests have not asked yet for what they need */
	struct request *slots; /* 2 * depth: in flight, or with values still in use */
	struct list idle, fresh, interrupted, waiting, done, taken;
	struct op_queue opq;
	struct index_op **ops; /* `depth` of them, scratch space */
	struct wait_state wait;
	uint64_t begun_ns;      /* when `wait` began */
	uint64_t wait_until_ns; /* when to try waiting requests again */
	uint64_t park_until_ns; /* first deadline of requests without versions */
	bool parked;            /* some of `fresh` wait for versions */
	unsigned idle_polls;          /* consecutive polls that could only wait */
	uint64_t now_ns;        /* when the current call began */
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

/* A stack: the buffers of the last one are in the cache. */
static inline void list_push(struct list *l, struct request *r)
{
	r->next = l->first;
	l->first = r;
	if (!r->next)
		l->end = &r->next;
}

/** Give the handle a queue, of kv->queue_depth requests or the default. FARKV_ENOMEM. */
int queue_new(struct farkv *kv);

/**
 * Keep the value of a completed get when the connection is closed: the caller gets the value that
 * was found, and may pass it to a call in which the connection breaks. FARKV_ENOMEM.
 */
int queue_keep_value(struct farkv *kv, struct request *r);
/** After queue_detach(), or in a child of fork(). NULL is allowed. */
void queue_free(struct queue *q);

/**
 * The connection is about to be closed, with the operations' buffers; the op queue is empty. Values
 * are held (index_op_hold()), because a finished get keeps its value; if out of memory, a get that
 * was not taken gets the result FARKV_ENOMEM.
 */
void queue_detach(struct farkv *kv);

/** The descriptor exists: there is a new connection, or (detach) it is about to be closed. */
void queue_event_attach(struct farkv *kv);
void queue_event_detach(struct farkv *kv);

#endif
