/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * compare.h - `kvbench compare`: farkv, memcached, Redis, LMDB and libcuckoo in alternating
 * rounds, each with the placement of client and server that suits it best.
 *
 * Order of calls: compare_props(), the user's properties, compare_begin(), bench_init(),
 * compare_run(), bench_fini(), compare_end(). The last also after failures: it ends the
 * servers.
 */
#ifndef BENCH_COMPARE_COMPARE_H
#define BENCH_COMPARE_COMPARE_H

#include <sched.h>
#include <stdio.h>

#include "bench/core/bench.h"

#include "rival.h"

enum placement {
	PLACE_FREE,     /* not pinned */
	PLACE_TOGETHER, /* client and server on one CPU */
	PLACE_APART,    /* on one CPU each */
	PLACE_ALONE,    /* no server of ours: the client on one CPU */
	PLACEMENTS,
};

struct compare {
	struct rivals rivals;
	const struct rival *server[BENCH_DBS_MAX]; /* by store; NULL: none */
	enum placement place[BENCH_DBS_MAX];
	cpu_set_t all, client, other; /* processors; one each in the last two */
	bool can_place;   /* one client, and at least two processors */
	char db[128];     /* stores that take part, for the property db */
	char uri[128];    /* of the farkv store if kvbench started it, or "" */
	char left_out[512]; /* one line per store that does not take part */
};

/** Set the defaults of `compare`. */
int compare_props(struct props *p);

/**
 * Start the servers that are needed and installed, and set the properties that the bindings
 * read. `uri` is the farkv store's; NULL: start a kvserver. The first store must be
 * available; compare_run() reports which others are not. Errors of rival_start(),
 * FARKV_EINVAL; with a detail.
 */
int compare_begin(struct compare *c, struct props *p, const char *uri);

/** The address for bench_init(). */
const char *compare_uri(const struct compare *c, const char *uri);

/**
 * Load, choose placements, run all rounds. compare_print() shows the finished ones. Errors
 * as phase_run().
 */
int compare_run(struct compare *c, struct bench *b);

/**
 * Print a line for each store with its ratio to the first one, and one for each store that
 * was left out. At least one round must have ended.
 */
void compare_print(const struct bench *b, FILE *out);

void compare_end(struct compare *c);

#endif
