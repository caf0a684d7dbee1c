/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * cuckoo.h - libcuckoo, a hash table of C++ that threads of one process share,
 * for C. What it does no store of several processes can be expected to do.
 *
 * Keys and small values lie in the table itself, as it does best. Any thread
 * may call anything but cuckoo_new() and cuckoo_free().
 */
#ifndef BENCH_CUCKOO_H
#define BENCH_CUCKOO_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct cuckoo;

/** Room for `records`; the lengths are the longest. NULL without memory. */
struct cuckoo *cuckoo_new(uint64_t records, size_t key_len, size_t value_len);
void cuckoo_free(struct cuckoo *c);

/** The length of the value that was copied to `buf`, which holds the longest;
 * -1 if there is none. */
int64_t cuckoo_get(struct cuckoo *c, const char *key, size_t key_len,
		   void *buf);
/** 0, or -1 without memory. */
int cuckoo_put(struct cuckoo *c, const char *key, size_t key_len,
	       const void *value, size_t value_len);
/** 0, or -1 if there was none. */
int cuckoo_remove(struct cuckoo *c, const char *key, size_t key_len);

#ifdef __cplusplus
}
#endif

#endif
