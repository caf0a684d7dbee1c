/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * compare.h - `kvbench compare`: farkv beside memcached, Redis, LMDB and
 * libcuckoo, in turns, each with the placement of client and server that suits
 * it best.
 *
 * The order is compare_props(), the user's properties, compare_begin(),
 * bench_init(), compare_run(), bench_fini(), compare_end(): the last also after
 * failures, since it ends the servers.
 */
#ifndef BENCH_COMPARE_H
#define BENCH_COMPARE_H

#include <sched.h>
#include <stdio.h>

#include "bench.h"
#include "rival.h"

enum placement {
	PLACE_FREE,     /* where the kernel likes */
	PLACE_TOGETHER, /* client and server on one processor */
	PLACE_APART,    /* on one each */
	PLACE_ALONE,    /* there is no server of ours: the client on one */
	PLACEMENTS,
};

struct compare {
	struct rivals rivals;
	const struct rival *server[BENCH_DBS_MAX]; /* by store; NULL: none */
	enum placement place[BENCH_DBS_MAX];
	cpu_set_t all, client, other; /* processors; of the last two one each */
	bool can_place;   /* one client, and two processors or more */
	char db[128];     /* the stores that take part, for the property db */
	char uri[128];    /* of the farkv store if it is ours, or "" */
	char left_out[512]; /* a line for each store that does not take part */
};

/** Defaults of the properties that `compare` has. */
int compare_props(struct props *p);

/**
 * Start what servers are needed and can be had, and set the properties that the
 * bindings read. `uri` is the farkv store's, or NULL: a kvserver is started.
 * The first store has to be there; of the others compare_run() says why they are
 * not. Errors of rival_start(), FARKV_EINVAL; with a detail.
 */
int compare_begin(struct compare *c, struct props *p, const char *uri);

/** The address for bench_init(). */
const char *compare_uri(const struct compare *c, const char *uri);

/** Load, find the placements, run all rounds; compare_print() shows them, as far as
 * they came. Errors as phase_run(). */
int compare_run(struct compare *c, struct bench *b);

void compare_end(struct compare *c);

#endif
