/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * snapshot.h - snapshot files: doc/snapshot-format.md.
 *
 * Writer and reader work on a descriptor, never seek, and belong to one thread at a time. Errors
 * have a detail that names the file:
 *
 *   FARKV_EFORMAT   not a snapshot, of another version, cut off or damaged
 *   FARKV_ESYS      read(2) or write(2) failed
 *   FARKV_EDISCONNECTED  the reader of the pipe has closed it
 *   FARKV_EABORTED  `stop`, which a signal handler sets, is not 0
 *   FARKV_ENOMEM
 *
 * After an error only the free function may be called.
 */
#ifndef COMMON_SNAPSHOT_SNAPSHOT_H
#define COMMON_SNAPSHOT_SNAPSHOT_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Most bytes of a chunk's payload, unless it is one record. */
#define SNAPSHOT_CHUNK ((size_t)1 << 20)

#define SNAPSHOT_HEADER_BYTES 32u
#define SNAPSHOT_FRAME_BYTES 40u /* before a chunk's payload */
#define SNAPSHOT_RECORD_BYTES 32u /* before a record's key */
#define SNAPSHOT_TRAILER_BYTES 64u

/** A key and its value. */
struct snapshot_record {
	const void *key, *value;
	size_t key_len, value_len;
	uint64_t version;
	uint64_t ttl_ms; /* from the moment of the snapshot on; 0: never expires */
	uint32_t user;
};

/** What the trailer counts. */
struct snapshot_totals {
	uint64_t chunks, records, key_bytes, value_bytes;
	uint64_t expiring; /* records with a time to live */
	uint64_t took_ms;  /* set by the caller before snapshot_write_end() */
};

/** The sum of the file so far. */
struct snapshot_sum;

struct snapshot_writer {
	int fd;
	const char *name; /* for messages */
	const volatile sig_atomic_t *stop; /* NULL: none */
	struct snapshot_totals totals;
	uint64_t bytes;   /* written so far */

	/* private to snapshot.c */
	struct snapshot_sum *sum;
	uint8_t *chunk; /* frame, then payload */
	size_t cap, used;
	uint32_t records; /* in the chunk */
};

/**
 * Begin a snapshot of the moment `moment_ms` (since 1970) and write its header. The caller sets fd,
 * name and stop, which it keeps owning, and the rest to 0. End with snapshot_write_free(), also
 * after errors.
 */
int snapshot_write_begin(struct snapshot_writer *w, uint64_t moment_ms);

/** Add a record, which is copied. Writes to the file when a chunk is full. */
int snapshot_write(struct snapshot_writer *w, const struct snapshot_record *r);

/** Write the last chunk and the trailer. Does not call fsync(2). */
int snapshot_write_end(struct snapshot_writer *w);

void snapshot_write_free(struct snapshot_writer *w);

struct snapshot_reader {
	int fd;
	const char *name;  /* for messages */
	const volatile sig_atomic_t *stop; /* NULL: none */
	uint64_t moment_ms;
	uint64_t bytes;    /* read so far */
	struct snapshot_totals totals; /* of the chunks so far; at the end, of the trailer */

	/* private to snapshot.c */
	struct snapshot_sum *sum;
	uint8_t *payload;
	size_t cap, len, at;
};

/**
 * Read and verify the header. The caller sets fd, name and stop, which it keeps owning, and the
 * rest to 0. End with snapshot_read_free(), also after errors.
 */
int snapshot_read_begin(struct snapshot_reader *r);

/**
 * Read the next chunk and verify all of it. *got_out is false at the end, when the trailer was
 * verified, too, and no bytes follow it. Memory for the chunk is allocated as it arrives.
 */
int snapshot_read_chunk(struct snapshot_reader *r, bool *got_out);

/**
 * The next record of the chunk; false if there is none. Key and value are valid until the next
 * snapshot_read_chunk().
 */
bool snapshot_next(struct snapshot_reader *r, struct snapshot_record *out);

void snapshot_read_free(struct snapshot_reader *r);

#endif
