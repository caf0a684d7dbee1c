/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * areas.h - the data area's 2 MiB become huge pages when the first of them is used.
 *
 * The kernel would give a memfd small pages, as each is touched. Here they are made before
 * (common/hugepage.h): what nobody uses costs no memory, and what is used has never been
 * small pages first, neither here nor with any client. The control thread owns it.
 */
#ifndef SERVER_AREAS_H
#define SERVER_AREAS_H

#include <stdbool.h>
#include <stdint.h>

struct areas;

/** Of `bytes` at `map`, by hugepage_map(). What is left over at the end keeps small pages.
 * NULL: no memory. */
struct areas *areas_new(void *map, uint64_t bytes);
void areas_free(struct areas *a);

/**
 * [off, off + bytes) of the map is about to be used: all of the areas that it touches
 * become huge pages, once. Blocks 0.2 ms for each of them, up to 3 ms where a virtual
 * machine's host has to find the memory first: for a value of 512 MiB 50 to 770 ms. (Its
 * client would wait some 400 ms for 131072 small pages.) Where the kernel has no such piece
 * an area stays as it is, for good; after three in a row it is not asked for a second, and
 * the log says so, once.
 */
void areas_use(struct areas *a, uint64_t off, uint64_t bytes);

/** Use all; true if all of them are huge pages now. */
bool areas_use_all(struct areas *a);

uint64_t areas_huge_bytes(const struct areas *a); /**< so much are huge pages */

#endif
