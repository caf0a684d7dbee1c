/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * rival.h - servers that kvbench starts for one comparison: kvserver, memcached,
 * redis-server. Each listens at a socket in its own folder, leaves no files, and has its
 * own process group, so that Ctrl-C reaches kvbench first. They end when kvbench dies.
 *
 * Only the thread that called rivals_begin() may call: a server ends with the thread that
 * started it.
 */
#ifndef BENCH_COMPARE_RIVAL_H
#define BENCH_COMPARE_RIVAL_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define RIVALS_MAX 3

struct rival {
	char name[16]; /* of the store */
	pid_t pid;     /* 0: not running */
	char socket[96];
	char log[96]; /* file of its output */
};

struct rivals {
	char dir[64];
	size_t n;
	struct rival v[RIVALS_MAX];
};

/** Requirements of a server. */
struct rival_plan {
	uint64_t bytes;         /* memory, with a reserve */
	uint64_t value_len;     /* the longest value */
	uint64_t threads;       /* clients */
	const char *kvserver;   /* its path, or NULL: in $PATH */
};

/** Create the folder. FARKV_ESYS with a detail. End with rivals_end(). */
int rivals_begin(struct rivals *r);

/** True if `name` is a store with a server. */
bool rival_known(const char *name);

/**
 * Start the server of the store `name` and wait, at most 10 s, until it accepts
 * connections. FARKV_ENOTSUP (not installed), FARKV_ETIMEDOUT, FARKV_EABORTED (a signal
 * came), FARKV_ESYS (it failed; with its last output); with a detail. *out belongs to `r`.
 */
int rival_start(struct rivals *r, const char *name,
		const struct rival_plan *plan, const struct rival **out);

/** Pin all of its threads to these processors. */
void rival_place(const struct rival *v, const cpu_set_t *cpus);

/**
 * End all servers and remove their files; kills a server that does not end within 2 s.
 * Nothing for a zeroed `r`.
 */
void rivals_end(struct rivals *r);

#endif
