/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * cache.h - the loop of one thread that uses the store as a cache: what it does not find, it
 * stores.
 *
 * A trace of keys (trace.h, CSV): a get that finds nothing is followed by a put of the value
 * with the size and ttl of the trace's line. The requests of a key are carried out by one
 * thread, in the order of the trace; threads do not wait for each other.
 *
 * Blocks (kvcache.blocks, or a trace in JSON): a request asks which of its keys are there,
 * reads those before the first missing one, the prefix, into memory of its own, and stores
 * the missing ones from such memory, registered in both cases. Blocks that are there after a
 * missing one are neither read nor written. The threads take the requests of a trace in its order.
 *
 * Results are in measure.h: a missing key and a refused value are no failures.
 */
#ifndef BENCH_CORE_CACHE_H
#define BENCH_CORE_CACHE_H

#include "worker_parts.h"

/** Memory of a thread for the values of a prefix; a longer prefix uses it several times. */
#define CACHE_MEMORY (UINT64_C(256) << 20)

/**
 * Set w->cache for the worker's open session if the store is used as a cache: worker_run()
 * then is cache_run(). FARKV_ENOMEM with a detail. Call cache_end() before the session is
 * closed.
 */
int cache_init(struct worker *w);
void cache_end(struct worker *w);

/**
 * Carry out the requests of the trace up to w->replay_end, or `todo` operations of the workload
 * (0: unlimited), until time is up, or until shared->stop. w->done counts requests.
 */
void cache_run(struct worker *w, uint64_t todo);

#endif
