/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * raw.h - bare requests on a session's lane, to memory that no other client uses: the
 * performance of the transport, without index, checksums and values.
 *
 * For kvbench's limit, which links it; not part of libfarkv. A raw session is an ordinary
 * writer. It writes only to blocks that the server has granted it, and returns them at the end;
 * their content has a wrong checksum, so it is never a value. Requests count as operations
 * (qsbr.h): barriers wait for them, and a sweep finds the blocks.
 *
 * One thread. Errors have a detail.
 */
#ifndef CLIENT_RAW_H
#define CLIENT_RAW_H

#include <stddef.h>
#include <stdint.h>

/** Requests per doorbell. */
#define RAW_BATCH 32u

struct raw;

/** For keys and values of these lengths. */
struct raw_spec {
	const char *uri;  /* as farkv_open() takes it */
	const char *name; /* of this client, for the server's log */
	size_t key_len, value_len;
	uint64_t timeout_ns; /* for the connection, and for each request */
};

/** All but RAW_CHASE are one chain. */
enum raw_kind {
	RAW_READ,  /* READ a block of a class */
	RAW_WRITE, /* WRITE the bytes that key, value and checksums need */
	RAW_CAS,   /* CAS of 8 bytes, which changes them */
	RAW_PUT,   /* WRITE a block, CAS 8 bytes of another one (of the same if there
					are only two) */
	RAW_CHASE, /* READ a window's bytes, then READ a block */
};

/**
 * Connect. Errors as farkv_open(); FARKV_EPERM if the session may not write, FARKV_ENOSPC if
 * there are not two free blocks of the class.
 */
int raw_open(const struct raw_spec *spec, struct raw **r_out);

/** Return the blocks, say BYE, and free. NULL is allowed. */
void raw_close(struct raw *r);

/**
 * Run `n` requests, one after the other. Errors:
 * FARKV_ETIMEDOUT     a request did not end in time: lane and session are lost; or the
 *                     server granted no blocks in time
 * FARKV_EDISCONNECTED lane or session ended; also each later call
 * FARKV_ENOSPC        no two blocks are left
 * FARKV_EPERM         the device refused a request
 * FARKV_ECORRUPT      a CAS found an unexpected value: another client wrote to a block of
 *                     this session
 */
int raw_run(struct raw *r, enum raw_kind kind, size_t n);

/** raw_run() in parallel: `n` <= RAW_BATCH chains with one doorbell; no RAW_CHASE. */
int raw_together(struct raw *r, enum raw_kind kind, size_t n);

#endif
