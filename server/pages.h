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
	bool there;     /* ... and all of its pages are taken, or set aside for it */
	char note[160]; /* what kind was obtained, for the log */
};

/**
 * `bytes` of memory that can be shared, of the kinds that `want` allows, in this order:
 * pages that the administrator has set aside, huge pages that the kernel makes for whoever
 * asks (common/hugepage.h; Linux 6.1), or as each is touched if shmem_enabled says so (all
 * three: auto, always), a private tmpfs mounted huge=advise (always), which alone is not
 * sealed against a change of its size (a warning is logged), small pages (never, auto).
 * What the note says was checked by touching the first. 0, or FARKV_ESYS, FARKV_ENOTSUP
 * with a detail. The caller unmaps and closes.
 */
int pages_create(uint64_t bytes, enum region_pages want, struct pages *out);

#endif
