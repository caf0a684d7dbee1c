/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The search for an order of one key's operations: linear.c gives it each key,
 * linear_shrink.c and linear_print.c parts of one.
 *
 * An operation's result is reduced to the state that it needs and the state that it
 * leaves. Time goes forward from event to event, with all possible
 * configurations: the register's state, and of each open operation whether it is still
 * owed and whether it can still happen (Lowe's just-in-time linearization). An operation
 * is placed no earlier than its response requires:
 *
 * - one that does not write is placed as soon as the state suits it. It changes
 *   nothing, so an order that has it later has a twin that has it now;
 * - one that writes is placed just before another that would be impossible otherwise,
 *   or that overwrites it, or at its response. Before anything else it could as well
 *   come after it. A put that is overwritten by a write that is possible without it needs
 *   no decision: it is not owed any more, and can still happen, until a read of it
 *   responds;
 * - one of unknown outcome is never owed.
 *
 * So writes of unknown outcome cost nothing until a result cannot be explained without
 * them, and configurations that are not better than another one are dropped: those with
 * the same state that owe as much and can do no more.
 */
#ifndef TESTS_LAB_LINEAR_SEARCH_H
#define TESTS_LAB_LINEAR_SEARCH_H

#include <stdbool.h>

#include "linear.h"

enum search_needs {
	NEEDS_NOTHING,
	NEEDS_ABSENT,
	NEEDS_PRESENT,
	NEEDS_VALUE, /* this one */
	NEEDS_OTHER, /* a value, but not this one */
	NEEDS_GONE,  /* anything but this value */
	NEEDS_WONDER /* no register has that result */
};

/* A value that no operation reads or expects; which one does not matter. */
#define SEARCH_ANY_VALUE UINT64_MAX

struct search_op {
	uint64_t invoked;
	uint64_t responded; /* HISTORY_OPEN: it need not happen */
	uint64_t value;     /* that it needs, or needs not to be */
	uint64_t leaves;    /* a write: the state after it */
	uint32_t from;      /* its number in the history */
	uint8_t needs;      /* enum search_needs */
	bool writes;
	bool may; /* it happened or not, but only until its response */
};

/* What a run works on; memory is kept from run to run. */
struct search_memory;

struct search {
	const struct search_op *op; /* of one key, by `invoked` */
	size_t n;
	uint64_t limit;          /* of configurations, 0: none */

	uint64_t configurations; /* out: visited */
	size_t culprit;          /* out, LINEAR_NO: cannot be placed by its response */
};

/** False for what has no effect and no result: FAILED, and reads without result. */
bool search_reduce(const struct history_op *op, uint32_t from,
		   struct search_op *out);

struct search_memory *search_new(void);
void search_free(struct search_memory *m);

enum linear_verdict search_run(struct search_memory *m, struct search *s);

/* ---- linear_shrink.c ------------------------------------------------------- */

/**
 * A minimal set of a key's operations with which `culprit` cannot be placed, by their
 * time of invocation, into `out`. `h` is the history that they were reduced from.
 */
void search_shrink(struct search_memory *m, const struct history *h,
		   const struct search *failed, struct history *out);

#endif
