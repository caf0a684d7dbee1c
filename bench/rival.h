/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * rival.h - servers that kvbench starts for one comparison and ends with it:
 * kvserver, memcached, redis-server, each at a socket in a folder of its own,
 * without files behind, and in a process group of its own, so that Ctrl-C reaches
 * kvbench first. They also end if kvbench dies.
 *
 * One thread, the one that calls rivals_begin(), makes all calls: a server lives
 * no longer than the thread that started it.
 */
#ifndef BENCH_RIVAL_H
#define BENCH_RIVAL_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define RIVALS_MAX 3

struct rival {
	char name[16]; /* of the store */
	pid_t pid;     /* 0: not running */
	char socket[96];
	char log[96]; /* what it prints */
};

struct rivals {
	char dir[64];
	size_t n;
	struct rival v[RIVALS_MAX];
};

/** What a server has to hold. */
struct rival_plan {
	uint64_t bytes;         /* of memory, generously */
	uint64_t value_len;     /* the longest value */
	uint64_t threads;       /* clients */
	const char *kvserver;   /* the program, or NULL: that in $PATH */
};

/** Make the folder. FARKV_ESYS with a detail. End with rivals_end(). */
int rivals_begin(struct rivals *r);

/** Whether `name` is a store that has a server. */
bool rival_known(const char *name);

/**
 * Start the server of the store `name` and wait until it can be connected to, 10 s
 * at most. FARKV_ENOTSUP (it is not installed), FARKV_ETIMEDOUT, FARKV_EABORTED
 * (a signal came), FARKV_ESYS (it failed: with the last it printed); with a detail.
 * *out belongs to `r`.
 */
int rival_start(struct rivals *r, const char *name,
		const struct rival_plan *plan, const struct rival **out);

/** Have all of its threads run on these processors. */
void rival_place(const struct rival *v, const cpu_set_t *cpus);

/** End all servers and remove what they left; a server that does not end in 2 s
 * is killed. For a `r` of zeros it does nothing. */
void rivals_end(struct rivals *r);

#endif
