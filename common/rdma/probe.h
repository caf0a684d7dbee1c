/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * probe.h - which RDMA devices this machine has, what is missing, and the remedy.
 * Leaf: libc only, no verbs types; builds without verbs too and reports that.
 *
 * Changes nothing on the machine. A missing feature is no error: every device is listed
 * with the reason why it can or cannot be used.
 */
#ifndef COMMON_RDMA_PROBE_H
#define COMMON_RDMA_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "probe_host.h"

/** How much memory this process may pin for a device. */
struct rdma_memlock {
	uint64_t limit; /* RLIMIT_MEMLOCK in bytes, UINT64_MAX: unlimited */
	bool ipc_lock;  /* effective CAP_IPC_LOCK: the limit does not apply */
};

/**
 * Probe everything. Returns 0 and fills *out, to be freed by rdma_probe_free(), or
 * FARKV_ENOMEM. Opens and closes each device: takes milliseconds, not for a data path. Any
 * thread.
 */
int rdma_probe(struct rdma_host *out);
/** Free what rdma_probe() allocated. A zeroed struct is allowed. */
void rdma_probe_free(struct rdma_host *h);

/**
 * One line, without newline, with what a user must do before RDMA works here: "no RDMA
 * device; as root: modprobe rdma_rxe; rdma link add rxe0 type rxe netdev eth0". Returns the
 * state it is about; RDMA_READY with "" in buf. Cost and threads as rdma_probe().
 */
int rdma_probe_hint(char *buf, size_t cap);

/** Never fails: unknown counts as not permitted. */
void rdma_memlock_get(struct rdma_memlock *out);
/** True if `bytes` may be pinned. */
bool rdma_memlock_allows(const struct rdma_memlock *m, uint64_t bytes);
/** The remedy for a limit that is too low. */
extern const char rdma_memlock_remedy[];

/**
 * Choose the GID of a RoCE port for connections: version 2 over IPv4, then routable IPv6,
 * then link-local; then the lowest index. Returns its position or -1; `why` gets the reason
 * in either case.
 */
int rdma_gid_choose(const struct rdma_gid *gids, size_t n, char *why,
		    size_t cap);

const char *rdma_link_str(enum rdma_link link);
const char *rdma_gid_type_str(enum rdma_gid_type type);
const char *rdma_atomics_str(enum rdma_atomics atomics);

#endif
