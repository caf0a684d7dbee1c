/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * restore.h - write a snapshot's records to a store, as a client of it.
 *
 * The time since the snapshot counts: a value expires when it would have in the saved store, and an
 * expired one is left out.
 */
#ifndef COMMON_SNAPSHOT_RESTORE_H
#define COMMON_SNAPSHOT_RESTORE_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "snapshot.h"

struct farkv;

struct restore {
	/* Set by the caller. */
	struct farkv *kv; /* without requests in flight */
	int fd;
	const char *name; /* for messages */
	uint64_t size;    /* of a regular file, which is verified first; 0: a pipe */
	bool if_absent;   /* leave keys alone that have a value */
	const volatile sig_atomic_t *stop; /* not 0: end with FARKV_EABORTED; NULL: none */
	/* After each piece: bytes read, the first pass included, and records. NULL: none. */
	void (*progress)(void *arg, uint64_t bytes, uint64_t records);
	/* The store failed, for a key or (NULL) in general; `detail` is the line. */
	void (*store_failed)(void *arg, int err, const void *key, size_t key_len,
			     const char *detail);
	void *arg;

	/* Results, also of an unfinished restore. */
	bool begun;     /* records were written, or could have been */
	bool of_store;  /* the store caused the error; store_failed() was called */
	uint64_t total; /* records of the file; 0: not known */
	uint64_t stored, kept, expired; /* kept: if_absent found a value */
	uint64_t bytes; /* of the stored keys and values */
};

/**
 * Read a snapshot to its end and verify it. The caller set the reader's fd, name and stop, and all
 * else to 0; the reader's totals and moment_ms are the results. 0 or an error of snapshot.h.
 */
int snapshot_verify(struct snapshot_reader *r, void (*progress)(void *arg, uint64_t bytes,
								uint64_t records), void *arg);

/**
 * Store all records. A regular file is read twice: nothing is written before all of it is verified.
 * Of a pipe each chunk is verified before its records are written. 0, an error of the store, or one
 * of snapshot.h with a detail. Needs memory for one chunk. Each write waits at most the handle's
 * op_timeout_ms.
 */
int restore_store(struct restore *r);

#endif
