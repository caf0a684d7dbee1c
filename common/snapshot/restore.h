/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * restore.h - a snapshot's records, written to a store by a client of it.
 *
 * Time in a file counts: a value expires when it would have in the store that was saved, and what
 * is over is left out.
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
	/* The caller's. */
	struct farkv *kv; /* without requests in flight */
	int fd;
	const char *name; /* for messages */
	uint64_t size;    /* of a regular file, which is verified first; 0: a pipe */
	bool if_absent;   /* leave keys alone that have a value */
	const volatile sig_atomic_t *stop; /* not 0: end with FARKV_EABORTED; NULL: none */
	/* After each piece: bytes read, the first pass included, and records. NULL: none. */
	void (*progress)(void *arg, uint64_t bytes, uint64_t records);
	/* The store failed, of a key or (NULL) in general; `detail` is the line. */
	void (*store_failed)(void *arg, int err, const void *key, size_t key_len,
			     const char *detail);
	void *arg;

	/* Results, of an unfinished restore too. */
	bool begun;     /* records were written, or could have been */
	bool of_store;  /* the error is the store's, and store_failed() was told */
	uint64_t total; /* records of the file; 0: not known */
	uint64_t stored, kept, expired; /* kept: if_absent found a value */
	uint64_t bytes; /* of the stored keys and values */
};

/**
 * Read a snapshot to its end and verify it. The caller set fd, name and stop of the reader, and
 * the rest to 0; its totals and moment_ms are the results. 0 or an error of snapshot.h.
 */
int snapshot_verify(struct snapshot_reader *r, void (*progress)(void *arg, uint64_t bytes,
								uint64_t records), void *arg);

/**
 * Store all records. A regular file is read twice: nothing is written before all of it is verified.
 * Of a pipe each chunk is verified before any of its records is written. 0, an error of the store,
 * or one of snapshot.h with a detail. Memory: a chunk. A value's write waits at most the handle's
 * op_timeout_ms.
 */
int restore_store(struct restore *r);

#endif
