/* SPDX-License-Identifier: BSD-3-Clause */
/* libevent allocates for itself; by the calls here, which are wrapped. */
#include "config.h"

#include <stdlib.h>

#include <event2/event.h>

static void *take(size_t n)
{
	return malloc(n);
}

static void *resize(void *p, size_t n)
{
	return realloc(p, n);
}

static void give(void *p)
{
	free(p);
}

__attribute__((constructor)) static void begin(void)
{
	event_set_mem_functions(take, resize, give);
}
