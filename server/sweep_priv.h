/* SPDX-License-Identifier: BSD-3-Clause */
/** sweep_priv.h - what sweep.c (when one begins and ends) and sweep_ask.c (walk,
 * questions and answers) share. */
#ifndef SERVER_SWEEP_PRIV_H
#define SERVER_SWEEP_PRIV_H

#include "control_priv.h"
#include "sweep.h"

/* Questions that may be open at once, and the candidates of one. */
#define QUESTIONS 8
#define QUESTION_BLOCKS 1000

enum sweep_phase {
	SWEEP_IDLE,
	SWEEP_BEGUN, /* SWEEP_BEGIN is out: acknowledgements are awaited */
	SWEEP_WALK,  /* the index is marked */
	SWEEP_ASK,   /* questions are out */
	SWEEP_CLEAR, /* it is over: marks are taken away */
};

struct sweep_question {
	uint32_t waits; /* sessions that have not answered */
	size_t n;
	struct block_ref refs[QUESTION_BLOCKS];
};

struct sweep {
	enum sweep_phase phase;
	struct event *due;  /* look whether one can begin, or must begin again */
	struct work work;
	uint64_t number;  /* of the last one */
	uint64_t began_ns;
	uint64_t cpu_ns;  /* what the slices have cost */
	uint32_t acks;    /* sessions that owe one */
	uint32_t asked;   /* the last question's number */
	uint32_t settled; /* ... and of those that all have answered */
	struct sweep_question *questions; /* QUESTIONS, by number */
	struct sweep_question *filling;   /* the next one to be asked, or NULL */
	struct region_walk walk;
	uint64_t cursor;  /* of slab_unmarked(), then of slab_unmark() */
	bool listed;      /* there are no more candidates */
	bool again;       /* somebody died in the middle */
	bool ghost_told;
	bool lost;        /* blocks are out that nobody has, though nobody died */

	uint64_t first_death_ns; /* of those that are not swept */
	uint64_t not_before_ns;
	uint64_t retry_ns;       /* 0: the last one was not given up */
	uint32_t restarts;

	void (*done)(struct control *c, const struct sweep_outcome *o);
	uint64_t asked_ns; /* when it was asked for */
	struct sweep_outcome outcome;
	struct sweep_stats stats;
};

static inline bool sweep_is_on(const struct sweep *w)
{
	return w->phase == SWEEP_BEGUN || w->phase == SWEEP_WALK || w->phase == SWEEP_ASK;
}

/* A session that takes part; those that come during SWEEP_ASK have nothing to say. */
static inline bool sweep_takes_part(const struct session *s)
{
	return s->welcomed && !s->left &&
	       s->sweep.number == s->control->sweep->number;
}

/* ---- sweep.c ------------------------------------------------------------- */

/** Is there anything to sweep? */
static inline bool sweep_is_due(const struct sweep *w)
{
	return w->stats.deaths > 0 || w->lost;
}
/** Begin when it is time, if there is anything to sweep. */
void sweep_schedule(struct control *c);
/** Go on if everybody has begun to remember. Ends no session. */
void sweep_acks_check(struct control *c);
/** All questions are answered, and there are no more. */
void sweep_finish(struct control *c);

/* ---- sweep_ask.c --------------------------------------------------------- */

/** What nobody claimed goes, of the questions that all have answered. */
void sweep_settle(struct control *c);
/** `s` has nothing more to say to the questions up to `last`. */
void sweep_answered(struct session *s, uint32_t last);
/** A slice: struct work. */
bool sweep_step(void *control, uint64_t until_ns);

#endif
