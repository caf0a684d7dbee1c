/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "areas.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/hugepage.h"
#include "common/log.h"
#include "common/util.h"

/* Each may take as long as it takes the kernel to find out that it has none. */
#define REFUSALS_MAX 3
#define REFUSED_NS NS_PER_SEC

struct areas {
	uint8_t *map;
	uint64_t count;    /* of whole areas */
	uint64_t huge;     /* of those: of huge pages */
	unsigned refusals; /* in a row; at most REFUSALS_MAX ... */
	uint64_t until_ns; /* ... before this */
	bool told;         /* the log has it */
	bool asked[];      /* of each area, whatever came of it */
};

struct areas *areas_new(void *map, uint64_t bytes)
{
	uint64_t count = bytes / HUGEPAGE_BYTES;
	struct areas *a = calloc(1, sizeof(*a) + count * sizeof(a->asked[0]));

	if (!a)
		return NULL;
	a->map = map;
	a->count = count;
	return a;
}

void areas_free(struct areas *a)
{
	free(a);
}

static void refused(struct areas *a)
{
	int why = errno;

	if (++a->refusals < REFUSALS_MAX)
		return;
	a->until_ns = clock_now_ns() + REFUSED_NS;
	if (!a->told)
		log_info("pages: no more of 2 MiB (%s): small ones where there are none",
			 strerror(why));
	a->told = true;
}

/* Of one area, so that a refusal is not for all of a large value. */
static void ask(struct areas *a, uint64_t i)
{
	void *at = a->map + i * HUGEPAGE_BYTES;

	a->asked[i] = true;
	if (hugepage_collapse(at, HUGEPAGE_BYTES) ||
	    (errno == EAGAIN && hugepage_collapse(at, HUGEPAGE_BYTES))) {
		a->huge++;
		a->refusals = 0;
	} else {
		refused(a);
	}
}

static bool may_ask(struct areas *a)
{
	if (a->refusals == REFUSALS_MAX && clock_now_ns() >= a->until_ns)
		a->refusals = 0;
	return a->refusals < REFUSALS_MAX;
}

void areas_use(struct areas *a, uint64_t off, uint64_t bytes)
{
	uint64_t i = off / HUGEPAGE_BYTES;
	uint64_t end = util_align_up(off + bytes, HUGEPAGE_BYTES) / HUGEPAGE_BYTES;

	for (; i < UTIL_MIN(end, a->count); i++)
		if (!a->asked[i] && may_ask(a))
			ask(a, i);
}

bool areas_use_all(struct areas *a)
{
	areas_use(a, 0, a->count * HUGEPAGE_BYTES);
	return a->huge == a->count;
}

uint64_t areas_huge_bytes(const struct areas *a)
{
	return a->huge * HUGEPAGE_BYTES;
}
