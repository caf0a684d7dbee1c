/* SPDX-License-Identifier: BSD-3-Clause */
/** limit_side.h - a side of `kvbench limit` (limit_*.c), and what all sides are given. */
#ifndef BENCH_LIMIT_LIMIT_SIDE_H
#define BENCH_LIMIT_LIMIT_SIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Operations of a batch, and requests in flight. */
#define LIMIT_BATCH 32
/** Keys drawn together; they stay in the first-level cache. */
#define LIMIT_CHUNK 256

/** Keys drawn ahead, one after the other. */
struct limit_keys {
	char *at;
	size_t stride;
	unsigned len[LIMIT_CHUNK];
};

static inline const char *limit_key(const struct limit_keys *k, size_t i)
{
	return k->at + i * k->stride;
}

/** Input of all sides. */
struct limit_plan {
	const char *uri;  /* of the farkv store, or NULL */
	uint64_t records; /* number of keys, all loaded before the first round */
	uint64_t seed;
	size_t key_len;   /* the longest key */
	size_t value_len; /* of every value */
	const char *value; /* value to store: value_len bytes */
	char *into;  /* destination of values: LIMIT_BATCH * into_stride bytes */
	size_t into_stride;
	bool huge_pages; /* for the limit's own memory: as the store's */
};

struct limit_side {
	const struct limit_side_ops *ops;
	const struct limit_plan *plan;
};

/**
 * Operations first..first+n-1 of the keys; returns how many succeeded. A side with an
 * error() may stop at the first failure.
 */
typedef size_t (*limit_fn)(struct limit_side *s, const struct limit_keys *k,
			   size_t first, size_t n);

enum limit_test {
	LIMIT_GET,  /* one at a time; copies the value to plan->into */
	LIMIT_PUT,  /* one at a time; inserts missing keys */
	LIMIT_MGET, /* n is at most LIMIT_BATCH; to plan->into by into_stride */
	LIMIT_MPUT,
	LIMIT_QGET, /* the same by requests in flight; its limit is that of batches */
	LIMIT_QPUT,
	LIMIT_TESTS,
};

struct limit_side_ops {
	const char *name;
	const char *row[LIMIT_TESTS]; /* row's label instead of `name`, if not NULL */
	bool no_records; /* needs no records */
	char other_keys; /* xor of its keys' first byte, for keys of its own */
	/** Errors with a detail. close frees *side_out. */
	int (*open)(const struct limit_plan *plan,
		    struct limit_side **side_out);
	void (*close)(struct limit_side *s);
	limit_fn test[LIMIT_TESTS]; /* NULL: not supported */
	/** One line about the first failure of the last test, or NULL. */
	const char *(*error)(struct limit_side *s);
};

extern const struct limit_side_ops limit_mem_ops;
extern const struct limit_side_ops limit_farkv_ops;
extern const struct limit_side_ops limit_cuckoo_ops; /* HAVE_LIBCUCKOO */
/* For kv:// addresses. The first is the limit; it is refused without the right to write. */
extern const struct limit_side_ops limit_raw_ops; /* READ; WRITE and CAS */
extern const struct limit_side_ops limit_raw_write_ops;
extern const struct limit_side_ops limit_raw_cas_ops;
extern const struct limit_side_ops limit_raw_chase_ops; /* two READs */
extern const struct limit_side_ops limit_searching_ops; /* farkv without a location
							   cache */

#endif
