/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "hugepage.h"

#include <errno.h>
#include <stddef.h>
#include <sys/mman.h>

#include "util.h"

#define SMALL_BYTES 4096u

#ifndef MADV_POPULATE_READ /* glibc 2.35 */
#define MADV_POPULATE_READ 22
#endif
#ifndef MADV_COLLAPSE /* glibc 2.37 */
#define MADV_COLLAPSE 25
#endif

void *hugepage_map(int fd, uint64_t bytes)
{
	uint8_t *room = mmap(NULL, bytes + HUGEPAGE_BYTES, PROT_NONE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	uint8_t *at;
	void *map;

	if (room == MAP_FAILED)
		return MAP_FAILED;
	at = (uint8_t *)util_align_up((uintptr_t)room, HUGEPAGE_BYTES);
	if (at > room)
		munmap(room, (size_t)(at - room));
	munmap(at + bytes, (size_t)(room + HUGEPAGE_BYTES - at));
	map = mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
	if (map == MAP_FAILED)
		munmap(at, bytes);
	return map;
}

bool hugepage_collapse(void *at, uint64_t bytes)
{
	/*
	 * Allocate the pages first: a range without any has nothing to collapse. madvise()
	 * instead of a load, which would end the process if there is no memory.
	 */
	for (uint64_t i = 0; i < bytes; i += HUGEPAGE_BYTES)
		if (madvise((uint8_t *)at + i, SMALL_BYTES, MADV_POPULATE_READ)) {
			errno = errno == EFAULT ? ENOMEM : errno;
			return false;
		}
	return madvise(at, bytes, MADV_COLLAPSE) == 0;
}
