/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "index.h"

#include <stdlib.h>

#include "common/base/err.h"
#include "dir.h"
#include "index_state.h"
#include "cached.h"

int index_open(const struct superblock *sb, struct xport_lane *lane,
	       struct alloc *alloc, uint64_t deadline_ns,
	       struct index **ix_out)
{
	struct index *ix = calloc(1, sizeof(*ix));
	int err;

	if (!ix)
		return err_set(FARKV_ENOMEM, "no memory for an index");
	ix->sb = *sb;
	ix->lane = lane;
	if (sb->heat_bytes && lane->region_bytes >= sb->region_bytes + sb->heat_bytes) {
		if (lane->caps & XPORT_DIRECT)
			ix->heat = lane->base + sb->region_bytes;
		else
			ix->marks = !(lane->caps & XPORT_READONLY);
	}
	ix->alloc = alloc;
	err = dir_refill(ix, deadline_ns);
	if (err)
		index_close(ix);
	else
		*ix_out = ix;
	return err;
}

void index_close(struct index *ix)
{
	if (!ix)
		return;
	spare_drop(&ix->spare, ix->lane);
	dir_free(ix);
	xport_mem_free(ix->lane, ix->scan_mem, INDEX_SCAN_BYTES);
	cached_free(ix->cached);
	free(ix);
}

void index_set_prefix(struct index *ix, uint32_t prefix)
{
	ix->versions.prefix = prefix;
	ix->versions.counter = 0;
}

void index_drop_cache(struct index *ix)
{
	ix->dirword = 0;
	if (ix->cached)
		cached_drop(ix->cached);
}

int index_cache_locations(struct index *ix, size_t entries)
{
	if (entries == 0)
		return 0;
	ix->cached = cached_new(entries);
	if (!ix->cached)
		return err_set(FARKV_ENOMEM,
			       "no memory for a cache of %zu locations", entries);
	return 0;
}

int index_cache_values(struct index *ix, size_t bytes)
{
	if (!cached_add_values(ix->cached, bytes))
		return err_set(FARKV_ENOMEM,
			       "no memory for a cache of %zu bytes of values", bytes);
	return 0;
}

struct location_counters index_cache_counters(const struct index *ix)
{
	return ix->cached ? *cached_counters(ix->cached) :
			  (struct location_counters){0};
}

void index_mark_nothing(struct index *ix)
{
	ix->heat = NULL;
	ix->marks = false;
}

uint64_t index_recent(const struct index *ix)
{
	return ix->recent_ns;
}

uint64_t index_retries(const struct index *ix)
{
	return ix->retries;
}

void index_set_clock(struct index *ix, uint64_t (*now)(void *arg), void *arg)
{
	ix->now = now;
	ix->now_arg = arg;
}

void index_abandon_spare(struct index *ix)
{
	ix->spare = (struct spare){.bytes = 0};
}
