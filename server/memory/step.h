/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * step.h - the steps at which the end of the server leaves the region in a state of its own. A
 * later server has to cope with each (doc/restart.md); tests end the server at each.
 */
#ifndef SERVER_MEMORY_STEP_H
#define SERVER_MEMORY_STEP_H

#include <stddef.h>

enum step {
	STEP_CREATED,       /* a new region is complete, but has not got its name */
	STEP_ENTERED,       /* a session is in the session table, WELCOME was not sent */
	STEP_WELCOMED,      /* WELCOME was sent */
	STEP_SEGMENT,       /* a segment's later pages are entered, its first one is not */
	STEP_GRANT,         /* blocks were taken, GRANT was not sent */
	STEP_GRANTED,       /* GRANT was sent */
	STEP_FREEZE,        /* some slots of a subtable are FROZEN */
	STEP_FROZEN,        /* all are, the new subtables are not built */
	STEP_BUILT,         /* they are, the redo record is not set */
	STEP_ANNOUNCED,     /* it is set, no entry is stored */
	STEP_DOUBLE,        /* the doubled directory is written, D leads to the old one */
	STEP_DOUBLED,       /* D leads to it */
	STEP_PUBLISHED,     /* an entry is stored, others may be missing */
	STEP_RETIRE,        /* all are, the redo record is set */
	STEP_RETIRED,       /* it is not, the old page waits for a barrier */
	STEP_BARRIER,       /* BARRIER was sent to some sessions */
	STEP_BARRIER_OVER,  /* it has passed, nothing is free yet */
	STEP_PAGES_FREE,    /* a freed segment's first page is cleared in the page map */
	STEP_SWEEP,         /* a sweep begins */
	STEP_SWEEP_ASK,     /* sessions were asked */
	STEP_SWEPT,         /* unclaimed blocks wait for a barrier */
	STEP_ADOPT,         /* another server has mapped the region and changed nothing */
	STEP_ADOPT_REDO,    /* it has finished the publication */
	STEP_ADOPT_BOOKS,   /* it has rebuilt the books */
	STEP_INHERIT,       /* it has taken over a session */
	STEP_INHERITED,     /* it has taken over all, and serves nobody yet */
	STEP_COUNT
};

/** Called at each step; NULL except in test programs. */
extern void (*step_hook)(enum step step);

static inline void step_reached(enum step step)
{
	if (__builtin_expect(step_hook != NULL, 0))
		step_hook(step);
}

#endif
