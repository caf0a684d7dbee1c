/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * hits.h - a session's counts of gets and sets, for the server's statistics.
 *
 * Over shared memory the counts are the first bytes of the session's file (WELCOME's third
 * descriptor), which the client's handle writes and the server reads on request. Over RDMA the
 * client sends them (HITS). The server trusts them: wrong counts only falsify its sums.
 */
#ifndef COMMON_PROTO_HITS_H
#define COMMON_PROTO_HITS_H

#include <assert.h>
#include <stdint.h>

#include "common/base/atomic.h"

struct hits {
	uint64_t hits;   /* gets that found a value */
	uint64_t misses; /* gets that found none */
	uint64_t sets;   /* values stored */
};
static_assert(sizeof(struct hits) == 24, "hits: size");

/** Bytes of a session's file. */
#define HITS_FILE_BYTES 4096u

/** Add to a count. One writer; others may read at the same time. */
static inline void hits_add(uint64_t *count, uint64_t n)
{
	atom_store_relaxed(count, atom_load_relaxed(count) + n);
}

#endif
