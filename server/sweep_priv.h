/* SPDX-License-Identifier: BSD-3-Clause */
/** sweep_priv.h - struct sweep: of sweep.c, and of tests. */
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

#endif
