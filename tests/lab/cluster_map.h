/* SPDX-License-Identifier: BSD-3-Clause */
/** cluster_map.h - the map of a cluster under test, as its coordinator has it. */
#ifndef TESTS_LAB_CLUSTER_MAP_H
#define TESTS_LAB_CLUSTER_MAP_H

#include <stdint.h>

#include "common/proto/clustermap.h"

/**
 * Read the map of the cluster at `url` (zk://...); *living_out, if not NULL, is the set of the
 * servers that are registered. The caller frees the map. NULL, with a line on stderr, if that
 * fails.
 */
struct clustermap *cluster_map_read(const char *url, uint64_t *living_out);

#endif
