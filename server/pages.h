/* SPDX-License-Identifier: BSD-3-Clause */
/** pages.h - memory for the data area: huge pages where they can be had. */
#ifndef SERVER_PAGES_H
#define SERVER_PAGES_H

#include <stddef.h>
#include <stdint.h>

#include "region.h"

/**
 * A descriptor of `bytes` of shareable memory, mapped read-write at *map_out.
 * Tries hugetlb and shared-memory transparent huge pages, then for
 * REGION_PAGES_AUTO plain pages, for REGION_PAGES_ALWAYS a private tmpfs mounted
 * huge=advise, which alone is not sealed against a change of its size (a warning
 * is logged). `note` tells what kind was really obtained, checked by touching
 * the first pages. Returns the descriptor, or FARKV_ESYS, FARKV_ENOTSUP with a
 * detail.
 */
int pages_create(uint64_t bytes, enum region_pages want, void **map_out,
		 char *note, size_t note_cap);

#endif
