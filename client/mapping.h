/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * mapping.h - regions mapped into this process, each once, with a count of users.
 *
 * The server's descriptors are not trusted: a peer that could shrink one would kill this process
 * with SIGBUS at its next load. So each must be at least as large as its area, and a memfd must
 * be sealed against shrinking. Files on tmpfs or hugetlbfs cannot be sealed; they are accepted
 * only from a server that runs as this user or as root, which could kill the process anyway.
 * It remains possible to end the programs that use such a file by truncating it.
 */
#ifndef CLIENT_MAPPING_H
#define CLIENT_MAPPING_H

#include <stdbool.h>
#include <stdint.h>

#include "common/region/layout.h"

struct mapping;

/** The content of WELCOME, and its sender. */
struct mapping_spec {
	uint64_t region_id[2];
	uint64_t region_bytes;
	uint64_t meta_bytes;
	uint64_t grace_ns;
	int meta_fd;          /* stays the caller's */
	int data_fd;          /* stays the caller's */
	int heat_fd;          /* stays the caller's; unused if heat_bytes is 0 */
	uint64_t heat_bytes;  /* 0: the region has no heat area */
	bool readonly;        /* map the data area without write access */
	bool peer_may_kill;   /* the server's user is ours or root */
};

/**
 * Map the region, or add a user if this process has mapped the same files in the same role. Meta
 * area read-only, data area after it at a 2 MiB boundary, heat area after that, always writable;
 * children do not inherit it, core dumps omit it.
 *
 * 0, FARKV_EFORMAT (size, seal, superblock; the detail says which), FARKV_EPERM (descriptor without
 * the access that the role needs), FARKV_ENOMEM, FARKV_ESYS. Any thread.
 */
int mapping_get(const struct mapping_spec *spec, struct mapping **map_out);

/** Add a user, who calls mapping_put(). Returns `map`. Any thread. */
struct mapping *mapping_hold(struct mapping *map);

/** Remove a user; the last one unmaps. NULL is allowed. Any thread. */
void mapping_put(struct mapping *map);

/**
 * Map a session's tether, the third descriptor of WELCOME: while it is mapped the server waits
 * for this process (server/loop/lingering.h). channel_untie() unmaps it; children do not inherit
 * it. Errors as mapping_get().
 */
int mapping_tether(int fd, bool peer_may_kill, void **tether_out);

/** Address of offset 0 of the region. */
uint8_t *mapping_base(const struct mapping *map);

/** A private, verified copy. */
const struct superblock *mapping_superblock(const struct mapping *map);

/** Around fork(2); see atfork.c. */
void mapping_fork_prepare(void);
void mapping_fork_parent(void);
void mapping_fork_child(void);

#endif
