/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "departed.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

struct departed_process {
	struct departed_process *next;
	uint32_t id;
	pid_t pid;
	int fd; /* of pidfd_open(2): readable when the process has ended */
};

void departed_add(struct departed *d, uint32_t id, pid_t pid)
{
	struct departed_process *p = NULL;
	int fd = pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;

	if (fd < 0 && pid > 0 && errno == ESRCH)
		return;
	if (fd >= 0)
		p = malloc(sizeof(*p));
	if (!p) {
		/* Never known to be gone: no barrier passes any more. */
		d->blind++;
		if (fd >= 0)
			close(fd);
		return;
	}
	*p = (struct departed_process){
		.next = d->first, .id = id, .pid = pid, .fd = fd};
	d->first = p;
}

static void forget(struct departed_process **at)
{
	struct departed_process *p = *at;

	*at = p->next;
	close(p->fd);
	free(p);
}

void departed_replaced(struct departed *d, uint32_t id, pid_t pid)
{
	struct departed_process **at = &d->first;

	while (*at)
		if ((*at)->id == id && (*at)->pid == pid)
			forget(at);
		else
			at = &(*at)->next;
}

bool departed_gone(struct departed *d)
{
	struct departed_process **at = &d->first;

	while (*at) {
		struct pollfd p = {.fd = (*at)->fd, .events = POLLIN};

		if (poll(&p, 1, 0) > 0)
			forget(at);
		else
			at = &(*at)->next;
	}
	return !d->first && d->blind == 0;
}

void departed_fini(struct departed *d)
{
	while (d->first)
		forget(&d->first);
}
