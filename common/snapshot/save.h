/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * save.h - a snapshot of a store, made by a client of it while others write.
 *
 * Each record is a value that its key had at some moment of the save; the caller provides the file
 * (outfile.h).
 */
#ifndef COMMON_SNAPSHOT_SAVE_H
#define COMMON_SNAPSHOT_SAVE_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct farkv;
struct outfile;

struct save {
	/* Set by the caller. */
	struct farkv *kv;
	const struct outfile *file;
	const volatile sig_atomic_t *stop; /* not 0: end with FARKV_EABORTED; NULL: none */
	/* After each piece; `part` of 1 is done. NULL: none. */
	void (*progress)(void *arg, double part, uint64_t bytes, uint64_t records);
	/* The store failed, for a key or (NULL) in general; `detail` is the line. */
	void (*store_failed)(void *arg, int err, const void *key, size_t key_len,
			     const char *detail);
	void *arg;

	/* Results. */
	uint64_t records, bytes; /* in the file so far */
	bool of_store;           /* the store caused the error; store_failed() was called */
};

/**
 * Write all keys and values of the store to the file. 0, an error of the store, or one of
 * snapshot.h with a detail. Does not call fsync(2). Needs memory for one chunk, or for the largest
 * value. Blocks as long as it takes; each operation of the store waits at most the handle's
 * op_timeout_ms.
 */
int save_store(struct save *s);

#endif
