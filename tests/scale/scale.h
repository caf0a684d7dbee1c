/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * scale.h - what the scenarios share: a private kvserver whose statistics,
 * memory and consistency are looked at from outside, and worker processes that
 * are told by a pipe what to do.
 *
 * $FARKV_SCALE says how much is done: nothing or "small" for make check (some
 * seconds in all), "large" for make check-scale (some minutes), "full" for the
 * figures.
 *
 * The functions up to "in a worker" fail the running test case if what they do
 * fails; those after it end the process, with a line on stderr.
 */
#ifndef TESTS_SCALE_SCALE_H
#define TESTS_SCALE_SCALE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

#include <farkv.h>

#include "bench/base/hist.h"
#include "tests/rig/real_server.h"

/** The value that fits $FARKV_SCALE. */
uint64_t scale_pick(uint64_t small, uint64_t large, uint64_t full);

/** Zeroed memory that all processes forked later share; lives as they do. */
void *scale_shared(size_t bytes);

/** CLOCK_MONOTONIC. */
uint64_t scale_now_ns(void);

/** A number that is another at each call; `x` is the state. */
static inline uint64_t scale_random(uint64_t *x)
{
	uint64_t z = (*x += UINT64_C(0x9E3779B97F4A7C15));

	z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
	return z ^ (z >> 31);
}

/* ---- the server, from outside ---------------------------------------------- */

/** Figure `name` of kvcli stats --json; the case fails if there is none. */
uint64_t scale_stat(const struct real_server *s, const char *name);

/** The same for `n` names at once: one moment, one count of the index. */
void scale_stats(const struct real_server *s, const char *const *names,
		 uint64_t *out, unsigned n);

/**
 * Wait up to `timeout_ms` until figure `name` is `want`. What is counted by a
 * walk over the index is counted once a second.
 */
void scale_await_exactly(const struct real_server *s, const char *name,
			 uint64_t want, unsigned timeout_ms);

/**
 * kvcli fsck: the store is whole and accounted for to the byte. `what` is named
 * if it is not. Blocks of sessions that died and that no sweep has found yet
 * are no fault.
 */
void scale_fsck(const struct real_server *s, const char *what);

/**
 * The same when no session is left but its own: waits until the dead have been
 * swept without being asked to; then no block is held and none leaked.
 */
void scale_fsck_swept(const struct real_server *s, const char *what);

struct scale_usage {
	uint64_t own;    /* bytes resident: the server's own */
	uint64_t region; /* ... and the region's, whoever touched them */
	uint64_t cpu_ns; /* used since its start */
};

void scale_usage(pid_t pid, struct scale_usage *out);

/* ---- workers --------------------------------------------------------------- */

struct scale_worker {
	pid_t pid;
	int tell; /* the test writes, the worker reads */
	int hear; /* the worker writes, the test reads */
};

/** What a worker is: `me` is the number it was given; it must not return. */
typedef void scale_main(unsigned me, void *arg);

/** Fork. It dies with the test. */
struct scale_worker scale_start(scale_main *fn, unsigned me, void *arg);

/** Say one character to it. */
void scale_tell(struct scale_worker *w, char c);

/** Wait for `want` from it; what else it says or its end fails the case. */
void scale_expect(struct scale_worker *w, char want, unsigned timeout_ms);

/** It must not have ended. */
void scale_expect_alive(const struct scale_worker *w);

/** Wait until it has stopped itself (SIGSTOP); let it go on. */
void scale_expect_stopped(struct scale_worker *w, unsigned timeout_ms);
void scale_continue(struct scale_worker *w);

/** Wake it as often as it stops itself, until it has ended with 0. */
void scale_let_end(struct scale_worker *w, unsigned timeout_ms);

/** SIGKILL to it; reap it. */
void scale_kill(struct scale_worker *w);

/** Reap it; it must end within `timeout_ms` with `status` (waitpid(2)). */
void scale_join(struct scale_worker *w, int status, unsigned timeout_ms);

/** Reap it; true if SIGKILL ended it; any other end but by 0 fails the case. */
bool scale_killed(struct scale_worker *w, unsigned timeout_ms);

/* ---- in a worker ----------------------------------------------------------- */

/** A check that fails ends the process; the test sees its status. */
#define MUST(cond, ...)                                                  \
	do {                                                             \
		if (!(cond)) {                                           \
			fprintf(stderr, "worker: " __VA_ARGS__);         \
			fprintf(stderr, " (%s; %s)\n", #cond,            \
				farkv_errdetail());                      \
			_exit(1);                                        \
		}                                                        \
	} while (0)

/** To and from the test. */
void worker_say(char c);
char worker_wait(void);

/** Open with a deadline that no busy machine reaches. */
struct farkv *worker_open(const char *uri, uint32_t flags);

/**
 * A client that minds its own business: it writes, deletes and reads keys 1 to
 * SCALE_HOME_KEYS and knows exactly what must be there. It says 'r' when it has
 * begun, and works until scale_home_stop().
 */
#define SCALE_HOME_KEYS 500u

struct scale_home {
	const char *uri;
	uint32_t stop;
	uint64_t ops;
	unsigned nap_us; /* after every 64 operations; 0: the default */
	bool may_be_full; /* others take all memory: FARKV_ENOSPC is an answer */
};

void scale_home_main(unsigned me, void *home);

/* In the test: end it, and see that all was well and something was done. */
void scale_home_stop(struct scale_home *h, struct scale_worker *w);

/* ---- keys and values ------------------------------------------------------- */

/**
 * Key number `i`: 8 bytes, another for every number, in no order. What the
 * tests never store: numbers from SCALE_ABSENT on.
 */
#define SCALE_ABSENT (UINT64_C(1) << 48)
static inline uint64_t scale_key(uint64_t i)
{
	return (i ^ i << 23) * UINT64_C(0xBF58476D1CE4E5B9);
}

/**
 * The value of key number `i` as of its `round`-th write, 8 bytes: which key,
 * and which round. A longer one is this word again and again.
 */
static inline uint64_t scale_value(uint64_t i, uint32_t round)
{
	uint64_t x = i << 20 ^ round;

	return scale_random(&x) << 32 | round;
}

/** The round of a value; ends the process if it is not one of key `i`. */
uint32_t scale_round(uint64_t i, const struct farkv_value *v, size_t len);

/** Put round `round` of `len` bytes; FARKV_OK, or as farkv_put(). */
int scale_put(struct farkv *kv, uint64_t i, uint32_t round, size_t len);

/** Get: the round, or 0 if there is no value. Other results end the process. */
uint32_t scale_get(struct farkv *kv, uint64_t i, size_t len);

/** Delete: as farkv_delete(). */
int scale_delete(struct farkv *kv, uint64_t i);

/* The longest value that scale_put() makes. */
#define SCALE_VALUE_MAX (1u << 20)

/* ---- figures --------------------------------------------------------------- */

/** One line: count, mean, p50, p99, p99.9, p99.99 and the longest, in us. */
void scale_print_hist(const char *title, const struct hist *h);

/** printf() with two blanks before, seen at once. */
void scale_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
