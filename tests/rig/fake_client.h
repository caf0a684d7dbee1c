/* SPDX-License-Identifier: BSD-3-Clause */
/** fake_client.h - a client of a fake region: its lane, its blocks, one operation. */
#ifndef TESTS_RIG_FAKE_CLIENT_H
#define TESTS_RIG_FAKE_CLIENT_H

#include "fake_region.h"

struct fake_client {
	struct fake_region *region;
	struct xport_lane *lane;
	struct alloc *alloc;
	struct index *ix;
	struct index_op op;
};

/** Open with `lane`, which the client owns from then on. It has no blocks yet. */
void fake_client_init(struct fake_client *c, struct fake_region *r,
		      struct xport_lane *lane, uint32_t prefix);

/** Open with the shared-memory lane; `cfg`: with these faults. */
void fake_client_open(struct fake_client *c, struct fake_region *r,
		      const struct xport_fault_config *cfg, uint32_t prefix);

void fake_client_close(struct fake_client *c);

/**
 * Run an operation; grants blocks as it requests them. Returns its result; INDEX_PENDING
 * if it waits for something else.
 */
int fake_client_run(struct fake_client *c, enum index_kind kind,
		    struct index_key k, const char *value, uint64_t expected);

#endif
