/* SPDX-License-Identifier: BSD-3-Clause */
/** pages.h - memory for the data area: huge pages where possible. */
#ifndef SERVER_MEMORY_PAGES_H
#define SERVER_MEMORY_PAGES_H

#include <stdbool.h>
#include <stdint.h>

/** Huge pages: none; by a thread, ahead of use (prefault.h); all, at the start. */
enum pages_want {
	PAGES_NEVER,
	PAGES_AHEAD,
	PAGES_AUTO,
	PAGES_ALWAYS
};

struct pages {
	int fd;
	void *map;      /* the whole area, read-write and shared */
	bool there;     /* all of its pages are allocated or reserved */
	char note[160]; /* the kind of page, for the log */
};

/**
 * Get `bytes` of shareable memory, of the kinds that `want` allows, tried in this order:
 * hugetlb pages that the administrator has reserved; huge pages that the kernel makes on
 * request (common/base/hugepage.h; Linux 6.1), or at first touch if shmem_enabled says so (all
 * three: auto, always); a private tmpfs mounted huge=advise (always), the only one not sealed
 * against a change of its size, so that a warning is logged; small pages (never, auto). The
 * first page was touched to verify the note. 0, or FARKV_ESYS, FARKV_ENOTSUP with a detail.
 * The caller unmaps and closes.
 */
int pages_create(uint64_t bytes, enum pages_want want, struct pages *out);

/** Map the file `fd` of at least `bytes` instead. 0, or FARKV_ESYS: then `fd` is closed. */
int pages_of_file(int fd, uint64_t bytes, struct pages *out);

#endif
