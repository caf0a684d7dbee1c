/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "ticks.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#define TICKS_BYTES 4096u
/* The two counters lie in cache lines of their own. */
#define TICKS_APART (128u / sizeof(uint64_t))

int ticks_open(struct ticks *t, const char *file, unsigned side)
{
	int fd = open(file, O_RDWR | O_CLOEXEC);
	uint64_t *at;

	if (fd < 0)
		return -1;
	at = mmap(NULL, TICKS_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (at == MAP_FAILED)
		return -1;
	t->own = at + (side ? TICKS_APART : 0);
	t->other = at + (side ? 0 : TICKS_APART);
	return 0;
}
