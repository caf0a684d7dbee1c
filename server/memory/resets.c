/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "resets.h"

#include <stdlib.h>

bool resets_begin(struct resets *r)
{
	if (!r->ring)
		r->ring = calloc(RESETS_KEPT, sizeof(*r->ring));
	return r->ring != NULL;
}

void resets_end(struct resets *r)
{
	free(r->ring);
	r->ring = NULL;
}

void resets_add(struct resets *r, uint64_t page, uint64_t pages)
{
	if (r->ring)
		r->ring[r->next++ % RESETS_KEPT] =
			(struct reset){.page = (uint32_t)page, .pages = (uint32_t)pages};
}
