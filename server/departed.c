/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "departed.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/util.h"

/* A process that left so many sessions behind is waited for in any case. */
#define IDS_MAX 1024u

/*
 * One for each process, whatever the number of its sessions: a client that comes
 * and goes in a hurry must not use up the server's descriptors.
 */
struct departed_process {
	struct departed_process *next;
	pid_t pid;
	int fd; /* of pidfd_open(2): readable when the process has ended; -1: not
		   to be had so far */
	uint32_t *ids; /* sessions that nobody has replaced yet */
	uint32_t n, cap;
	uint32_t few[4]; /* where they are while there is room */
	bool lasting; /* not all its sessions are in ids */
};

static int pidfd_of(pid_t pid)
{
	return (int)syscall(SYS_pidfd_open, pid, 0);
}

/*
 * Without a descriptor it is asked for again: should another process have the
 * number by then, its end is waited for, which is late and never too early.
 */
static bool has_ended(struct departed_process *p)
{
	struct pollfd f = {.events = POLLIN};

	if (p->fd < 0)
		p->fd = pidfd_of(p->pid);
	if (p->fd < 0)
		return errno == ESRCH;
	f.fd = p->fd;
	return poll(&f, 1, 0) > 0;
}

bool departed_is_dead(pid_t pid)
{
	struct departed_process p = {.pid = pid, .fd = -1};
	bool ended = pid > 0 && has_ended(&p);

	if (p.fd >= 0)
		close(p.fd);
	return ended;
}

static void ids_free(struct departed_process *p)
{
	if (p->ids != p->few)
		free(p->ids);
}

static void forget(struct departed *d, struct departed_process **at)
{
	struct departed_process *p = *at;

	*at = p->next;
	d->n--;
	if (p->fd >= 0)
		close(p->fd);
	ids_free(p);
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

bool departed_reserve(struct departed *d)
{
	struct departed_process *p = calloc(1, sizeof(*p));

	if (!p)
		return false;
	p->next = d->spare;
	d->spare = p;
	return true;
}

static struct departed_process *spare_take(struct departed *d)
{
	struct departed_process *p = d->spare;

	d->spare = p->next;
	return p;
}

void departed_release(struct departed *d)
{
	free(spare_take(d));
}

static void note(struct departed_process *p, uint32_t id)
{
	if (p->n == p->cap && p->cap < IDS_MAX) {
		uint32_t *v = malloc(2 * p->cap * sizeof(*v));

		if (v) {
			memcpy(v, p->ids, p->n * sizeof(*v));
			ids_free(p);
			p->ids = v;
			p->cap *= 2;
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
			goto out_release;
		}
	fd = pid > 0 ? pidfd_of(pid) : -1;
	if (fd < 0 && pid > 0 && errno == ESRCH)
		goto out_release;
	if (pid == 0) {
		/* Never known to be gone: no barrier passes any more. */
		d->blind++;
		goto out_release;
	}
	p = spare_take(d);
	*p = (struct departed_process){.next = d->first,
				       .pid = pid,
				       .fd = fd,
				       .ids = p->few,
				       .cap = ARRAY_SIZE(p->few)};
	d->first = p;
	d->n++;
	note(p, id);
	return;

out_release:
	departed_release(d);
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
	while (d->spare)
		departed_release(d);
}
