/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * raw.h - bare requests on a session's lane, to memory that nobody else uses: what the
 * transport can do, with no index, no sums and no values around it.
 *
 * For kvbench's limit, which links it; no part of libfarkv. A raw session is a writer as
 * any other. It writes only to blocks that the server has granted it, which stay with
 * the server's books as such and go back at the end; what is in them passes for nobody's
 * value, since its sum is wrong. Requests count as operations (gate.h): barriers wait
 * for them, and a sweep finds the blocks.
 *
 * One thread. Errors with a detail.
 */
#ifndef CLIENT_RAW_H
#define CLIENT_RAW_H

#include <stddef.h>
#include <stdint.h>

/** Requests of one doorbell. */
#define RAW_BATCH 32u

struct raw;

/** For keys and values of these lengths. */
struct raw_spec {
	const char *uri;  /* as farkv_open() takes it */
	const char *name; /* of this client, for the server's log */
	size_t key_len, value_len;
	uint64_t timeout_ns; /* to connect, and for each request */
};

/** All but RAW_CHASE are one chain. */
enum raw_kind {
	RAW_READ,  /* READ a block: a class's bytes */
	RAW_WRITE, /* WRITE a block: as many bytes as key, value and sums need */
	RAW_CAS,   /* of 8 bytes, which changes them */
	RAW_PUT,   /* WRITE a block, CAS 8 bytes of another; of the same if there
		      are two in all */
	RAW_CHASE, /* READ a window's bytes, then READ a block */
};

/**
 * Connect. Errors as farkv_open(); FARKV_EPERM if the session may not write,
 * FARKV_ENOSPC if there are no two blocks of the class left.
 */
int raw_open(const struct raw_spec *spec, struct raw **r_out);

/** Give the blocks back and say goodbye. NULL is allowed. */
void raw_close(struct raw *r);

/**
 * `n` of them, each begun when the one before is done. Errors:
 * FARKV_ETIMEDOUT     a request did not end in time: the lane is broken, and the session
 *                     lost; or the server granted no blocks in time
 * FARKV_EDISCONNECTED lane or session ended; also each call after that
 * FARKV_ENOSPC        no two blocks are left
 * FARKV_EPERM         the device refused a request
 * FARKV_ECORRUPT      a CAS found what was not there: somebody else wrote to a block of
 *                     this session's
 */
int raw_run(struct raw *r, enum raw_kind kind, size_t n);

/** The same together, `n` <= RAW_BATCH chains behind one doorbell; no RAW_CHASE. */
int raw_together(struct raw *r, enum raw_kind kind, size_t n);

#endif
