/* SPDX-License-Identifier: BSD-3-Clause */
/** pages.h - memory for the data area: huge pages where they can be had. */
#ifndef SERVER_PAGES_H
#define SERVER_PAGES_H

#include <stdbool.h>
#include <stdint.h>

#include "region.h"

struct pages {
	int fd;
	void *map;      /* all of it, read-write and shared */
	bool collapse;  /* they become huge as they are used (areas.h); the first has */
	char note[160]; /* what kind was obtained, for the log */
};

/**
 * `bytes` of memory that can be shared, of the kinds that `want` allows, in this order:
 * pages that the administrator has set aside (auto, always), huge pages that are made as
 * memory is used (transparent, auto, always; Linux 6.1), or as each is touched if
 * shmem_enabled says so (the same), a private tmpfs mounted
 * huge=advise (always), which alone is not sealed against a change of its size (a warning
 * is logged), small pages (never, transparent, auto). What the note says was checked by
 * touching the first. 0, or FARKV_ESYS, FARKV_ENOTSUP with a detail. The caller unmaps
 * and closes.
 */
int pages_create(uint64_t bytes, enum region_pages want, struct pages *out);

#endif
