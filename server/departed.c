/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "departed.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A process that left so many sessions behind is waited for in any case. */
#define IDS_MAX 1024u

/*
 * One for each process, whatever the number of its sessions: a client that comes
 * and goes in a hurry must not use up the server's descriptors.
 */
struct departed_process {
	struct departed_process *next;
	pid_t pid;
	int fd; /* of pidfd_open(2): readable when the process has ended */
	uint32_t *ids; /* sessions that nobody has replaced yet */
	uint32_t n, cap;
	bool lasting; /* not all its sessions are in ids */
};

static bool has_ended(const struct departed_process *p)
{
	struct pollfd f = {.fd = p->fd, .events = POLLIN};

	return poll(&f, 1, 0) > 0;
}

static void forget(struct departed *d, struct departed_process **at)
{
	struct departed_process *p = *at;

	*at = p->next;
	d->n--;
	close(p->fd);
	free(p->ids);
	free(p);
}

static void forget_ended(struct departed *d)
{
	struct departed_process **at = &d->first;

	while (*at)
		if (has_ended(*at))
			forget(d, at);
		else
			at = &(*at)->next;
}

static struct departed_process *process_new(struct departed *d, pid_t pid,
					    int fd)
{
	struct departed_process *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->pid = pid;
	p->fd = fd;
	p->next = d->first;
	d->first = p;
	d->n++;
	return p;
}

static void note(struct departed_process *p, uint32_t id)
{
	if (p->n == p->cap && p->cap < IDS_MAX) {
		uint32_t cap = p->cap ? p->cap * 2 : 4;
		void *v = realloc(p->ids, cap * sizeof(*p->ids));

		if (v) {
			p->ids = v;
			p->cap = cap;
		}
	}
	if (p->n < p->cap)
		p->ids[p->n++] = id;
	else
		p->lasting = true;
}

void departed_add(struct departed *d, uint32_t id, pid_t pid)
{
	struct departed_process *p;
	int fd;

	/* First those that ended: their numbers may be given again. */
	forget_ended(d);
	for (p = d->first; p; p = p->next)
		if (p->pid == pid) {
			note(p, id);
			return;
		}
	fd = pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
	if (fd < 0 && pid > 0 && errno == ESRCH)
		return;
	p = fd >= 0 ? process_new(d, pid, fd) : NULL;
	if (p) {
		note(p, id);
		return;
	}
	/* Never known to be gone: no barrier passes any more. */
	d->blind++;
	if (fd >= 0)
		close(fd);
}

static void strike(struct departed_process *p, uint32_t id)
{
	for (uint32_t i = 0; i < p->n; i++)
		if (p->ids[i] == id) {
			p->ids[i] = p->ids[--p->n];
			return;
		}
}

void departed_replaced(struct departed *d, uint32_t id, pid_t pid)
{
	struct departed_process **at = &d->first;

	while (*at && (*at)->pid != pid)
		at = &(*at)->next;
	if (!*at)
		return;
	strike(*at, id);
	if ((*at)->n == 0 && !(*at)->lasting)
		forget(d, at);
}

int departed_first(const struct departed *d, uint32_t *id_out, pid_t *pid_out)
{
	const struct departed_process *p = d->first;

	*id_out = p && p->n ? p->ids[p->n - 1] : 0;
	*pid_out = p ? p->pid : 0;
	return p ? p->fd : -1;
}

bool departed_gone(struct departed *d)
{
	forget_ended(d);
	return !d->first && d->blind == 0;
}

void departed_fini(struct departed *d)
{
	while (d->first)
		forget(d, &d->first);
}
