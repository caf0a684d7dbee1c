/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * cuckoo.h - C interface to libcuckoo, a C++ hash table for the threads of one process. An
 * upper bound that stores shared by processes cannot reach.
 *
 * Keys and small values lie in the table itself, its fastest layout. Any thread may call
 * anything except cuckoo_new() and cuckoo_free().
 */
#ifndef BENCH_STORE_CUCKOO_H
#define BENCH_STORE_CUCKOO_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct cuckoo;

/** For `records`; the lengths are the longest. NULL if out of memory. */
struct cuckoo *cuckoo_new(uint64_t records, size_t key_len, size_t value_len);
void cuckoo_free(struct cuckoo *c);

/**
 * Copy the value to `buf`, which has room for the longest; returns its length, -1 if there
 * is none.
 */
int64_t cuckoo_get(struct cuckoo *c, const char *key, size_t key_len,
		   void *buf);
/** 0, or -1 if out of memory. */
int cuckoo_put(struct cuckoo *c, const char *key, size_t key_len,
	       const void *value, size_t value_len);
/** 0, or -1 if there was none. */
int cuckoo_remove(struct cuckoo *c, const char *key, size_t key_len);

#ifdef __cplusplus
}
#endif

#endif
