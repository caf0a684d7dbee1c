/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Is a history linearizable: is there for each key an order of its operations, each
 * placed between its invocation and its response, in which each result is that of a
 * register with put, add, replace, cas, delete, get and exists?
 *
 * The search is Wing and Gong's ("Testing and verifying concurrent objects", 1993) as
 * Lowe does it just in time ("Testing for linearizability", 2017): it goes forward in
 * time with the set of possible configurations (which open operations are placed, the
 * register's state), each once. Keys are independent (Herlihy and
 * Wing: linearizability is local), and where no operation is open only states
 * remain. Operations of unknown outcome stay open for ever, and are placed only
 * where a result cannot be explained without them: linear_search.h.
 */
#ifndef TESTS_LAB_LINEAR_H
#define TESTS_LAB_LINEAR_H

#include <stdio.h>

#include "history.h"

enum linear_verdict {
	LINEAR_YES,
	LINEAR_NO,
	LINEAR_GAVE_UP /* a key took more than the limit of configurations */
};

struct linear_report {
	enum linear_verdict verdict;
	uint32_t key;            /* NO, GAVE_UP: of that key */
	size_t ops, keys;        /* looked at */
	uint64_t configurations; /* visited */
	struct history witness;  /* NO: a minimal set of operations of the key */
};

/**
 * Check all keys; the first that fails ends it. `limit`: configurations per key, 0 for
 * ten million. FAILED operations count as not done. Does not change `h`. The caller
 * frees report->witness by history_free(). Time: about linear in the operations while
 * few of one key overlap.
 */
void linear_check(const struct history *h, uint64_t limit,
		  struct linear_report *report);

/**
 * The report in words: a line if it is linearizable; else the witness as a timeline, a
 * row for each operation, times in microseconds from the first, and the contradiction.
 */
void linear_print(const struct linear_report *report, FILE *out);

#endif
