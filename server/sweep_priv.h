/* SPDX-License-Identifier: BSD-3-Clause */
/** sweep_priv.h - shared by sweep.c (begin and end of a sweep) and sweep_ask.c (walk,
 * questions and answers). */
#ifndef SERVER_SWEEP_PRIV_H
#define SERVER_SWEEP_PRIV_H

#include "control_priv.h"
#include "sweep.h"

/* Open questions at once, and candidates per question. */
#define QUESTIONS 8
#define QUESTION_BLOCKS 1000

enum sweep_phase {
	SWEEP_IDLE,
	SWEEP_BEGUN, /* SWEEP_BEGIN was sent: acknowledgements are awaited */
	SWEEP_WALK,  /* blocks named by the index are marked */
	SWEEP_ASK,   /* sessions are asked */
	SWEEP_CLEAR, /* the end: marks are removed */
};

struct sweep_question {
	uint32_t waits; /* sessions that have not answered */
	size_t n;
	struct block_ref refs[QUESTION_BLOCKS];
};

struct sweep {
	enum sweep_phase phase;
	struct event *due;  /* checks whether one can begin, or must begin again */
	struct work work;
	uint64_t number;  /* of the latest one */
	uint64_t began_ns;
	uint64_t cpu_ns;  /* time spent in slices */
	uint32_t acks;    /* sessions that owe one */
	uint32_t asked;   /* number of the last question */
	uint32_t settled; /* number up to which all have answered */
	struct sweep_question *questions; /* QUESTIONS, by number */
	struct sweep_question *filling;   /* the next question, or NULL */
	struct region_walk walk;
	uint64_t cursor;  /* of slab_unmarked(), then of slab_unmark() */
	bool listed;      /* there are no more candidates */
	bool again;       /* a session died during the sweep */
	bool ghost_told;
	bool lost;        /* blocks are out that no session has, though none died */

	uint64_t first_death_ns; /* of the deaths not swept yet */
	uint64_t not_before_ns;
	uint64_t retry_ns;       /* 0: the last one was not given up */
	uint32_t restarts;

	void (*done)(struct control *c, const struct sweep_outcome *o);
	uint64_t asked_ns; /* time of the request */
	struct sweep_outcome outcome;
	struct sweep_stats stats;
};

static inline bool sweep_is_on(const struct sweep *w)
{
	return w->phase == SWEEP_BEGUN || w->phase == SWEEP_WALK || w->phase == SWEEP_ASK;
}

/* Sessions that take part; those that come during SWEEP_ASK have nothing to claim. */
static inline bool sweep_takes_part(const struct session *s)
{
	return s->welcomed && !s->left &&
	       s->sweep.number == s->control->sweep->number;
}

/* ---- sweep.c ------------------------------------------------------------- */

/** True if there is anything to sweep. */
static inline bool sweep_is_due(const struct sweep *w)
{
	return w->stats.deaths > 0 || w->lost;
}
/** Set the time at which the next sweep begins, if there is anything to sweep. */
void sweep_schedule(struct control *c);
/** Start the walk if all sessions have acknowledged. Ends no session. */
void sweep_acks_check(struct control *c);
/** All questions are answered and there are no more. */
void sweep_finish(struct control *c);

/* ---- sweep_ask.c --------------------------------------------------------- */

/** Condemn what no session claimed in the questions that all have answered. */
void sweep_settle(struct control *c);
/** `s` has answered the questions up to `last`. */
void sweep_answered(struct session *s, uint32_t last);
/** A slice: struct work. */
bool sweep_step(void *control, uint64_t until_ns);

#endif
