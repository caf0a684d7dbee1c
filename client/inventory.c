/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "inventory.h"

#include <stdlib.h>

#include "common/base/clock.h"

struct inventory *inventory_new(uint64_t grace_ns, uint64_t region_bytes)
{
	struct inventory *inv = calloc(1, sizeof(*inv));

	if (!inv)
		return NULL;
	inv->alloc = alloc_new(grace_ns);
	inv->journal = journal_new();
	if (!inv->alloc || !inv->journal) {
		alloc_free(inv->alloc);
		journal_free(inv->journal);
		free(inv);
		return NULL;
	}
	alloc_set_region(inv->alloc, region_bytes);
	pthread_mutex_init(&inv->lock, NULL);
	return inv;
}

void inventory_free(struct inventory *inv)
{
	if (!inv)
		return;
	alloc_free(inv->alloc);
	journal_free(inv->journal);
	pthread_mutex_destroy(&inv->lock);
	free(inv);
}

void inventory_record(struct inventory *inv)
{
	alloc_record(inv->alloc, inv->journal);
	for (size_t i = 0; i < inv->n_ret; i++)
		(void)journal_add(inv->journal, inv->ret[i]);
}

bool inventory_pick(struct inventory *inv, bool all)
{
	uint64_t now = clock_now_ns();

	if (inv->n_ret == 0)
		inv->n_ret = (all ? alloc_drain : alloc_surplus)(
			inv->alloc, now, inv->ret, INVENTORY_RETURN_MAX,
			&inv->ret_state);
	return inv->n_ret > 0;
}

void inventory_sent(struct inventory *inv)
{
	inv->n_ret = 0;
	inv->returns++;
}
