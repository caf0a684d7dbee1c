/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * verbs_far.h - the peer of RDMA lanes, in the test's own process: a server of the
 * transport on this machine's device, with a thread that runs it. Failures of these
 * functions fail the running test case.
 */
#ifndef TESTS_RIG_VERBS_FAR_H
#define TESTS_RIG_VERBS_FAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/xport/xport.h"

/** True if the tests run over RDMA: FARKV_TEST_TRANSPORT=rdma. */
bool far_wanted(void);

/** Otherwise end the whole program (exit 77) with a message. */
void far_require(void);

/** Serve `bytes` at `data`, which begins a page. */
void far_open(void *data, size_t bytes);

/** Close everything, including open lanes. May be called twice. */
void far_close(void);

/** Properties of a lane. */
struct far_lane {
	bool readonly;    /* the server gives it no right to write */
	bool claims_more; /* ... but it uses the writers' key */
	uint64_t wrong_from; /* from this offset on its key is wrong; 0: nowhere */
};

/** Connect. Offset 0 is the first byte of `data`. */
struct xport_lane *far_lane(const struct far_lane *how);

/**
 * The server ends the data connection of lane `n` (from 0), by its own thread; after the
 * return none of its requests can reach the memory.
 */
void far_fence(unsigned n);

/** The server probes its peers, by its own thread. */
void far_probe(void);
/** How many peers the server has. */
unsigned far_peers(void);

/** The server's loopback lane, on which `data` begins at far_own_off(). */
struct xport_lane *far_own_lane(void);
uint64_t far_own_off(void);
/** It broke: tell the server, and wait until it has replaced it, 20 s at most. */
void far_own_renew(void);

/** Post and wait until the last of the chains is done, 20 s at most. */
void far_run(struct xport_lane *lane, struct xport_chain *first);
/** Poll until the chain is done, 20 s at most. */
void far_wait(struct xport_lane *lane, struct xport_chain *c);

#endif
