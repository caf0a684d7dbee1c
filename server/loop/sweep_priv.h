/* SPDX-License-Identifier: BSD-3-Clause */
/** sweep_priv.h - struct sweep: of sweep.c, and of tests. */
#ifndef SERVER_LOOP_SWEEP_PRIV_H
#define SERVER_LOOP_SWEEP_PRIV_H

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
	bool lingering_notified;
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

#endif
