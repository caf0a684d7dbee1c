/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "lingering.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/memory/fdstore.h"

#include "roster.h"

struct tether *tether_new(void)
{
	struct tether *t = malloc(sizeof(*t));

	if (t)
		*t = (struct tether){.fd = -1, .client_fd = -1, .dir_fd = -1};
	return t;
}

static const char *name_of(const struct tether *t, char name[24])
{
	snprintf(name, 24, t->stored ? "farkv-session-%u" : "%u", t->id);
	return name;
}

/*
 * A file of one page: no client can fill it with more memory. The page is taken here, because a
 * client that touches one that the machine lacks is killed.
 */
static int make_memfd(struct tether *t)
{
	char name[24];

	t->fd = t->client_fd = memfd_create("farkv-session", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (t->fd < 0 || fallocate(t->fd, 0, 0, HITS_FILE_BYTES) < 0 ||
	    fcntl(t->fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK) < 0)
		return errno;
	return t->stored ? fdstore_put(name_of(t, name), t->fd) : 0;
}

static int make_file(struct tether *t)
{
	char name[24];

	t->fd = openat(t->dir_fd, name_of(t, name),
		       O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	t->client_fd = openat(t->dir_fd, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (t->fd < 0 || t->client_fd < 0 || fchmod(t->fd, 0600) ||
	    fallocate(t->fd, 0, 0, HITS_FILE_BYTES) || flock(t->client_fd, LOCK_SH))
		return errno;
	return 0;
}

int tether_make(struct tether *t)
{
	return t->dir_fd < 0 ? make_memfd(t) : make_file(t);
}

int tether_open(struct tether *t)
{
	char name[24];

	if (t->stored) {
		t->fd = fdstore_take(name_of(t, name));
		return t->fd < 0 ? ENOENT : 0;
	}
	t->fd = openat(t->dir_fd, name_of(t, name), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	return t->fd < 0 ? errno : 0;
}

void tether_sent(struct tether *t)
{
	if (t->client_fd >= 0 && t->client_fd != t->fd)
		close(t->client_fd);
	t->client_fd = -1;
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
static bool memfd_is_loose(struct tether *t)
{
	t->counted = tether_hits(t);
	(void)fallocate(t->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, HITS_FILE_BYTES);
	return fcntl(t->fd, F_ADD_SEALS, F_SEAL_WRITE) == 0 || errno != EBUSY;
}

bool tether_is_loose(struct tether *t)
{
	if (t->dir_fd < 0)
		return memfd_is_loose(t);
	return flock(t->fd, LOCK_EX | LOCK_NB) == 0;
}

void tether_free(struct tether *t)
{
	if (!t)
		return;
	tether_sent(t);
	if (t->fd >= 0)
		close(t->fd);
	free(t);
}

void tether_remove(struct tether *t)
{
	char name[24];

	if (t && t->stored && t->fd >= 0)
		fdstore_drop(name_of(t, name));
	else if (t && t->dir_fd >= 0 && t->fd >= 0)
		(void)unlinkat(t->dir_fd, name_of(t, name), 0);
	tether_free(t);
}

void lingering_add(struct lingering *d, struct tether *t)
{
	if (tether_is_loose(t)) {
		roster_clear(t->entry);
		tether_remove(t);
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

static struct tether *take(struct lingering *d, struct tether **at)
{
	struct tether *t = *at;

	*at = t->next;
	d->n--;
	return t;
}

bool lingering_gone(struct lingering *d)
{
	struct tether **at = &d->first;

	while (*at)
		if (tether_is_loose(*at)) {
			roster_clear((*at)->entry);
			tether_remove(take(d, at));
		} else {
			at = &(*at)->next;
		}
	return !d->first;
}

void lingering_fini(struct lingering *d)
{
	while (d->first)
		tether_free(take(d, &d->first));
}
