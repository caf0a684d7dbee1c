/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "cluster_map.h"

#include <stdio.h>

#include <farkv.h>

#include "common/base/err.h"
#include "server/cluster/coord.h"

#define WAIT_MS 10000

struct result {
	struct clustermap *map;
	uint64_t living;
};

static bool take(void *arg, const struct coord_view *v)
{
	struct result *r = arg;

	if (clustermap_parse("the map", v->map, v->map_len, &r->map))
		return false;
	for (size_t i = 0; i < v->n_members; i++) {
		uint32_t at = clustermap_find(r->map, v->members[i]);

		if (at < r->map->n_servers)
			r->living |= UINT64_C(1) << at;
	}
	return false;
}

struct clustermap *cluster_map_read(const char *url, uint64_t *living_out)
{
	struct result r = {0};
	int err = coord_read(url, WAIT_MS, take, &r);

	if (!r.map)
		fprintf(stderr, "%s: %s: %s\n", url, farkv_strerror(err), err_detail());
	if (living_out)
		*living_out = r.living;
	return r.map;
}
