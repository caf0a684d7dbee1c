/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "lingering.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "roster.h"

struct tether *tether_new(void)
{
	struct tether *t = malloc(sizeof(*t));

	if (t)
		*t = (struct tether){.fd = -1};
	return t;
}

/*
 * A file of one page: no client can fill it with more memory. The page is taken here, because a
 * client that touches one that the machine lacks is killed.
 */
int tether_make(struct tether *t)
{
	t->fd = memfd_create("farkv-session", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (t->fd < 0 || fallocate(t->fd, 0, 0, HITS_FILE_BYTES) < 0 ||
	    fcntl(t->fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK) < 0)
		return errno;
	return 0;
}

struct hits tether_hits(const struct tether *t)
{
	struct hits sum = t->counted, h;

	if (t->fd >= 0 && pread(t->fd, &h, sizeof(h), 0) == sizeof(h)) {
		sum.hits += h.hits;
		sum.misses += h.misses;
		sum.sets += h.sets;
	}
	return sum;
}

/*
 * Sealing waits 0.1 s for pages of the file that a client has pinned and unmapped, so the page is
 * taken out first. A client that goes on gets a new one and counts from 0 in it.
 */
bool tether_is_loose(struct tether *t)
{
	t->counted = tether_hits(t);
	(void)fallocate(t->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, HITS_FILE_BYTES);
	return fcntl(t->fd, F_ADD_SEALS, F_SEAL_WRITE) == 0 || errno != EBUSY;
}

void tether_free(struct tether *t)
{
	if (t && t->fd >= 0)
		close(t->fd);
	free(t);
}

void lingering_add(struct lingering *d, struct tether *t)
{
	if (tether_is_loose(t)) {
		roster_clear(t->entry);
		tether_free(t);
		return;
	}
	t->next = d->first;
	d->first = t;
	d->n++;
}

const struct tether *lingering_first(const struct lingering *d)
{
	return d->first;
}

static void forget(struct lingering *d, struct tether **at)
{
	struct tether *t = *at;

	*at = t->next;
	d->n--;
	tether_free(t);
}

bool lingering_gone(struct lingering *d)
{
	struct tether **at = &d->first;

	while (*at)
		if (tether_is_loose(*at)) {
			roster_clear((*at)->entry);
			forget(d, at);
		} else {
			at = &(*at)->next;
		}
	return !d->first;
}

void lingering_fini(struct lingering *d)
{
	while (d->first)
		forget(d, &d->first);
}
