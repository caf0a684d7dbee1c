/* SPDX-License-Identifier: BSD-3-Clause */
/* clustermap_priv.h - how clustermap.c and clustermap_plan.c make maps. */
#ifndef COMMON_PROTO_CLUSTERMAP_PRIV_H
#define COMMON_PROTO_CLUSTERMAP_PRIV_H

#include <stddef.h>

#include "clustermap.h"

/** Text that is not terminated. */
struct word {
	const char *p;
	size_t len;
};

/** A map without servers, and without moves; NULL with a detail. */
struct clustermap *clustermap_new(void);

/** Append a server without partitions. NULL, or what is wrong; the map is then unchanged. */
const char *clustermap_add_server(struct clustermap *m, struct word name, struct word address);

/** Compute id and counts of a map that is filled in. NULL, or what is wrong. */
const char *clustermap_complete(struct clustermap *m);

#endif
