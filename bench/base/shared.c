/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "shared.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common/base/err.h"
#include "common/base/util.h"

static struct {
	char *base;
	size_t size;
	bool on;
} arena;

/* At the arena's start, for all processes: bytes in use. */
static _Atomic size_t *taken(void)
{
	return (_Atomic size_t *)(void *)arena.base;
}

int shared_begin(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		return err_set_errno(FARKV_ENOMEM, errno,
				     "processes: cannot reserve %zu MiB of "
				     "address space", bytes >> 20);
	arena.base = p;
	arena.size = bytes;
	arena.on = true;
	atomic_store(taken(), 64);
	return 0;
}

void shared_pause(void)
{
	arena.on = false;
}

bool shared_is_on(void)
{
	return arena.on;
}

void shared_end(void)
{
	if (arena.base)
		munmap(arena.base, arena.size);
	memset(&arena, 0, sizeof(arena));
}

void *shared_new(size_t bytes)
{
	size_t at;
	void *p;

	bytes = util_align_up(bytes, 64);
	if (arena.on) {
		at = atomic_fetch_add(taken(), bytes);
		return bytes <= arena.size && at <= arena.size - bytes
			       ? arena.base + at
			       : NULL;
	}
	p = aligned_alloc(64, bytes);
	if (p)
		memset(p, 0, bytes);
	return p;
}

void shared_free(void *p)
{
	uintptr_t at = (uintptr_t)p, base = (uintptr_t)arena.base;

	if (!arena.base || at < base || at - base >= arena.size)
		free(p);
}
