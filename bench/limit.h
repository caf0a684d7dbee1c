/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * limit.h - `kvbench limit`: what this machine could do at best with farkv's
 * geometry, and which share of that farkv reaches.
 *
 * The sides (limit_*.c) carry out the same operations on the same keys. Over
 * shared memory: the limit itself, which is the necessary loads, stores and sums
 * without a protocol around them; farkv; and libcuckoo, where it was built in. By
 * RDMA: the bare requests, and their parts; farkv, and farkv with nothing
 * remembered. They take turns many times a round, so that what disturbs the machine
 * disturbs all alike.
 * Keys are drawn before the clock runs: no harness is in the figures.
 */
#ifndef BENCH_LIMIT_H
#define BENCH_LIMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "props.h"

/** Operations of a batch, and requests in flight. */
#define LIMIT_BATCH 32
/** Keys that are drawn together; they stay in the first-level cache. */
#define LIMIT_CHUNK 256

/** Keys drawn ahead, one behind the other. */
struct limit_keys {
	char *at;
	size_t stride;
	unsigned len[LIMIT_CHUNK];
};

static inline const char *limit_key(const struct limit_keys *k, size_t i)
{
	return k->at + i * k->stride;
}

/** What all sides are given. */
struct limit_plan {
	const char *uri;  /* of the farkv store, or NULL */
	uint64_t records; /* as many keys, all loaded before the first round */
	uint64_t seed;
	size_t key_len;   /* the longest key */
	size_t value_len; /* of every value */
	const char *value; /* what is stored: value_len bytes */
	char *into;  /* where values are put: LIMIT_BATCH * into_stride bytes */
	size_t into_stride;
	bool huge_pages; /* for the limit's own memory: those of the store */
};

struct limit_side {
	const struct limit_side_ops *ops;
	const struct limit_plan *plan;
};

/** Operations first..first+n-1 of the keys; returns how many of them did what
 * they should. A side with an error() may end with the first that did not. */
typedef size_t (*limit_fn)(struct limit_side *s, const struct limit_keys *k,
			   size_t first, size_t n);

enum limit_test {
	LIMIT_GET,  /* one at a time; the value is copied to plan->into */
	LIMIT_PUT,  /* one at a time; inserts where there is no such key */
	LIMIT_MGET, /* n is at most LIMIT_BATCH; to plan->into by into_stride */
	LIMIT_MPUT,
	LIMIT_QGET, /* the same by requests in flight; the limit is that of batches */
	LIMIT_QPUT,
	LIMIT_TESTS,
};

struct limit_side_ops {
	const char *name;
	const char *row[LIMIT_TESTS]; /* in place of `name`, where not NULL */
	bool no_records; /* nothing is loaded into it */
	char other_keys; /* it has keys of its own: the first byte differs by this */
	/** Errors with a detail. *side_out is ended by close. */
	int (*open)(const struct limit_plan *plan,
		    struct limit_side **side_out);
	void (*close)(struct limit_side *s);
	limit_fn test[LIMIT_TESTS]; /* NULL: it cannot */
	/** One line about the first failure of the last test, or NULL. */
	const char *(*error)(struct limit_side *s);
};

extern const struct limit_side_ops limit_mem_ops;
extern const struct limit_side_ops limit_farkv_ops;
extern const struct limit_side_ops limit_cuckoo_ops; /* HAVE_LIBCUCKOO */
/* For stores at kv:// addresses. The first is the limit; it is refused without the
 * right to write. */
extern const struct limit_side_ops limit_raw_ops; /* READ; WRITE and CAS */
extern const struct limit_side_ops limit_raw_write_ops;
extern const struct limit_side_ops limit_raw_cas_ops;
extern const struct limit_side_ops limit_raw_chase_ops; /* two READs */
extern const struct limit_side_ops limit_searching_ops; /* farkv without a memory */

/** Defaults of the properties that `limit` has. */
int limit_props(struct props *p);

/**
 * The whole of it: load, rounds, table to `out`. FARKV_EINVAL for properties,
 * FARKV_ENOTSUP, the store's errors; with a detail. A signal is asked for every
 * LIMIT_CHUNK operations: then FARKV_EABORTED, and no table.
 */
int limit_run(struct props *p, const char *uri, FILE *out);

#endif
